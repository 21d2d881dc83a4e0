"""What a piece of reasoning claims of the products that results had shown by then, with spans.

The judge trusts no sentence for what it says of itself: only statements that can be looked up in a result
count, as support or as contradiction. Pasted material (JSON, tagged blocks, fenced code) is not reasoning and
is blanked out first, so that copying a result into a thought earns nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from judge.seen import WORD, Seen, SeenProduct, words_of

PHRASE_WORDS = 3
"""A run of this many words of a title is a quote of it."""
MONEY_TOLERANCE = 0.01
INVENTED_ID_DIGITS = 8
"""A number with so many digits that no result and no query contains can only be meant as an id."""
_NEAR_CHARS = 48
"""How far after an id a figure may stand and still be taken as explicitly its price."""

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_FENCED = re.compile(
    r"```.*?(?:```|\Z)|<(tool_call|tool_response|obs|observation|result)s?>.*?(?:</\1s?>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_JSON_OPENS = re.compile(r"[\[{](?=\s*[\"'\[{])")
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


def without_pasted(text: str) -> str:
    """`text` with pasted material replaced by spaces, so that every offset stays where it was."""
    text = _FENCED.sub(lambda match: _blank(match.group()), text)
    ends = _closings(text)
    keys = [match.start() for match in _JSON_KEY.finditer(text)]
    kept: list[str] = []
    at = 0
    for opening in _JSON_OPENS.finditer(text):
        start = opening.start()
        end = ends.get(start, len(text))
        if start < at or bisect_left(keys, start) == bisect_left(keys, end):
            continue
        kept += (text[at:start], _blank(text[start:end]))
        at = end
    return "".join([*kept, text[at:]])


def _blank(text: str) -> str:
    return re.sub(r"\S", " ", text)


def _closings(text: str) -> dict[int, int]:
    """Where each bracket is closed; one that never is (pasted and cut off) has no entry. One pass."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for match in re.finditer(r"[\[{\]}]", text):
        if match.group() in "[{":
            opened.append(match.start())
        elif opened:
            ends[opened.pop()] = match.end()
    return ends


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
        (m.group().lower(), Span(offset + m.start(), offset + m.end())) for m in WORD.finditer(sentence)
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
    for match in _MONEY.finditer(sentence):
        span = Span(offset + match.start("amount"), offset + match.end("amount"))
        if _inside(span, owners):
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
    """Values of the named products, each once, where the product they stand beside has them."""
    words = [word for word, _ in tokens]
    products = {owner for _, owner in owners}
    starting: dict[str, set[tuple[str, ...]]] = {}
    for product in products:
        for value in seen.products[product].values:
            starting.setdefault(value[0], set()).add(value)
    found: set[tuple[str, tuple[str, ...]]] = set()
    for at, word in enumerate(words):
        for value in sorted(starting.get(word, ())):
            end = at + len(value)
            if tuple(words[at:end]) != value:
                continue
            span = Span(tokens[at][1].start, tokens[end - 1][1].end)
            owner = _owner(span, owners)[1]
            if value in seen.products[owner].values and (owner, value) not in found:
                found.add((owner, value))
                yield Mark("attribute", owner, " ".join(value), span)


def _owner(span: Span, owners: Sequence[tuple[Span, str]]) -> tuple[Span, str]:
    """The product a value belongs to: the last one named before it, else the first named after it.

    `owners` are in order of place and do not overlap.
    """
    before = bisect_right(owners, span.start, key=lambda owner: owner[0].end)
    return owners[max(before - 1, 0)]


def _inside(span: Span, owners: Sequence[tuple[Span, str]]) -> bool:
    """Whether `span` overlaps a product's own name or id."""
    at = bisect_right(owners, span.start, key=lambda owner: owner[0].end)
    return at < len(owners) and owners[at][0].start < span.end


def _quoted_titles(
    tokens: Sequence[tuple[str, Span]],
    phrases: Mapping[tuple[str, ...], frozenset[str]],
    query_words: set[str],
) -> Iterator[Mark]:
    words = [word for word, _ in tokens]
    at = 0
    while at + PHRASE_WORDS <= len(words):
        owners, size = _longest_quote(words, at, phrases)
        run = words[at : at + size]
        if len(owners) == 1 and any(w not in query_words and len(w) > 2 for w in run):
            span = Span(tokens[at][1].start, tokens[at + size - 1][1].end)
            yield Mark("title", min(owners), " ".join(run), span)
            at += size
        else:
            at += 1


def _longest_quote(
    words: Sequence[str], at: int, phrases: Mapping[tuple[str, ...], frozenset[str]]
) -> tuple[frozenset[str], int]:
    """The products whose titles hold the words from `at` on, and for how many words they do."""
    owners = phrases.get(tuple(words[at : at + PHRASE_WORDS]), frozenset())
    size = PHRASE_WORDS
    while owners and at + size < len(words):
        following = phrases.get(tuple(words[at + size - PHRASE_WORDS + 1 : at + size + 1]), frozenset())
        if not owners & following:
            break
        owners, size = owners & following, size + 1
    return owners, size


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
