"""What is read of an agent's own account of itself: the last call of one tool, and never more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.dialogue import last_call
from problems.ledger.ledger_environment import LedgerEnvironment
from problems.shopping.shopping_environment import ShoppingEnvironment

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["completion", "message", "tool_call", "name", "parameters", "arguments"]), inner
        )
    ),
    max_leaves=20,
)


def step(*calls: Any) -> dict[str, Any]:
    return {"completion": {"message": {"tool_call": list(calls)}}}


def recommending(ids: object) -> list[Any]:
    return [step({"name": "recommend_product", "parameters": {"product_ids": ids}})]


def test_the_last_call_counts_in_the_last_step_that_has_one() -> None:
    def call(number: int) -> dict[str, Any]:
        return {"name": "answer", "parameters": {"total": number}}

    dialogue = [step(call(1)), step(call(2), call(3), {"name": "end", "parameters": {}}), step(), {}, None]
    assert last_call(dialogue, "answer") == {"total": 3}
    assert last_call([step({"name": "answer", "arguments": {"total": 1}})], "answer") == {"total": 1}
    assert last_call(dialogue, "nothing") is None


@given(JSON)
def test_no_claim_makes_it_raise_or_answer_without_a_call(claim: object) -> None:
    assert last_call(claim, "recommend_product") is None
    assert LedgerEnvironment(()).claimed(claim) is None


def test_recommended_products_must_exist_all_of_them(environment: ShoppingEnvironment) -> None:
    there = [p["product_id"] for p in environment.call("find_product", {"q": "case", "page": 1}).content[:2]]
    taken = environment.claimed(recommending(f"{there[0]} , {there[1]}"))
    assert taken is not None
    assert (taken.name, taken.arguments) == ("recommend_product", {"product_ids": ",".join(there)})
    assert environment.claimed(recommending([there[0]])) is not None
    assert environment.claimed(recommending(f"{there[0]},999999999999")) is None
    assert environment.claimed([*recommending(there[0]), *recommending("nonsense id")]) is None


@pytest.mark.parametrize("ids", ["", None, {}, [], "; drop table", 1.5, True, ["a b"], "9" * 1000])
def test_what_names_no_products_is_no_answer(environment: ShoppingEnvironment, ids: object) -> None:
    assert environment.claimed(recommending(ids)) is None


def test_the_ledger_takes_what_its_tool_would_take() -> None:
    def claimed(answer: object) -> object:
        return LedgerEnvironment(()).claimed(
            [step({"name": "submit_answer", "parameters": {"answer": answer}})]
        )

    assert claimed("84.20") is not None
    assert claimed("") is None
    assert claimed(84.2) is None
