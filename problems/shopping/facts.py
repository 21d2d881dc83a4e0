"""A knowledge file: facts that web problems ask for, one JSON object a line.

`question` has one short `answer`, which must be found on the web before the product can be; `content`, with
`title` and `url`, is what a search for it would show, so that a world can be played without the internet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

_Said = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class KnowledgeError(Exception):
    """A knowledge file cannot be used; the message names the line and says why."""


class Fact(BaseModel):
    """A question with its one answer, and a passage that tells it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: Annotated[_Said, Field(max_length=400)]
    answer: Annotated[_Said, Field(max_length=80)]
    content: str = ""
    title: str = ""
    url: str = ""

    def snippet(self) -> dict[str, Any] | None:
        """What a search would show, as a snippet store reads it; None when the file does not say."""
        if not self.content:
            return None
        return {"url": self.url, "title": self.title or self.question, "content": self.content}


def read_facts(file: Path) -> tuple[Fact, ...]:
    """The facts of a file, in order. Raises KnowledgeError."""
    facts: dict[str, Fact] = {}
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise KnowledgeError(f"{file} cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            fact = Fact.model_validate_json(line)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the line"
            raise KnowledgeError(
                f'{file}, line {number}: {where}: {first["msg"]}; a line is {{"question", "answer"}} with '
                'optional "content", "title" and "url"'
            ) from None
        facts.setdefault(fact.question, fact)
    if not facts:
        raise KnowledgeError(f'{file} holds no fact: write {{"question", "answer"}} lines')
    return tuple(facts.values())


def snippets(facts: Sequence[Fact]) -> list[dict[str, Any]]:
    """What a local search store needs to answer for these facts."""
    return [snippet for fact in facts if (snippet := fact.snippet()) is not None]
