from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from judge.evidence import Evidence, EvidenceCall, EvidenceStep, NoEvidence, evidence
from storage.events import EventLog
from tests.judge.episodes import CLOSING, COMPARISON, MUGS, PLAN, QUERY, Episode


def _good(**identity: Any) -> Evidence:
    episode = Episode(**identity).search().view("Two of these fit: 5113553158 and 4797792514.")
    return evidence(episode.think(COMPARISON).recommend(CLOSING).events)


def test_episodes_that_differ_only_in_identity_and_time_give_the_same_bytes() -> None:
    one = _good(problem_id="p1", episode_id="e1", begin_ms=1_700_000_000_000, hotkey="5F1", model="a", seed=3)
    other = _good(
        problem_id="p2", episode_id="e2", begin_ms=1_800_000_000_000, hotkey="5F2", model="b", seed=4
    )
    assert one.to_bytes() == other.to_bytes()
    assert one.evidence_hash == other.evidence_hash


def test_how_an_episode_ended_does_not_reach_the_judge() -> None:
    episode = Episode().search()
    before = evidence(episode.events).to_bytes()
    log = EventLog()
    for event in episode.events:
        log.append(event.kind, event.body, at_ms=event.at_ms)
    log.append("ended", {"reason": "crashed", "detail": "", "claim": {"solved": True}}, at_ms=1)
    assert evidence(log.events).to_bytes() == before


def test_evidence_has_no_field_for_identity_or_outcome() -> None:
    names = {f.name for kind in (Evidence, EvidenceStep, EvidenceCall) for f in fields(kind)}
    assert names == {
        "query", "tools", "steps", "position", "by_model", "reasoning", "text", "calls", "prompt_tokens",
        "completion_tokens", "name", "arguments", "emitted", "result", "error",
    }  # fmt: skip


def test_a_change_in_what_was_reasoned_changes_the_hash() -> None:
    assert evidence(Episode().search(PLAN).events).evidence_hash != (
        evidence(Episode().search(PLAN + "!").events).evidence_hash
    )


def test_steps_hold_reasoning_calls_and_results_in_order() -> None:
    seen = evidence(Episode().search().tool("find_product", {"q": "cup"}, []).events)
    model, script = seen.steps
    assert seen.query == QUERY
    assert len(seen.tools) == 4
    assert (model.by_model, model.reasoning, model.calls[0].result) == (True, PLAN, MUGS)
    assert (script.by_model, script.calls[0].emitted) == (False, False)
    assert model.position < model.calls[0].position < script.calls[0].position


def test_events_without_a_start_are_no_evidence() -> None:
    with pytest.raises(NoEvidence, match="started"):
        evidence(())
