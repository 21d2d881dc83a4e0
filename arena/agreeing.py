"""A race on its way to being decided with other validators: publish our own result, hear theirs, keep both.

Nothing is decided on what was not stored: what was heard is written in the transaction that settles the race,
so that the settlement can be made again from the store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession

from arena.findings import Step, compared, unchecked
from arena.rules import Rules
from arena.settlement import Together
from arena.signed_results import Heard, Others, Result, read_result, report_of, signed_by, why_not
from storage.database import Database
from storage.tables import Race, SignedResult

_ASK_EVERY_S = 2.0


class Agreement:
    """What one validator hears of the others, race by race. `clock` gives aware UTC datetimes."""

    def __init__(self, database: Database, others: Others, clock: Callable[[], datetime]) -> None:
        self._database = database
        self._others = others
        self._clock = clock
        self._heard: dict[UUID, dict[str, Heard]] = {}
        self._ask_at: datetime | None = None

    @property
    def hotkey(self) -> str:
        """Our own hotkey."""
        return self._others.hotkey

    async def publish(self, race_id: UUID, body: bytes) -> tuple[bytes, datetime]:
        """Sign and store our own result, once; what is stored, and since when."""
        async with self._database.session() as session:
            await session.execute(
                insert(SignedResult)
                .values(
                    race_id=race_id,
                    hotkey=self.hotkey,
                    own=True,
                    stake=0,
                    body=body,
                    signature=self._others.sign(body),
                    at=self._clock(),
                )
                .on_conflict_do_nothing()
            )
            row = await session.get_one(SignedResult, (race_id, self.hotkey))
            assert row.body is not None
            return row.body, row.at

    async def hear(self, race_id: UUID, number: int, since: datetime, rules: Rules) -> list[Heard] | None:
        """What every validator says, ourselves (with our stake) first; None while some are waited for.

        Raises what the chain's being down raises.
        """
        now = self._clock()
        if self._ask_at is not None and now < self._ask_at:
            return None
        self._ask_at = now + timedelta(seconds=_ASK_EVERY_S)
        known = self._heard.setdefault(race_id, {})
        stake, heard = await self._others.ask(number, known={h: k for h, k in known.items() if k.body})
        known.clear()
        known.update({h.hotkey: h for h in heard})
        late = self._clock() >= since + timedelta(seconds=rules.consensus_deadline_s)
        if not late and any(h.body is None for h in heard):
            return None
        self._heard.clear()
        return [Heard(self.hotkey, stake, None, None), *heard]


async def keep(session: AsyncSession, race: Race, heard: Sequence[Heard], now: datetime) -> None:
    """Store what was heard with the race, and why what does not count does not."""
    own, *others = heard
    ours = await session.get_one(SignedResult, (race.id, own.hotkey))
    assert ours.body is not None
    ours.stake = own.stake
    mine = Result.model_validate_json(ours.body)
    for one in others:
        await session.merge(
            SignedResult(
                race_id=race.id,
                hotkey=one.hotkey,
                own=False,
                stake=one.stake,
                body=one.body,
                signature=one.signature,
                left_out=_left_out(one, mine),
                at=now,
            )
        )
    await session.flush()


def _left_out(heard: Heard, ours: Result) -> str | None:
    try:
        return why_not(read_result(heard), ours)
    except ValueError as error:
        return str(error)


async def together(session: AsyncSession, race: Race) -> Together | None:
    """What the race is decided with, as it is stored; None when this validator decides by itself."""
    if race.rules.get("consensus", "own") == "own":
        return None
    rows = await _rows(session, race)
    ours = next((row for row in rows if row.own), None)
    if ours is None or ours.stake <= 0:
        return None
    taken = [row for row in rows if not row.own and row.left_out is None and row.stake > 0]
    return Together(
        own=ours.hotkey,
        stake=ours.stake,
        total=sum(row.stake for row in rows),
        reports=tuple(report_of(Result.model_validate_json(row.body or b""), row.stake) for row in taken),
        left_out={row.hotkey: row.left_out for row in rows if row.left_out is not None},
    )


async def _rows(session: AsyncSession, race: Race) -> Sequence[SignedResult]:
    found = await session.scalars(
        select(SignedResult).where(SignedResult.race_id == race.id).order_by(SignedResult.hotkey)
    )
    return found.all()


async def verified(session: AsyncSession, race: Race) -> Step | None:
    """Whether the stored results are signed, and counted or left out as they must be; None without any."""
    rows = await _rows(session, race)
    if not rows:
        return None
    ours = next((row for row in rows if row.own), None)
    if ours is None or ours.body is None:
        return unchecked("signed results", "our own is missing")
    mine = Result.model_validate_json(ours.body)
    wrong: list[str] = []
    for row in rows:
        if row.body is not None and not signed_by(row.hotkey, row.body, row.signature or ""):
            if row.left_out is None:
                wrong.append(f"{row.hotkey}: its signature does not hold")
            continue
        if row.own or row.body is None:
            continue
        expected = _left_out(Heard(row.hotkey, row.stake, row.body, row.signature), mine)
        if row.left_out != expected:
            wrong.append(f"{row.hotkey}: stored as left out for {row.left_out}, computed {expected}")
    stakes = ", ".join(f"{row.hotkey} {row.stake}" for row in rows)
    return compared("signed results", wrong, f"taken from the chain of then: stakes of {stakes}")
