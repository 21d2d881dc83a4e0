"""Standings for people: how each agent did, outcome and judge apart.

Scores of a race are shown only once it has settled: a miner who could watch them could tell which problems
were drawn from how the others fare. Every mean says over how many problems it is, and how many were left out.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from arena.race_records import phase_results, standings
from arena.rules import Rules
from arena.scoring import AgentScore, score_agents
from storage.tables import Race

QUALIFYING_DECIDED = ("drawing", "racing", "judging", "settled")
PHASE_OVER: dict[str, tuple[str, ...]] = {
    "qualifying": (*QUALIFYING_DECIDED, "void"),
    "race": ("judging", "settled", "void"),
}
"""The states of a race in which all episodes of a phase are done, or will never be."""


class Row(BaseModel):
    """One agent. Means are in [0, 1] over the `n` problems that counted."""

    model_config = ConfigDict(frozen=True)

    rank: int
    agent: str
    name: str
    hotkey: str
    champion: bool
    """Whether it held the top when the race began."""
    solved: float
    judge: float
    agency: float
    score: float
    n: int
    left_out: int
    prompt_tokens: int
    completion_tokens: int


class Board(BaseModel):
    """The standings of one phase of one race, best first."""

    model_config = ConfigDict(frozen=True)

    race: int
    phase: Literal["qualifying", "race"]
    rows: tuple[Row, ...]
    withdrawn: dict[str, str]
    """Agents without a score, with the reason."""


async def race_board(session: AsyncSession, number: int | None = None) -> Board | None:
    """The board of a settled race; the latest one's with None. None when there is none."""
    query = select(Race).where(Race.state == "settled").order_by(Race.number.desc()).limit(1)
    race = await session.scalar(query if number is None else query.where(Race.number == number))
    if race is None or race.settlement is None:
        return None
    agents: list[dict[str, Any]] = race.settlement["agents"]
    shown = [{name: agent[name] for name in Row.model_fields if name != "rank"} for agent in agents]
    withdrawn = {entry["agent"]: entry["reason"] for entry in race.settlement["withdrawn"]}
    return Board(race=race.number, phase="race", rows=_ranked(shown), withdrawn=withdrawn)


async def qualifying_board(session: AsyncSession, number: int | None = None) -> Board | None:
    """The board of a race's qualifying, once it is over; the latest such race's with None."""
    query = select(Race).where(Race.state.in_(QUALIFYING_DECIDED)).order_by(Race.number.desc()).limit(1)
    race = await session.scalar(query if number is None else query.where(Race.number == number))
    if race is None:
        return None
    entrants = {str(s.submission.id): s for s in await standings(session, race.id)}
    found = await phase_results(session, race.id, "qualifying")
    scores = score_agents(found.results, list(entrants), Rules.load(race.rules))
    shown = [
        _shown(score, len(scores.counted), len(scores.left_out))
        | {
            "name": entrants[agent].submission.name,
            "hotkey": entrants[agent].submission.hotkey,
            "champion": entrants[agent].entrant.role == "champion",
        }
        for agent, score in scores.agents.items()
    ]
    return Board(race=race.number, phase="qualifying", rows=_ranked(shown), withdrawn=dict(scores.withdrawn))


def _shown(score: AgentScore, n: int, left_out: int) -> dict[str, Any]:
    return {
        "agent": score.agent,
        "solved": score.solved,
        "judge": score.judge,
        "agency": score.agency,
        "score": score.score,
        "n": n,
        "left_out": left_out,
        "prompt_tokens": score.prompt_tokens,
        "completion_tokens": score.completion_tokens,
    }


def _ranked(agents: list[dict[str, Any]]) -> tuple[Row, ...]:
    """Best first; equal scores share a rank."""
    ordered = sorted(agents, key=lambda agent: (-agent["score"], agent["name"], agent["agent"]))
    rows: list[Row] = []
    for position, agent in enumerate(ordered, start=1):
        tied = bool(rows) and rows[-1].score == agent["score"]
        rows.append(Row(rank=rows[-1].rank if tied else position, **agent))
    return tuple(rows)
