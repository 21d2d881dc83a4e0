"""What a reviewer must be able to trust about a source file: that what runs is what it says.

The policy is for reviewability, not for safety; safety is the sandbox's. Only the standard library is
imported: `arena.screening_child` runs this on hostile files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from arena.literals import LiteralLimits, literal_findings

_DYNAMIC_CODE = frozenset({"exec", "eval", "compile"})
_MODULES = {
    "marshal": "encoded-code",
    "pickle": "encoded-code",
    "_pickle": "encoded-code",
    "shelve": "encoded-code",
    "dill": "encoded-code",
    "cloudpickle": "encoded-code",
    "ctypes": "encoded-code",
    "cffi": "encoded-code",
    "runpy": "dynamic-code",
    "code": "dynamic-code",
    "codeop": "dynamic-code",
    "builtins": "dynamic-code",
    "importlib": "dynamic-import",
}
_BUILTINS = frozenset({"builtins", "__builtins__"})

_HIDDEN_NAMES = frozenset({"__builtins__", "__import__"})
"""As text, these only serve to reach by a look-up what may not be named."""
_DECLARED = re.compile(r"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""Declares the encoding that Python reads a file with, in one of its first two lines (PEP 263)."""
_DIRECTION = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that show a line in another order than it is read in (CVE-2021-42574)."""

REASONS = {
    "dynamic-code": "runs code that is not in the file, so it cannot be reviewed",
    "dynamic-import": "imports by a name that is not in the file, so it cannot be reviewed",
    "encoded-code": "loads code that a reader cannot read",
    "misleading-text": "shows a reader something else than what runs",
    "encoded-literal": "is more than text that a reader can read: say in words what it holds",
    "lookup-table": "is a table to answer from, not a program: let the agent find out by its tools",
    "code-list": "is more of a list of codes than an agent needs: let it find products by its tools",
}
"""Why each rule is there, in words for the miner."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A construct that the policy forbids, with its 1-based line."""

    line: int
    rule: str
    construct: str


@dataclass(frozen=True, slots=True)
class Unparsable:
    """The source is not Python that this interpreter can read."""

    line: int | None
    message: str


def inspect(source: str, literals: LiteralLimits | None = None) -> list[Finding] | Unparsable:
    """Parse `source` and list what is prohibited in it, by line; with `literals`, what it holds of data too.

    Parsing a hostile file may take all memory or crash the interpreter: call this in a limited child process.
    """
    try:
        tree = ast.parse(source)
        findings = [*_misleading(source), *_findings(tree)]
        if literals is not None:
            findings += [Finding(*found) for found in literal_findings(tree, literals)]
    except SyntaxError as error:
        return Unparsable(error.lineno, error.msg)
    except RecursionError:
        return Unparsable(None, "nested too deeply")
    except MemoryError:
        return Unparsable(None, "takes too much memory to parse")
    except ValueError as error:
        return Unparsable(None, str(error))
    return sorted(findings, key=lambda f: (f.line, f.rule, f.construct))


def _misleading(source: str) -> Iterator[Finding]:
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for number, line in enumerate(lines[:2], start=1):
        declared = _DECLARED.match(line)
        if declared and declared[1].lower().replace("_", "-") not in ("utf-8", "utf8", "ascii"):
            yield Finding(number, "misleading-text", f"coding: {declared[1]}")
    for number, line in enumerate(lines, start=1):
        if _DIRECTION.search(line):
            yield Finding(number, "misleading-text", "a direction-changing character")


def _findings(tree: ast.AST) -> Iterator[Finding]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, lineno=line):
                if name in _DYNAMIC_CODE:
                    yield Finding(line, "dynamic-code", name)
                elif name == "__import__":
                    yield Finding(line, "dynamic-import", name)
                elif name == "__builtins__":
                    yield Finding(line, "dynamic-code", name)
            case ast.Constant(value=str(text), lineno=line) if text in _HIDDEN_NAMES:
                yield Finding(line, "dynamic-code", repr(text))
            case ast.Attribute(attr="__import__", lineno=line):
                yield Finding(line, "dynamic-import", "__import__")
            case ast.Attribute(value=ast.Name(id=base), attr=attr, lineno=line) if base in _BUILTINS:
                if attr in _DYNAMIC_CODE:
                    yield Finding(line, "dynamic-code", attr)
            case ast.Import(names=names, lineno=line):
                for alias in names:
                    yield from _import(alias.name, line)
            case ast.ImportFrom(module=str(module), lineno=line):
                yield from _import(module, line)


def _import(module: str, line: int) -> Iterator[Finding]:
    rule = _MODULES.get(module.partition(".")[0])
    if rule is not None:
        yield Finding(line, rule, module)
