"""A race that is over, decided again from what is stored, and compared byte for byte with what was decided.

The one thing to know: every step compares two things that must agree and were stored apart, so that whoever
changes one of them is told where it shows. What the store cannot prove by itself is named with its step: the
block's hash (the chain has it), and what a panel of language models said.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from arena import missed
from arena import verified_inputs as inputs
from arena.agreeing import verified as signed_results_verified
from arena.credits import in_time
from arena.draws import draw_problems
from arena.entries import QUALIFYING, qualifying_scores
from arena.findings import Step, compared, differences, unchecked
from arena.race_records import phase_results, race_inputs, standings
from arena.races import OVER
from arena.replaying import outcome_differences, record_differences
from arena.rules import Rules
from arena.scoring import IncompleteResults
from arena.settlement import Settlement, Voided, settle, void_reason
from arena.verified_inputs import Problems
from problems.environment import Environment
from problems.problem import canonical_json
from problems.rotation import PoolTooSmall
from storage import traces
from storage.database import Database
from storage.errors import StorageError
from storage.events import Event
from storage.tables import AuditEntry, Episode, Race
from storage.traces import StoredTrace, TraceQuery

Regrade = Callable[[Sequence[Event]], float]
"""The grade that a judge gives to what was recorded; equal events get equal grades."""


class NothingToVerify(StorageError):
    """There is no such race, or it is not over."""


@dataclass(frozen=True, slots=True)
class Means:
    """What verifying takes besides the store.

    Environments are by suite id; without a suite's, its outcomes are taken as stored. `regrade` gives the
    judge by name and rubric, or None when it is one that does not always say the same.
    """

    accepts_into_corpus: Callable[[StoredTrace], bool]
    environments: Mapping[str, Environment]
    regrade: Callable[[str | None, str | None], Regrade | None]


async def verify_race(database: Database, number: int, means: Means) -> list[Step]:
    """All steps, in the order of a race. Raises NothingToVerify."""
    async with database.session() as session:
        race = await session.scalar(select(Race).where(Race.number == number))
        if race is None:
            raise NothingToVerify(f"there is no race {number} in this store")
        if race.state not in OVER:
            raise NothingToVerify(f"race {number} is {race.state}: it can be verified when it is over")
        rules = Rules.load(race.rules)
        problems = await inputs.stored_problems(session)
        steps = [
            inputs.rules_hash(race),
            await inputs.sources(session, race),
            *await inputs.suites(session, race, problems),
            await inputs.champion(session, race),
            await inputs.exposure(session, race, problems),
            await inputs.qualifying(session, race, rules),
            await inputs.draw(session, race, rules, problems),
            await inputs.episodes(session, race, rules),
        ]
    traced = await _traces(database, race, means, problems)
    steps += traced.steps(race)
    async with database.session() as session:
        if race.state == "void":
            return [*steps, await _void(session, race, rules)]
        results = await signed_results_verified(session, race)
        steps += [] if results is None else [results]
        return [*steps, *await _settlement(session, race, traced.credits)]


@dataclass
class _Traced:
    """What one pass over all of a race's traces found."""

    checked: int = 0
    records: list[str] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    without_rules: int = 0
    """Traces whose outcome was taken as stored."""
    grades: list[str] = field(default_factory=list)
    regraded: int = 0
    not_regraded: int = 0
    credits: Counter[str] = field(default_factory=Counter)

    def steps(self, race: Race) -> list[Step]:
        scored = self.checked - self.without_rules
        taken = f"{self.without_rules} taken as stored: their catalog is not at hand"
        trusted = f"{self.not_regraded} taken as stored: {race.judge} by {race.rubric} cannot be asked again"
        return [
            compared("records", self.records, f"{self.checked} traces"),
            compared(
                "outcomes", self.outcomes, f"{scored} scored again", *([taken] if self.without_rules else [])
            )
            if scored or not self.without_rules
            else unchecked("outcomes", taken),
            compared("judgements", self.grades, f"{self.regraded} judged again")
            if not self.not_regraded
            else unchecked("judgements", trusted),
        ]


