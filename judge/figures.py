"""Numbers in a text, and the arithmetic done with them, without regard to the language around them.

An expression is a run of numbers with one operator between each two and an equality at its end. It is done
again, and so is every inequality between two numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from judge.spans import Span

TOLERANCE = 0.011
GAP_CHARS = 60
"""Between two numbers of one expression there is at most so much text."""

_NUMBER = re.compile(
    r"(?<![A-Za-z_\d])(?<![A-Za-z]-)(?<!\d[.,])\d{1,12}(?:[.,]\d{1,12}){0,4}(?!\d)(?P<percent>\s?%)?"
)
NAMED_GAP_CHARS = 30
"""Around an inequality sign, so much text may name what the numbers are of."""
_WORDS = re.compile(r"[\w.-]+")
_CURRENCY = re.compile(r"₱|\$|€|£|¥|\b(?:php|pesos?|eur|euros?|usd)\b", re.IGNORECASE)
_NOISE = re.compile(r"[\s*_`'\"()\[\]{}:,✓✔✅]+")
_EQUALS = {"=", "≈", "==", "is", "equals", "makes", "gives", "ist", "es", "是", "得", "等于"}
_OPERATORS = {
    "+": "+",
    "-": "-",
    "−": "-",
    "–": "-",
    "×": "*",
    "x": "*",
    "*": "*",
    "·": "*",
    "/": "/",
    "÷": "/",
}
_OPERATORS |= {
    "plus": "+",
    "minus": "-",
    "less": "-",
    "加": "+",
    "减": "-",
    "más": "+",
    "menos": "-",
    "moins": "-",
}
_ORDERS = {"<", ">", "<=", ">=", "≤", "≥", "=<"}


@dataclass(frozen=True, slots=True)
class Figure:
    """A number of a text with every way to read it (1.349 and 1349), the likeliest first."""

    readings: tuple[float, ...]
    percent: bool
    span: Span
    text: str

    @property
    def value(self) -> float:
        """The likeliest reading."""
        return self.readings[0]


@dataclass(frozen=True, slots=True)
class Sum:
    """An expression that a text states the result of."""

    operands: tuple[Figure, ...]
    operators: tuple[str, ...]
    stated: Figure
    right: bool

    @property
    def span(self) -> Span:
        """From its first operand to its result."""
        return Span(self.operands[0].span.start, self.stated.span.end)


@dataclass(frozen=True, slots=True)
class Order:
    """An inequality between two numbers that stand next to each other."""

    low: Figure
    high: Figure
    right: bool


def figures(text: str, offset: int = 0, limit: int | None = None) -> list[Figure]:
    """The numbers of a text, in order; the first `limit` of them, where it is given."""
    found = []
    for match in _NUMBER.finditer(text):
        raw = match.group().rstrip("% \t\n\u00a0")
        span = Span(offset + match.start(), offset + match.start() + len(raw))
        found.append(Figure(_readings(raw), match.group("percent") is not None, span, raw))
        if limit is not None and len(found) >= limit:
            break
    return found


def _readings(raw: str) -> tuple[float, ...]:
    commas, dots = raw.count(","), raw.count(".")
    if not commas and not dots:
        return (float(raw),)
    tail = re.split(r"[.,]", raw)[-1]
    if commas and dots:
        decimal = max(raw.rfind(","), raw.rfind("."))
        return (float(re.sub(r"[.,]", "", raw[:decimal]) + "." + tail),)
    whole = float(re.sub(r"[.,]", "", raw))
    if commas + dots > 1:
        return (whole,)
    fraction = float(raw.replace(",", "."))
    grouped = len(tail) == 3
    return (whole, fraction) if grouped and commas else (fraction, whole) if grouped else (fraction,)


def joints(text: str, found: Sequence[Figure], offset: int = 0) -> list[str]:
    """What stands between each number and the next: an operator, "=", an inequality, or "" for the rest."""
    return [_joint(text[a.span.end - offset : b.span.start - offset], a) for a, b in pairwise(found)]


def _joint(gap: str, before: Figure) -> str:
    if gap in _OPERATORS or gap == "=":
        return _OPERATORS.get(gap, gap)
    if len(gap) > GAP_CHARS or "\n\n" in gap:
        return ""
    bare = _NOISE.sub("", _CURRENCY.sub("", gap.replace("%", ""))).lower()
    if bare in _ORDERS:
        return bare
    if len(gap) <= NAMED_GAP_CHARS and (order := _WORDS.sub("", bare)) in ("<", ">"):
        return order  # 899 < B 1350
    if bare in _EQUALS:
        return "="
    if bare in _OPERATORS:
        signed = gap[-1:] in ("-", "−", "–") and gap not in ("-", "−", "–")
        return "" if signed else _OPERATORS[bare]  # "84.20, -91.75" are two amounts, no difference
    if before.percent and bare in ("of", "von", "de", "del", "sur", "×", "*", "x"):
        return "of"
    if gap.count("+") == 1 and "=" not in gap and "." not in gap:
        return "+"  # 1650 (tent) + t-0012 235
    if (
        gap.count("=") == 1
        and not set("+<>") & set(gap)
        and not any(c.isalnum() for c in gap.partition("=")[2])
    ):
        return "="  # 1650 + 235 (lantern) = 1885
    return ""


def sums(found: Sequence[Figure], between: Sequence[str]) -> Iterator[Sum]:
    """The expressions among numbers and their joints, done again."""
    start = 0
    for at, joint in enumerate(between):
        if joint == "=" and at > start:
            stated, operators = found[at + 1], tuple(between[start:at])
            operands = tuple(found[start : at + 1])
            result = _evaluate(operands, operators)
            right = result is not None and any(agree(result, r) for r in stated.readings)
            yield Sum(operands, operators, stated, right)
        if joint not in ("+", "-", "*", "/", "of"):
            start = at + 1


def orders(found: Sequence[Figure], between: Sequence[str]) -> Iterator[Order]:
    """The inequalities among numbers and their joints."""
    for at, joint in enumerate(between):
        if joint in _ORDERS:
            left, right = found[at], found[at + 1]
            low, high = (left, right) if "<" in joint or joint == "≤" else (right, left)
            strict = joint in ("<", ">")
            holds = low.value < high.value if strict else low.value <= high.value
            yield Order(low, high, holds)


def agree(exact: float, stated: float) -> bool:
    """Whether a stated result is `exact`, or `exact` rounded to whole units or tenths; signs left out."""
    exact, stated = abs(exact), abs(stated)
    return abs(exact - stated) <= TOLERANCE or stated in (round(exact), round(exact, 1))


def _evaluate(operands: Sequence[Figure], operators: Sequence[str]) -> float | None:
    """Products first, then from left to right; `a - b%` takes the share of a."""
    terms: list[tuple[str, float]] = [("+", _share(operands[0], operators[:1]))]
    for operator, operand in zip(operators, operands[1:], strict=True):
        if operator in ("*", "/", "of"):
            sign, value = terms[-1]
            if operator == "/" and operand.value == 0:
                return None
            factor = operand.value / 100 if operand.percent and operator == "*" else operand.value
            terms[-1] = (sign, value / factor if operator == "/" else value * factor)
        elif operand.percent:
            total = sum(v if s == "+" else -v for s, v in terms)
            terms.append((operator, total * operand.value / 100))
        else:
            terms.append((operator, operand.value))
    return sum(value if sign == "+" else -value for sign, value in terms)


def _share(first: Figure, following: Sequence[str]) -> float:
    return first.value / 100 if first.percent and following and following[0] in ("of", "*") else first.value
