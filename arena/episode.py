"""One agent, one problem, once: sandbox and recorder side by side, then the verdict.

The one thing to know: the verdict is drawn from the recorder's events alone. The sandbox's `Exit` may only
explain why there is no answer; an agent that crashed or ran out of a limit *after* a valid answer is scored
on that answer. Whatever failed on our side gives `Unscored`, never a zero.

An agent from elsewhere may give its answer to no tool and return it instead. If nothing else answered, it is
read out of that claim, and the record says so (`claimed_answer` of its last event).
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from arena.recorder.budget import Budget
from arena.recorder.server import EndReason, Recorder
from arena.recorder.upstream import Model
from arena.sandbox.sandbox import Exit, Job, Limits, Sandbox
from arena.verdict import Failed, Solved, Unscored, Verdict
from problems.environment import Attempt, AttemptStep, Environment, Outcome, ToolUse
from problems.problem import AnsweredProblem
from storage.events import Event
from storage.trajectory import ModelTurn, Turn, claimed_answer, turns

SANDBOX_GRACE_S = 60.0
"""For the sandbox to set up and tear down, beyond the agent's own wall limit."""
SCORING_TIMEOUT_S = 60.0
MAX_REASON = 200


@dataclass(frozen=True, slots=True)
class EpisodeRecord:
    """What is kept of an episode. `wall_s` is the agent's time, without set-up and teardown."""

    verdict: Verdict
    events: tuple[Event, ...]
    wall_s: float
    exit: Exit


async def play(
    *,
    episode_id: str,
    source: bytes,
    problem: AnsweredProblem,
    environment: Environment,
    sandbox: Sandbox,
    limits: Limits,
    slot: int,
    upstream: Model,
    budget: Budget,
    seed: int,
    socket_root: Path,
    dead_key: str | None = None,
) -> EpisodeRecord:
    """Play one episode to its verdict.

    With `dead_key`, the miner's own key is known not to serve, and why: every model call is answered so, and
    the agent is scored on what it does without a model. `slot` is this place's number in the sandbox: one
    episode at a time each. Raises OSError or ValueError when the socket cannot be made under `socket_root`
    (a path of at most 81 bytes): nothing was played then.
    """
    timed = replace(budget, wall_s=limits.wall_s)
    recorder = Recorder(episode_id, problem.problem, environment, upstream, timed, seed)
    if dead_key is not None:
        recorder.refuse_key(dead_key)
    with _socket_folder(socket_root) as folder:
        socket = folder / "s"
        async with recorder.serving(socket):
            ended = await _run(sandbox, Job(source, socket), limits, slot, recorder.finished)
    answer = await _claimed(recorder, environment)
    reason, detail = _end(recorder, ended)
    recorder.close(reason, detail, answer)
    events = recorder.log.events
    verdict = await _verdict(recorder, ended, problem, environment, events)
    return EpisodeRecord(verdict, events, ended.wall_s, ended)


def attempt(events: Sequence[Event]) -> Attempt:
    """What the agent did, as the environment scores it. A call not understood has no arguments.

    An answer that the agent only claimed is its last step, with nothing beside it.
    """
    steps = [_step(turn) for turn in turns(events)]
    claimed = claimed_answer(events)
    if claimed is not None:
        steps.append(AttemptStep((ToolUse(claimed.name, claimed.arguments),), timestamp_ms=claimed.at_ms))
    return Attempt(tuple(steps))


def _step(turn: Turn) -> AttemptStep:
    uses = tuple(
        ToolUse(record.name, record.arguments or {}, ok=record.error is None) for record in turn.tool_records
    )
    if isinstance(turn, ModelTurn):
        return AttemptStep(uses, reasoning=turn.reasoning, response=turn.text, timestamp_ms=turn.at_ms)
    return AttemptStep(uses, timestamp_ms=turn.at_ms)


@contextmanager
def _socket_folder(root: Path) -> Iterator[Path]:
    """A folder of its own under `root`, that any uid may enter if it knows the name, and none can list."""
    root.mkdir(parents=True, exist_ok=True)
    root.chmod(0o711)
    folder = root / secrets.token_hex(8)
    folder.mkdir()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(sandbox: Sandbox, job: Job, limits: Limits, slot: int, stop: asyncio.Event) -> Exit:
    try:
        async with asyncio.timeout(limits.wall_s + SANDBOX_GRACE_S):
            return await sandbox.run(job, limits, slot=slot, stop=stop)
    except TimeoutError:
        return _setup_error("the sandbox did not come back in time")
    except Exception as error:  # noqa: BLE001 - a sandbox that raises must not become the agent's fault
        return _setup_error(f"{type(error).__name__}: {error}")


