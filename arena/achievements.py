"""What each agent of a race achieved, outcome alone: the attempts that `problems.report` makes figures of.

Judge and agency do not enter here; those are in the standings. An episode that was not played to an end is
left out like one that we could not score, and counted.
"""

from __future__ import annotations

from typing import Any, Literal

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from problems.environment import Outcome
from problems.report import Attempted, same_scorer
from storage.errors import StorageError
from storage.tables import Episode, Race, Submission, SuiteProblem, Trace


class NoSuchRace(StorageError):
    """There is no race of this number."""


async def attempts_of(
    session: AsyncSession, number: int, phase: Literal["qualifying", "race"]
) -> dict[str, list[Attempted]]:
    """The attempts of a phase by agent ("name hotkey"), agents in order of name.

    Raises NoSuchRace, and MixedScorers when not all were scored in one way.
    """
    race_id = await session.scalar(select(Race.id).where(Race.number == number))
    if race_id is None:
        raise NoSuchRace(f"there is no race {number} in this store")
    rows = await session.execute(
        select(Submission.name, Submission.hotkey, Episode.problem_id, SuiteProblem.category, Trace.outcome)
        .select_from(Episode)
        .join(Submission, Submission.id == Episode.submission_id)
        .join(
            SuiteProblem,
            (SuiteProblem.suite_id == Episode.suite_id) & (SuiteProblem.problem_id == Episode.problem_id),
        )
        .outerjoin(Trace, (Trace.episode_id == Episode.id) & Trace.final)
        .where(Episode.race_id == race_id, Episode.phase == phase)
        .order_by(Submission.name, Submission.hotkey, Episode.position, Episode.repeat)
    )
    found: dict[str, list[Attempted]] = {}
    for name, hotkey, problem_id, category, outcome in rows:
        found.setdefault(f"{name} {hotkey}", []).append(Attempted(problem_id, category, _outcome(outcome)))
    same_scorer(a.outcome.scorer for attempts in found.values() for a in attempts if a.outcome is not None)
    return found


def _outcome(stored: dict[str, Any] | None) -> Outcome | None:
    if stored is None:
        return None
    return Outcome(stored["components"], stored["solved"], stored["scorer"])
