"""What a race reads from the store and writes to it, as typed values.

Everything here runs inside a transaction that the caller opened. The rows of a race are only ever added to or
moved forward; nothing here deletes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import case, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from arena.agreeing import together
from arena.rules import Rules
from arena.scoring import EpisodeResult
from arena.settlement import Finisher, RaceInputs
from storage.tables import Entrant, Episode, Judged, Race, Reign, Submission, Trace


@dataclass(frozen=True, slots=True)
class PhaseResults:
    """The results of a phase, or how many of its episodes are still to be played or judged."""

    results: tuple[EpisodeResult, ...]
    unplayed: int
    unjudged: int
    """Scored, but the judge has not been asked yet."""

    @property
    def complete(self) -> bool:
        """Whether every episode is done and the judge has said what it can."""
        return not self.unplayed and not self.unjudged

    @property
    def unanswered(self) -> int:
        """How many the judge was asked about and could not answer."""
        return sum(r.verdict != "unscored" and r.grade is None for r in self.results)


@dataclass(frozen=True, slots=True)
class Standing:
    """An entrant with what its place in a race depends on."""

    entrant: Entrant
    submission: Submission


async def locked(session: AsyncSession, race_id: UUID) -> Race:
    """The race, with its row locked until the transaction ends. Raises LookupError when there is none."""
    race = await session.scalar(select(Race).where(Race.id == race_id).with_for_update())
    if race is None:
        raise LookupError(f"there is no race {race_id}")
    return race


async def standings(session: AsyncSession, race_id: UUID) -> list[Standing]:
    """All entrants in order of priority: the earliest submission first."""
    rows = await session.execute(
        select(Entrant, Submission)
        .join(Submission, Submission.id == Entrant.submission_id)
        .options(defer(Submission.source, raiseload=True))
        .where(Entrant.race_id == race_id)
        .order_by(Submission.submitted_at, Submission.source_sha256, Submission.id)
    )
    return [Standing(entrant, submission) for entrant, submission in rows]


async def phase_results(session: AsyncSession, race_id: UUID, phase: str) -> PhaseResults:
    """The results of a phase, in order of play, with the grades of the race's own judge and rubric.

    What other judges, or other rubrics, say of its traces changes nothing, whenever they say it, nor what its
    own judge says when the race is over.
    """
    grade_in_time = case((Judged.late, None), else_=Judged.grade)
    newest_answer_first = func.row_number().over(
        partition_by=Judged.trace_id,
        order_by=(grade_in_time.is_(None), Judged.judged_at.desc(), Judged.id),
    )
    judgement = (
        select(Judged.trace_id, grade_in_time.label("grade"), newest_answer_first.label("place"))
        .join(Trace, Trace.id == Judged.trace_id)
        .join(Episode, Episode.id == Trace.episode_id)
        .join(Race, Race.id == Episode.race_id)
        .where(Episode.race_id == race_id, Episode.phase == phase)
        .where(or_(Race.judge.is_(None), (Judged.judge == Race.judge) & (Judged.rubric == Race.rubric)))
        .subquery()
    )
    rows = await session.execute(
        select(
            Episode,
            Trace.id,
            Trace.verdict,
            Trace.reason,
            Trace.model_emitted,
            Trace.scripted,
            Trace.prompt_tokens,
            Trace.completion_tokens,
            judgement.c.trace_id,
            judgement.c.grade,
        )
        .outerjoin(Trace, (Trace.episode_id == Episode.id) & Trace.final)
        .outerjoin(judgement, (judgement.c.trace_id == Trace.id) & (judgement.c.place == 1))
        .where(Episode.race_id == race_id, Episode.phase == phase)
        .order_by(Episode.position, Episode.repeat, Episode.submission_id)
    )
    results: list[EpisodeResult] = []
    unplayed = unjudged = 0
    for episode, trace_id, verdict, reason, emitted, scripted, prompt, completion, judged, grade in rows:
        if trace_id is None or episode.state != "done":
            unplayed += 1
            continue
        if judged is None and verdict != "unscored":
            unjudged += 1
            continue
        results.append(
            EpisodeResult(
                agent=str(episode.submission_id),
                problem_id=episode.problem_id,
                repeat=episode.repeat,
                verdict=verdict,
                reason=reason if verdict == "unscored" else None,
                grade=grade,
                model_emitted=emitted,
                scripted=scripted,
                prompt_tokens=prompt,
                completion_tokens=completion,
            )
        )
    return PhaseResults(tuple(results), unplayed, unjudged)


async def queue_episodes(
    session: AsyncSession,
    race: Race,
    *,
    phase: str,
    suite_id: str,
    problem_ids: Sequence[str],
    submissions: Iterable[UUID],
    repeats: int,
    now: datetime,
) -> None:
    """Queue an episode for every submission, problem and repeat that has none yet.

    Order of play goes by problem, so that all entrants meet a problem at about the same time and a provider's
    bad hour falls on all of them.
    """
    rows = [
        {
            "race_id": race.id,
            "phase": phase,
            "submission_id": submission,
            "suite_id": suite_id,
            "problem_id": problem_id,
            "repeat": repeat,
            "seed": episode_seed(race.number, phase, problem_id, repeat),
            "position": position,
            "not_before": now,
        }
        for position, problem_id in enumerate(problem_ids)
        for repeat in range(repeats)
        for submission in submissions
    ]
    for begin in range(0, len(rows), 1000):  # PostgreSQL takes 32,767 parameters a statement
        await session.execute(
            insert(Episode)
            .values(rows[begin : begin + 1000])
            .on_conflict_do_nothing(
                index_elements=["race_id", "phase", "submission_id", "problem_id", "repeat"]
            )
        )


def episode_seed(race_number: int, phase: str, problem_id: str, repeat: int) -> int:
    """The seed of an episode: the same for all entrants of a race, so that comparisons stay paired.

    Below 2^53, so that it survives every JSON reader.
    """
    name = f"{race_number}/{phase}/{problem_id}/{repeat}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big") >> 11


async def reigning(session: AsyncSession) -> UUID | None:
    """Who holds the top now: the last race's promotion, if there ever was one. Who was superseded as a copy
    since holds nothing.
    """
    return await session.scalar(
        select(Reign.submission_id)
        .join(Race, Race.id == Reign.race_id)
        .join(Submission, Submission.id == Reign.submission_id)
        .where(Submission.state != "refused")
        .order_by(Race.number.desc())
        .limit(1)
    )


async def champion_since(session: AsyncSession, race: Race) -> datetime | None:
    """When the race's champion came to the top: the boundary of the race that crowned it.

    A founding champion was crowned by nobody; its time counts from the boundary of its first race.
    """
    crowned = await session.scalar(
        select(Reign.began_at)
        .join(Race, Race.id == Reign.race_id)
        .where(Reign.submission_id == race.champion_id, Race.number < race.number)
        .order_by(Race.number.desc())
        .limit(1)
    )
    if crowned is not None:
        return crowned
    return await session.scalar(
        select(func.min(Race.boundary_at)).where(Race.champion_id == race.champion_id)
    )


async def race_inputs(session: AsyncSession, race: Race, credits: Mapping[str, int]) -> RaceInputs:
    """Everything that the settlement of a played and judged race depends on, read from the store."""
    if race.boundary_at is None or race.draw_block_hash is None:
        raise RuntimeError(f"race {race.number} was not drawn")
    since = None if race.champion_id is None else await champion_since(session, race)
    age_h = 0.0 if since is None else (race.boundary_at - since).total_seconds() / 3600
    present = [s for s in await standings(session, race.id) if s.entrant.role is not None]
    finishers = tuple(
        Finisher(
            agent=str(s.submission.id),
            hotkey=s.submission.hotkey,
            name=s.submission.name,
            champion=s.entrant.role == "champion",
        )
        for s in present
    )
    return RaceInputs(
        number=race.number,
        rules=Rules.load(race.rules),
        seed=race.draw_block_hash,
        entrants=finishers,
        champion_age_h=max(0.0, age_h),
        results=(await phase_results(session, race.id, "race")).results,
        credits=dict(credits),
        rules_hash=race.rules_hash,
        sources={str(s.submission.id): s.submission.source_sha256 for s in present},
        together=await together(session, race),
    )
