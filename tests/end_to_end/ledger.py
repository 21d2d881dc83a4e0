"""What a demo's store must hold at the end, whatever happened on the way there."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

import atif
from sqlalchemy import func, select

from arena.race_records import race_inputs
from arena.rules import Rules
from arena.settlement import Settlement, settle
from distill.filters import FilterConfig, accepts
from problems.problem import canonical_json
from storage.database import Database
from storage.events import verify
from storage.tables import Entrant, Episode, Race, Submission, SuiteProblem, Trace, WeightSetting
from storage.traces import StoredTrace, TraceQuery, stream

EpisodeKey = tuple[str, UUID, str, int]
"""Phase, submission, problem, repeat."""


@dataclass(frozen=True)
class Books:
    """The store of a demo, read once it has ended."""

    race: Race
    submissions: int
    expected: Counter[EpisodeKey]
    """The episodes that the race's entrants, suites and draw call for, once each."""
    episodes: tuple[Episode, ...]
    traces: tuple[StoredTrace, ...]
    settled_anew: bytes
    """The settlement, computed again from what is stored."""
    weight_settings: int

    def check_every_episode_once(self) -> None:
        """Each that was called for is there once, is done, and has one final trace and its attempts."""
        found = Counter((e.phase, e.submission_id, e.problem_id, e.repeat) for e in self.episodes)
        assert found == self.expected
        assert {e.state for e in self.episodes} == {"done"}
        finals = Counter(t.episode_id for t in self.traces if t.final)
        assert finals == Counter(e.id for e in self.episodes)
        attempts: dict[UUID, list[int]] = {}
        for trace in self.traces:
            attempts.setdefault(trace.episode_id, []).append(trace.attempt)
        for episode in self.episodes:
            assert sorted(attempts[episode.id]) == list(range(1, episode.attempts + 1))

    def check_every_trace_proves_itself(self) -> None:
        """Each trajectory is valid ATIF, each hash chain verifies, and no two are the same."""
        for trace in self.traces:
            assert atif.Trajectory.model_validate(trace.trajectory).session_id == str(trace.episode_id)
            assert verify(trace.events) == trace.chain_head
        assert len({trace.chain_head for trace in self.traces}) == len(self.traces)

    def check_the_settlement_follows_from_the_store(self) -> None:
        """Settled again from the stored inputs, the race gives the same bytes."""
        assert canonical_json(self.race.settlement) == self.settled_anew

    @property
    def leases_lost(self) -> int:
        """Leases beyond those that ended in a stored attempt: work that died with its worker."""
        return sum(episode.fence - episode.attempts for episode in self.episodes)


async def read_books(data_dir: Path) -> Books:
    """Open the store of an ended demo and read it."""
    async with Database.open(None, data_dir) as database:
        traces = [t async for t in stream(database, TraceQuery(final_only=False))]
        async with database.session() as session:
            race = (await session.scalars(select(Race))).one()
            episodes = (await session.scalars(select(Episode))).all()
            credits = Counter(t.hotkey for t in traces if t.final and accepts(t, FilterConfig()))
            settled = settle(await race_inputs(session, race, credits))
            assert isinstance(settled, Settlement), settled
            entrants = (await session.scalars(select(Entrant))).all()
            public = await session.scalars(
                select(SuiteProblem.problem_id)
                .where(SuiteProblem.suite_id == race.public_suite_id)
                .order_by(SuiteProblem.position)
                .limit(Rules.load(race.rules).public_size)
            )
            expected = Counter(
                ("qualifying", entrant.submission_id, problem, 0)
                for problem in public
                for entrant in entrants
            )
            expected.update(
                ("race", entrant.submission_id, problem, 0)
                for problem in race.drawn or ()
                for entrant in entrants
                if entrant.role is not None
            )
            return Books(
                race=race,
                submissions=await session.scalar(select(func.count()).select_from(Submission)) or 0,
                expected=expected,
                episodes=tuple(episodes),
                traces=tuple(traces),
                settled_anew=settled.to_bytes(),
                weight_settings=await session.scalar(select(func.count()).select_from(WeightSetting)) or 0,
            )


async def finals(data_dir: Path) -> dict[UUID, UUID]:
    """The final trace of every episode that is done now, by episode."""
    async with Database.open(None, data_dir) as database, database.session() as session:
        rows = await session.execute(select(Trace.episode_id, Trace.id).where(Trace.final))
        return {row.episode_id: row.id for row in rows}
