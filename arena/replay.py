"""An episode played again from its record: the model says what it said then, the tools answer now.

The agent runs in the sandbox as it did, under the same rules and seed. The one thing to know: with the same
catalog, and an agent that goes by nothing but what it is told, the new trajectory has the same bytes as the
old one, but for times. Where it has not, the first step that differs says what changed: what the agent asked,
or what a tool answered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy.ext.asyncio import AsyncSession

from arena.episode import play
from arena.findings import differences
from arena.recorder.budget import Budget, Price
from arena.recorder.chat import GivenUsage, Reply
from arena.recorder.llm import NOT_ASKED, OWN_KEY_REFUSED, PROVIDER_FAILED, PROVIDER_REJECTED
from arena.recorder.upstream import Asking, KeyRefused, ProviderFault, RequestRejected
from arena.rules import Rules
from arena.sandbox.sandbox import Limits, Sandbox
from arena.suites import answered
from arena.verdict import Verdict
from problems.environment import Environment
from problems.problem import AnsweredProblem, canonical_json
from storage.database import Database
from storage.errors import StorageError
from storage.events import Event, blobs, digest
from storage.tables import Race, Submission, SuiteProblem
from storage.traces import StoredTrace, find
from storage.trajectory import to_atif

_TIMES = frozenset({"timestamp", "elapsed_ms", "chain_head", "trajectory_id"})
"""What of a trajectory depends on when it was recorded: times, and hashes over them."""
_OF_THE_START = ("episode_id", "problem", "tools", "model", "seed")
_OF_THE_END = ("reason", "claim", "exhausted", "fault", "provider_fault", "key_refused")


class Strayed(ProviderFault):
    """The agent asked the model something that it did not ask then."""


@dataclass(frozen=True, slots=True)
class _Recorded:
    """One model call of the record that a provider was asked."""

    asked: str
    asked_without_seed: str
    body: Mapping[str, Any]


class RecordedModel:
    """Answers each model call with what was answered then to the same one. A `recorder.upstream.Model`.

    Calls that were made at the same time may come in another order. What was not asked then is a `Strayed`.
    """

    def __init__(self, events: Sequence[Event], prices: Mapping[str, Price] | None = None) -> None:
        self.prices: Mapping[str, Price] = dict(prices or {})
        stored = blobs(events)
        started = next((e.body for e in events if e.kind == "started"), {})
        calls = [e.body for e in events if e.kind == "model_call" and _reached_a_provider(e.body)]
        self._waiting = [_recorded(body, stored) for body in calls]
        default = str(started.get("model"))
        self.models = tuple(dict.fromkeys([default, *(str(body["model"]) for body in calls)]))

    def resolve(self, model: str) -> str | None:
        """As then, as far as the record shows what there was."""
        if model == "default":
            return self.models[0]
        return model if model in self.models else None

    async def complete(self, payload: dict[str, Any], asking: Asking) -> Reply:
        """What was answered. Raises what was raised then, and Strayed."""
        asked, without_seed = _asked(payload), _asked(payload, seed=False)
        found = next((r for r in self._waiting if r.asked == asked), None) or next(
            (r for r in self._waiting if r.asked_without_seed == without_seed), None
        )
        if found is None:
            raise Strayed("the record holds no answer to this: the agent did not ask it then")
        self._waiting.remove(found)
        error = found.body.get("error")
        if error is None:
            return _reply(found.body["response"])
        if asking.say is not None and "said" in error:
            said = {k: v for k, v in error["said"].items() if k != "role" and isinstance(v, str)}
            asking.said = bool(said)
            asking.say(said)
        raise _failure(error)


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first step that differs; `then` or `now` is None where the other went on longer."""

    step: int
    """Counted from 1."""
    then: dict[str, Any] | None
    now: dict[str, Any] | None

    def where(self) -> list[str]:
        """What differs, by path."""
        return differences(self.then or {}, self.now or {}, words=("then", "now"))

    def to_json(self) -> dict[str, Any]:
        """As a JSON object."""
        return {"step": self.step, "then": self.then, "now": self.now, "where": self.where()}


@dataclass(frozen=True, slots=True)
class Replay:
    """What came of playing an episode again."""

    steps: int
    """Of the record."""
    identical: bool
    """Whether the trajectories have the same bytes, but for times."""
    divergence: Divergence | None
    then: str
    """The verdict then: solved, failed or unscored."""
    now: Verdict
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class Playable:
    """A stored episode with all that it takes to play it again."""

    trace: StoredTrace
    source: bytes
    problem: AnsweredProblem
    rules: Rules


async def playable(database: Database, wanted: UUID, *, attempt: int | None = None) -> Playable:
    """The episode or trace `wanted`. Raises TraceNotFound, and StorageError when a part of it is gone."""
    trace = await find(database, wanted, attempt=attempt)
    async with database.session() as session:
        return await _playable(session, trace)


