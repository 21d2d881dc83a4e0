"""Copies of a source as a copyist makes them: each kind hides where the code came from in another way.

Every kind is a function of the source and of the randomness that is passed in, and gives Python that parses.
Whether it still runs is not looked at: what must be found is the code.
"""

from __future__ import annotations

import ast
import builtins
import keyword
from collections.abc import Callable
from random import Random

Kind = Callable[[str, Random], str]

_WORDS = (
    "amber",
    "birch",
    "cedar",
    "dune",
    "ember",
    "fjord",
    "grove",
    "heath",
    "islet",
    "jetty",
    "knoll",
    "loch",
)


def stripped(source: str, random: Random) -> str:
    """Without comments and docstrings, and laid out anew."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass()]
    return ast.unparse(tree)


def renamed(source: str, random: Random) -> str:
    """Every name that the source defines itself is another."""
    tree = ast.parse(stripped(source, random))
    names: dict[str, str] = {}

    def new(name: str) -> str:
        if name not in names:
            names[name] = f"{random.choice(_WORDS)}_{random.choice(_WORDS)}_{len(names)}"
        return names[name]

    defined = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.arg):
            defined.add(node.arg)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            defined.add(node.attr)
    defined = {n for n in defined if not hasattr(builtins, n) and not keyword.iskeyword(n) and n != "self"}
    for node in ast.walk(tree):
        for attribute in ("id", "arg", "name", "attr"):
            name = getattr(node, attribute, None)
            if isinstance(name, str) and name in defined:
                setattr(node, attribute, new(name))
    return ast.unparse(tree)


def reordered(source: str, random: Random) -> str:
    """Definitions, and the methods of each class, in another order."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            kinds = (ast.FunctionDef, ast.ClassDef)
            defined = [s for s in node.body if isinstance(s, kinds)]
            random.shuffle(defined)
            node.body = [s for s in node.body if not isinstance(s, kinds)] + [*defined]
    return ast.unparse(tree)


def constants_changed(source: str, random: Random) -> str:
    """Every number and every text is another."""

    class Change(ast.NodeTransformer):
        def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
            return ast.Constant(" ".join(random.choices(_WORDS, k=4)))

        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            if isinstance(node.value, bool) or node.value is None:
                return node
            if isinstance(node.value, int | float):
                return ast.Constant(random.randrange(2, 99))
            return ast.Constant(" ".join(random.choices(_WORDS, k=random.randrange(1, 9))))

    return ast.unparse(ast.fix_missing_locations(Change().visit(ast.parse(source))))


def disguised(source: str, random: Random) -> str:
    """Stripped, renamed, reordered, and with other constants."""
    return constants_changed(reordered(renamed(source, random), random), random)


def padded(source: str, random: Random) -> str:
    """Disguised, and 60 % of what results is functions that are never called."""
    kept = disguised(source, random)
    wanted = 1.5 * len(kept)
    dead: list[str] = []
    while sum(map(len, dead)) < wanted:
        dead.append(_dead_function(f"spare_{len(dead)}", random))
    body = ast.parse(kept).body
    for text in dead:
        body.insert(random.randrange(len(body) + 1), ast.parse(text).body[0])
    return ast.unparse(ast.Module(body, []))


def interleaved(source: str, random: Random) -> str:
    """Renamed, with a statement that does nothing before every third one."""
    return _between(source, random, lambda: _idle_statement(random))


def busied(source: str, random: Random) -> str:
    """Renamed, with a statement that does something, if nothing of use, before every third one."""
    return _between(source, random, lambda: "\n".join(_dead_statement(random, 2)))


