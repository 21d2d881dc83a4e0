"""What a race under chaos came to: its settlement, its counts, and what became of each episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select

from arena.verification import Means, verify_race
from distill.filters import FilterConfig, accepts
from problems.problem import canonical_json
from storage.database import Database
from storage.tables import Episode, Race, Submission, Suite, Trace
from tests.arena.ledger import Ledger
from tests.end_to_end.chaos import Chaos

Verdicts = Mapping[tuple[str, str, str, int], tuple[str, str | None]]
"""The final verdict and its reason, by hotkey, phase, problem and repeat."""


@dataclass(frozen=True, slots=True)
class Books:
    """Read from the store of a race that is over."""

    settlement: bytes
    counts: Mapping[str, int]
    verdicts: Verdicts
    excuses: frozenset[str]
    """Why attempts were unscored."""


async def books(chaos: Chaos) -> Books:
    """The books of a settled race; every step of verifying must hold."""
    async with Database.open(chaos.url, chaos.folder) as database:
        async with database.session() as session:
            race = (await session.scalars(select(Race))).one()
            suites = (await session.scalars(select(Suite.id))).all()
            counts = {
                "episodes": await session.scalar(select(func.count()).select_from(Episode)),
                "leases": await session.scalar(select(func.sum(Episode.fence))),
                "attempts": await session.scalar(select(func.sum(Episode.attempts))),
                "traces": await session.scalar(select(func.count()).select_from(Trace)),
                "final": await session.scalar(select(func.count()).where(Trace.final)),
            }
            finals = await session.execute(
                select(Submission.hotkey, Episode.phase, Episode.problem_id, Episode.repeat)
                .add_columns(Trace.verdict, Trace.reason)
                .join(Episode, Episode.submission_id == Submission.id)
                .join(Trace, Trace.episode_id == Episode.id)
                .where(Trace.final)
            )
            verdicts = {(row[0], row[1], row[2], row[3]): (row[4], row[5]) for row in finals}
            unscored = await session.scalars(
                select(Trace.reason).where(Trace.verdict == "unscored").distinct()
            )
            excuses = frozenset(str(reason) for reason in unscored)
        assert race.state == "settled", race.void_reason
        means = Means(
            accepts_into_corpus=lambda trace: accepts(trace, FilterConfig()),
            environments=dict.fromkeys(suites, Ledger()),
            regrade=lambda judge, rubric: None,
        )
        differing = [s for s in await verify_race(database, race.number, means) if s.status == "differs"]
        assert differing == []
    told = {name: int(count or 0) for name, count in counts.items()}
    return Books(canonical_json(race.settlement), told, verdicts, excuses)
