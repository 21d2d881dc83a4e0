"""What a piece of reasoning claims of the products that results had shown by then, with spans.

The judge trusts no sentence for what it says of itself: only statements that can be looked up in a result
count, as support or as contradiction. Pasted material (JSON, tagged blocks, fenced code) is not reasoning and
is blanked out first, so that copying a result into a thought earns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

PHRASE_WORDS = 3
"""A run of this many words of a title is a quote of it."""
MONEY_TOLERANCE = 0.01
INVENTED_ID_DIGITS = 8
"""A number with so many digits that no result and no query contains can only be meant as an id."""
_NEAR_CHARS = 48
"""How far after an id a figure may stand and still be taken as explicitly its price."""

_WORD = re.compile(r"\w+(?:[.\-']\w+)*")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_FENCED = re.compile(
    r"```.*?(?:```|\Z)|<(tool_call|tool_response|obs|observation|result)s?>.*?(?:</\1s?>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_JSON_OPENS = re.compile(r"[\[{]\s*[\"'\[{]")
_JSON_KEY = re.compile(r"[\"']\s*:")
_MONEY = re.compile(
    r"(?P<pre>₱|\bphp\s?|\bprice[ds]?(?:\s+(?:at|is|of|was))?:?\s+(?:php\s?|₱)?|\bcosts?\s+(?:php\s?|₱)?"
    r"|\bat\s+(?:php\s?|₱)?)?(?<![\w.])(?P<amount>\d[\d,]*(?:\.\d+)?)(?P<post>\s?(?:php|pesos?)\b)?",
    re.IGNORECASE,
)
_PRICE_CLAIM = re.compile(
    r"(?:\bpriced?(?:\s+(?:at|is|of|was))?|\bcosts?|\bat|[(,:=])\s*(?:only\s+)?(?:php|₱)?\s*$", re.IGNORECASE
)

MarkKind = Literal["id", "price", "title", "attribute"]


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open character range of a step's spoken text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Something said of a product that a result bears out. `product` is its id."""

    kind: MarkKind
    product: str
    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Something said that the results do not bear out."""

    product: str
    said: str
    found: str
    span: Span


@dataclass(slots=True)
class SeenProduct:
    """What results had shown of one product."""

    product_id: str
    title: str = ""
    price: float | None = None
    shop_id: str = ""
    values: set[tuple[str, ...]] = field(default_factory=set)
    """Attribute, option and service values, as lower-cased words."""


@dataclass(slots=True)
class Seen:
    """Everything results had shown up to a point of an episode. Grows by `add`."""

    products: dict[str, SeenProduct] = field(default_factory=dict)
    numbers: set[str] = field(default_factory=set)
    results: int = 0
    """How many results that were not errors and not empty."""

    def add(self, result: Any) -> None:
        """Take in one tool result (a JSON value)."""
        if result in (None, "", [], {}):
            return
        self.results += 1
        for record in _records(result):
            self._add_record(record)
        self.numbers.update(_numbers(result))

    def _add_record(self, record: Mapping[str, Any]) -> None:
        key = str(record["product_id"]).lower()
        product = self.products.setdefault(key, SeenProduct(key))
        if isinstance(title := record.get("title"), str):
            product.title = title
        price = record.get("price")
        if isinstance(price, (int, float)) and not isinstance(price, bool):
            product.price = float(price)
        if "shop_id" in record:
            product.shop_id = str(record["shop_id"])
        for name in ("attributes", "sku_options", "service"):
            for value in _leaves(record.get(name)):
                words = tuple(words_of(value))
                if words and sum(map(len, words)) >= 2:
                    product.values.add(words)


@dataclass(frozen=True, slots=True)
class Statement:
    """One sentence, with what it is found to say."""

    text: str
    span: Span
    marks: tuple[Mark, ...]
    contradictions: tuple[Contradiction, ...]

    @property
    def products(self) -> tuple[str, ...]:
        """The products spoken of, in order of first mention."""
        return tuple(dict.fromkeys(m.product for m in sorted(self.marks, key=lambda m: m.span.start)))


def words_of(text: str) -> list[str]:
    """The words of a text, lower-cased."""
    return [m.group().lower() for m in _WORD.finditer(text)]


def without_pasted(text: str) -> str:
    """`text` with pasted material replaced by spaces, so that every offset stays where it was."""
    text = _FENCED.sub(lambda match: _blank(match.group()), text)
    at = 0
    while opening := _JSON_OPENS.search(text, at):
        start, end = opening.start(), _closing(text, opening.start())
        if _JSON_KEY.search(text, start, end):
            text = text[:start] + _blank(text[start:end]) + text[end:]
            at = end
        else:
            at = start + 1
    return text


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _closing(text: str, start: int) -> int:
    """Where the bracket at `start` is closed; the end of the text when it never is (pasted and cut off)."""
    depth = 0
    for at in range(start, len(text)):
        if text[at] in "[{":
            depth += 1
        elif text[at] in "]}":
            depth -= 1
            if depth == 0:
                return at + 1
    return len(text)


def amounts(text: str) -> list[tuple[float, Span]]:
    """All numbers of a text with their spans; thousands separators understood."""
    found = []
    for match in re.finditer(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?![\w])", text):
        raw = match.group().rstrip(",").replace(",", "")
        found.append((float(raw), Span(match.start(), match.end())))
    return found


def statements(text: str, seen: Seen, query: str) -> list[Statement]:
    """The sentences of `text` and what each says of the products in `seen`.

    A value counts only where it is bound to a product that is named in the same sentence (or, for a sentence
    that names none, in the one before), and only if that product has it. A phrase of a title counts when it
    holds a word that the query does not.
    """
    plain = without_pasted(text)
    query_words = set(words_of(query))
    query_numbers = {value for value, _ in amounts(query)}
    phrases = _title_phrases(seen.products.values())
    found: list[Statement] = []
    carried: str | None = None
    for span in _sentences(plain):
        sentence = plain[span.start : span.end]
        statement = _read(sentence, span.start, seen, phrases, query_words, query_numbers, query, carried)
        named = [m for m in statement.marks if m.kind in ("id", "title")]
        if named:
            carried = max(named, key=lambda m: m.span.start).product
        found.append(statement)
    return found


def _read(
    sentence: str,
    offset: int,
    seen: Seen,
    phrases: Mapping[tuple[str, ...], frozenset[str]],
    query_words: set[str],
    query_numbers: set[float],
    query: str,
    carried: str | None,
) -> Statement:
    tokens = [
        (m.group().lower(), Span(offset + m.start(), offset + m.end())) for m in _WORD.finditer(sentence)
    ]
    marks: list[Mark] = []
    wrong: list[Contradiction] = []
    for word, span in tokens:
        if word in seen.products:
            marks.append(Mark("id", word, word, span))
        elif (
            word.isdigit()
            and len(word) >= INVENTED_ID_DIGITS
            and word not in seen.numbers
            and word not in query
        ):
            wrong.append(Contradiction(word, word, "no result shows this id", span))
    marks.extend(_quoted_titles(tokens, phrases, query_words))
    named = sorted((m for m in marks), key=lambda m: m.span.start)
    owners = [(m.span, m.product) for m in named]
    if not owners and carried is not None:
        owners = [(Span(offset, offset), carried)]
    if owners:
        prices, wrong_prices = _prices(sentence, offset, owners, seen, query_numbers)
        marks.extend(prices)
        wrong.extend(wrong_prices)
        marks.extend(_values(tokens, owners, seen))
    span = Span(offset, offset + len(sentence))
    return Statement(sentence, span, tuple(marks), tuple(wrong))


def _prices(
    sentence: str,
    offset: int,
    owners: Sequence[tuple[Span, str]],
    seen: Seen,
    query_numbers: set[float],
) -> tuple[list[Mark], list[Contradiction]]:
    marks: list[Mark] = []
    wrong: list[Contradiction] = []
    ids = [span for span, _ in owners]
    for match in _MONEY.finditer(sentence):
        span = Span(offset + match.start("amount"), offset + match.end("amount"))
        if any(span.start < s.end and s.start < span.end for s in ids):
            continue
        amount = float(match.group("amount").rstrip(",").replace(",", ""))
        owner_span, owner = _owner(span, owners)
        price = seen.products[owner].price
        if price is None:
            continue
        if abs(price - amount) <= MONEY_TOLERANCE:
            marks.append(Mark("price", owner, match.group("amount"), span))
            continue
        between = sentence[max(owner_span.end - offset, 0) : span.start - offset]
        explicit = (
            owner_span.end <= span.start
            and owner_span.end > owner_span.start
            and len(between) <= _NEAR_CHARS
            and _PRICE_CLAIM.search(between) is not None
            and (match.group("pre") or match.group("post"))
        )
        if explicit and amount not in query_numbers:
            wrong.append(Contradiction(owner, match.group("amount"), f"{price:g}", span))
    return marks, wrong


def _values(
    tokens: Sequence[tuple[str, Span]], owners: Sequence[tuple[Span, str]], seen: Seen
) -> Iterator[Mark]:
    words = [word for word, _ in tokens]
    for product in dict.fromkeys(owner for _, owner in owners):
        for value in sorted(seen.products[product].values):
            size = len(value)
            for at in range(len(words) - size + 1):
                if tuple(words[at : at + size]) != value:
                    continue
                span = Span(tokens[at][1].start, tokens[at + size - 1][1].end)
                if _owner(span, owners)[1] == product or len(owners) == 1:
                    yield Mark("attribute", product, " ".join(value), span)
                    break


def _owner(span: Span, owners: Sequence[tuple[Span, str]]) -> tuple[Span, str]:
    """The product a value belongs to: the last one named before it, else the first named after it."""
    before = [owner for owner in owners if owner[0].end <= span.start]
    return before[-1] if before else owners[0]


def _quoted_titles(
    tokens: Sequence[tuple[str, Span]],
    phrases: Mapping[tuple[str, ...], frozenset[str]],
    query_words: set[str],
) -> Iterator[Mark]:
    at = 0
    while at + PHRASE_WORDS <= len(tokens):
        words = [word for word, _ in tokens]
        owners = phrases.get(tuple(words[at : at + PHRASE_WORDS]), frozenset())
        size = PHRASE_WORDS
        while owners and at + size < len(tokens):
            following = owners & phrases.get(
                tuple(words[at + size - PHRASE_WORDS + 1 : at + size + 1]), frozenset()
            )
            if not following:
                break
            owners, size = following, size + 1
        run = words[at : at + size]
        if len(owners) == 1 and any(w not in query_words and len(w) > 2 for w in run):
            yield Mark(
                "title", min(owners), " ".join(run), Span(tokens[at][1].start, tokens[at + size - 1][1].end)
            )
            at += size
        else:
            at += 1


def _title_phrases(products: Iterable[SeenProduct]) -> dict[tuple[str, ...], frozenset[str]]:
    owners: dict[tuple[str, ...], set[str]] = {}
    for product in products:
        words = words_of(product.title)
        for at in range(len(words) - PHRASE_WORDS + 1):
            owners.setdefault(tuple(words[at : at + PHRASE_WORDS]), set()).add(product.product_id)
    return {phrase: frozenset(ids) for phrase, ids in owners.items()}


def _sentences(text: str) -> Iterator[Span]:
    start = 0
    for match in _SENTENCE_END.finditer(text):
        if text[start : match.start()].strip():
            yield Span(start, match.start())
        start = match.end()
    if text[start:].strip():
        yield Span(start, len(text))


def _records(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, Mapping):
        if "product_id" in value:
            yield value
        for inner in value.values():
            yield from _records(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _records(inner)


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif isinstance(value, (str, int, float)) and not isinstance(value, bool):
        yield str(value)


def _numbers(value: Any) -> Iterator[str]:
    for leaf in _leaves(value):
        yield from re.findall(r"\d+", leaf)
