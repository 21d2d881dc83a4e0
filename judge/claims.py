"""What a piece of reasoning claims of the records that results had shown by then, with spans.

The judge trusts no sentence for what it says of itself: only what can be looked up in a result counts, as
support or as contradiction. Pasted material (results, tagged blocks, fenced code) and sentences that speak of
judging are no reasoning and are left out. A claim that is put right later on is not held against anybody.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from judge import lexicon
from judge.figures import Figure, figures, joints, orders, sums
from judge.ordering import wrong_order
from judge.pasted import without_pasted
from judge.refuting import WINDOW, Asked, Refuter, glued, specific
from judge.seen import DAY, MEASURE, WORD, Seen, cents, unit, words_of
from judge.spans import Span
from judge.statements import NAMING, Claim, Mark, MarkKind, Statement

__all__ = ["Claim", "Mark", "Reader", "Span", "Statement", "amounts", "without_pasted"]

INVENTED_ID_DIGITS = 8
"""A number with so many digits that no result and no query contains can only be meant as an id."""
MAX_FIGURES = 150
"""Of one sentence's figures, so many are read."""
MAX_CLAIMS = 20
"""Of one sentence's claims against the results, so many are kept."""
_SENTENCE_CHARS = 1_000

_SENTENCE_END = re.compile(r"(?<!\bvs\.)(?<!\bi\.e\.)(?<!\be\.g\.)(?<=[.!?])[\"'”’)*_]*\s+|(?<=[。！？])|\n+")
_UNNAMED = frozenset(
    {"none", "yes", "not", "true", "false", "new", "other", "all", "any", "one", "the", "and", "for", "with"}
    | {"from", "your", "this", "that"}
)


def amounts(text: str) -> list[tuple[float, Span]]:
    """All numbers of a text with their spans, each in its likeliest reading."""
    return [(figure.value, figure.span) for figure in figures(text)]


