"""Whether a sentence says something of a result, rather than what comes next."""

from __future__ import annotations

from collections.abc import Iterable

from judge import lexicon
from judge.seen import words_of
from judge.statements import NAMING, Statement

MIN_WORDS = 4


def remark(said: Statement, tools: Iterable[str], found: bool) -> str | None:
    """What a sentence, written after a result, says of it, or None.

    Any datum of the results is something said. An id alone is not, where the sentence only plans. Without
    data, a sentence counts that picks some of the results (one, both, none) and assesses them, and that
    neither plans, nor speaks of the tools, in a line that speaks neither of judging nor to a reader. `found`
    says whether there was any record by then: of nothing, only that it is nothing can be said.
    """
    planning = bool(lexicon.PLANNING.search(said.text)) or any(tool and tool in said.text for tool in tools)
    for mark in said.data():
        if mark.kind in NAMING and planning and not lexicon.ASSESSMENT.search(said.text):
            continue
        return f"speaks of {mark.value}"
    if planning or said.aside or len(words_of(said.text)) < MIN_WORDS:
        return None
    if not found and not lexicon.EMPTY.search(said.text):
        return None
    if lexicon.ITEM.search(said.text) and lexicon.ASSESSMENT.search(said.text):
        return "assesses the results"
    return None
