"""`arena episode` as a process: a played episode is shown, harmless to the terminal, and played again."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from textwrap import dedent
from uuid import UUID, uuid4

import pytest
from pydantic import SecretStr
from sqlalchemy import update

from arena import queue
from arena.player import SandboxedPlayer
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.suites import store_suite
from arena.worker import assignment_for
from neurons.host import publish_plan, socket_root
from neurons.settings import ProblemSettings
from problems.worlds import prepared
from storage.database import Database
from storage.tables import Episode, Race, Submission, SuiteProblem
from tests.arena.puppet import KEY, Puppet, native_call, say, tell
from tests.arena.stores import NOW
from tests.neurons.commands import arena

ESCAPES = "\x1b[2J\x1b]0;owned\x07 [bold]red[/bold] \u202eabc"
SEARCH = tell(message={"tool_calls": [native_call("search_transactions", '{"account": "checking"}')]})
AGENT = f"""
    import json

    def solve(problem, tools, llm):
        llm.chat({say(ESCAPES)!r})
        message = llm.chat({SEARCH!r}, tools=tools.specs)
        for call in message["tool_calls"]:
            tools.call(call["function"]["name"], json.loads(call["function"]["arguments"]))
        tools.submit_answer(answer="nothing at all")
"""
PLAN = ProblemSettings(environment="ledger", seed=3, pool=6)


@pytest.fixture
async def played(database: Database, tmp_path: Path) -> UUID:
    """The id of an episode that was played in the ledger."""
    world = prepared("ledger", tmp_path / "world", seed=3, public=3, pool=6, products=300)
    await publish_plan(database, PLAN, public=3)
    public = await store_suite(database, world.public, "public")
    pool = await store_suite(database, world.pool, "pool")
    rules = Rules()
    source = dedent(AGENT).encode()
    async with database.session() as session:
        submission = Submission(
            hotkey="hk",
            source_sha256=hashlib.sha256(source).hexdigest(),
            source=source,
            name="[red]n\x1b[31m",
            state="accepted",
            submitted_at=NOW,
        )
        race = Race(
            number=1,
            rules=rules.model_dump(mode="json"),
            rules_hash=rules.rules_hash,
            public_suite_id=public,
            pool_suite_id=pool,
            opened_at=NOW,
        )
        session.add_all([submission, race])
        await session.flush()
        problem_id = world.public.problems[0].problem.problem_id
        episode = Episode(
            race_id=race.id,
            phase="qualifying",
            submission_id=submission.id,
            suite_id=public,
            problem_id=problem_id,
            seed=5,
            not_before=NOW,
        )
        session.add(episode)
    with Puppet() as puppet, socket_root() as sockets:
        upstream = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), pause_s=0)
        player = SandboxedPlayer(
            {public: world.environment}, SubprocessSandbox(stage()), upstream, socket_root=sockets
        )
        async with database.session() as session:
            leased = await queue.lease(session, worker="w", now=NOW, lease_s=60)
            assert leased is not None
            assignment = await assignment_for(session, leased)
        record = await player.play(assignment, 0)
        await upstream.aclose()
    async with database.session() as session:
        await queue.complete(
            session,
            leased,
            verdict=record.verdict,
            events=record.events,
            wall_s=record.wall_s,
            now=NOW,
            rules=rules,
        )
    return leased.episode_id


async def test_an_episode_is_shown_and_played_again_and_what_changed_is_told(
    played: UUID, database: Database, database_url: str, tmp_path: Path
) -> None:
    store = ("--database-url", database_url, "--data-dir", str(tmp_path))

    shown = arena(tmp_path, "episode", "show", str(played), *store)
    assert shown.returncode == 0, shown.stderr
    for words in ("failed", "search_transactions", "by the model", "by the script", "nothing at all"):
        assert words in shown.stdout
    assert "hidden at least until its race has settled" in shown.stdout
    assert "\x1b" not in shown.stdout
    assert "\u202e" not in shown.stdout
    assert "[U+001B]" in shown.stdout
    assert "[bold]red[/bold]" in shown.stdout

    told = arena(tmp_path, "episode", "show", str(played), "--json", *store)
    value = json.loads(told.stdout)
    assert value["episode_id"] == str(played)
    assert [e["kind"] for e in value["events"] if e["kind"].endswith("_call")] == [
        "model_call",
        "model_call",
        "tool_call",
        "tool_call",
    ]
    assert "\x1b" not in told.stdout

    same = arena(tmp_path, "episode", "replay", str(played), "--unsafe-no-sandbox", "--json", *store)
    assert same.returncode == 0, same.stdout + same.stderr
    assert json.loads(same.stdout)["identical"] is True

    async with database.session() as session:
        await session.execute(update(SuiteProblem).values(public={**value["problem"], "query": "another?"}))
    changed = arena(tmp_path, "episode", "replay", str(played), "--unsafe-no-sandbox", *store)
    assert changed.returncode == 1, changed.stderr
    assert "first at step 1" in changed.stdout
    assert "problem.query: then" in changed.stdout

    absent = arena(tmp_path, "episode", "show", str(uuid4()), *store)
    assert absent.returncode == 2
    assert "there is no trace and no played episode" in absent.stderr
    never = arena(tmp_path, "episode", "replay", str(played), "--attempt", "7", *store)
    assert "attempt 7" in never.stderr
