"""What a shopper's request asks for, read from its words alone.

A request is one or several items, each with search words, a price range and services, and sometimes a budget
with a voucher. The patterns cover ShoppingBench's phrasings. Where a list can be split in several ways, the
parser prefers fewer items: a missed item costs one product, an invented one confuses the whole basket.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from arena.scripted_shopper.voucher import Voucher, read_voucher


def _set(text: str) -> frozenset[str]:
    return frozenset(text.split())


STOP_WORDS: Final = _set(
    """
    a an the of in on for with and or to from by at as is are be it its it's that this these those which
    has have having had made i i'm im am me my you your we do does can could would should need want like
    looking look find show searching search get please help also both plus one some any each all only
    just but so item items product products option options shop shops store stores seller sell sells
    selling offer offers offering offered available come comes coming support supports featuring feature
    features including includes include suitable priced price prices pricing cost costs costing php peso
    pesos range first second third fourth fifth last lastly finally together least where service
    services eligible preferably specifically type model variety following certified rated sized scented
    described suited containing everything buy ship another same different there they them will must who
    while etc via paid
    """
)
CARRIERS: Final = _set(
    """
    color colour design style look pattern theme kind cut effect form fabric material brand users laptops cars
    vehicles works running power source capacity output volume resolution scent scented skin hair finish thick
    shell size light input voltage battery life plug fit fits compatible closure connection
    """
)
"""Words that only say what sort of thing a value is; they mean something where nothing else is left."""

_NUMBER = r"(?:php\s?|₱\s?)?(\d[\d,]*(?:\.\d+)?)"
_UNIT = r"(?:\s*(?:php|pesos?)\b)?"
_LEAD = (
    r"(?:,?\s*(?:and|which|that|with|at|is|are)?\s*(?:a\s+)?"
    r"(?:pric(?:e|es|ed|ing)|costs?|costing|budget)(?:\s+(?:range|is|at|tag|of))*\s*)"
)
_BETWEEN = re.compile(
    rf"({_LEAD})?\b(?:between|from|of|range)?\s*{_NUMBER}{_UNIT}\s+(?:and|to)\s+{_NUMBER}(\s*(?:php|pesos?)\b)?",
    re.IGNORECASE,
)
_ABOVE = re.compile(
    rf"({_LEAD})?\b(?:above|over|more\s+than|greater\s+than|higher\s+than|at\s+least|starting\s+(?:at|from))\s+"
    rf"{_NUMBER}(\s*(?:php|pesos?)\b)?",
    re.IGNORECASE,
)
_BELOW = re.compile(
    rf"({_LEAD})?\b(?:below|under|less\s+than|lower\s+than|at\s+most|up\s+to|no\s+more\s+than)\s+"
    rf"{_NUMBER}(\s*(?:php|pesos?)\b)?",
    re.IGNORECASE,
)
_DEALS = r"(?:\s+(?:deals?|offers?|items?|perks?|services?|promos?|promotions?|discounts?|sales?))?"
_SERVICES: Final = {
    "official": rf"\b(?:lazmall|official\s+(?:store|shop)){_DEALS}",
    "freeShipping": (
        r"\b(?:free|complimentary|no[- ]cost)[\s-]*(?:shipping|delivery)|\bships?\s+(?:for\s+)?free|"
        r"\bshipping\s+is\s+free"
    ),
    "COD": (
        r"\b(?:(?:that|which)\s+)?(?:can\s+be\s+)?(?:paid\s+(?:by|for\s+(?:by|with|via)|with|via)\s+)?"
        r"(?:cash|pay(?:ment|ing)?(?:\s+for)?|paid(?:\s+for)?)\s+(?:on|upon)\s+delivery(?:\s+\(?cod\)?)?|\bcod\b"
    ),
    "flashsale": rf"\b(?:lazflash|flash[\s-]*(?:sales?|deals?)){_DEALS}",
}
_SERVICE_PATTERNS: Final = {name: re.compile(text, re.IGNORECASE) for name, text in _SERVICES.items()}
_ONE_SHOP = re.compile(r"\b(?:shops?|stores?|sellers?)\b", re.IGNORECASE)
_MARKERS = re.compile(
    r"(?:\(?\b\d\s*\)|(?<!\w)\d\.\s|\b(?:first(?:ly)?|second(?:ly)?|third(?:ly)?|fourth(?:ly)?|fifth(?:ly)?|next"
    r"|last(?:ly)?|finally)\b\s*[,:])\s*",
    re.IGNORECASE,
)
_SENTENCES = re.compile(
    r"[.?!]\s+(?:and\s+)?(?:also|additionally|next|lastly|finally|then|in\s+addition)\b,?\s*", re.IGNORECASE
)
_SEMICOLONS = re.compile(r";\s*(?:and\s+|also\s+)*")
_ARTICLES = re.compile(
    r",?\s+(?:as\s+well\s+as|along\s+with|together\s+with|plus(?!\s+size)|and\s+also|and\s+another)\s+"
    r"|,\s*(?:and\s+)?(?=(?:an?|some|another)\s)|\s+and\s+(?=(?:an?|some|another)\s)",
    re.IGNORECASE,
)
_AND = re.compile(r",\s+and\s+|\s+and\s+", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+(?:[.'’\-/&%:][^\W_]+)*%?")


_OPENING = re.compile(
    r"\W*(?:(?:please|can|you|i'm|i|am|help|me|find|show|need|want|looking|searching|for|the|an?|some)\b\s*)+",
    re.IGNORECASE,
)
_QUALITY = re.compile(
    r"(?:,|(?<![\w-])(?:with|in|from|by|for|made|that|which|featuring|of|on|sold|as|rated|certified|running|suitable|suited"
    r"|compatible|containing|scented|against|sized?|described|has|have|having|is|are)(?![\w-]))",
    re.IGNORECASE,
)
_BARE_QUALITY = re.compile(
    r"(?:and|or|plus|also|with|priced?|prices?|costs?|costing|available|including|offering|preferably|ideally|it|they"
    r"|please|show|free|not|no|comes?|fits?|supports?|uses|works|at|under|over|above|below|\d+\s*(?:mm|cm|m|inch(?:es)?|ml|g|kg|pcs|pieces?))\b",
    re.IGNORECASE,
)
_KIND_WORDS = 3
"""A longer name of the kind holds words that a title may have."""


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is wanted. `words` are lower-cased search words in the request's order."""

    text: str
    words: tuple[str, ...]
    kind: tuple[str, ...] = ()
    """The words of `words` that name the kind of thing; they stand before its first quality."""
    qualities: tuple[str, ...] = ()
    """The words of `words` from the first quality on; empty where the text cannot be told apart so."""
    low: float | None = None
    high: float | None = None
    services: tuple[str, ...] = ()

    @property
    def features(self) -> tuple[str, ...]:
        """The words that tell one thing of its kind from another; all words where few are left.

        A short plural ("phone cases with ...") names a kind as shelves are named, seldom as titles write it.
        """
        told = _telling(self.qualities)
        named_as_a_kind = 0 < len(self.kind) <= _KIND_WORDS and self.kind[-1].endswith("s")
        return told if len(told) >= 2 and named_as_a_kind else _telling(self.words)

    def price_filter(self) -> str | None:
        """The price range as the search tool writes it, None when there is none."""
        if self.low is None and self.high is None:
            return None
        return f"{self.low or 0:g}-{'' if self.high is None else f'{self.high:g}'}"

    def fits_price(self, price: float) -> bool:
        """Whether `price` lies in the range, bounds included."""
        return (self.low is None or price >= self.low) and (self.high is None or price <= self.high)