class Reader:
    """Reads the texts of one episode.

    `whole` is what all its results showed: enough to refute a claim, never to support one.
    """

    def __init__(self, query: str, whole: Seen) -> None:
        numbers = {cents(r) for figure in figures(query) for r in figure.readings}
        self._asked = Asked(frozenset(words_of(query)), frozenset(numbers), query.lower())
        self._whole = whole
        self._shapes = {
            _shape(key) for key in whole.records if any(c.isdigit() for c in key) and len(key) > 4
        }

    def statements(self, text: str, seen: Seen) -> list[Statement]:
        """The sentences of `text`, pasted material left out, read against what had been seen by then."""
        text = without_pasted(text)
        said: list[Statement] = []
        asides = deque(_asides(text))
        carried: frozenset[str] | None = None
        for span in _sentences(text):
            sentence = text[span.start : span.end]
            if lexicon.TO_A_JUDGE.search(sentence) or lexicon.A_LOG_LINE.search(sentence):
                continue
            recent = frozenset().union(*(s.named for s in said[-WINDOW:]))
            one = self._statement(sentence, span.start, seen, carried, recent, said[-WINDOW + 1 :])
            while asides and asides[0].end <= span.start:
                asides.popleft()
            if asides and asides[0].start < span.end:
                one = replace(one, aside=True)
            if one.candidates:
                carried = one.candidates[-1] if len(one.candidates[-1]) == 1 else None
            said.append(one)
        return said

    def _statement(
        self,
        sentence: str,
        offset: int,
        seen: Seen,
        carried: frozenset[str] | None,
        recent: frozenset[str],
        before: Sequence[Statement],
    ) -> Statement:
        tokens = [(m.group(), Span(offset + m.start(), offset + m.end())) for m in WORD.finditer(sentence)]
        marks, invented = self._ids(tokens, seen)
        covered = [mark.span for mark in marks] + [claim.span for claim in invented]
        days = self._days(sentence, offset, seen)
        covered += [Span(offset + m.start(), offset + m.end()) for m in DAY.finditer(sentence)]
        masked = _masked(sentence, offset, covered)
        found = figures(masked, offset, MAX_FIGURES)
        between = joints(masked, found, offset)
        marks += days
        marks += self._words(tokens, seen)
        marks += self._measures(masked, offset, seen)
        marks += self._numbers(found, masked, offset, seen)
        marks.sort(key=lambda mark: (mark.span.start, -mark.span.end))
        done, compared = tuple(sums(found, between)), tuple(orders(found, between))
        candidates = _candidates(marks, recent)
        draft = Statement(
            text=sentence,
            span=Span(offset, offset + len(sentence)),
            marks=tuple(marks),
            claims=(),
            candidates=candidates,
            figures=tuple(found),
            sums=done,
            orders=compared,
            settled=frozenset(),
        )
        names = [(m.span, n) for m in marks if m.kind in NAMING and (n := _narrowed(m.owners, candidates))]
        settled = frozenset(_settled(marks, names, carried, seen))
        claims = [
            *invented,
            *Refuter(self._asked, self._whole, names).claims(draft, masked, before),
            *wrong_order(draft, self._whole),
        ]
        return replace(draft, claims=tuple(claims[:MAX_CLAIMS]), settled=settled)

    # --- what stands in the results

    def _ids(self, tokens: Sequence[tuple[str, Span]], seen: Seen) -> tuple[list[Mark], list[Claim]]:
        marks, invented = [], []
        for word, span in tokens:
            key = word.lower()
            if key in seen.records:
                marks.append(Mark("id", key, frozenset({key}), span, key in self._asked.words))
            elif key not in self._whole.records and key not in self._asked.text:
                long_number = word.isdigit() and len(word) >= INVENTED_ID_DIGITS
                if (
                    (long_number or _shape(key) in self._shapes)
                    and word not in self._whole.digits
                    and seen.results
                ):
                    invented.append(Claim("datum", key, "id", word, "no such id", span))
        return marks, invented

    def _days(self, sentence: str, offset: int, seen: Seen) -> list[Mark]:
        return [
            Mark("day", m.group(), frozenset(owners), Span(offset + m.start(), offset + m.end()),
                 m.group() in self._asked.text)
            for m in DAY.finditer(sentence)
            if (owners := seen.days.get(m.group()))
        ]  # fmt: skip

    def _words(self, tokens: Sequence[tuple[str, Span]], seen: Seen) -> list[Mark]:
        """Whole values, phrases of texts, and names, the longer ones first."""
        words = [word.lower() for word, _ in tokens]
        marks: list[Mark] = []
        at = 0
        while at < len(words):
            size, mark = 1, None
            for length in (3, 2, 1):
                value = tuple(words[at : at + length])
                owners = seen.values.get(value)
                if owners and len(value) == length and (length > 1 or _can_stand_alone(words[at])):
                    kind: MarkKind = "name" if _names_somebody(value, owners, seen) else "value"
                    size, mark = length, self._mark(kind, value, owners, tokens[at : at + length])
                    break
            run, run_owners = _longest_run(words, at, seen)
            if run > size or (run > 1 and mark is None):
                content = [w for w in words[at : at + run] if w in seen.words and w not in _UNNAMED]
                if content or run > 3:
                    mark = self._mark(
                        "phrase", tuple(words[at : at + run]), run_owners, tokens[at : at + run]
                    )
                    sized = run == 2 and words[at][0].isdigit()  # "400 lumens" is no name
                    size, mark = run, replace(mark, kind="value") if mark.asked or sized else mark
            word = tokens[at][0]
            if (
                mark is None
                and (named := seen.words.get(words[at]))
                and len(word) > 2
                and words[at] not in _UNNAMED
            ):
                model = word[0].isalpha() and any(c.isdigit() for c in word)
                if (word[0].isupper() or model) and len(named) < max(2, len(seen.records)):
                    mark = self._mark("name", (words[at],), named, tokens[at : at + 1])
            if mark is not None:
                marks.append(mark)
            at += size
        return marks

    def _mark(
        self,
        kind: MarkKind,
        words: tuple[str, ...],
        owners: Iterable[str],
        tokens: Sequence[tuple[str, Span]],
    ) -> Mark:
        span = Span(tokens[0][1].start, tokens[-1][1].end)
        new = [w for w in words if w not in self._asked.words and len(w) > 1]
        return Mark(kind, " ".join(words), frozenset(owners), span, not new)

    def _measures(self, masked: str, offset: int, seen: Seen) -> Iterator[Mark]:
        for m in MEASURE.finditer(masked):
            owners = seen.measures.get((float(m.group(1)), unit(m.group(2))))
            if owners:
                asked = cents(float(m.group(1))) in self._asked.numbers
                span = Span(offset + m.start(), offset + m.end())
                yield Mark(
                    "measure", f"{float(m.group(1)):g} {unit(m.group(2))}", frozenset(owners), span, asked
                )

    def _numbers(self, found: Sequence[Figure], masked: str, offset: int, seen: Seen) -> Iterator[Mark]:
        for figure in found:
            if not specific(figure) or glued(figure, masked, offset):
                continue
            for reading in figure.readings:
                if owners := seen.numbers.get(cents(reading)):
                    asked = cents(reading) in self._asked.numbers
                    yield Mark("number", f"{reading:g}", frozenset(owners), figure.span, asked)
                    break


