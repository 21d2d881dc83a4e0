"""Who made a tool call, and that every log is a valid trajectory."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from typing import Any

import atif
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.events import BrokenChain, EventLog
from storage.trajectory import (
    ModelTurn,
    ScriptedTurn,
    counts,
    end_reason,
    to_atif,
    tool_records,
    turns,
)
from storage.turns import split_reply
from tests.storage.episodes import QUERY, Recording, driven, said

ASK = [said("user", QUERY)]


def test_an_emitted_call_is_the_models_and_any_other_the_scripts() -> None:
    recording = Recording()
    recording.tool("find", {"q": "lamp"})
    recording.model(ASK, emitted=[("a", "find", {"q": "lamp"})])
    recording.tool("find", {"q": "lamp"})
    recording.tool("find", {"q": "lamp"})
    recording.tool("view", {"q": "lamp"})
    recording.tool("find", {"q": "other"})
    assert [r.emitted for r in tool_records(recording.events)] == [False, True, False, False, False]
    assert counts(recording.events).agency_fraction == 0.2


def test_the_oldest_unused_emission_is_used_first() -> None:
    recording = Recording()
    recording.model(ASK, emitted=[("a", "find", {"q": 1})])
    recording.model(ASK, emitted=[("b", "find", {"q": 1}), ("c", "find", {"q": 2})])
    for q in (2, 1, 1, 1):
        recording.tool("find", {"q": q})
    found = tool_records(recording.events)
    assert [r.call_id for r in found] == ["c", "a", "b", f"scripted-{found[-1].seq}"]
    first, second, scripted = turns(recording.events)
    assert [r.call_id for r in first.tool_records] == ["a"]
    assert [r.call_id for r in second.tool_records] == ["c", "b"]
    assert isinstance(scripted, ScriptedTurn)


@pytest.mark.parametrize(("emitted", "executed"), [(1, True), (0, False), (1, 1.0), ([1], [True])])
def test_arguments_that_only_python_calls_equal_do_not_match(emitted: Any, executed: Any) -> None:
    recording = Recording()
    recording.model(ASK, emitted=[("a", "find", {"q": emitted})])
    recording.tool("find", {"q": executed})
    assert counts(recording.events).scripted == 1


def test_a_call_nobody_understood_is_the_models_if_the_model_emitted_one_such() -> None:
    recording = Recording()
    recording.model(ASK, emitted=[("a", "find", None)])
    recording.tool("find", None, error="not JSON")
    recording.tool("find", None, error="not JSON")
    assert [r.emitted for r in tool_records(recording.events)] == [True, False]


def test_a_failed_model_call_emits_nothing_and_is_no_turn() -> None:
    recording = Recording()
    recording.failed_model(ASK)
    recording.tool("find", {})
    (turn,) = turns(recording.events)
    assert isinstance(turn, ScriptedTurn)


def test_no_calls_give_an_agency_of_zero() -> None:
    assert counts(Recording().events).agency_fraction == 0.0


@pytest.mark.parametrize(
    ("message", "reasoning", "text"),
    [
        ({"content": "<think>a</think> b"}, "a", "b"),
        ({"content": "a</think>b"}, "a", "b"),
        ({"content": "b<think>a"}, "a", "b"),
        ({"content": "<think>a</think>b<think>c</think>"}, "a\n\nc", "b"),
        ({"content": 'b<tool_call>{"name": "f"}</tool_call>'}, "", "b"),
        ({"content": "<think>a <tool_call>x</tool_call></think>b"}, "a <tool_call>x</tool_call>", "b"),
        ({"content": "b", "reasoning_content": "a"}, "a", "b"),
        ({"content": "b", "reasoning": "a"}, "a", "b"),
        ({"content": "<think>x</think>b", "reasoning_content": "a"}, "a", "b"),
        ({"content": None}, "", ""),
        ({"content": [{"type": "text", "text": "b"}]}, "", "b"),
        ({}, "", ""),
    ],
)
def test_reasoning_and_text_are_told_apart(message: dict[str, Any], reasoning: str, text: str) -> None:
    assert split_reply(message) == (reasoning, text)


def test_a_turn_carries_its_whole_context_and_its_tools() -> None:
    first, second = turns(driven().events)
    assert isinstance(first, ModelTurn)
    assert isinstance(second, ModelTurn)
    assert [m["role"] for m in second.messages] == ["system", "user", "assistant", "tool"]
    assert (first.reasoning, second.text) == ("look first", "It fits.")
    assert second.tools[0]["function"]["name"] == "find"


def test_a_message_that_the_log_does_not_hold_breaks_the_chain() -> None:
    log = EventLog()
    body = {"call_id": "c", "model": "m", "messages": ["absent"], "tools": None, "response": {"message": {}}}
    log.append("model_call", body, at_ms=0)
    with pytest.raises(BrokenChain, match="event 0"):
        turns(log.events)


def test_the_end_reason_is_the_recorders() -> None:
    assert end_reason(driven().events) == "final_call"
    assert end_reason(driven().events[:-1]) == "unfinished"


def test_a_driven_episode_reads_as_a_conversation() -> None:
    found = to_atif(driven().events)
    assert [(s.source, s.llm_call_count) for s in found.steps] == [
        ("system", None),
        ("user", None),
        ("agent", 1),
        ("agent", 1),
    ]
    assert found.steps[2].reasoning_content == "look first"
    assert found.steps[2].observation is not None
    assert found.final_metrics is not None
    assert found.final_metrics.total_prompt_tokens == 20
    assert found.extra is not None
    assert found.extra["tool_calls"] == {"model_emitted": 2, "scripted": 0}
    assert found.extra["chain_head"] == driven().events[-1].hash
    assert found.extra["problem"]["query"] == QUERY


def test_without_a_model_the_query_is_the_user_step_and_every_call_is_a_dispatch() -> None:
    recording = Recording()
    recording.tool("find", {"q": "lamp"})
    steps = to_atif(recording.ended().events).steps
    assert [(s.source, s.llm_call_count) for s in steps] == [("user", None), ("agent", 0)]
    assert steps[0].message == QUERY


def test_what_the_script_tells_the_model_later_is_a_user_step_in_its_place() -> None:
    recording = Recording()
    recording.model(ASK, content="first")
    recording.model([*ASK, said("assistant", "first"), said("user", "go on")], content="second")
    steps = to_atif(recording.events).steps
    assert [(s.source, s.message) for s in steps] == [
        ("user", QUERY),
        ("agent", "first"),
        ("user", "go on"),
        ("agent", "second"),
    ]


def test_an_assistant_message_that_no_model_wrote_is_marked() -> None:
    recording = Recording()
    recording.model([*ASK, said("assistant", "I am sure."), said("user", "so?")])
    steps = to_atif(recording.events).steps
    assert [(s.source, s.llm_call_count) for s in steps[1:]] == [("agent", 0), ("user", None), ("agent", 1)]
    assert steps[1].extra == {"injected": True}


def test_an_emitted_call_that_was_not_executed_is_listed_as_such() -> None:
    recording = Recording()
    recording.model(ASK, emitted=[("a", "find", {"q": 1}), ("a", "find", {"q": 2})])
    recording.tool("find", {"q": 2})
    step = to_atif(recording.events).steps[-1]
    assert step.tool_calls is not None
    assert [(c.tool_call_id, (c.extra or {})["executed"]) for c in step.tool_calls] == [
        ("a", False),
        ("a#2", True),
    ]
    assert step.observation is not None
    assert [r.source_call_id for r in step.observation.results] == ["a#2"]


def test_times_are_iso_8601_in_utc() -> None:
    stamp = to_atif(driven().events).steps[0].timestamp
    assert stamp is not None
    assert stamp.endswith("Z")
    assert datetime.fromisoformat(stamp).utcoffset() is not None


texts = st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
names = st.sampled_from(["find", "view", "terminate"])
arguments = st.none() | st.fixed_dictionaries({"q": st.integers(0, 2)}) | st.dictionaries(texts, values)
contents = st.none() | texts | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": texts}))
roles = st.sampled_from(["system", "developer", "user", "assistant", "tool", "other"])
messages = st.lists(st.fixed_dictionaries({"role": roles}, optional={"content": contents}), max_size=4)
calls = st.lists(st.tuples(st.none() | st.sampled_from(["", "a", "a#2", "b"]), names, arguments), max_size=3)
usages = st.dictionaries(
    st.sampled_from(["prompt_tokens", "completion_tokens", "prompt_tokens_details"]), values, max_size=3
)
replies = st.dictionaries(st.sampled_from(["reasoning_content", "reasoning", "extra"]), values, max_size=2)


@st.composite
def recordings(draw: st.DrawFn) -> Recording:
    recording = Recording()
    for kind in draw(st.lists(st.sampled_from(["model", "failed", "tool", "refused"]), max_size=8)):
        if kind == "model":
            context = draw(messages)
            extra = draw(replies)
            recording.model(context, content=draw(contents), emitted=draw(calls), usage=draw(usages), **extra)
        elif kind == "failed":
            recording.failed_model(draw(messages))
        elif kind == "tool":
            recording.tool(draw(names), draw(arguments), content=draw(values), error=draw(st.none() | texts))
        else:
            recording.refused()
    return recording.ended() if draw(st.booleans()) else recording


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recordings())
def test_every_log_is_a_valid_trajectory_that_shows_every_call_once(recording: Recording) -> None:
    events = recording.events
    document = to_atif(events).to_json_dict()
    found = atif.Trajectory.model_validate(document)
    ids = [call.tool_call_id for step in found.steps for call in step.tool_calls or ()]
    assert len(ids) == len(set(ids))
    executed = tool_records(events)
    shown = [r for step in found.steps if step.observation for r in step.observation.results]
    assert Counter(r.extra["seq"] for r in shown if r.extra) == Counter(r.seq for r in executed)
    by_script = [s for s in found.steps if s.llm_call_count == 0 and s.tool_calls]
    assert len(by_script) == counts(events).scripted
    assert sum(s.llm_call_count == 1 for s in found.steps) == sum(
        isinstance(turn, ModelTurn) for turn in turns(events)
    )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recordings())
def test_no_emission_is_used_twice_and_none_before_it_was_made(recording: Recording) -> None:
    emitted_at: dict[int, int] = {}
    for turn in turns(recording.events):
        if isinstance(turn, ModelTurn):
            assert len(turn.tool_records) <= len(turn.emitted)
            for record in turn.tool_records:
                assert record.emitted
                assert record.seq > turn.seq
                assert record.seq not in emitted_at
                emitted_at[record.seq] = turn.seq
                assert any(
                    (call["name"], call["arguments"]) == (record.name, record.arguments)
                    for call in turn.emitted
                )
    assert len(emitted_at) == counts(recording.events).model_emitted