def wrapped(source: str, random: Random) -> str:
    """Renamed, with all functions made methods of one class, and each body put into a `try`."""
    tree = ast.parse(renamed(source, random))
    functions = [s for s in tree.body if isinstance(s, ast.FunctionDef)]
    names = {f.name for f in functions}

    class Through(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            if node.id in names:
                return ast.Attribute(ast.Name("self", ast.Load()), node.id, ast.Load())
            return node

    for function in functions:
        Through().visit(function)
        function.args.args.insert(0, ast.arg("self"))
        again: list[ast.stmt] = [ast.Raise()]
        caught = ast.ExceptHandler(ast.Name("ValueError", ast.Load()), None, again)
        function.body = [ast.Try(function.body, [caught], [], [])]
    rest = [s for s in tree.body if not isinstance(s, ast.FunctionDef)]
    holder = ast.ClassDef("Holder", [], [], [*functions] or [ast.Pass()], [])
    holder.type_params = []  # type: ignore[attr-defined, unused-ignore]
    return ast.unparse(ast.fix_missing_locations(ast.Module([*rest, holder], [])))


def inlined(source: str, random: Random) -> str:
    """Renamed, with every top-level function pasted into the one that calls it first."""
    tree = ast.parse(renamed(source, random))
    functions = {s.name: s for s in tree.body if isinstance(s, ast.FunctionDef)}

    class Falling(ast.NodeTransformer):
        def visit_Return(self, node: ast.Return) -> ast.AST:
            given = node.value or ast.Constant(None)
            return ast.Assign([ast.Name("given", ast.Store())], given)

    for name, function in functions.items():
        for caller in functions.values():
            if caller is not function and _calls(caller, name):
                caller.body = [*(Falling().visit(s) for s in function.body), *caller.body]
                tree.body = [s for s in tree.body if s is not function]
                break
    return ast.unparse(ast.fix_missing_locations(tree))


def merged(source: str, other: str, random: Random) -> str:
    """One half of each of two sources, disguised."""
    return disguised(_half(source) + "\n" + _half(other), random)


KINDS: dict[str, Kind] = {
    "comments stripped": stripped,
    "renamed": renamed,
    "reordered": reordered,
    "constants changed": constants_changed,
    "all of these": disguised,
    "all, 60% dead code": padded,
    "dead statements between": interleaved,
    "live statements between": busied,
    "functions wrapped": wrapped,
    "functions inlined": inlined,
}
"""By what the copyist did."""


def _half(source: str) -> str:
    """The definitions that make up about half of the source, from its beginning."""
    body = [s for s in ast.parse(source).body if isinstance(s, ast.FunctionDef | ast.ClassDef)]
    texts = [ast.unparse(s) for s in body]
    kept: list[str] = []
    while texts and sum(map(len, kept)) + len(texts[0]) / 2 < sum(map(len, kept + texts)) / 2:
        kept.append(texts.pop(0))
    return "\n".join(kept)


def _calls(function: ast.FunctionDef, name: str) -> bool:
    return any(
        isinstance(n, ast.Call) and isinstance(n.func, ast.Name) and n.func.id == name
        for n in ast.walk(function)
    )


def _between(source: str, random: Random, statement: Callable[[], str]) -> str:
    tree = ast.parse(renamed(source, random))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and not isinstance(node, ast.Module):
            further: list[ast.stmt] = []
            for there in body:
                if random.random() < 1 / 3:
                    further += ast.parse(statement()).body
                further.append(there)
            node.body = further  # type: ignore[attr-defined]
    return ast.unparse(ast.fix_missing_locations(tree))


def _idle_statement(random: Random) -> str:
    name = random.choice(_WORDS)
    return random.choice(
        (
            f"{name} = {random.randrange(99)}",
            "pass",
            f"'{name}'",
            f"if 0:\n    {name}()",
            f"{name} = '{name}'",
        )
    )


def _dead_function(name: str, random: Random) -> str:
    """A function of random statements: no two are alike."""
    lines = [f"def {name}({', '.join(random.sample(_WORDS, random.randrange(1, 4)))}):"]
    for _ in range(random.randrange(4, 12)):
        lines += ["    " + line for line in _dead_statement(random, 0)]
    return "\n".join([*lines, f"    return {_expression(random, 2)}"])


def _dead_statement(random: Random, depth: int) -> list[str]:
    kind = random.randrange(5 if depth < 2 else 3)
    target = random.choice(_WORDS)
    if kind == 0:
        return [f"{target} = {_expression(random, 3)}"]
    if kind == 1:
        return [f"{target}.append({_expression(random, 2)})"]
    if kind == 2:
        return [f"{target} {random.choice(('+', '-', '*'))}= {_expression(random, 2)}"]
    inside = [
        "    " + line for _ in range(random.randrange(1, 4)) for line in _dead_statement(random, depth + 1)
    ]
    if kind == 3:
        return [f"if {_expression(random, 2)} > {_expression(random, 1)}:", *inside]
    return [f"for {target} in {_expression(random, 2)}:", *inside]


def _expression(random: Random, depth: int) -> str:
    if depth == 0:
        return random.choice((random.choice(_WORDS), str(random.randrange(99)), repr(random.choice(_WORDS))))
    left, right = _expression(random, depth - 1), _expression(random, depth - random.randrange(1, depth + 1))
    forms = (
        f"({left} {random.choice(('+', '-', '*', '//', 'and', 'or'))} {right})",
        f"{random.choice(_WORDS)}({left}, {right})",
        f"[{left}, {right}]",
        f"{random.choice(_WORDS)}[{left}]",
        f"{{{left}: {right}}}",
        f"(not {left})",
        f"[{left} for {random.choice(_WORDS)} in {right}]",
    )
    return random.choice(forms)
