"""Who is in a race: entering it, what entrants are shown, and who qualifies.

Everything here runs inside a transaction in which the caller holds the race's row.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from arena.race_records import PhaseResults, Standing, queue_episodes
from arena.rules import Rules
from arena.scoring import Scores, score_agents
from storage.tables import Entrant, Exposure, Race, Submission, SuiteProblem

QUALIFYING = "qualifying"
RACE = "race"
"""The two phases of episodes."""


async def candidates(session: AsyncSession, submissions: Sequence[UUID] | None) -> Sequence[Submission]:
    """Accepted submissions that were not withdrawn, those chosen or all, the latest first."""
    accepted = (
        select(Submission)
        .options(defer(Submission.source, raiseload=True))
        .where(Submission.state == "accepted", Submission.withdrawn_at.is_(None))
    )
    if submissions is not None:
        chosen = accepted.where(Submission.id.in_(submissions)).order_by(
            Submission.submitted_at.desc(), Submission.id
        )
    else:
        chosen = accepted.order_by(Submission.submitted_at.desc(), Submission.id)
    return (await session.scalars(chosen)).all()


async def add_entrants(
    session: AsyncSession, race: Race, roles: dict[UUID, str | None], now: datetime
) -> None:
    """Add entrants and queue their qualifying."""
    if not roles:
        return
    rules = Rules.load(race.rules)
    session.add_all(Entrant(race_id=race.id, submission_id=s, role=role) for s, role in roles.items())
    await session.flush()
    public = await session.scalars(
        select(SuiteProblem.problem_id)
        .where(SuiteProblem.suite_id == race.public_suite_id)
        .order_by(SuiteProblem.position)
        .limit(rules.public_size)
    )
    problem_ids = public.all()
    await queue_episodes(
        session,
        race,
        phase=QUALIFYING,
        suite_id=race.public_suite_id,
        problem_ids=problem_ids,
        submissions=list(roles),
        repeats=rules.repeats,
        now=now,
    )
    await expose(session, race, race.public_suite_id, problem_ids)


async def expose(session: AsyncSession, race: Race, suite_id: str, problem_ids: Sequence[str]) -> None:
    """Record that agents see these problems in this race."""
    clusters = await session.scalars(
        select(SuiteProblem.cluster_id)
        .distinct()
        .where(SuiteProblem.suite_id == suite_id, SuiteProblem.problem_id.in_(problem_ids))
    )
    rows = [{"race_id": race.id, "cluster_id": cluster} for cluster in clusters]
    if rows:
        await session.execute(insert(Exposure).values(rows).on_conflict_do_nothing())


def qualifying_scores(found: PhaseResults, entrants: Sequence[Standing], rules: Rules) -> Scores:
    """Every entrant's scores on the public suite."""
    agents = [str(s.submission.id) for s in entrants]
    return score_agents(found.results, agents, rules)


def qualify(entrants: Sequence[Standing], scores: Scores, rules: Rules) -> None:
    """Write the qualifying scores, and make challengers of the best who reach the champion's share.

    Who was withdrawn has no score: it cannot be a challenger, and as champion it sets no mark for others.
    """
    chosen = qualified(entrants, scores, rules)
    for standing in entrants:
        standing.entrant.qualifying_score = _score(standing, scores)
        if standing.submission.id in chosen:
            standing.entrant.role = "challenger"


def qualified(entrants: Sequence[Standing], scores: Scores, rules: Rules) -> frozenset[UUID]:
    """The submissions that become challengers. Of stored roles, it looks at the champion's alone."""
    reigning_score = next((_score(s, scores) or 0.0 for s in entrants if s.entrant.role == "champion"), 0.0)
    needed = rules.entry_share * reigning_score
    good = [
        (score, s.submission.id)
        for s in entrants
        if s.entrant.role != "champion" and (score := _score(s, scores)) is not None and score >= needed
    ]
    good.sort(key=lambda entry: -entry[0])  # stable: of equal scores the earlier submission enters
    return frozenset(submission for _, submission in good[: rules.max_challengers])


def _score(standing: Standing, scores: Scores) -> float | None:
    found = scores.agents.get(str(standing.submission.id))
    return None if found is None else found.score
