from __future__ import annotations

from dataclasses import replace

import pytest

from distill.filters import FILTERS, Drop, FilterConfig, Funnel, accepts, drop
from storage.traces import StoredTrace
from tests.distill.shop import Shopper, traces

CONFIG = FilterConfig(min_grade=0.8)


def _scripted() -> StoredTrace:
    shopper = Shopper(0)
    shopper.tool("find_product", {"q": "x"}, {"q": "x"}, [])
    shopper.tool("terminate", {"status": "success"}, {"status": "success"}, "ended")
    return shopper.trace()


def _subtask() -> StoredTrace:
    shopper = Shopper(0)
    shopper.tool("find_product", {"q": "x"}, {"q": "x"}, [])
    return shopper.shop().trace()


def _idle() -> StoredTrace:
    shopper = Shopper(0)
    shopper.model_call({"role": "assistant", "content": "Hello."}, [])
    return shopper.trace()


def _forged() -> StoredTrace:
    trace = traces(1)[0]
    event = trace.events[-2]
    return replace(
        trace, events=(*trace.events[:-2], replace(event, body={**event.body, "x": 1}), trace.events[-1])
    )


def _refused() -> StoredTrace:
    return Shopper(0).step("find_product", {"q": "x"}, "no", error="the index is empty").trace()


GOOD = traces(1)[0]


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (_scripted(), Drop("agentic", "only scripted tool calls")),
        (_subtask(), Drop("agentic", "some scripted tool calls")),
        (_idle(), Drop("agentic", "no tool call")),
        (_forged(), Drop("complete", "broken chain")),
        (replace(GOOD, chain_head="0" * 64), Drop("complete", "broken chain")),
        (Shopper(0).shop().trace(end="wall"), Drop("complete", "ended by wall")),
        (Shopper(0).shop().trace(end=None), Drop("complete", "ended by unfinished")),
        (_refused(), Drop("valid", "no clean step")),
        (Shopper(0).shop().trace(verdict="failed"), Drop("solved", "failed")),
        (Shopper(0).shop().trace(verdict="unscored"), Drop("solved", "unscored")),
        (Shopper(0).shop().trace(grade=None), Drop("gated", "unjudged")),
        (replace(GOOD, judgement=None), Drop("gated", "unjudged")),
        (Shopper(0).shop().trace(grade=0.79), Drop("gated", "grade too low")),
        (Shopper(0).shop().trace(grade=0.8), None),
    ],
)
def test_a_trace_is_dropped_by_the_first_filter_it_fails(trace: StoredTrace, expected: Drop | None) -> None:
    assert drop(trace, CONFIG) == expected
    assert accepts(trace, CONFIG) == (expected is None)


def test_a_trace_that_fails_several_filters_counts_for_the_first_in_order() -> None:
    shopper = Shopper(0)
    shopper.tool("find_product", {"q": "x"}, {"q": "x"}, [])
    assert drop(shopper.trace(end="crashed", verdict="failed", grade=0.0), CONFIG) == Drop(
        "agentic", "only scripted tool calls"
    )


def test_the_counts_of_a_funnel_add_up() -> None:
    funnel = Funnel()
    for trace in (GOOD, _scripted(), _subtask(), _refused(), replace(GOOD, judgement=None)):
        funnel.count(drop(trace, CONFIG))
    told = funnel.to_json()
    assert [entry["filter"] for entry in told["filters"]] == list(FILTERS)
    assert told["in"] - sum(entry["dropped"] for entry in told["filters"]) == told["kept"] == 1
    assert told["filters"][0] == {
        "filter": "agentic",
        "in": 5,
        "dropped": 2,
        "reasons": {"only scripted tool calls": 1, "some scripted tool calls": 1},
    }
