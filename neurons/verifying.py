"""What verifying a race takes from this machine: the catalog, and a judge that always says the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from sqlalchemy import select

from arena.findings import Step, compared, unchecked
from arena.verification import Means, Regrade
from distill.filters import FilterConfig, accepts
from judge.evidence import evidence
from judge.grounded import GroundedJudge
from judge.grounded import judge as judged_by_code
from neurons.host import prepared_world, published_plan
from neurons.settings import Settings
from neurons.weights import explains
from problems.environment import Environment
from problems.ledger.ledger import NAME as LEDGER
from problems.shopping.shopping_environment import ShoppingEnvironment
from storage.database import Database
from storage.events import Event
from storage.tables import Race, Suite, WeightSetting

_log = logging.getLogger(__name__)


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


class NotPlayableHere(RuntimeError):
    """This machine lacks the world that an episode was played in."""


async def environment_of(database: Database, settings: Settings, suite_id: str) -> Environment:
    """What the tools of a suite's episodes are answered by on this machine.

    It may be about another catalog than then; that is logged, and what it changes is for the caller to find.
    Raises NotPlayableHere.
    """
    catalog = settings.data_dir / "world" / "catalog"
    found = (await _environments(database, catalog)).get(suite_id)
    if found is not None:
        return found
    async with database.session() as session:
        suite = await session.get_one(Suite, suite_id)
    if suite.environment == LEDGER:
        planned = await published_plan(database, settings.problems)
        problems, public = planned or (settings.problems, settings.rules.public_size)
        world = await asyncio.to_thread(prepared_world, problems, settings.data_dir / "world", public=public)
        return world.environment
    environment = await asyncio.to_thread(_opened, catalog)
    if environment is None or environment.name != suite.environment:
        raise NotPlayableHere(
            f"the {suite.environment} world of this episode is not in {settings.data_dir / 'world'}: give "
            "the --data-dir of the validator that played it"
        )
    _log.warning("the catalog here is not the one that this episode was played on")
    return environment


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
