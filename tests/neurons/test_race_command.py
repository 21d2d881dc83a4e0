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


async def test_what_each_agent_achieved_is_reported_with_what_was_left_out(
    database: Database, database_url: str, tmp_path: Path
) -> None:
    await Sums(database).run(
        ["good", "weak"], lambda hotkey, n: hotkey == "good" or n % 2 == 0, champion="champ"
    )
    async with database.session() as session:
        mine = "episode_id IN (SELECT e.id FROM episode e JOIN submission s ON s.id = e.submission_id"
        of_weak = f"{mine} WHERE s.hotkey = 'weak' AND e.phase = 'race' ORDER BY e.position LIMIT 1)"
        unscored = "verdict = 'unscored', reason = 'sandbox: no room', outcome = NULL"
        await session.execute(text(f"UPDATE trace SET {unscored} WHERE {of_weak}"))
    store = ("--database-url", database_url)
    found = arena(tmp_path, "race", "report", "1", "--json", *store)
    assert found.returncode == 0, found.stderr
    agents = {name.split()[-1]: made for name, made in json.loads(found.stdout)["agents"].items()}
    assert set(agents) == {"good", "weak", "champ"}
    good = agents["good"]
    assert (good["scorer"], good["overall"]["asr"], good["overall"]["car"]) == ("ledger-1", 1.0, 1.0)
    assert good["by_category"]["sum"]["scored"] == good["overall"]["scored"] == 10
    assert {name: a["overall"]["left_out"] for name, a in agents.items()} == {
        "good": 0,
        "champ": 0,
        "weak": 1,
    }
    assert all(a["overall"]["scored"] + a["overall"]["left_out"] == 10 for a in agents.values())
    shown = arena(tmp_path, "race", "report", "1", *store)
    assert "100.0" in shown.stdout

    async with database.session() as session:
        changed = "UPDATE trace SET outcome = jsonb_set(outcome::jsonb, '{scorer}', '\"other\"')::json"
        await session.execute(
            text(f"{changed} WHERE id = (SELECT id FROM trace WHERE outcome IS NOT NULL LIMIT 1)")
        )
    mixed = arena(tmp_path, "race", "report", "1", *store)
    absent = arena(tmp_path, "race", "report", "2", *store)
    assert absent.returncode == 2
    assert "there is no race 2" in absent.stderr
    phases = [mixed, arena(tmp_path, "race", "report", "1", "--phase", "qualifying", *store)]
    (refused,) = [p for p in phases if p.returncode != 0]
    assert refused.returncode == 2
    assert "score the recorded attempts again" in refused.stderr
