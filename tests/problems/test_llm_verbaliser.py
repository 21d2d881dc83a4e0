"""A model's words are taken when they can be read back exactly, and otherwise not, over real HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import openai
import pytest

from problems.shopping.answer import read_answer
from problems.shopping.catalog import Catalog
from problems.shopping.facts import Fact
from problems.shopping.generation import Order, certified
from problems.shopping.llm_verbaliser import LlmVerbaliser, Reworded
from problems.shopping.scoring import intended_attempt, score
from problems.shopping.similarity import LexicalSimilarity
from problems.shopping.synthesis import Certified
from problems.shopping.verbaliser import VerbaliserError, voucher_text
from tests.problems.scripted_endpoint import KEY, Edit, Model, served


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
def client(model: Model) -> Iterator[openai.AsyncOpenAI]:
    with served(model) as url:
        yield openai.AsyncOpenAI(base_url=url, api_key=KEY, max_retries=0, timeout=10)


@pytest.fixture(scope="module")
def made(catalog: Catalog) -> list[Certified]:
    facts = (Fact(question="Which plant gives the fibre of most shirts? Tell me.", answer="cotton"),)
    return list(certified(catalog, Order({"product": 3, "shop": 2, "voucher": 2, "web": 1}, 4, (), facts)))


async def reworded(
    client: openai.AsyncOpenAI, made: list[Certified], *, fall_back: bool = True, tries: int = 2
) -> Reworded:
    return await LlmVerbaliser(client, "writer", "reader", tries=tries).reword(made, fall_back=fall_back)


async def test_words_that_are_read_back_exactly_are_taken(
    client: openai.AsyncOpenAI, made: list[Certified], catalog: Catalog
) -> None:
    found = await reworded(client, made)
    assert (found.rejected, found.accepted) == ({}, len(made))
    for before, after in zip(made, found.problems, strict=True):
        query = after.problem.problem.query
        assert "I wish for " in query
        assert query != before.problem.problem.query
        assert after.problem.answer == before.problem.answer
        assert after.problem.problem.problem_id != before.problem.problem.problem_id
        assert score(after.problem, intended_attempt(after.problem), catalog.get, LexicalSimilarity()).solved
        assert query.startswith(before.question)
        voucher = read_answer(after.problem).voucher
        assert voucher is None or query.endswith(voucher_text(voucher))
        kept = {key for key in before.problem.leak_keys if not key.startswith("query:")}
        assert kept <= set(after.problem.leak_keys)


async def test_the_writer_sees_no_title_and_no_id_and_the_reader_sees_the_text_alone(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified]
) -> None:
    await reworded(client, made)
    for request in model.asked:
        said = json.dumps(request, ensure_ascii=False)
        for one in made:
            for target in read_answer(one.problem).reward:
                assert target.product_id not in said
                assert target.title[0] not in said
    assert {request["model"] for request in model.asked} == {"writer", "reader"}
    reading = [r["messages"][1]["content"] for r in model.asked if r["model"] == "reader"]
    assert all(text.startswith("I wish for ") for text in reading)


def _item(edit: Callable[[dict[str, Any]], object]) -> Edit:
    def edited(read: dict[str, Any]) -> dict[str, Any]:
        edit(read["items"][0])
        return read

    return edited


MISREADINGS: dict[str, Edit] = {
    "other features were read": _item(lambda item: item["features"].append(["brand", "x"])),
    "another kind was read": _item(lambda item: item.update(kind="spoons")),
    "other services were read": _item(lambda item: item.update(services=["pigeon"])),
    "another price was read": _item(lambda item: item.update(low=1.5)),
    "another number of items was read": lambda read: {"items": []},
    "the reading is not the JSON that was asked for": lambda read: "I would rather not",
}


@pytest.mark.parametrize("reason", MISREADINGS)
async def test_words_that_are_read_otherwise_are_not_taken(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified], reason: str
) -> None:
    model.misread = MISREADINGS[reason]
    found = await reworded(client, made[:2], tries=2)
    assert (found.accepted, found.rejected) == (0, {reason: 2})
    assert found.problems == tuple(made[:2])
    assert len(model.asked) == 2 * 2 * 2, "tries are bounded, each one call to write and one to read"


async def test_a_constraint_that_is_left_out_is_noticed(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified]
) -> None:
    model.misread = _item(lambda item: item.update(features=item["features"][1:]))
    assert (await reworded(client, made[:1])).rejected == {"other features were read": 1}


async def test_a_wish_for_one_shop_must_be_read_back(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified]
) -> None:
    model.misread = lambda read: read | {"one_shop": False}
    shops = [one for one in made if one.problem.problem.category == "shop"]
    assert (await reworded(client, shops)).rejected == {"another wish about shops was read": len(shops)}


@pytest.mark.parametrize(("telling", "reason"), [("id", "an id"), ("title", "a title")])
async def test_text_that_gives_the_target_away_is_not_taken(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified], telling: str, reason: str
) -> None:
    target = read_answer(made[0].problem).reward[0]
    told = {"id": target.product_id, "title": target.title[0]}[telling]
    model.says = lambda text: f"{text}, it says {told}"
    found = await reworded(client, made[:1])
    assert found.rejected == {f"the text holds {reason}": 1}


async def test_what_cannot_be_worded_is_left_out_when_that_is_asked_for(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified]
) -> None:
    model.misread = lambda read: "nothing"
    found = await reworded(client, made[:2], fall_back=False)
    assert found.problems == ()
    assert sum(found.rejected.values()) == 2


@pytest.mark.parametrize("status", [500, 429, 503])
async def test_an_endpoint_that_fails_once_is_asked_again(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified], status: int
) -> None:
    model.status, model.faults = status, 1
    assert (await reworded(client, made[:1])).accepted == 1
    model.faults = 10**6
    assert sum((await reworded(client, made[:1])).rejected.values()) == 1


@pytest.mark.parametrize("status", [401, 404])
async def test_an_endpoint_that_refuses_us_ends_it_with_what_to_check(
    client: openai.AsyncOpenAI, model: Model, made: list[Certified], status: int
) -> None:
    model.status = status
    with pytest.raises(VerbaliserError, match=f"{status}.*OPENAI_API_KEY") as caught:
        await reworded(client, made[:1])
    assert KEY not in str(caught.value)
