"""Where `web_search` looks: a provider behind one Protocol, and a store of snippets that needs no network.

A provider that does not answer is our failure, not the agent's, and is never shown as "nothing found": it
raises `ServiceUnavailable`, which makes an episode without an answer unscored. How an HTTP service is asked
stands in `serper.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

import tantivy
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from problems.shopping.written import plain

MAX_CONTENT = 2_000
"""Characters of one result that an agent is shown."""
_ANALYZER = "snippets"
_HEAP_BYTES = 15_000_000
"""The least that the engine takes."""
_WINDOW = 100
"""Hits that are ranked: more than can be asked for, so that order breaks ties and not the engine."""


class Snippet(BaseModel):
    """One result: where it is, what it is called, and the passage that matters."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    url: str = ""
    title: str = ""
    content: str = Field(min_length=1)

    def shown(self) -> dict[str, str]:
        """The result as an agent sees it."""
        return {
            "url": _storable(self.url),
            "title": _storable(self.title),
            "content": _storable(self.content)[:MAX_CONTENT],
        }


class SnippetFileError(ValueError):
    """A file of snippets cannot be read; the message names the line and what is wrong with it."""


class SearchRefused(ValueError):
    """The provider says that this very query is bad; in words a model can act on."""


class WebSearch(Protocol):
    """A search of the web, or of what stands for it. Safe to call from several threads."""

    @property
    def name(self) -> str:
        """Which provider this is; holds no secret."""

    def search(self, q: str, max_results: int) -> list[Snippet]:
        """At most `max_results` results, best first; empty when there are none.

        Raises ServiceUnavailable when the provider failed, SearchRefused when it blames the query.
        """


class SnippetStore:
    """A fixed set of snippets, ranked by BM25 over title and content. The same query gives the same results.

    Snippets of equal relevance come in the order in which they were given.
    """

    name = "snippets"

    def __init__(self, snippets: Iterable[Snippet]) -> None:
        self._snippets = tuple(snippets)
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("text", tokenizer_name=_ANALYZER, index_option="freq")
        builder.add_unsigned_field("row", fast=True)
        self._schema = builder.build()
        self._analyzer = _analyzer()
        self._index = tantivy.Index(self._schema)
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        writer = self._index.writer(_HEAP_BYTES, 1)
        for row, snippet in enumerate(self._snippets):
            document = tantivy.Document()
            document.add_text("text", f"{snippet.title}\n{snippet.content}")
            document.add_unsigned("row", row)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()
        self._index.reload()
        self._searcher = self._index.searcher()

    @classmethod
    def open(cls, path: Path) -> SnippetStore:
        """Read JSON Lines of {"url", "title", "content"}. Raises SnippetFileError."""
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SnippetFileError(f"{path} cannot be read as UTF-8 text: {error}") from None
        snippets = []
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                snippets.append(Snippet.model_validate_json(line))
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(map(str, first["loc"])) or "the line"
                raise SnippetFileError(f"{path}, line {number}: {where}: {first['msg']}") from None
        if not snippets:
            raise SnippetFileError(f'{path} holds no snippet: write {{"url", "title", "content"}} lines')
        return cls(snippets)

    def __len__(self) -> int:
        return len(self._snippets)

    def search(self, q: str, max_results: int) -> list[Snippet]:
        """The snippets that share a word with `q`, best first. Never raises."""
        words = dict.fromkeys(self._analyzer.analyze(q.encode("utf-8", "replace").decode()))
        if not words:
            return []
        terms = [
            (tantivy.Occur.Should, tantivy.Query.term_query(self._schema, "text", word, "freq"))
            for word in words
        ]
        query = tantivy.Query.boolean_query(terms)
        hits = self._searcher.search(query, _WINDOW, count=False).hits
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        ranked = sorted(zip(hits, rows, strict=True), key=lambda found: (-found[0][0], found[1]))
        return [self._snippets[row] for _, row in ranked[:max_results]]


def _storable(text: str) -> str:
    """`text` in one line, without what no trace can hold: NUL, other controls, lone surrogates."""
    return "".join(letter for letter in plain(text) if letter.isprintable())


def _analyzer() -> Any:
    f = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (f.remove_long(64), f.lowercase(), f.ascii_fold(), f.stopword("english")):
        builder = builder.filter(step)
    return builder.filter(f.stemmer("english")).build()
