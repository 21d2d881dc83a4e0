"""`arena judge` and `arena traces rejudge`: figures for people and machines; the unseen half stays unseen."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select, update

from judge.gold.loading import load
from judge.grounded import GroundedJudge
from judge.rubric import RUBRIC, RUBRICS
from judge.scripted_judge import honest, serve
from judge.worker import judge_pending
from neurons import cli
from storage import traces
from storage.database import Database
from storage.tables import Judged, Race
from tests.judge.episodes import CLOSING, COMPARISON, Episode
from tests.neurons.commands import Running, arena
from tests.storage.episodes import add_episodes

FAILED = {"components": {"product": 0.0}, "solved": False, "scorer": "r", "failures": []}
STRICT = replace(RUBRIC, version="strict", gates=tuple(replace(g, grade=g.grade / 2) for g in RUBRIC.gates))
MODEL = """
[[judge.models]]
model = "{name}"
base_url = "{url}"
prompt_price = 1.0
completion_price = 2.0
requests_per_minute = 100000
"""

Run = Callable[..., str]


@pytest.fixture
def run(open_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs the command in this process, and returns what it printed."""
    monkeypatch.chdir(open_folder)

    def run(*arguments: str) -> str:
        monkeypatch.setattr(sys, "argv", ["arena", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        said = capfd.readouterr()
        assert ended.value.code == 0, said.err
        return said.out

    return run


async def _store(url: str, number: int) -> None:
    async with Database.open(url, Path()) as database:
        for episode_id in await add_episodes(database, number):
            async with database.session() as session:
                await traces.append(
                    session,
                    episode_id=episode_id,
                    attempt=1,
                    final=True,
                    verdict="failed",
                    reason="product",
                    outcome=FAILED,
                    events=Episode(episode_id=str(episode_id))
                    .search()
                    .think(COMPARISON)
                    .recommend(CLOSING)
                    .events,
                    wall_s=1.0,
                )


async def _race(url: str, *, judge: str, rubric: str, judged: bool = False) -> int:
    async with Database.open(url, Path()) as database:
        async with database.session() as session:
            await session.execute(update(Race).values(judge=judge, rubric=rubric))
            number: int | None = await session.scalar(select(Race.number))
        if judged:
            await judge_pending(database, GroundedJudge(), limit=100)
    assert number is not None
    return number


async def _judgements(url: str) -> int:
    async with Database.open(url, Path()) as database, database.session() as session:
        rows = await session.scalars(select(Judged.id).where(Judged.grade.is_not(None)))
        return len(rows.all())


def test_both_halves_are_measured_and_no_single_case_is_told(open_folder: Path) -> None:
    ended = arena(open_folder, "judge", "calibrate", "--judge=grounded", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert set(found) == {"dev", "unseen"}
    for half in found.values():
        assert half["judge"] == GroundedJudge.name
        assert half["overall"]["n"] > 0
        assert half["overall"]["unanswered"] == 0
        assert half["injections"]["n"] > 0
        assert "mistakes" not in half
    told = ended.stdout + ended.stderr
    labelled = load("unseen")
    assert not any(case.id in told for case in labelled.cases)
    assert not any(injection.id in told for injection in labelled.injections)


@pytest.mark.parametrize("half", ["unseen", "both"])
def test_single_cases_of_the_unseen_half_are_refused(half: str, open_folder: Path) -> None:
    ended = arena(open_folder, "judge", "calibrate", f"--half={half}", "--show-cases")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "--half dev" in ended.stderr


def test_the_tables_name_environments_gates_and_families(run: Run) -> None:
    told = run("judge", "calibrate", "--half=dev", "--judge=grounded", "--show-cases")
    labelled = load("dev")
    for name in {case.environment for case in labelled.cases} | {gate.name for gate in RUBRIC.gates}:
        assert name in told
    for family in {injection.family for injection in labelled.injections}:
        assert family in told


def test_a_panel_that_is_not_set_is_refused(open_folder: Path) -> None:
    ended = arena(open_folder, "judge", "calibrate", "--half=dev", "--judge=panel")
    assert ended.returncode == 2
    assert "judge.models" in ended.stderr


async def test_a_panel_is_measured_with_what_it_costs(open_folder: Path) -> None:
    async with serve({f"m{n}": honest(3) for n in range(3)}) as judges:
        models = "".join(MODEL.format(name=name, url=judges.base_url) for name in judges.scripts)
        (open_folder / "arena.toml").write_text("[judge]\nextra = 0\n" + models)
        ended = await asyncio.to_thread(
            arena, open_folder, "judge", "calibrate", "--half=dev", "--json", "--concurrency=8"
        )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)["dev"]
    assert found["judge"].startswith("panel-")
    assert found["overall"]["n"] == len(load("dev").cases)
    assert found["dollars"] > 0
    assert len(judges.asked) >= found["judged"]


async def test_a_worker_given_the_database_alone_judges_what_waits_and_what_arrives(
    open_folder: Path, database_url: str
) -> None:
    await _store(database_url, 2)
    with Running(open_folder, ["judge", "worker", f"--database-url={database_url}"]) as worker:
        await asyncio.to_thread(worker.wait_for, GroundedJudge.name)
        await _store(database_url, 1)
        async with asyncio.timeout(30):
            while await _judgements(database_url) < 3:  # noqa: ASYNC110  another process sends no event
                await asyncio.sleep(0.05)
        assert await asyncio.to_thread(worker.stop) == 0


def test_a_worker_with_another_judge_than_the_open_race_is_refused(
    open_folder: Path, database_url: str
) -> None:
    asyncio.run(_store(database_url, 1))
    asyncio.run(_race(database_url, judge="panel-1", rubric=RUBRIC.id))
    ended = arena(open_folder, "judge", "worker", f"--database-url={database_url}")
    assert ended.returncode == 2
    assert "judged by panel-1" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_stored_traces_are_judged_by_another_rubric_and_the_shift_is_told(
    run: Run, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUBRICS, STRICT.version, STRICT)
    asyncio.run(_store(database_url, 2))
    number = asyncio.run(_race(database_url, judge=GroundedJudge.name, rubric=RUBRIC.id, judged=True))
    again = ("traces", "rejudge", "--rubric=strict", f"--race={number}", f"--database-url={database_url}")
    told = run(*again)
    assert "2 traces judged now" in told
    assert "mean change -0.500, 0 up, 2 down" in told
    assert "tracked (1.0) -> tracked (0.5): 2" in told
    assert asyncio.run(_judgements(database_url)) == 4
    assert json.loads(run(*again, "--json"))["judged_now"] == 0


def test_a_rubric_that_there_is_not_is_refused(open_folder: Path, database_url: str) -> None:
    ended = arena(open_folder, "traces", "rejudge", "--rubric=0", f"--database-url={database_url}")
    assert ended.returncode == 2
    assert "there is no rubric '0'; there are 1" in ended.stderr
