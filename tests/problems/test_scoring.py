"""Outcome rules, one by one, where golden rows cannot show them alone."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError

from problems.environment import Attempt, AttemptStep, ToolUse
from problems.shopping.product import Product
from problems.shopping.scoring import PriceRange, UnscorableProblem, score
from problems.shopping.similarity import LexicalSimilarity, PrecomputedSimilarity, UnknownPair
from problems.shopping.synthesis import answered
from problems.shopping.vouchers import Voucher, total


def attempt(*ids: str, ok: bool = True) -> Attempt:
    uses = [ToolUse("recommend_product", {"product_ids": each}, ok=ok) for each in ids]
    return Attempt(tuple(AttemptStep((use,), reasoning="r", timestamp_ms=1.0) for use in uses))


CATALOG = {
    p.product_id: p
    for p in (
        Product(
            product_id="1", shop_id="a", title="red wool hat", price=50, attributes={"material": ("wool",)}
        ),
        Product(
            product_id="2", shop_id="a", title="red wool hat", price=80, sku_options={"1": {"size": "m"}}
        ),
        Product(product_id="3", shop_id="b", title="blue cap", price=20, service=("COD",)),
    )
}
HAT = {"product_id": "1", "title": ["red wool hat"], "attributes": [{"material": ["wool"]}]}
CAP = {"product_id": "3", "title": ["blue cap"], "service": ["COD"]}


def outcome(category: str, answer: dict[str, Any], done: Attempt) -> Any:
    return score(answered(category, "q", answer, ["1"]), done, CATALOG.get, LexicalSimilarity())


def test_failures_name_the_rule_with_what_it_wanted_and_found() -> None:
    result = outcome("product", {"reward": HAT}, attempt("2"))
    assert not result.solved
    assert result.components["rule"] == 0.5
    (failure,) = result.failures
    assert (failure.rule, failure.wanted, failure.found) == ("target 1.sku & attrs", {"material": "wool"}, [])


def test_a_title_that_is_too_different_is_shown_with_its_similarity() -> None:
    (title, *_) = outcome("product", {"reward": HAT}, attempt("3")).failures
    assert title.wanted == {"title": "red wool hat", "at least": 0.7}
    assert title.found["title"] == "blue cap"
    assert 0 < title.found["similarity"] < 0.7


def test_products_are_held_against_targets_by_position() -> None:
    assert outcome("shop", {"reward": [HAT, CAP]}, attempt("1,3")).components["gt"] == 1
    assert outcome("shop", {"reward": [HAT, CAP]}, attempt("3,1")).components["gt"] == 0


def test_surplus_products_change_nothing() -> None:
    assert (
        outcome("shop", {"reward": [HAT, CAP]}, attempt("1,3,2")).components
        == outcome("shop", {"reward": [HAT, CAP]}, attempt("1,3")).components
    )


def test_one_product_cannot_stand_for_two_targets() -> None:
    found = outcome("shop", {"reward": [HAT, HAT]}, attempt("1,1"))
    assert found.components["product"] == 0.5
    assert [f.rule for f in found.failures] == ["target 2.recommended", "shop"]


@pytest.mark.parametrize("written", ["1, 3", " 1,3 ", "1,,3", "1,3,1"])
def test_spaces_and_repetitions_in_ids_change_nothing(written: str) -> None:
    assert outcome("shop", {"reward": [HAT, CAP]}, attempt(written)).components["gt"] == 1


def test_a_key_of_another_name_is_another_key() -> None:
    red = {"product_id": "9", "title": [], "attributes": [{"fabric": ["wool"]}]}
    assert outcome("product", {"reward": red}, attempt("1")).components["rule"] == 0


def test_the_scorer_names_its_rules_and_its_similarity() -> None:
    assert outcome("product", {"reward": HAT}, attempt("1")).scorer == "shopping-rules-1+lexical-1@0.7"


def test_a_recommendation_that_was_refused_does_not_count() -> None:
    done = Attempt((*attempt("1").steps, *attempt("2", ok=False).steps))
    assert outcome("product", {"reward": HAT}, done).solved


def test_products_of_two_shops_do_not_solve_a_shop_problem() -> None:
    result = outcome("shop", {"reward": [HAT, CAP]}, attempt("1,3"))
    assert result.components["rule"] == 1
    assert result.components["shop"] == 0
    assert [f.rule for f in result.failures] == ["shop"]


@pytest.mark.parametrize("category", ["web", "unheard of"])
def test_a_category_without_rules_is_refused_not_failed(category: str) -> None:
    with pytest.raises(UnscorableProblem, match=category):
        outcome(category, {"reward": HAT}, attempt("1"))


@pytest.mark.parametrize("answer", [{}, {"reward": []}, {"reward": {"title": ["x"]}}])
def test_a_malformed_answer_is_refused_not_failed(answer: dict[str, Any]) -> None:
    with pytest.raises(UnscorableProblem):
        outcome("product", answer, attempt("1"))


def test_a_missing_similarity_is_an_error_not_a_miss() -> None:
    with pytest.raises(UnknownPair, match="blue cap"):
        PrecomputedSimilarity({}).similarity("blue cap", "red hat")


def test_money_is_summed_as_written() -> None:
    assert total([0.1, 0.2]) == Decimal("0.3")


def test_a_basket_that_costs_the_budget_to_the_cent_is_affordable() -> None:
    voucher = Voucher(
        voucher_type="platform", discount_type="percentage", threshold=1, discount=0.1, cap=9, budget=27.27
    )
    assert voucher.affordable(total([10.1, 20.2]), 2)


@pytest.mark.parametrize(
    ("kind", "shops", "price", "fits"),
    [
        ("platform", 2, "110", True),
        ("shop", 1, "110", True),
        ("shop", 2, "110", False),
        ("shop", 1, "99", True),
        ("platform", 1, "121", False),
    ],
)
def test_a_voucher_counts_only_where_its_conditions_hold(
    kind: Any, shops: int, price: str, fits: bool
) -> None:
    voucher = Voucher(voucher_type=kind, discount_type="fixed", threshold=100, face_value=10, budget=100)
    assert voucher.affordable(Decimal(price), shops) is fits


@pytest.mark.parametrize("bounds", [10, [10], [1, 2, 3], "10", None])
def test_a_price_range_without_a_pair_of_bounds_is_refused_as_invalid(bounds: object) -> None:
    with pytest.raises(ValidationError, match="pair"):
        PriceRange.model_validate({"less than": bounds})
