"""Web problems: the product itself, or one whose title names the answer and is nearly the target's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.environment import Attempt, AttemptStep, Outcome, ToolUse
from problems.problem import AnsweredProblem, Problem
from problems.shopping.options import ShoppingOptions
from problems.shopping.product import Product
from problems.shopping.scoring import UnscorableProblem, intended_attempt, read_answer, score
from problems.shopping.similarity import LexicalSimilarity, PrecomputedSimilarity
from problems.shopping.web_rule import mentioned, named, words

TITLE = "Heart String Violin Bow Horsetail"
PARITY = ShoppingOptions(parity="shoppingbench")
CATALOG = {
    p.product_id: p
    for p in (
        Product(product_id="1", title=TITLE),
        Product(product_id="2", title="Heart String VIOLIN Bow, Horsetail!"),
        Product(product_id="3", title="Heart String Viola Bow Horsetail", description="Not for a violin."),
        Product(product_id="4", title="Violin"),
        Product(product_id="5", title="Drum", description="For friends of the violin"),
        Product(product_id="6", title="Heart String Violins Bow Horsetail"),
    )
}


def problem(answer: object = "Violin", **reward: Any) -> AnsweredProblem:
    record = {"product_id": "1", "title": TITLE, "price": 20.0, "attributes": {"brand": ["x"]}} | reward
    shown = Problem(problem_id="w", environment="shopping", category="web", query="q")
    return AnsweredProblem(
        problem=shown, answer={"reward": record, "Knowledge_Attribute": answer}, leak_keys=()
    )


def recommending(*ids: str) -> Attempt:
    uses = tuple(ToolUse("recommend_product", {"product_ids": each}) for each in ids)
    return Attempt((AttemptStep(uses, reasoning="r", timestamp_ms=1.0),))


def outcome(*ids: str, of: AnsweredProblem | None = None, options: ShoppingOptions | None = None) -> Outcome:
    return score(
        of or problem(),
        recommending(*ids),
        CATALOG.get,
        LexicalSimilarity(),
        options=options or ShoppingOptions(),
    )


def test_the_target_itself_solves_whatever_its_title_says() -> None:
    found = outcome("1", of=problem("an answer that stands nowhere"))
    assert found.solved
    assert {k: found.components[k] for k in ("product", "gt", "rule", "answer", "title")} == {
        "product": 1,
        "gt": 1,
        "rule": 1,
        "answer": 1,
        "title": 1,
    }


def test_another_product_solves_when_its_title_names_the_answer_and_is_nearly_the_same() -> None:
    found = outcome("2")
    assert found.solved
    assert (found.components["gt"], found.components["rule"]) == (0, 1)


@pytest.mark.parametrize(
    ("product", "says", "same"), [("3", 0, 1), ("4", 1, 0), ("5", 0, 0), ("6", 0, 1), ("2", 1, 1)]
)
def test_both_rules_must_hold_and_each_counts_half(product: str, says: int, same: int) -> None:
    found = outcome(product)
    assert (found.components["answer"], found.components["title"]) == (says, same)
    assert found.components["rule"] == (says + same) / 2
    assert found.solved == (says + same == 2)


def test_failures_name_the_rule_with_what_it_wanted_and_found() -> None:
    answer, title = outcome("5").failures
    assert (answer.rule, answer.wanted, answer.found) == ("target 1.answer", "Violin", "Drum")
    assert title.rule == "target 1.title"
    assert title.wanted == {"title": TITLE, "at least": 0.8}
    assert title.found["title"] == "Drum"
    assert title.found["similarity"] < 0.8


@pytest.mark.parametrize(("similarity", "same"), [(0.8, 1), (0.799, 0), (1, 1), (-1, 0)])
def test_titles_are_the_same_from_the_threshold_on(similarity: float, same: int) -> None:
    table = PrecomputedSimilarity({f"Violin||{TITLE}": similarity})
    found = score(problem(), recommending("4"), CATALOG.get, table)
    assert found.components["title"] == same


def test_an_answer_in_the_description_alone_counts_only_by_shoppingbenchs_own_rule() -> None:
    assert not outcome("3").solved
    assert outcome("3", options=PARITY).solved
    assert outcome("3").scorer != outcome("3", options=PARITY).scorer


def test_a_part_of_a_word_counts_only_by_shoppingbenchs_own_rule() -> None:
    lu = problem("Lu", title="Plush Toy Bear")
    plush = {"7": Product(product_id="7", title="Plush Toy Bear!")}
    args = (lu, recommending("7"), plush.get, LexicalSimilarity())
    assert not score(*args).solved
    assert score(*args, options=PARITY).solved


@pytest.mark.parametrize(
    ("answer", "title", "holds"),
    [
        ("Lu", "Plush bear", False),
        ("Lu", "The LU biscuit", True),
        ("Two", "Two-tone hat", True),
        ("six", "sixty hats", False),
        ("6.", "Pack of 6 hats", True),
        ("6.", "Pack of 16 hats", False),
        ("1977 ", "Poster 1977", True),
        ("牛", "牛肉干", True),
        ("牛肉", "鲜牛肉干", True),
        ("牛干", "牛肉干", False),
        ("El Greco", "greco el", False),
        ("El Greco", "Print: EL-GRECO!", True),
        ("Mona Lisa", "Mona the Lisa", False),
        ("Café", "cafe noir", True),
        ("violin", "Violins", False),
        ("!", "anything!", False),
    ],
)
def test_an_answer_counts_as_whole_words(answer: str, title: str, holds: bool) -> None:
    assert named(answer, title) is holds


@given(st.text(), st.text(), st.text())
def test_an_answer_is_named_where_it_stands_between_spaces(before: str, answer: str, after: str) -> None:
    assert named(answer, f"{before} {answer} {after}") == bool(words(answer))


@given(st.text(min_size=1), st.text())
def test_whole_words_are_found_by_the_original_rule_too(answer: str, title: str) -> None:
    """But for accents, spaces and punctuation, which it does not see through."""
    if named(answer, title) and answer.isascii() and answer.isalnum() and title.isascii():
        assert mentioned(answer, Product(product_id="1", title=title))


@pytest.mark.parametrize("answer", [6, "6", 6.0, True])
def test_an_answer_may_be_a_number(answer: object) -> None:
    assert read_answer(problem(answer)).knowledge == str(answer)


def test_the_intended_attempt_solves() -> None:
    assert score(problem(), intended_attempt(problem()), CATALOG.get, LexicalSimilarity()).solved


def test_only_the_first_product_counts_and_only_of_the_last_recommendation() -> None:
    assert outcome("1,5").solved
    assert not outcome("5,1").solved
    assert outcome("5", "1").solved


@pytest.mark.parametrize(("ids", "rule"), [((), "recommended"), (("nothing",), "in the catalog")])
def test_nothing_to_look_at_says_why(ids: tuple[str, ...], rule: str) -> None:
    found = outcome(*ids)
    assert (found.solved, [f.rule for f in found.failures]) == (False, [f"target 1.{rule}"])
    assert "rule" not in found.components


@pytest.mark.parametrize(
    "broken",
    [
        problem(None),
        problem(""),
        problem("?!"),
        problem(title=None),
        problem(title=["a", "b"]),
        problem(product_id=""),
        problem().model_copy(update={"answer": {"Knowledge_Attribute": "Violin"}}),
        problem().model_copy(update={"answer": {"reward": [1], "Knowledge_Attribute": "Violin"}}),
    ],
)
def test_a_problem_without_a_target_or_an_answer_is_refused_not_failed(broken: AnsweredProblem) -> None:
    with pytest.raises(UnscorableProblem):
        outcome("1", of=broken)


def test_shoppingbenchs_threshold_is_part_of_its_rules() -> None:
    target = {"reward": {"product_id": "1", "title": ["x"]}}
    shown = Problem(problem_id="p", environment="shopping", category="product", query="q")
    one = AnsweredProblem(problem=shown, answer=target, leak_keys=())
    table = PrecomputedSimilarity({"Violin||x": 0.6})
    assert not score(one, recommending("4"), CATALOG.get, table).solved
    assert score(one, recommending("4"), CATALOG.get, table, options=PARITY).solved