@dataclass(frozen=True, slots=True)
class Wish:
    """A request, read. `one_shop`: everything must come from one shop."""

    items: tuple[Item, ...]
    one_shop: bool = False
    voucher: Voucher | None = None
    text: str = field(default="", compare=False)


def read_wish(request: str) -> Wish:
    """Read a request. Always gives at least one item."""
    body, _, rules = request.partition("My budget")
    voucher = read_voucher("My budget" + rules) if rules else None
    one_shop = bool(_ONE_SHOP.search(body)) and voucher is None
    several = one_shop or voucher is not None
    segments = _split(body) if several else [body]
    items = [item for item in map(_item, segments) if item.words]
    return Wish(tuple(items) or (_item(body),), one_shop, voucher, request)


def services_in(text: str) -> tuple[str, ...]:
    """The services a text names, as the search tool calls them."""
    return tuple(name for name, pattern in _SERVICE_PATTERNS.items() if pattern.search(text))


def _item(text: str) -> Item:
    low, high, rest = _price(text)
    services = services_in(rest)
    for pattern in _SERVICE_PATTERNS.values():
        rest = pattern.sub(" ", rest)
    kind, qualities = _parted(rest)
    words = tuple(dict.fromkeys((*kind, *qualities) or _words(rest)))
    return Item(text.strip(" ,.;\n"), words, kind, qualities, low, high, services)


