"""A process of its own that judges one episode by a panel, to be killed at it.

Arguments: database URL, address of the judges, and the models.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from judge.endpoint import Endpoint, EndpointConfig
from judge.opinions import StoredOpinions
from judge.panel import Panel, PanelRules
from storage.database import Database
from tests.judge.panel.conftest import episode

PRICE = 1.0


async def _main(url: str, base_url: str, models: list[str]) -> None:
    async with Database.open(url, Path()) as database:
        opinions = StoredOpinions(database, cap=1.0, clock=lambda: datetime.now(UTC))
        members = [
            Endpoint(EndpointConfig(base_url, model, prompt_price=PRICE, completion_price=PRICE))
            for model in models
        ]
        rules = PanelRules(k=len(models), quorum=len(models), extra=0)
        print(await Panel(members, opinions, rules, auditor=None).judge(episode()), flush=True)


if __name__ == "__main__":
    asyncio.run(_main(sys.argv[1], sys.argv[2], sys.argv[3:]))
