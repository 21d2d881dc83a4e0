"""What a source holds of data: encoded texts, tables and lists of codes that an agent would answer from.

A rule looks at the form of literals only, never at what is stored: if a refusal depended on which ids are the
answers of problems, it would tell them. Only the standard library is imported, as `arena.screening_child`
needs it.
"""

from __future__ import annotations

import ast
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

_RUN = re.compile(r"[A-Za-z0-9+/=_-]{16,}")
"""Characters that base 16, 32 and 64 are written in. Prose, paths, JSON and patterns break such runs."""
_WORD = re.compile(r"[A-Za-z0-9]+")
_MANY = 5
"""Digits that make a word a code: years, prices and sizes have fewer."""
_RANDOM_BITS = 3.2
"""Bits a character from which a run looks random: hexadecimal has 4; words of a language have about 3."""
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)


@dataclass(frozen=True, slots=True)
class LiteralLimits:
    """The fields of `rules.LiteralRules`."""

    run_chars: int
    random_chars: int
    dense_bytes: int
    dense_share: float
    table_entries: int
    codes: int


def literal_findings(tree: ast.AST, limits: LiteralLimits) -> Iterator[tuple[int, str, str]]:
    """Line, rule and description of what is too much. Descriptions repeat nothing of the literals."""
    codes: set[str] = set()
    random_chars = 0
    texts: list[bytes] = []
    for line, text in _constants(tree):
        for run in _RUN.findall(text):
            if not _looks_random(run):
                continue
            if len(run) > limits.run_chars:
                yield line, "encoded-literal", f"a run of {len(run)} characters"
            random_chars += len(run)
            if random_chars - len(run) <= limits.random_chars < random_chars:
                yield line, "encoded-literal", f"{random_chars} characters of random-looking runs by here"
        encoded = text.encode("utf-8", "surrogatepass")
        texts.append(encoded)
        if _dense(encoded, limits):
            yield line, "encoded-literal", f"a text of {len(encoded)} bytes that does not compress"
        before = len(codes)
        codes.update(word for word in _WORD.findall(text) if sum(c.isdigit() for c in word) >= _MANY)
        if before <= limits.codes < len(codes):
            yield line, "code-list", f"{len(codes)} words with {_MANY} or more digits by here"
    if _dense(b"".join(texts), limits):
        yield 1, "encoded-literal", f"{sum(map(len, texts))} bytes of literals that do not compress"
    yield from _tables(tree, limits.table_entries)


def _constants(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text and number as it reads. What a chain of `+` puts together is one text."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        parts = _added(node)
        if parts is not None:
            inside.update(id(part) for part in ast.walk(node))
            yield node.lineno, parts  # type: ignore[attr-defined]


def _added(node: ast.AST) -> str | None:
    parts: list[str] = []
    waiting = [node]
    while waiting:
        match waiting.pop():
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                waiting += [right, left]
            case ast.Constant(value=str(text)):
                parts.append(text)
            case ast.Constant(value=bytes(text)):
                parts.append(text.decode("latin-1"))
            case ast.Constant(value=bool()):
                return None
            case ast.Constant(value=int(number)):
                # Hexadecimal, because a number of many digits is refused or slow to write in decimal ones.
                parts.append(str(number) if abs(number) < 10**18 else f"{abs(number):x}")
            case _:
                return None
    return "".join(parts)


def _looks_random(run: str) -> bool:
    counts = Counter(run)
    bits = -sum(n / len(run) * math.log2(n / len(run)) for n in counts.values())
    kinds = sum(bool(re.search(kind, run)) for kind in ("[a-z]", "[A-Z]", "[0-9]"))
    return bits >= _RANDOM_BITS and kinds >= 2


def _dense(text: bytes, limits: LiteralLimits) -> bool:
    return len(text) >= limits.dense_bytes and len(zlib.compress(text, 9)) > limits.dense_share * len(text)


def _tables(tree: ast.AST, most: int) -> Iterator[tuple[int, str, str]]:
    """Displays with more than `most` constants, the outermost of each."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, _DISPLAYS):
            entries = sum(isinstance(inner, ast.Constant) for inner in ast.walk(node))
            if entries > most:
                yield node.lineno, "lookup-table", f"{entries} constants in one literal"
            continue  # what is nested in it is counted
        waiting.extend(ast.iter_child_nodes(node))
