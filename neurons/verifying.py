"""What verifying a race takes from this machine: the catalog, and a judge that always says the same."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence

from sqlalchemy import select

from arena.findings import Step, compared, unchecked
from arena.verification import Means, Regrade
from distill.filters import FilterConfig, accepts
from judge.evidence import evidence
from judge.grounded import GroundedJudge
from judge.grounded import judge as judged_by_code
from neurons.host import (
    prepared_world,
    published_plan,
    shopping_options,
    title_similarity,
    web_service,
)
from neurons.settings import Settings
from neurons.weights import explains
from problems.environment import Environment
from problems.ledger.ledger import NAME as LEDGER
from problems.shopping.options import ShoppingOptions
from problems.shopping.shopping_environment import ShoppingEnvironment
from problems.shopping.web import SnippetStore
from problems.shopping.world import CATALOG, SNIPPETS
from storage.database import Database
from storage.events import Event
from storage.tables import Race, Suite, WeightSetting

_log = logging.getLogger(__name__)


async def means_of(database: Database, settings: Settings) -> Means:
    """All that this machine has for verifying races of `database`."""
    filters = FilterConfig()
    return Means(
        accepts_into_corpus=lambda trace: accepts(trace, filters),
        environments=await _environments(database, settings),
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
    found = (await _environments(database, settings)).get(suite_id)
    if found is not None:
        return found
    async with database.session() as session:
        suite = await session.get_one(Suite, suite_id)
    if suite.environment == LEDGER:
        planned = await published_plan(database, settings.problems, settings.web)
        problems, public = planned or (settings.problems, settings.rules.public_size)
        world = await asyncio.to_thread(prepared_world, problems, settings.data_dir / "world", public=public)
        return world.environment
    environment = await asyncio.to_thread(_opened, settings)
    if environment is None or environment.name != suite.environment:
        raise NotPlayableHere(
            f"the {suite.environment} world of this episode is not in {settings.data_dir / 'world'}: give "
            "the --data-dir of the validator that played it"
        )
    _log.warning("the catalog here is not the one that this episode was played on")
    return environment


async def _environments(database: Database, settings: Settings) -> Mapping[str, Environment]:
    """The shopping environment for every stored suite that is about the catalog of this machine, played by
    the suite's options; none for suites that were scored in a way that is not set here.
    """
    opened = await asyncio.to_thread(_opened, settings)
    if opened is None:
        return {}
    found: dict[str, Environment] = {}
    async with database.session() as session:
        suites = select(Suite).where(
            Suite.environment == opened.name, Suite.catalog_id == opened.catalog.catalog_id
        )
        for suite in await session.scalars(suites):
            options = ShoppingOptions.model_validate(suite.options)
            played = ShoppingEnvironment(opened.catalog, opened.similarity, options=options, web=opened.web)
            if played.scorer == suite.scorer:
                found[suite.id] = played
    return found


def _opened(settings: Settings) -> ShoppingEnvironment | None:
    world = settings.data_dir / "world"
    if not (world / CATALOG).is_dir():
        return None
    snippets = world / SNIPPETS
    web = web_service(settings.web) or (SnippetStore.open(snippets) if snippets.is_file() else None)
    similarity = title_similarity(settings.problems, settings.data_dir)
    return ShoppingEnvironment.open(
        world / CATALOG, similarity, options=shopping_options(settings.problems), web=web
    )


def _regrade(judge: str | None, rubric: str | None) -> Regrade | None:
    """The grounded judge's, for races that it judged by the rubric it has now; a panel may say otherwise."""
    ours = GroundedJudge()
    if (judge, rubric) != (ours.name, ours.rubric):
        return None

    def regrade(events: Sequence[Event]) -> float:
        return judged_by_code(evidence(events)).grade

    return regrade
