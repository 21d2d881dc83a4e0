from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.recorder.budget import Budget, BudgetSpent, Meter


@given(st.lists(st.tuples(st.booleans(), st.none() | st.integers(1, 300)), max_size=40))
def test_calls_made_at_the_same_time_cannot_together_exceed_the_completion_budget(
    steps: list[tuple[bool, int | None]],
) -> None:
    meter = Meter(Budget(completion_tokens=500, completion_tokens_per_call=200))
    granted: list[int] = []
    for start, wanted in steps:
        if start:
            with suppress(BudgetSpent):
                granted.append(meter.start_model_call(wanted))
        elif granted:
            tokens = granted.pop(0)
            meter.end_model_call(tokens, prompt_tokens=1, completion_tokens=tokens)
        assert all(1 <= tokens <= 200 for tokens in granted)
        assert meter.completion_tokens + sum(granted) <= 500
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