def _setup_error(detail: str) -> Exit:
    return Exit(
        reason="setup_error",
        return_code=None,
        wall_s=0.0,
        cpu_s=0.0,
        peak_memory_bytes=0,
        stdout="",
        stderr="",
        leftovers=0,
        detail=detail[:MAX_REASON],
    )


def _end(recorder: Recorder, ended: Exit) -> tuple[EndReason, str]:
    if recorder.fault is not None:
        return "fault", recorder.fault
    if ended.reason == "setup_error":
        return "setup_error", ended.detail
    if recorder.finished.is_set():
        return "final", ""
    if _crashed(ended):
        return "crashed", _last_words(ended)
    return ended.reason, ended.detail


async def _claimed(recorder: Recorder, environment: Environment) -> ToolUse | None:
    """The answer in what the agent returned, if no call of a tool gave one. Failing to read it is ours."""
    if recorder.claim is None or recorder.fault is not None:
        return None
    try:
        async with asyncio.timeout(SCORING_TIMEOUT_S):
            return await asyncio.to_thread(_answer_in, recorder.claim, recorder.log.events, environment)
    except TimeoutError:
        recorder.fail(f"reading the claim took longer than {SCORING_TIMEOUT_S:g} s")
    except Exception as error:  # noqa: BLE001 - an environment that raises is ours to repair
        recorder.fail(f"reading the claim: {type(error).__name__}: {str(error)[:MAX_REASON]}")
    return None


def _answer_in(claim: object, events: Sequence[Event], environment: Environment) -> ToolUse | None:
    return None if environment.answered(attempt(events)) else environment.claimed(claim)


async def _verdict(
    recorder: Recorder,
    ended: Exit,
    problem: AnsweredProblem,
    environment: Environment,
    events: Sequence[Event],
) -> Verdict:
    if recorder.fault is not None:
        return Unscored(recorder.fault)
    if ended.reason == "setup_error":
        return Unscored(f"sandbox: {ended.detail}")
    if not recorder.began:
        return Unscored(
            f"the agent was never started: {_last_words(ended) if _crashed(ended) else ended.reason}"
        )
    try:
        async with asyncio.timeout(SCORING_TIMEOUT_S):
            answered, outcome = await asyncio.to_thread(_score, problem, environment, events)
    except TimeoutError:
        return Unscored(f"scoring took longer than {SCORING_TIMEOUT_S:g} s")
    except Exception as error:  # noqa: BLE001 - a scorer that raises is ours to repair, not the agent's to pay
        return Unscored(f"scoring: {type(error).__name__}: {str(error)[:MAX_REASON]}")
    if not answered and recorder.provider_fault is not None:
        return Unscored(f"provider: {recorder.provider_fault}")
    if outcome.solved:
        return Solved(outcome)
    return Failed(_failed_rule(outcome) if answered else _why_no_answer(recorder, ended), outcome)


def _score(
    problem: AnsweredProblem, environment: Environment, events: Sequence[Event]
) -> tuple[bool, Outcome]:
    made = attempt(events)
    return environment.answered(made), environment.score(problem, made)


def _failed_rule(outcome: Outcome) -> str:
    return outcome.failures[0].rule if outcome.failures else "not solved"


def _why_no_answer(recorder: Recorder, ended: Exit) -> str:
    if recorder.key_refused is not None:
        return f"own key refused: {recorder.key_refused}"
    if _crashed(ended):
        return f"crashed: {_last_words(ended)}"
    if ended.reason not in ("exit", "stopped"):
        return ended.reason
    return "budget" if recorder.exhausted else "no answer"


def _crashed(ended: Exit) -> bool:
    return ended.reason == "exit" and ended.return_code != 0


def _last_words(ended: Exit) -> str:
    """The last line of stderr, where Python names the exception. The agent's words, and kept short."""
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    if not lines:
        return f"exit code {ended.return_code}"
    return "".join(letter for letter in lines[-1].strip() if letter.isprintable())[:MAX_REASON]
