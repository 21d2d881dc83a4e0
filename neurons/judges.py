"""The judge that the settings choose: the grounded one, or a panel of language models that it audits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime

from judge.endpoint import Endpoint, EndpointConfig
from judge.grounded import GroundedJudge
from judge.judgement import Judge
from judge.opinions import StoredOpinions
from judge.panel import Panel, PanelRules
from neurons.settings import JudgeSettings, Settings, SettingsError
from storage.database import Database

USUAL_K = 3


@contextlib.asynccontextmanager
async def chosen_judge(settings: Settings, database: Database) -> AsyncIterator[Judge]:
    """The judge for as long as the context is open. Raises SettingsError for a panel that cannot sit."""
    chosen = settings.judge
    if not chosen.models:
        yield GroundedJudge()
        return
    async with contextlib.AsyncExitStack() as stack:
        try:
            members = [Endpoint(EndpointConfig(**dict(model))) for model in chosen.models]
            for member in members:
                stack.push_async_callback(member.aclose)
            opinions = StoredOpinions(database, cap=chosen.daily_cap, clock=lambda: datetime.now(UTC))
            panel = Panel(members, opinions, _rules(chosen))
        except ValueError as error:
            raise SettingsError(f"judge: {error}") from None
        yield panel


def _rules(chosen: JudgeSettings) -> PanelRules:
    k = chosen.k or min(USUAL_K, len(chosen.models))
    return PanelRules(
        k=k,
        quorum=chosen.quorum or k // 2 + 1,
        extra=chosen.extra,
        split=chosen.split,
        deadline_s=chosen.deadline_s,
    )
