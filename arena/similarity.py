"""How much of one source is in another, whatever its names, constants, comments and order.

Winnowing (Schleimer, Wilkerson, Aiken: "Winnowing: Local Algorithms for Document Fingerprinting", SIGMOD
2003) over the tokens of the program as the parser understood it, normalised: every name is the same, every
constant of a kind is the same, and what changes nothing when it runs is left out. Two sources that have
`k + window - 1` such tokens in a row in common have a fingerprint in common.

Only the standard library is imported: `arena.screening_child` takes the fingerprints of hostile files.
"""

from __future__ import annotations

import ast
import io
import keyword
import tokenize
from collections import deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

VERSION = 1
"""Raised whenever the same source would get other fingerprints: those that are stored are then taken anew."""

_LAYOUT = frozenset(
    {tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.COMMENT, tokenize.ENDMARKER}
)
_ENDS = (ast.Return, ast.Raise, ast.Break, ast.Continue)

Id = TypeVar("Id", bound=Hashable)


def tokens(tree: ast.Module) -> list[str]:
    """The normalised tokens of a program. `tree` is changed. Raises RecursionError on a very deep one."""
    read = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    text = ast.unparse(ast.fix_missing_locations(_Normal(read).visit(tree)))
    found: list[str] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in _LAYOUT:
            continue
        word = _word(token)
        if word == "pass":
            continue
        if word == "N" and found[-2:] == ["N", "."]:
            found.pop()  # `a.b` is one name: a copy may put things into a class, or take them out
            continue
        found.append(word)
    return found


def _word(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "N"
    if token.type == tokenize.NUMBER:
        return "0"
    return "S" if token.type == tokenize.STRING else token.string


class _Normal(ast.NodeTransformer):
    """Leaves out what says nothing of how a program works: imports, annotations, docstrings, dead statements.

    `read` are the names that are read anywhere: a constant given to another one is dead.
    """

    def __init__(self, read: Collection[str]) -> None:
        self._read = read

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                setattr(node, name, self._alive(block))
        super().generic_visit(node)
        if isinstance(getattr(node, "body", None), list) and not isinstance(node, ast.Module):
            node.body = node.body or [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def _alive(self, block: list[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for statement in block:
            if not self._dead(statement):
                kept.append(statement)
            if isinstance(statement, _ENDS):
                break
        return kept

    def _dead(self, statement: ast.stmt) -> bool:
        match statement:
            case ast.Import() | ast.ImportFrom() | ast.Pass() | ast.Expr(value=ast.Constant()):
                return True
            case ast.AnnAssign(value=None):
                return True
            case ast.If(test=ast.Constant(value=value), orelse=[]):
                return not value
            case ast.While(test=ast.Constant(value=value), orelse=[]):
                return not value
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()):
                return name not in self._read
        return False

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        assert node.value is not None  # those without are dead
        return self.visit(ast.Assign(targets=[node.target], value=node.value))  # type: ignore[no-any-return]

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        return ast.Constant("")

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        return ast.Constant("") if isinstance(node.value, str | bytes) else node


def hashes(words: Sequence[str], k: int) -> list[int]:
    """The hash (64 bit, signed as PostgreSQL's bigint) of every `k` tokens in a row, in their order."""
    encoded = [word.encode("utf-8", "surrogatepass") for word in words]
    return [
        int.from_bytes(blake2b(b"\0".join(encoded[i : i + k]), digest_size=8).digest(), "big", signed=True)
        for i in range(len(encoded) - k + 1)
    ]


def winnow(of: Sequence[int], window: int) -> frozenset[int]:
    """The smallest hash of every `window` in a row; of fewer, the smallest. Linear in the length."""
    chosen: set[int] = set()
    smallest: deque[int] = deque()  # places, their hashes rising: the first is the window's smallest
    for place, value in enumerate(of):
        while smallest and of[smallest[-1]] >= value:
            smallest.pop()
        smallest.append(place)
        if smallest[0] <= place - window:
            smallest.popleft()
        if place >= window - 1:
            chosen.add(of[smallest[0]])
    if of and not chosen:
        chosen.add(min(of))
    return frozenset(chosen)


def fingerprints(source: str, *, k: int, window: int) -> frozenset[int]:
    """The fingerprints of a source. Raises what `ast.parse` raises: take a hostile one's in a child only."""
    return winnow(hashes(tokens(ast.parse(source)), k), window)


def all_hashes(source: str, *, k: int) -> frozenset[int]:
    """Every hash of a source, chosen or not: what others must be without so that none of it counts."""
    return frozenset(hashes(tokens(ast.parse(source)), k))


@dataclass(frozen=True, slots=True)
class Like(Generic[Id]):
    """An earlier source, with the fingerprints that it shares with the new one."""

    id: Id
    count: int
    """How many fingerprints it has in all."""
    shared: frozenset[int]


@dataclass(frozen=True, slots=True)
class Copy(Generic[Id]):
    """What a source copies, the most first, and to what share: of the source, or of the one it copies."""

    of: tuple[Id, ...]
    share: float


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From when on a source is a copy: the fields of `rules.SimilarityRules` that say so."""

    threshold: float
    own_fingerprints: int
    merged_from: int
    merged_share: float


def pair_share(count: int, like: Like[Id], at: Thresholds) -> float:
    """Containment either way: what is shared, as a share of the smaller; 0 when one of them says too little.

    `count` is the number of the new source's fingerprints.
    """
    smaller = min(count, like.count)
    return 0.0 if smaller < at.own_fingerprints else len(like.shared) / smaller


def copied(count: int, likes: Iterable[Like[Id]], at: Thresholds) -> Copy[Id] | None:
    """What a source with `count` fingerprints is a copy of, or None.

    It is a copy of one source by `pair_share`, or of `merged_from` together that make up `threshold` of it,
    each adding `merged_share` at least (chosen greedily, as set cover is).
    """
    found = list(likes)
    by_share = max(found, key=lambda like: pair_share(count, like, at), default=None)
    if by_share is not None and (share := pair_share(count, by_share, at)) >= at.threshold:
        return Copy((by_share.id,), share)
    if count < at.own_fingerprints:
        return None
    covered: frozenset[int] = frozenset()
    of: list[Id] = []
    for _ in range(at.merged_from):
        best = max(found, key=lambda like: len(like.shared - covered), default=None)
        if best is None or len(best.shared - covered) < at.merged_share * count:
            break
        covered |= best.shared
        of.append(best.id)
    share = len(covered) / count
    return Copy(tuple(of), share) if of and share >= at.threshold else None


def likes(own: frozenset[int], others: Mapping[Id, frozenset[int]]) -> list[Like[Id]]:
    """Every one of `others` with what it shares with `own`: for few sources, where no index is needed."""
    return [Like(id, len(found), own & found) for id, found in others.items() if own & found]
