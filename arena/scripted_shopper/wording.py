"""Parts of the shopper's sentences: amounts, ranges, titles, and lists of wanted words."""

from __future__ import annotations

from collections.abc import Sequence

from arena.scripted_shopper.conversation import KnownProduct
from arena.scripted_shopper.wish import Item

_TITLE_WORDS = 7
_NEGATIONS = ("not", "no")


def lacking(item: Item, one: KnownProduct) -> str:
    """What neither its title nor its details show of the wanted qualities."""
    shown = one.matched(item)
    return phrases(item, [w for w in one.missing(item) if w not in shown and w not in item.kind])


def phrases(item: Item, words: Sequence[str]) -> str:
    """Words of an item as a list; a negation keeps what it denies."""
    said: list[str] = []
    negation = ""
    for word in item.words:
        if negation:
            said.append(f"{negation} {word}")
            negation = ""
        elif word in words:
            negation = word if word in _NEGATIONS else ""
            said += [] if negation else [word]
    return ", ".join(said)


def price_range(item: Item) -> str:
    """The wanted price range."""
    if item.low is not None and item.high is not None:
        return f"the price range {money(item.low)} to {money(item.high)} PHP"
    if item.low is not None:
        return f"a price above {money(item.low)} PHP"
    return f"a price below {money(item.high)} PHP"


def money(amount: float | None) -> str:
    """An amount in PHP, without needless zeros."""
    return "?" if amount is None else f"{amount:.2f}".rstrip("0").rstrip(".")


def short(title: str) -> str:
    """The beginning of a title."""
    words = title.split()
    return " ".join(words[:_TITLE_WORDS]) + ("..." if len(words) > _TITLE_WORDS else "")
