"""Searching the web: what a service answers is shown, and its failure is never shown as "nothing found"."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from problems.environment import ServiceUnavailable
from problems.problem import Problem, canonical_json
from problems.shopping.catalog import Catalog
from problems.shopping.serper import SerperSearch
from problems.shopping.shopping_environment import ShoppingEnvironment
from problems.shopping.web import SearchRefused, Snippet, SnippetFileError, SnippetStore
from tests.problems.serper_server import VIOLIN, SerperServer

KEY = "serper-key-of-this-test"
STORE = SnippetStore(
    [
        Snippet(url="u1", title="Alec Aitken", content="A mathematician who played the violin."),
        Snippet(url="u2", title="Bows", content="A bow is made of horsetail; the violin has one."),
        Snippet(url="u3", title="Tea", content="Tea grows in the highlands."),
        Snippet(url="u4", title="Tea", content="Tea grows in the highlands."),
    ]
)


@pytest.fixture
def server() -> Iterator[SerperServer]:
    with SerperServer() as made:
        yield made


def client(server: SerperServer, **changed: Any) -> SerperSearch:
    given = {"timeout_s": 5.0, "sleep": lambda seconds: None} | changed
    return SerperSearch(SecretStr(KEY), server.base_url, **given)


def problem(category: str) -> Problem:
    return Problem(problem_id="p", environment="shopping", category=category, query="q")


def test_a_service_is_asked_with_the_key_and_its_results_are_given_in_order(server: SerperServer) -> None:
    box = {"title": "Instrument", "answer": "Violin", "snippet": "He played it well.", "link": "x"}
    other = VIOLIN | {"title": "Second"}
    without_text = {"title": "no passage", "link": "y"}
    server.replies = [(200, {"answerBox": box, "organic": [without_text, VIOLIN, other]})]
    found = client(server).search("what did Aitken play", 2)
    assert server.requests == [{"path": "/search", "q": "what did Aitken play", "num": 2}]
    assert server.keys == [KEY]
    assert [s.shown() for s in found] == [
        {"url": "x", "title": "Instrument", "content": "Violin He played it well."},
        {"url": VIOLIN["link"], "title": VIOLIN["title"], "content": VIOLIN["snippet"]},
    ]


def test_no_results_are_an_answer(server: SerperServer) -> None:
    server.replies = [(200, {"organic": []})]
    assert client(server).search("nothing", 5) == []


@pytest.mark.parametrize(
    "failing", [(500, {}), (429, {}), (0, None), (200, b"<html>"), (200, {"organic": 5})]
)
def test_a_failing_service_is_asked_again_a_bounded_number_of_times(
    server: SerperServer, failing: tuple[int, Any]
) -> None:
    server.replies = [failing, failing, (200, {"organic": [VIOLIN]})]
    assert len(client(server).search("q", 5)) == 1
    server.requests.clear()
    server.replies = [failing]
    with pytest.raises(ServiceUnavailable, match="web search, serper at 127"):
        client(server).search("q", 5)
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [401, 402, 403, 404])
def test_a_refused_key_is_not_tried_again(server: SerperServer, status: int) -> None:
    server.replies = [(status, {"message": f"key {KEY} is wrong"})]
    with pytest.raises(ServiceUnavailable, match=str(status)):
        client(server).search("q", 5)
    assert len(server.requests) == 1


def test_a_query_that_the_service_blames_is_the_agents_to_change(server: SerperServer) -> None:
    server.replies = [(400, {"message": "bad"})]
    with pytest.raises(SearchRefused, match="other words"):
        client(server).search("q", 5)


def test_a_service_that_does_not_answer_is_given_up(server: SerperServer) -> None:
    server.replies = [(-1, None)]
    with pytest.raises(ServiceUnavailable, match=r"no answer within 0\.05 s"):
        client(server, timeout_s=0.05, retries=0).search("q", 5)


def test_an_answer_that_trickles_is_given_up(server: SerperServer) -> None:
    ticking = itertools.count(step=10)
    with pytest.raises(ServiceUnavailable, match="no answer within 5 s"):
        client(server, clock=lambda: float(next(ticking))).search("q", 5)


def test_the_pauses_between_attempts_grow_and_the_whole_is_bounded(server: SerperServer) -> None:
    pauses: list[float] = []
    server.replies = [(500, {})]
    asked = client(server, sleep=pauses.append, timeout_s=2.0)
    with pytest.raises(ServiceUnavailable):
        asked.search("q", 5)
    assert pauses == [0.25, 0.5]
    assert asked.longest_s == 3 * 2.0 + sum(pauses)


@pytest.mark.parametrize("status", [200, 401, 500, 0])
def test_the_key_shows_up_nowhere(server: SerperServer, status: int) -> None:
    server.replies = [(status, {"message": KEY, "organic": KEY})]
    asked = client(server)
    with pytest.raises(ServiceUnavailable) as caught:
        asked.search("q", 5)
    said = [str(caught.value), repr(caught.value), repr(asked), str(vars(asked)), asked.name]
    assert not any(KEY in text for text in said)


def test_what_no_trace_can_hold_is_taken_out_of_results(server: SerperServer) -> None:
    server.replies = [(200, {"organic": [{"title": "a\x00b", "link": "l\n", "snippet": "x\x07 \t y" * 900}]})]
    (found,) = client(server).search("q", 5)
    shown = found.shown()
    assert (shown["title"], shown["url"]) == ("ab", "l")
    assert shown["content"].startswith("x y")
    assert len(shown["content"]) == 2_000


@pytest.mark.parametrize("wrong", [{"timeout_s": 0}, {"retries": -1}])
def test_a_client_without_bounds_is_refused(server: SerperServer, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="timeout above zero"):
        client(server, **wrong)


def test_snippets_are_ranked_by_the_words_they_share() -> None:
    assert [s.url for s in STORE.search("Which instrument did Aitken play? The violin!", 5)] == ["u1", "u2"]
    assert [s.url for s in STORE.search("tea", 5)] == ["u3", "u4"]
    assert [s.url for s in STORE.search("tea", 1)] == ["u3"]
    assert STORE.search("the, of!", 5) == []
    assert STORE.search("unheard", 5) == []
    assert SnippetStore([]).search("tea", 5) == []


@given(q=st.text(), most=st.integers(1, 10))
def test_any_text_is_a_query_and_the_same_one_gives_the_same(q: str, most: int) -> None:
    found = STORE.search(q, most)
    assert found == STORE.search(q, most)
    assert len(found) <= most


def test_a_store_is_read_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "snippets.jsonl"
    path.write_text('{"url": "u", "title": "t", "content": "a violin"}\n\n{"content": "tea"}\n')
    store = SnippetStore.open(path)
    assert len(store) == 2
    assert [s.url for s in store.search("violin", 5)] == ["u"]


@pytest.mark.parametrize(
    ("written", "said"),
    [
        (b'{"content": "x"}\n{"title": "y"}', "line 2: content"),
        (b"{", "line 1"),
        (b"\n", "holds no snippet"),
        (b"\xff", "UTF-8"),
        (None, "cannot be read"),
    ],
)
def test_a_bad_file_of_snippets_is_named_with_its_line(
    tmp_path: Path, written: bytes | None, said: str
) -> None:
    path = tmp_path / "snippets.jsonl"
    if written is not None:
        path.write_bytes(written)
    with pytest.raises(SnippetFileError, match=said):
        SnippetStore.open(path)


@pytest.mark.parametrize("category", ["product", "shop", "voucher", "web"])
def test_the_web_is_offered_only_where_a_problem_needs_it(catalog: Catalog, category: str) -> None:
    names = [tool.name for tool in ShoppingEnvironment(catalog, web=STORE).tools(problem(category))]
    assert ("web_search" in names) == (category == "web")
    assert len(ShoppingEnvironment(catalog).tools(problem(category))) == 4


def test_results_are_shown_as_url_title_and_content(catalog: Catalog) -> None:
    environment = ShoppingEnvironment(catalog, web=STORE)
    reply = environment.call("web_search", {"query": "violin", "max_results": "1"})
    assert reply.arguments == {"q": "violin", "max_results": 1}
    assert reply.repairs == ("query was read as q", 'max_results "1" was read as 1')
    assert [set(result) for result in reply.content] == [{"url", "title", "content"}]
    canonical_json(json.loads(json.dumps(reply.content)))


def test_the_default_number_of_results_is_the_same_call_as_none(catalog: Catalog) -> None:
    environment = ShoppingEnvironment(catalog, web=STORE)
    assert environment.canonical("web_search", {"q": "x", "max_results": 5}) == {"q": "x"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "q must say"),
        ({"q": "x" * 401}, "at most 400"),
        ({"q": "x", "max_results": 0}, "1 to 10"),
        ({"q": "x", "max_results": 11}, "1 to 10"),
        ({"q": "x", "page": 1}, "q, max_results"),
    ],
)
def test_a_search_that_cannot_be_made_says_what_would_be_right(
    catalog: Catalog, arguments: dict[str, Any], said: str
) -> None:
    reply = ShoppingEnvironment(catalog, web=STORE).call("web_search", arguments)
    assert said in (reply.error or "")


def test_where_nothing_can_search_the_web_the_call_says_so(environment: ShoppingEnvironment) -> None:
    reply = environment.call("web_search", {"q": "violin"})
    assert "find_product" in (reply.error or "")


def test_a_query_that_the_service_blames_is_an_error_a_model_can_act_on(
    catalog: Catalog, server: SerperServer
) -> None:
    server.replies = [(422, {})]
    reply = ShoppingEnvironment(catalog, web=client(server)).call("web_search", {"q": "violin"})
    assert "other words" in (reply.error or "")
