"""What single judges have answered, and what the day's judging has cost: both shared by all processes.

An opinion is kept under (evidence, rubric, model, prompt version), so that no process asks, or pays, for what
another has the answer to; of two answers at once the first stands. Money is set aside *before* a request, at
the most that it can cost, and replaced by what it did cost: a process killed in between leaves the most
it could have spent counted, so the cap holds under kills too.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Protocol

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert

from judge.endpoint import SpendCapReached
from judge.prompt import PROMPT_VERSION
from judge.reply import GateOpinion
from storage.database import Database
from storage.judgements import storable
from storage.tables import JudgeSpend, Opinion

NANODOLLARS = 1_000_000_000
"""In one dollar."""

Gates = tuple[GateOpinion, ...]


class Opinions(Protocol):
    """Where a panel keeps what it heard, and what it pays from."""

    async def known(self, evidence_hash: str, rubric: str, models: Sequence[str]) -> Mapping[str, Gates]:
        """What those of `models` that were asked before have answered."""

    async def keep(self, evidence_hash: str, rubric: str, model: str, gates: Gates) -> Gates:
        """Keep an answer; returns the one that stands, which is another process's if that was first."""

    async def reserve(self, amount: int) -> date:
        """Set so many nanodollars aside; returns the day they count on. Raises SpendCapReached."""

    async def settle(self, reserved: int, cost: int, day: date) -> None:
        """Put what was spent in the place of what was set aside on `day`."""


class StoredOpinions:
    """In the database. `cap` is in dollars for each day of UTC; `clock` gives the time with its zone."""

    def __init__(self, database: Database, *, cap: float, clock: Callable[[], datetime]) -> None:
        if not cap >= 0:
            raise ValueError("the spend cap of a day must be zero or more dollars")
        self._database = database
        self._cap = round(cap * NANODOLLARS)
        self._clock = clock

    async def known(self, evidence_hash: str, rubric: str, models: Sequence[str]) -> Mapping[str, Gates]:
        """See `Opinions`. Raises what the database raises."""
        asked = select(Opinion.model, Opinion.gates).where(
            Opinion.evidence_hash == evidence_hash,
            Opinion.rubric == rubric,
            Opinion.model.in_(models),
            Opinion.prompt == PROMPT_VERSION,
        )
        async with self._database.session() as session:
            rows = (await session.execute(asked)).all()
        return {model: _gates(stored) for model, stored in rows}

    async def keep(self, evidence_hash: str, rubric: str, model: str, gates: Gates) -> Gates:
        """See `Opinions`. Raises what the database raises."""
        new = insert(Opinion).values(
            id=uuid.uuid4(),
            evidence_hash=evidence_hash,
            rubric=rubric,
            model=model,
            prompt=PROMPT_VERSION,
            gates=[_storable(gate.to_json()) for gate in gates],
        )
        async with self._database.session() as session:
            first = await session.execute(new.on_conflict_do_nothing().returning(Opinion.id))
            if first.scalar_one_or_none() is not None:
                return gates
        return (await self.known(evidence_hash, rubric, [model]))[model]

    async def reserve(self, amount: int) -> date:
        """See `Opinions`. Raises what the database raises."""
        day = self._today()
        if amount <= self._cap:
            new = insert(JudgeSpend).values(day=day, nanodollars=amount)
            total = JudgeSpend.nanodollars + amount
            taken = new.on_conflict_do_update(
                index_elements=[JudgeSpend.day], set_={"nanodollars": total}, where=total <= self._cap
            ).returning(JudgeSpend.day)
            async with self._database.session() as session:
                if (await session.execute(taken)).scalar_one_or_none() is not None:
                    return day
        until = datetime.combine(day + timedelta(days=1), time(), UTC)
        raise SpendCapReached(f"spend cap reached until {until:%Y-%m-%d %H:%M} UTC")

    async def settle(self, reserved: int, cost: int, day: date) -> None:
        """See `Opinions`. Raises what the database raises."""
        total = func.greatest(JudgeSpend.nanodollars + (cost - reserved), 0)
        async with self._database.session() as session:
            await session.execute(update(JudgeSpend).where(JudgeSpend.day == day).values(nanodollars=total))

    async def spent_today(self) -> float:
        """Dollars, of all processes, with what is set aside now."""
        async with self._database.session() as session:
            spent = await session.scalar(
                select(JudgeSpend.nanodollars).where(JudgeSpend.day == self._today())
            )
        return (spent or 0) / NANODOLLARS

    def _today(self) -> date:
        return self._clock().astimezone(UTC).date()


class ForgetfulOpinions:
    """Keeps nothing, and pays up to `cap` dollars in all: for measuring judges without a store."""

    def __init__(self, *, cap: float) -> None:
        self._cap = self._left = round(cap * NANODOLLARS)

    async def spent(self) -> float:
        """Dollars so far, with what is set aside now."""
        return (self._cap - self._left) / NANODOLLARS

    async def known(self, evidence_hash: str, rubric: str, models: Sequence[str]) -> Mapping[str, Gates]:
        """Nothing."""
        return {}

    async def keep(self, evidence_hash: str, rubric: str, model: str, gates: Gates) -> Gates:
        """The same gates, kept nowhere."""
        return gates

    async def reserve(self, amount: int) -> date:
        """See `Opinions`."""
        if amount > self._left:
            raise SpendCapReached("spend cap reached for as long as this process runs")
        self._left -= amount
        return date.min

    async def settle(self, reserved: int, cost: int, day: date) -> None:
        """See `Opinions`."""
        self._left += reserved - cost


def _gates(stored: Sequence[Mapping[str, Any]]) -> Gates:
    return tuple(GateOpinion.from_json(value) for value in stored)


def _storable(value: Any) -> Any:
    """`json` keeps an escaped NUL, but nothing keeps a lone surrogate."""
    if isinstance(value, str):
        return storable(value)
    return {key: _storable(inner) for key, inner in value.items()} if isinstance(value, dict) else value