async def _traces(database: Database, race: Race, means: Means, problems: Problems) -> _Traced:
    """Look at every trace of the race again, and count those that the corpus accepts."""
    found = _Traced()
    regrade = means.regrade(race.judge, race.rubric)
    async with database.session() as session:
        rows = await session.execute(select(Episode.id, Episode.seed).where(Episode.race_id == race.id))
        seeds = {row.id: row.seed for row in rows}
    query = TraceQuery(race_id=race.id, final_only=False, judge=race.judge, rubric=race.rubric)
    async for trace in traces.stream(database, query):
        found.checked += 1
        where = f"{trace.phase} of {trace.agent_name!r} on {trace.problem_id}, attempt {trace.attempt}"
        problem = problems[trace.suite_id][trace.problem_id]
        wrong = record_differences(trace, problem, seeds[trace.episode_id])
        found.records += [f"{where}: {difference}" for difference in wrong]
        environment = means.environments.get(trace.suite_id)
        if environment is None:
            found.without_rules += 1
        elif not wrong:
            found.outcomes += [f"{where}: {d}" for d in outcome_differences(trace, problem, environment)]
        if not trace.final:
            continue
        counting = in_time(trace)
        stored = None if counting.judgement is None else counting.judgement.grade
        if stored is not None and regrade is None:
            found.not_regraded += 1
        elif stored is not None and regrade is not None and not wrong:
            found.regraded += 1
            if (grade := regrade(trace.events)) != stored:
                found.grades.append(f"{where}: stored {stored}, judged again {grade}")
        if means.accepts_into_corpus(counting):
            found.credits[trace.hotkey] += 1
    return found


async def _settlement(session: AsyncSession, race: Race, credits: Mapping[str, int]) -> list[Step]:
    """Scores, promotion and payout, each by itself, and then all of it, byte for byte."""
    names = ("problems", "scores", "promotion", "payout", "settlement")
    try:
        settled = settle(await race_inputs(session, race, credits))
    except (IncompleteResults, RuntimeError, ValueError) as error:
        return [compared(name, [f"the race cannot be settled again: {error}"]) for name in names]
    if isinstance(settled, Voided):
        return [compared(name, [f"settled again, the race is void: {settled.reason}"]) for name in names]
    stored, computed = race.settlement or {}, settled.to_json()
    steps = [
        compared(name, differences({k: stored.get(k) for k in keys}, _plain({k: computed[k] for k in keys})))
        for name, keys in (
            ("problems", ("problems",)),
            ("scores", ("agents", "withdrawn")),
            ("promotion", ("promotion",)),
            ("payout", ("payout",)),
        )
    ]
    return [*steps, _bytes(stored, settled)]


def _bytes(stored: Mapping[str, object], settled: Settlement) -> Step:
    before, after = canonical_json(stored), settled.to_bytes()
    if before == after:
        return compared("settlement", [], f"{len(after)} bytes")
    found = differences(stored, _plain(settled.to_json()))
    return compared("settlement", found or ["it is written otherwise"])


def _plain(value: object) -> object:
    """As it is when it comes back from the store."""
    return json.loads(canonical_json(value))


async def _void(session: AsyncSession, race: Race, rules: Rules) -> Step:
    """Why a void race is void."""
    if (race.void_reason or "").startswith(missed.REASON):
        return unchecked("void", "this validator was down; what was drawn is known from the others")
    by_hand = select(AuditEntry.reason).where(AuditEntry.race_id == race.id, AuditEntry.action == "void")
    if (said := await session.scalar(by_hand)) is not None:
        return unchecked("void", f"an operator voided it: {said}")
    reason = await _void_reason(session, race, rules)
    return compared("void", differences(race.void_reason, reason, "reason"))


async def _void_reason(session: AsyncSession, race: Race, rules: Rules) -> str | None:
    entrants = await standings(session, race.id)
    if not entrants:
        return "qualifying: nobody entered"
    try:
        found = await phase_results(session, race.id, QUALIFYING)
        reason = void_reason(qualifying_scores(found, entrants, rules), rules.void_share)
        if reason is not None:
            return f"qualifying: {reason}"
        if race.drawn is None:
            await draw_problems(session, race, block_hash=race.draw_block_hash or "", rules=rules)
            return None
        settled = settle(await race_inputs(session, race, {}))
    except PoolTooSmall as error:
        return f"drawing: {error}"
    except IncompleteResults as error:
        return str(error)
    return settled.reason if isinstance(settled, Voided) else None