def _parted(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words before the first quality of `text`, and those from it on; none where no quality follows."""
    opening = _OPENING.match(text)
    start = opening.end() if opening else 0
    quality = _QUALITY.search(text, start)
    if quality is None:
        return (), ()
    kind, rest = text[start : quality.start()], text[quality.start() :]
    return tuple(dict.fromkeys(_words(kind))), tuple(dict.fromkeys(_words(rest)))


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match.group().lower().replace("’", "'")
        if word not in STOP_WORDS:
            yield word


def _telling(words: Iterable[str]) -> tuple[str, ...]:
    """`words` without mere carriers, where something else is left."""
    every = tuple(words)
    return tuple(word for word in every if word not in CARRIERS) or every


def _price(text: str) -> tuple[float | None, float | None, str]:
    """The price range of an item, and its text without the phrase."""
    for pattern in (_BETWEEN, _ABOVE, _BELOW):
        for match in pattern.finditer(text):
            lead, *numbers, unit = match.groups()
            if not (
                lead or unit or "₱" in match.group() or re.search(r"\bphp", match.group(), re.IGNORECASE)
            ):
                continue
            rest = text[: match.start()] + " " + text[match.end() :]
            values = [float(number.replace(",", "")) for number in numbers]
            if pattern is _BETWEEN:
                return values[0], values[1], rest
            return (values[0], None, rest) if pattern is _ABOVE else (None, values[0], rest)
    return None, None, text


def _split(body: str) -> list[str]:
    """The items of a list."""
    body = re.sub(r"\s+", " ", body).strip()
    body = _without_closing(body)
    marks = list(_MARKERS.finditer(body))
    if len(marks) >= 2:
        ends = [mark.start() for mark in marks[1:]] + [len(body)]
        return [body[mark.end() : end].strip(" ,;.") for mark, end in zip(marks, ends, strict=True)]
    for pattern in (_SENTENCES, _SEMICOLONS, _ARTICLES):
        parts = pattern.split(body)
        if len(parts) > 1:
            return _merged([part for part in parts if part.strip(" ,.")])
    return _split_at_commas(body) or _split_at_and(body)


_CLOSING = re.compile(
    r"[.?!]\s+(?:please\s+)?(?:show|can|could|i\s+(?:want|need|would)|all|the|they)\b[^.?!]*\b(?:shops?|stores?|sellers?)\b"
    r"[^.?!]*[.?!]?\s*$",
    re.IGNORECASE,
)


def _without_closing(body: str) -> str:
    """`body` without a last sentence that only says that one shop should sell it all."""
    return _CLOSING.sub(".", body)


def _split_at_commas(body: str) -> list[str] | None:
    """The things of a bare list ("red mugs with a lid, blue pots, and jars"), None when it is not one.

    A part that begins as qualities do belongs to the thing before it; so does a part of a single word.
    """
    parts: list[str] = []
    for part in re.split(r",\s+(?:and\s+)?", body):
        own = _item(part).words
        quality = _QUALITY.match(part.strip()) or _BARE_QUALITY.match(part.strip())
        if parts and (quality or len(own) < 2):
            parts[-1] += f", {part}"
        else:
            parts.append(part)
    return parts if len(parts) >= 2 else None


def _split_at_and(body: str) -> list[str]:
    """Split at an "and" between two things that are long enough to be items of their own.

    What begins with a preposition or ends in one word is a quality of the thing before it.
    """
    parts = _AND.split(body)
    if len(parts) != 2 or _QUALITY.match(parts[1].strip()) or re.match(r"\s*\d", parts[1]):
        return [body]
    return parts if all(len(_item(p).words) >= 2 for p in parts) else [body]


def _merged(parts: list[str]) -> list[str]:
    """Parts that only qualify (no word of their own left) go to the part before."""
    merged: list[str] = []
    for part in parts:
        if merged and not _item(part).words:
            merged[-1] += ", " + part
        elif merged and not _item(merged[-1]).words:
            merged[-1] += " " + part
        else:
            merged.append(part)
    return merged
