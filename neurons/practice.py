"""An agent tried out on this machine as a validator would play it: `arena miner run-local`.

The one thing to know: nothing is played here in another way. Screening, sandbox, recorder, rules and grounded
judge are the validator's own, by the same classes; what is missing is the chain, the queue and the store, so
that an episode that could not be scored is reported and not tried again. The agent sees no answers here.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import re
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from arena.episode import EpisodeRecord
from arena.player import SandboxedPlayer
from arena.queue import Leased
from arena.race_records import episode_seed
from arena.recorder.budget import Price
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.sandbox import Sandbox, SandboxUnavailable, SlotQuarantined
from arena.screening import Prohibited, Refused, Screener
from arena.scripted_shopper.child import ShopperServer
from arena.scripted_shopper.server import MODELS
from arena.source_policy import REASONS
from arena.verdict import row_of
from arena.worker import Assignment
from judge.grounded import GroundedJudge
from judge.judgement import Judgement, Unjudged
from judge.worker import JUDGE_DEADLINE_S, judged_or_reason
from neurons.host import provider
from neurons.practice_problems import PHASE, PracticeOptions, chosen_problems, practice_world
from neurons.settings import Settings, SettingsError
from neurons.trace_files import write_trace
from problems.problem import AnsweredProblem
from storage.judgements import StoredJudgement
from storage.traces import StoredTrace, what_events_say

HERE = "this machine"
"""Stands where the record of a race has a hotkey."""
_MAX_NAME = 80


class WouldBeRefused(Exception):
    """A validator would not take this file; the message says why, line by line."""


@dataclass(frozen=True, slots=True)
class Practised:
    """One problem that was played. `usd` is None when the model has no price."""

    trace: StoredTrace
    usd: float | None
    stderr: str
    file: Path


@dataclass(frozen=True, slots=True)
class Practice:
    """All that was played, in the order of the problems. `model` answered agents that named none."""

    options: PracticeOptions
    rules: Rules
    suite_id: str
    sandbox: str
    model: str
    scripted_model: bool
    judge: str
    played: tuple[Practised, ...]


async def practise(
    options: PracticeOptions,
    settings: Settings,
    sandbox: Sandbox,
    *,
    socket_root: Path,
    first_slot: int,
    say: Callable[[str], None],
    done: Callable[[int, int], None],
) -> Practice:
    """Screen the agent and play it. `say` is told what is being done, `done` how many problems of how many.

    Raises SettingsError, WouldBeRefused, ScreeningUnavailable, SandboxUnavailable, ShopperNotStarted, and
    what preparing problems raises.
    """
    source = await asyncio.to_thread(agent_source, options.agent)
    say("screening the agent")
    await screen(source, sandbox, settings.rules)
    say("preparing problems")
    environment, suite = await asyncio.to_thread(practice_world, options, settings)
    problems = chosen_problems(suite, options)
    say("connecting to the model")
    async with practice_model(settings) as upstream:
        player = SandboxedPlayer(
            {suite.suite_id: environment}, sandbox, upstream, socket_root=socket_root, first_slot=first_slot
        )
        one = _Episodes(options, settings.rules, source, suite.suite_id, player)
        options.out.mkdir(parents=True, exist_ok=True)
        played = await _at_once(one.play, problems, settings.sandbox.slots, done)
        return Practice(
            options,
            settings.rules,
            suite.suite_id,
            sandbox.name,
            upstream.models[0],
            settings.model.base_url is None,
            one.judge.name,
            played,
        )


async def _at_once(
    play: Callable[[int, AnsweredProblem, int], Awaitable[Practised]],
    problems: Sequence[AnsweredProblem],
    slots: int,
    done: Callable[[int, int], None],
) -> tuple[Practised, ...]:
    """Play all problems, as many at once as there are slots. Raises SandboxUnavailable."""
    free: asyncio.Queue[int] = asyncio.Queue()
    for slot in range(slots):
        free.put_nowait(slot)
    finished = 0

    async def in_a_slot(number: int, problem: AnsweredProblem) -> Practised:
        nonlocal finished
        slot = await free.get()
        try:
            played = await play(number, problem, slot)
        finally:
            free.put_nowait(slot)
        finished += 1
        done(finished, len(problems))
        return played

    done(0, len(problems))
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(in_a_slot(n, p)) for n, p in enumerate(problems, start=1)]
    except* SandboxUnavailable as gone:
        raise gone.exceptions[0] from None
    return tuple(task.result() for task in tasks)


def agent_source(file: Path) -> bytes:
    """The agent's source. Raises SettingsError when there is none."""
    try:
        return file.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"{file} cannot be read ({error.strerror}): give the agent's source file"
        ) from None


