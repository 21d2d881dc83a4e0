from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.recorder.budget import Budget, BudgetSpent, Grant, Meter, Price, Unpriced


@given(st.lists(st.tuples(st.booleans(), st.none() | st.integers(1, 300)), max_size=40))
def test_calls_made_at_the_same_time_cannot_together_exceed_the_completion_budget(
    steps: list[tuple[bool, int | None]],
) -> None:
    meter = Meter(Budget(completion_tokens=500, completion_tokens_per_call=200))
    granted: list[Grant] = []
    for start, wanted in steps:
        if start:
            with suppress(BudgetSpent):
                granted.append(meter.start_model_call(wanted))
        elif granted:
            grant = granted.pop(0)
            meter.end_model_call(grant, prompt_tokens=1, completion_tokens=grant.completion_tokens)
        assert all(1 <= grant.completion_tokens <= 200 for grant in granted)
        assert meter.completion_tokens + sum(grant.completion_tokens for grant in granted) <= 500
    assert meter.exhausted <= {"completion_tokens"}


def test_a_call_that_the_provider_lost_costs_nothing() -> None:
    meter = Meter(Budget(model_calls=1))
    meter.refund_model_call(meter.start_model_call(None))
    meter.start_model_call(None)
    with pytest.raises(BudgetSpent, match="1 model calls"):
        meter.start_model_call(None)


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="tool_calls"):
        Budget(tool_calls=0)


PRICE = Price(prompt=0.15, completion=0.6)


def test_a_price_is_exact_in_nanodollars_and_rounded_up() -> None:
    assert PRICE.nanodollars(1_000_000, 0) == 150_000_000
    assert PRICE.nanodollars(1_000, 1_000) == 750_000
    assert Price(prompt=0.0001, completion=0).nanodollars(1, 0) == 1
    assert Price(prompt=1, completion=0).affords(0) is None


@pytest.mark.parametrize("prompt", [-1.0, float("nan"), float("inf")])
def test_a_price_that_is_no_number_of_dollars_is_refused(prompt: float) -> None:
    with pytest.raises(ValueError, match="dollars a million tokens"):
        Price(prompt=prompt, completion=1.0)


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 3_000), st.integers(0, 5_000)), max_size=40),
    st.floats(0.0001, 0.01),
)
def test_calls_made_at_the_same_time_cannot_together_spend_more_money_than_there_is(
    steps: list[tuple[bool, int, int]], usd: float
) -> None:
    meter = Meter(Budget(usd=usd, model_calls=1_000))
    open_calls: list[tuple[Grant, int]] = []
    for start, wanted, prompt in steps:
        if start:
            with suppress(BudgetSpent):
                grant = meter.start_model_call(wanted, prompt_tokens=prompt, price=PRICE)
                open_calls.append((grant, prompt))
        elif open_calls:
            grant, prompt = open_calls.pop(0)
            tokens = grant.completion_tokens
            meter.end_model_call(grant, prompt_tokens=prompt, completion_tokens=tokens, price=PRICE)
        reserved = sum(grant.nanodollars for grant, _ in open_calls)
        assert (meter.nanodollars + reserved) <= usd * 1e9 + 1
    assert meter.exhausted <= {"usd"}


def test_a_model_without_a_price_cannot_be_played_for_money() -> None:
    with pytest.raises(Unpriced, match=r"no price for b: set it, .* in model\.prices"):
        Budget(usd=1.0).check_prices(("a", "b"), {"a": PRICE})
    Budget().check_prices(("a",), {})


def test_time_beyond_the_wall_is_spent() -> None:
    meter = Meter(Budget(wall_s=5.0))
    meter.check_wall(4.9)
    with pytest.raises(BudgetSpent, match="5 seconds"):
        meter.check_wall(5.1)
    Meter(Budget()).check_wall(1e9)