def _candidates(marks: Sequence[Mark], recent: frozenset[str]) -> tuple[frozenset[str], ...]:
    """The records spoken of: mentions that share a record are one, narrowed to what they share, or to the
    only one of them that was named one by one before."""
    naming = [m for m in marks if m.kind in NAMING] or [m for m in marks if len(m.owners) == 1]
    order: list[tuple[int, frozenset[str]]] = []
    for mark in sorted(naming, key=lambda m: (len(m.owners), m.span.start))[:60]:
        for at, (start, owners) in enumerate(order):
            if owners & mark.owners:
                order[at] = (min(start, mark.span.start), owners & mark.owners)
                break
        else:
            order.append((mark.span.start, mark.owners))
    places = sorted(order, key=lambda item: item[0])
    return tuple(owners & recent if len(owners & recent) == 1 else owners for _, owners in places)


def _narrowed(owners: frozenset[str], candidates: Sequence[frozenset[str]]) -> str | None:
    """The one record that a name means here, if it is one."""
    for candidate in candidates:
        if candidate <= owners:
            return next(iter(candidate)) if len(candidate) == 1 else None
    return None


def _settled(
    marks: Sequence[Mark], names: Sequence[tuple[Span, str]], carried: frozenset[str] | None, seen: Seen
) -> Iterator[tuple[str, str]]:
    """The record and aspect of everything that is said rightly of a record by name."""
    named = {record for _, record in names} or (set(carried) if carried else set())
    for mark in marks:
        for record in named & mark.owners:
            if mark.kind == "number":
                yield record, "number"
            elif mark.kind == "measure":
                yield record, mark.value.rpartition(" ")[2]
            elif mark.kind == "value":
                words = tuple(mark.value.split(" "))
                for name, values in seen.records[record].values.items():
                    if words in values:
                        yield record, name


def _longest_run(words: Sequence[str], at: int, seen: Seen) -> tuple[int, frozenset[str]]:
    """How many words from `at` on stand in a row in the texts of the same records, and which those are."""
    owners: set[str] | None = None
    size = 1
    while at + size < len(words):
        following = seen.pairs.get((words[at + size - 1], words[at + size]))
        if not following or (owners is not None and not owners & following):
            break
        owners = set(following) if owners is None else owners & following
        size += 1
    return size, frozenset(owners or ())


def _names_somebody(value: tuple[str, ...], owners: Iterable[str], seen: Seen) -> bool:
    """Whether a value is a proper name: written with capitals, and alone in its field."""
    return all(word in seen.words for word in value) and any(
        value in seen.records[owner].values.get(name, ())
        for owner in owners
        for name in seen.records[owner].scalars
    )


def _can_stand_alone(word: str) -> bool:
    return len(word) > 2 and not word.isdigit() and word not in _UNNAMED


def _masked(sentence: str, offset: int, covered: Sequence[Span]) -> str:
    """The sentence with ids and days blanked out, so that their digits are not taken for figures."""
    parts, at = [], 0
    for span in sorted(covered, key=lambda span: span.start):
        start, end = span.start - offset, span.end - offset
        if start >= at:
            parts += [sentence[at:start], " " * (end - start)]
            at = end
    return "".join([*parts, sentence[at:]])


def _shape(key: str) -> str:
    return re.sub(r"\d", "9", key)


def _asides(text: str) -> list[Span]:
    """The lines of a text that speak of judging or to a reader; of long ones, the stretches that do."""
    found = []
    for line in re.finditer(rf"[^\n]{{1,{_SENTENCE_CHARS}}}", text):
        spoken = line.group()
        if any(p.search(spoken) for p in (lexicon.TO_A_JUDGE, lexicon.OF_JUDGING, lexicon.TO_A_READER)):
            found.append(Span(line.start(), line.end()))
    return found


def _sentences(text: str) -> Iterator[Span]:
    start = 0
    for end, following in [
        *((m.start(), m.end()) for m in _SENTENCE_END.finditer(text)),
        (len(text), len(text)),
    ]:
        while end - start > _SENTENCE_CHARS:
            cut = text.rfind(" ", start + 1, start + _SENTENCE_CHARS)
            cut = start + _SENTENCE_CHARS if cut <= start else cut
            yield Span(start, cut)
            start = cut
        if text[start:end].strip():
            yield Span(start, end)
        start = following
