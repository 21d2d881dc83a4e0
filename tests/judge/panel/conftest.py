"""Evidence to judge, and a panel of scripted judges over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio

from judge.endpoint import Endpoint, EndpointConfig
from judge.evidence import Evidence, evidence
from judge.judgement import Judgement
from judge.opinions import ForgetfulOpinions, Opinions
from judge.panel import Panel, PanelRules
from judge.rubric import RUBRIC
from judge.scripted_judge import Script, ScriptedJudges, serve
from tests.judge.episodes import CLOSING, COMPARISON, Episode


def episode(more: str = "") -> Evidence:
    """Reasoning that passes all gates, and `more`."""
    return evidence(Episode().search().think(COMPARISON + more).recommend(CLOSING).events)


def in_order(seen: Evidence, models: list[str]) -> list[str]:
    """The models in the order in which a panel of them asks about `seen`."""
    first = int(seen.evidence_hash[:8], 16) % len(models)
    return models[first:] + models[:first]


def finds(passed: int) -> Callable[[Evidence], Judgement]:
    """An auditor that finds so many gates passed."""
    grade, gate = RUBRIC.grade_after(passed), RUBRIC.gate_after(passed)

    def audit(seen: Evidence) -> Judgement:
        return Judgement(grade, gate, "", (), (grade,), 0.0, RUBRIC.id, "auditor")

    return audit


class Court:
    """Makes panels whose members are scripted judges, and closes them."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.judges: ScriptedJudges
        self.members: list[Endpoint] = []

    async def seat(
        self,
        scripts: Mapping[str, Script],
        opinions: Opinions | None = None,
        *,
        config: Mapping[str, Any] | None = None,
        audit: int | None = None,
        clock: Callable[[], float] | None = None,
        **rules: Any,
    ) -> Panel:
        """A panel of these models. Asked first, unless `rules` say otherwise: all; `audit`: gates found."""
        self.judges = await self._stack.enter_async_context(serve(scripts))
        timing = {} if clock is None else {"clock": clock}
        self.members = [
            Endpoint(EndpointConfig(self.judges.base_url, model, **(config or {})), **timing)
            for model in scripts
        ]
        for member in self.members:
            self._stack.push_async_callback(member.aclose)
        chosen = PanelRules(**{"k": len(scripts), "quorum": len(scripts) // 2 + 1, "extra": 0, **rules})
        auditor = None if audit is None else finds(audit)
        return Panel(self.members, opinions or ForgetfulOpinions(cap=1.0), chosen, auditor=auditor)


@pytest_asyncio.fixture
async def court() -> AsyncIterator[Court]:
    """An empty court."""
    async with AsyncExitStack() as stack:
        yield Court(stack)


@pytest.fixture
def seen() -> Evidence:
    """An ordinary episode's evidence."""
    return episode()
