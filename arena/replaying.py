"""One stored trace looked at again: do its events prove what is stored of it, and do the rules agree? Pure.

An episode that we could not score is a claim too: an answer that the rules can look at, without a failure of
ours in the record, must have been scored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from arena.episode import attempt
from arena.findings import shown
from problems.environment import Environment
from problems.problem import AnsweredProblem, canonical_json
from storage.events import BrokenChain, Event, verify
from storage.traces import StoredTrace
from storage.trajectory import ModelTurn, counts, end_reason, to_atif, tokens, turns

_OURS = ("fault", "setup_error")
"""Ends of an episode that are never the agent's."""
_SCORING = "scoring"
"""How the reason of an episode begins whose answer our scorer could not take."""


def record_differences(trace: StoredTrace, problem: AnsweredProblem, seed: int) -> list[str]:
    """What is stored of a trace that its events do not say; empty when they prove all of it."""
    try:
        head = verify(trace.events)
        trajectory = to_atif(trace.events).to_json_dict()
    except (BrokenChain, KeyError, TypeError) as error:
        return [f"chain: {error}"]
    found = counts(trace.events)
    usages = [turn.usage for turn in turns(trace.events) if isinstance(turn, ModelTurn)]
    started = next((e.body for e in trace.events if e.kind == "started"), {})
    proven: dict[str, tuple[object, object]] = {
        "chain head": (trace.chain_head, head),
        "episode": (str(trace.episode_id), started.get("episode_id")),
        "problem": (problem.problem.model_dump(mode="json"), started.get("problem")),
        "seed": (seed, started.get("seed")),
        "model-emitted calls": (trace.model_emitted, found.model_emitted),
        "scripted calls": (trace.scripted, found.scripted),
        "prompt tokens": (trace.prompt_tokens, sum(tokens(u, "prompt_tokens") for u in usages)),
        "completion tokens": (trace.completion_tokens, sum(tokens(u, "completion_tokens") for u in usages)),
    }
    wrong = [
        f"{what}: stored {shown(stored)}, recorded {shown(recorded)}"
        for what, (stored, recorded) in proven.items()
        if stored != recorded
    ]
    if canonical_json(trajectory) != canonical_json(trace.trajectory):
        wrong.append("trajectory: it is not the one that the events make")
    return wrong


def outcome_differences(trace: StoredTrace, problem: AnsweredProblem, environment: Environment) -> list[str]:
    """What the rules say of a trace's events that is not what is stored; empty when it is the same."""
    if end_reason(trace.events) in _OURS:
        return _verdict("unscored", trace)
    if trace.verdict == "unscored" and not _began(trace.events):
        return []
    made = attempt(trace.events)
    if not environment.answered(made) and _provider_failed(trace.events):
        return _verdict("unscored", trace)
    if trace.verdict == "unscored" and (trace.reason or "").startswith(_SCORING):
        return []
    outcome = environment.score(problem, made)
    wrong = _verdict("solved" if outcome.solved else "failed", trace)
    if trace.verdict != "unscored" and canonical_json(trace.outcome) != canonical_json(asdict(outcome)):
        wrong.append("outcome: the rules say something else of the recorded attempt")
    return wrong


def _verdict(expected: str, trace: StoredTrace) -> list[str]:
    return [] if trace.verdict == expected else [f"verdict: stored {trace.verdict}, by the record {expected}"]


def _began(events: Sequence[Event]) -> bool:
    """Whether the record shows the agent alive, or holds nothing against it."""
    return any(e.kind in ("model_call", "tool_call", "refused") for e in events)


def _provider_failed(events: Sequence[Event]) -> bool:
    return any(e.kind == "ended" and e.body.get("provider_fault") for e in events)
