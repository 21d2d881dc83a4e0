"""`arena race` as a process: a race is listed, verified, and a change of it found."""

from __future__ import annotations

import json
from pathlib import Path

from sqlalchemy import text

from storage.database import Database
from tests.arena.sums import Sums
from tests.neurons.commands import arena


async def test_a_race_is_listed_and_verified_and_a_change_is_told_with_status_one(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    await Sums(database).run(["good"], lambda hotkey, n: hotkey == "good" or n % 2 == 0, champion="champ")
    store = ("--database-url", database_url)

    listed = arena(tmp_path, "race", "list", "--json", *store)
    assert listed.returncode == 0, listed.stderr
    (race,) = json.loads(listed.stdout)["races"]
    assert (race["race"], race["state"], race["problems"], race["promoted"]) == (1, "settled", 10, True)

    found = arena(tmp_path, "race", "verify", "1", "--json", *store)
    assert found.returncode == 0, found.stderr
    steps = {step["step"]: step["status"] for step in json.loads(found.stdout)["steps"]}
    assert steps["settlement"] == steps["records"] == "same"
    assert steps["outcomes"] == "not checked", "there is no catalog in this folder"
    assert steps["weights"] == "not checked", "none were sent"

    async with database.session() as session:
        await session.execute(text("UPDATE judged SET grade = 0.3"))
    changed = arena(tmp_path, "race", "verify", "1", *store)
    assert changed.returncode == 1
    assert "differs" in changed.stdout
    assert "agents[0].judge: stored" in changed.stdout

    absent = arena(tmp_path, "race", "verify", "2", *store)
    assert absent.returncode == 2
    assert "there is no race 2" in absent.stderr