async def replay(
    recorded: Playable,
    environment: Environment,
    sandbox: Sandbox,
    *,
    slot: int,
    socket_root: Path,
    prices: Mapping[str, Price] | None = None,
) -> Replay:
    """Play an episode again from its record. Raises OSError or ValueError as `episode.play` does."""
    then = recorded.trace.events
    started = next((e.body for e in then if e.kind == "started"), {})
    model = RecordedModel(then, prices)
    budget = Budget(**recorded.rules.budget.model_dump())
    if not all(name in model.prices for name in model.models):
        budget = replace(budget, usd=None)
    refused = next((e.body.get("key_refused") for e in then if e.kind == "ended"), None)
    record = await play(
        episode_id=str(recorded.trace.episode_id),
        source=recorded.source,
        problem=recorded.problem,
        environment=environment,
        sandbox=sandbox,
        limits=Limits(**recorded.rules.sandbox.model_dump()),
        slot=slot,
        upstream=model,
        budget=budget,
        seed=int(started.get("seed", 0)),
        socket_root=socket_root,
        dead_key=refused,
    )
    return Replay(
        steps=len(steps(then)),
        identical=timeless(then) == timeless(record.events),
        divergence=first_divergence(then, record.events),
        then=recorded.trace.verdict,
        now=record.verdict,
        events=record.events,
    )


def first_divergence(then: Sequence[Event], now: Sequence[Event]) -> Divergence | None:
    """Where two records of an episode begin to differ in more than times; None when they do not. Pure."""
    before, after = steps(then), steps(now)
    for number in range(max(len(before), len(after))):
        old = before[number] if number < len(before) else None
        new = after[number] if number < len(after) else None
        if old is None or new is None or canonical_json(old) != canonical_json(new):
            return Divergence(number + 1, old, new)
    return None


def timeless(events: Sequence[Event]) -> bytes:
    """The trajectory of the events, as canonical JSON without times. Pure."""
    return canonical_json(_without_times(to_atif(events).to_json_dict()))


def steps(events: Sequence[Event]) -> list[dict[str, Any]]:
    """The events as what happened, without times, limits and hashes. Pure."""
    stored = blobs(events)
    return [_step(event, stored) for event in events if event.kind != "blob"]


def _step(event: Event, stored: Mapping[str, Any]) -> dict[str, Any]:
    body: Mapping[str, Any] = event.body
    if event.kind == "started":
        body = {key: body.get(key) for key in _OF_THE_START}
    elif event.kind == "ended":
        body = {key: body.get(key) for key in _OF_THE_END}
    elif event.kind == "model_call":
        body = {**body, "messages": [stored.get(name) for name in body["messages"]]}
        body["tools"] = stored.get(body["tools"]) if body["tools"] else None
        if "response" in body:
            usage = {k: v for k, v in body["response"].get("usage", {}).items() if k != "usd"}
            body["response"] = {**body["response"], "usage": usage}
    return {"kind": event.kind, **{key: value for key, value in body.items() if key not in _TIMES}}


def _without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if k not in _TIMES}
    return [_without_times(item) for item in value] if isinstance(value, list) else value


async def _playable(session: AsyncSession, trace: StoredTrace) -> Playable:
    submission = await session.get(Submission, trace.submission_id)
    row = await session.get(SuiteProblem, (trace.suite_id, trace.problem_id))
    race = await session.get(Race, trace.race_id)
    if submission is None or row is None or race is None:
        raise StorageError(f"episode {trace.episode_id} refers to a submission or problem that is not stored")
    return Playable(trace, submission.source, answered(row), Rules.load(race.rules))


def _reached_a_provider(body: Mapping[str, Any]) -> bool:
    error = body.get("error")
    if error is None:
        return "response" in body
    said = str(error["message"])
    asked = said.startswith((PROVIDER_FAILED, PROVIDER_REJECTED, OWN_KEY_REFUSED))
    return asked and not said.startswith(PROVIDER_FAILED + NOT_ASKED)


def _recorded(body: Mapping[str, Any], stored: Mapping[str, Any]) -> _Recorded:
    payload: dict[str, Any] = {
        "model": body["model"],
        "messages": [stored[name] for name in body["messages"]],
    }
    if body["tools"]:
        payload["tools"] = stored[body["tools"]]
    payload |= body["params"]
    return _Recorded(_asked(payload), _asked(payload, seed=False), body)


def _asked(payload: Mapping[str, Any], *, seed: bool = True) -> str:
    """What identifies a request to a model. The seed may differ for calls that were made at the same time."""
    left_out = {"stream"} if seed else {"stream", "seed"}
    return digest({key: value for key, value in payload.items() if key not in left_out})


def _reply(response: Mapping[str, Any]) -> Reply:
    counted = {k: v for k, v in response["usage"].items() if k not in ("estimated", "usd")}
    return Reply(
        message=dict(response["message"]),
        finish_reason=response["finish_reason"],
        usage=None if response["usage"].get("estimated") else GivenUsage(**counted),
        logprobs=response.get("logprobs"),
        provider=response.get("provider", {}),
    )


def _failure(error: Mapping[str, Any]) -> Exception:
    message = str(error["message"])
    if message.startswith(PROVIDER_FAILED):
        return ProviderFault(message.removeprefix(PROVIDER_FAILED))
    if message.startswith(OWN_KEY_REFUSED):
        return KeyRefused(message.removeprefix(OWN_KEY_REFUSED), 402)
    return RequestRejected(message.removeprefix(PROVIDER_REJECTED), int(error["status"]))
