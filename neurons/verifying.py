"""What verifying a race takes from this machine: the catalog, and a judge that always says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy import select

from arena.findings import Step, compared, unchecked
from arena.verification import Means, Regrade
from distill.filters import FilterConfig, accepts
from judge.evidence import evidence
from judge.grounded import GroundedJudge
from judge.grounded import judge as judged_by_code
from neurons.settings import Settings
from neurons.weights import explains
from problems.environment import Environment
from problems.shopping.shopping_environment import ShoppingEnvironment
from storage.database import Database
from storage.events import Event
from storage.tables import Race, Suite, WeightSetting


async def means_of(database: Database, settings: Settings) -> Means:
    """All that this machine has for verifying races of `database`."""
    filters = FilterConfig()
    return Means(
        accepts_into_corpus=lambda trace: accepts(trace, filters),
        environments=await _environments(database, settings.data_dir / "world" / "catalog"),
        regrade=_regrade,
    )


async def weights_step(database: Database, number: int) -> Step:
    """Whether the weights that were sent for a race are those of its payout."""
    async with database.session() as session:
        race = (await session.scalars(select(Race).where(Race.number == number))).one()
        sent = (
            await session.scalars(
                select(WeightSetting)
                .where(WeightSetting.race_id == race.id, WeightSetting.error.is_(None))
                .order_by(WeightSetting.set_at)
            )
        ).all()
    if race.settlement is None or not sent:
        return unchecked("weights", "none were sent")
    payout = race.settlement["payout"]
    wrong = [
        f"those sent at {row.set_at:%Y-%m-%d %H:%M} are not of this payout"
        for row in sent
        if not explains(payout["units"], burn=payout["burn"], sent=row.sent.values())
    ]
    return compared("weights", wrong, "taken from the chain of then: which uid a hotkey had")


async def _environments(database: Database, catalog: Path) -> Mapping[str, Environment]:
    """The shopping environment for every stored suite that is about the catalog of this machine."""
    environment = await asyncio.to_thread(_opened, catalog)
    if environment is None:
        return {}
    async with database.session() as session:
        suites = await session.scalars(
            select(Suite.id).where(
                Suite.environment == environment.name,
                Suite.catalog_id == environment.catalog.catalog_id,
                Suite.scorer == environment.scorer,
            )
        )
        return dict.fromkeys(suites, environment)


def _opened(catalog: Path) -> ShoppingEnvironment | None:
    return ShoppingEnvironment.open(catalog) if catalog.is_dir() else None


def _regrade(judge: str | None, rubric: str | None) -> Regrade | None:
    """The grounded judge's, for races that it judged by the rubric it has now; a panel may say otherwise."""
    ours = GroundedJudge()
    if (judge, rubric) != (ours.name, ours.rubric):
        return None

    def regrade(events: Sequence[Event]) -> float:
        return judged_by_code(evidence(events)).grade

    return regrade