async def screen(source: bytes, sandbox: Sandbox, rules: Rules) -> None:
    """Screen as a validator does, all findings told. Raises WouldBeRefused, ScreeningUnavailable.

    Whether it is a copy of somebody else's agent only a validator can tell.
    """
    try:
        await Screener(sandbox, rules).screen(source)
    except Refused as refused:
        found = refused.findings if isinstance(refused, Prohibited) else []
        told = [f"line {f.line}: {f.construct} {REASONS[f.rule]} (rule {f.rule})" for f in found]
        why = "; ".join(told) or str(refused)
        raise WouldBeRefused(f"a validator would refuse this file ({refused.code}): {why}") from None


@contextlib.asynccontextmanager
async def practice_model(settings: Settings) -> AsyncIterator[Upstream]:
    """The endpoint of the settings; where none is set, the scripted shopper. Raises ShopperNotStarted."""
    if settings.model.base_url is not None:
        async with provider(settings.model, settings.rules.budget) as upstream:
            yield upstream
        return
    shopper = ShopperServer()
    try:
        await asyncio.to_thread(shopper.start)
        free = dict.fromkeys(MODELS, Price(0.0, 0.0))
        upstream = Upstream(shopper.base_url, None, tuple(MODELS), prices=free)
        try:
            yield upstream
        finally:
            await upstream.aclose()
    finally:
        await asyncio.to_thread(shopper.stop)


class _Episodes:
    """Plays, judges and writes down one problem after the other."""

    def __init__(
        self,
        options: PracticeOptions,
        rules: Rules,
        source: bytes,
        suite_id: str,
        player: SandboxedPlayer,
    ) -> None:
        self._options = options
        self._rules = rules
        self._source = source
        self._suite_id = suite_id
        self._player = player
        self._nowhere = uuid.UUID(bytes=hashlib.sha256(source).digest()[:16])
        self.judge = GroundedJudge()

    async def play(self, number: int, problem: AnsweredProblem, slot: int) -> Practised:
        leased = self._leased(problem)
        try:
            record = await self._player.play(Assignment(leased, self._source, problem, self._rules), slot)
        except SlotQuarantined as error:
            raise SandboxUnavailable(f"{error}; end what is left there, and try again") from error
        said = await judged_or_reason(self.judge, record.events, deadline_s=JUDGE_DEADLINE_S)
        trace = self._trace(leased, problem, record, said)
        name = re.sub(r"[^A-Za-z0-9._-]", "_", problem.problem.problem_id)[:_MAX_NAME]
        file = self._options.out / f"{number:02}-{name}.json"
        await asyncio.to_thread(write_trace, trace, file)
        usd: float | None = trace.trajectory["final_metrics"].get("total_cost_usd")
        return Practised(trace, usd, record.exit.stderr, file)

    def _leased(self, problem: AnsweredProblem) -> Leased:
        problem_id = problem.problem.problem_id
        return Leased(
            episode_id=uuid.uuid4(),
            fence=1,
            attempt=1,
            race_id=self._nowhere,
            phase=PHASE,
            submission_id=self._nowhere,
            suite_id=self._suite_id,
            problem_id=problem_id,
            repeat=0,
            seed=episode_seed(self._options.seed, PHASE, problem_id, 0),
        )

    def _trace(
        self,
        leased: Leased,
        problem: AnsweredProblem,
        record: EpisodeRecord,
        said: Judgement | Unjudged,
    ) -> StoredTrace:
        read, row = what_events_say(record.events), row_of(record.verdict)
        public = problem.problem
        return StoredTrace(
            trace_id=uuid.uuid4(),
            episode_id=leased.episode_id,
            attempt=leased.attempt,
            final=True,
            race_id=leased.race_id,
            race_number=0,
            phase=leased.phase,
            submission_id=leased.submission_id,
            hotkey=HERE,
            agent_name=self._options.agent.name,
            suite_id=leased.suite_id,
            problem_id=leased.problem_id,
            category=public.category,
            cluster_id="",
            problem=public.model_dump(mode="json"),
            verdict=row.verdict,
            reason=row.reason,
            outcome=row.outcome,
            events=record.events,
            chain_head=read.chain_head,
            trajectory=read.trajectory,
            model_emitted=read.model_emitted,
            scripted=read.scripted,
            prompt_tokens=read.prompt_tokens,
            completion_tokens=read.completion_tokens,
            wall_s=record.wall_s,
            recorded_at=datetime.now(UTC),
            judgement=None if row.verdict == "unscored" else self._judgement(said),
        )

    def _judgement(self, said: Judgement | Unjudged) -> StoredJudgement:
        if isinstance(said, Unjudged):
            return StoredJudgement(
                self.judge.name, self.judge.rubric, None, None, None, (), (), 0.0, said.reason
            )
        return StoredJudgement(
            judge=said.judge,
            rubric=said.rubric,
            grade=said.grade,
            gate=said.gate,
            rationale=said.rationale,
            citations=tuple(citation.to_json() for citation in said.citations),
            votes=said.votes,
            disagreement=said.disagreement,
            unjudged=None,
            abstentions=tuple(abstention.to_json() for abstention in said.abstentions),
            contradicted=said.contradicted,
        )
