"""The judge that the settings choose: the grounded one, or a panel of language models that it audits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from enum import StrEnum

from judge.endpoint import Endpoint, EndpointConfig
from judge.grounded import GroundedJudge
from judge.judgement import Judge
from judge.opinions import Opinions, StoredOpinions
from judge.panel import Panel, PanelRules
from judge.rubric import RUBRIC, Rubric
from neurons.settings import JudgeSettings, Settings, SettingsError
from storage.database import Database

USUAL_K = 3


class JudgeName(StrEnum):
    """Judges to choose from."""

    grounded = "grounded"
    panel = "panel"


@contextlib.asynccontextmanager
async def chosen_judge(
    settings: Settings, database: Database, *, name: JudgeName | None = None, rubric: Rubric = RUBRIC
) -> AsyncIterator[Judge]:
    """The judge for as long as the context is open; without a name, the one that the settings choose.

    Raises SettingsError for a panel that cannot sit, and for a rubric that the judge cannot grade by.
    """
    cap = settings.judge.daily_cap
    opinions = StoredOpinions(database, cap=cap, clock=lambda: datetime.now(UTC))
    async with named_judge(settings, opinions, name=name, rubric=rubric) as judge:
        yield judge


@contextlib.asynccontextmanager
async def named_judge(
    settings: Settings, opinions: Opinions, *, name: JudgeName | None = None, rubric: Rubric = RUBRIC
) -> AsyncIterator[Judge]:
    """The same, with opinions kept, and paid for, elsewhere than in the database."""
    chosen = settings.judge
    if name is JudgeName.panel and not chosen.models:
        raise SettingsError("no panel is set: name its models in [[judge.models]] of arena.toml")
    async with contextlib.AsyncExitStack() as stack:
        try:
            if name is JudgeName.grounded or not chosen.models:
                judge: Judge = GroundedJudge(rubric)
            else:
                members = [Endpoint(EndpointConfig(**dict(model))) for model in chosen.models]
                for member in members:
                    stack.push_async_callback(member.aclose)
                judge = Panel(members, opinions, _rules(chosen), rubric=rubric)
        except ValueError as error:
            raise SettingsError(f"judge: {error}") from None
        yield judge


def _rules(chosen: JudgeSettings) -> PanelRules:
    k = chosen.k or min(USUAL_K, len(chosen.models))
    return PanelRules(
        k=k,
        quorum=chosen.quorum or k // 2 + 1,
        extra=chosen.extra,
        split=chosen.split,
        deadline_s=chosen.deadline_s,
    )
