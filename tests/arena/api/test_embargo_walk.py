"""The embargo walk: all endpoints and commands, with races in every state, and nothing hidden is seen."""

from __future__ import annotations

import asyncio
import itertools
import logging
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
import pytest_asyncio
from bittensor.keyfiles import Keypair
from fastapi import FastAPI
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from typer.testing import CliRunner

from arena.operating import operate
from neurons import cli
from storage.database import Database
from storage.tables import Episode, Race, Submission, Suite, Trace
from tests.arena.api.played import ANSWER, HUSH, Played, hushed_source, query_of
from tests.arena.api.stage import MINER, OPERATOR, OTHER, STRANGER, Signed, api, asking, endpoints
from tests.arena.stores import Clock
from tests.arena.test_races import RULES

CHAMP = Keypair.create_from_uri("//Ferdie")
ACTIONS = ("pause", "resume", "rejudge", "void")
ASKED_WITH_BODIES = {
    "/v1/submissions",
    "/v1/submissions/{submission_id}/withdraw",
    *(f"/v1/races/{{number}}/{action}" for action in ACTIONS),
}
EMBARGOED = {
    "/v1/agents/{submission_id}/source",
    "/v1/traces/{trace_id}",
    "/v1/traces/{trace_id}/atif",
}
NOBODY_SIGNED_HERE = {"/v1/races/{number}/signed"}
"""These races have nobody to sign their results; tests of signed results are beside those of deciding."""

PRINTS_WHAT_IS_STORED = {
    ("race", "list"): ([], ["--json"]),
    ("race", "verify"): (["1"], ["1", "--json"], ["3"]),
    ("race", "report"): (["1"], ["1", "--json"], ["1", "--phase", "qualifying"], ["3"]),
    ("traces", "rejudge"): (["--rubric", "1", "--judge", "grounded"],),
}
PRINTS_NOTHING_THAT_IS_STORED = {
    ("validator", "run"): "runs until stopped; its log is looked at with the endpoints",
    ("worker",): "runs until stopped, and prints its slots",
    ("judge", "worker"): "runs until stopped, and prints counts",
    ("judge", "calibrate"): "looks at its own labelled set",
    ("submissions", "calibrate"): "looks at copies that it makes itself",
    ("miner", "register"): "has no store",
    ("miner", "submit"): "has no store",
    ("miner", "run"): "has no store",
    ("localnet", "start"): "has no store",
    ("localnet", "fund"): "has no store",
    ("localnet", "stake"): "has no store",
    ("localnet", "subnet"): "has no store",
    ("localnet", "show"): "has no store",
    ("localnet", "fault"): "has no store",
    ("localnet", "reorg"): "has no store",
    ("localnet", "advance"): "has no store",
    ("localnet", "upgrade"): "has no store",
    ("localnet", "pulse"): "has no store",
    ("validator", "idle"): "prints the number and the state of a race",
    ("miner", "commit"): "has no store",
    ("miner", "status"): "has no store, and asks validators for what is its own",
    ("miner", "feedback"): "has no store, and asks validators for what is its own",
    ("miner", "withdraw"): "has no store, and prints what validators answer",
    ("miner", "run-local"): "has no store, and plays problems that it makes or is given",
    ("problems", "score"): "reads a file",
    ("problems", "generate"): "makes a suite",
    ("problems", "import"): "reads what others released",
    ("problems", "audit"): "reads a suite that its user has, and prints no text of it",
    ("catalog", "import"): "reads a file",
    ("catalog", "build"): "has no store",
    ("catalog", "show"): "reads a catalog",
    ("doctor",): "probes the sandbox",
    ("sandbox", "build"): "has no store",
    ("sandbox", "probe"): "has no store",
    ("sandbox", "show"): "has no store",
    ("demo",): "is a validator's own, and prints counts and standings",
    ("distill", "run"): "is a validator's own, and prints counts and scores",
    ("traces", "export"): "is a validator's own way to all that it has",
    ("episode", "show"): "is a validator's own way to one of those, and says that it is under embargo",
    ("episode", "replay"): "plays one of those again, and shows where it differs",
}


@pytest_asyncio.fixture
async def played(database: Database, clock: Clock) -> Played:
    clock.move(minutes=1)
    return Played(database, clock, {"champ": CHAMP, "good": MINER, "weak": OTHER, "idle": STRANGER})


class Walk:
    """Asks everything of everybody's view, and collects what came back, by what was asked."""

    def __init__(self, app: FastAPI, played: Played) -> None:
        self.app = app
        self.played = played
        self.answered: set[str] = set()
        """Routes that have once answered 200."""

    async def texts(self, *signers: Keypair) -> dict[str, str]:
        """Every answer to nobody and to the signers, headers and all."""
        found: dict[str, str] = {}
        signed = {keypair.ss58_address: Signed(keypair, self.played.clock) for keypair in signers}
        callers: dict[str, Signed | None] = {"nobody": None, **signed}
        known = await self._known()
        async with asking(self.app) as client:
            for caller, auth in callers.items():
                for path, address in self._addresses(known):
                    answer = await self._all_pages(client, address, auth)
                    found[f"{caller}: {address}"] = answer
                    if answer.startswith("200"):
                        self.answered.add(path)
        return found

    async def _known(self) -> dict[str, list[Any]]:
        async with self.played.database.session() as session:
            return {
                "number": list(await session.scalars(select(Race.number))),
                "submission_id": list(await session.scalars(select(Submission.id))),
                "suite_id": list(await session.scalars(select(Suite.id))),
                "trace_id": await self._traces(session),
            }

    async def _traces(self, session: AsyncSession) -> list[UUID]:
        """One of each agent, phase and race."""
        rows = await session.execute(
            select(Episode.race_id, Episode.phase, Episode.submission_id, Trace.id)
            .join(Episode, Episode.id == Trace.episode_id)
            .order_by(Trace.id)
        )
        return list({(race, phase, agent): trace for race, phase, agent, trace in rows}.values())

    def _addresses(self, known: dict[str, list[Any]]) -> Iterator[tuple[str, str]]:
        """Paths, and what to ask for of each."""
        for method, path in sorted(endpoints(self.app)):
            if method != "GET":
                assert path in ASKED_WITH_BODIES, f"ask {path} below"
                continue
            names = re.findall(r"{(\w+)}", path)
            for values in itertools.product(*(known[name] for name in names)):
                yield path, path.format(**dict(zip(names, values, strict=True)))
            if path == "/v1/leaderboard":
                for phase, number in itertools.product(("qualifying", "race"), known["number"]):
                    yield path, f"{path}?phase={phase}&race={number}"

    async def _all_pages(self, client: httpx.AsyncClient, address: str, auth: httpx.Auth | None) -> str:
        texts: list[str] = []
        following = ""
        for _ in range(50):
            answer = await client.get(address + following, auth=auth)
            texts.append(f"{answer.status_code} {dict(answer.headers)} {answer.text}")
            following_page = answer.json().get("next") if "json" in answer.headers["content-type"] else None
            if following_page is None:
                return "\n".join(texts)
            following = ("&" if "?" in address else "?") + f"cursor={following_page}"
        raise AssertionError(f"{address} does not end")


@pytest_asyncio.fixture
async def walk(database: Database, played: Played) -> AsyncIterator[Walk]:
    minutes = itertools.count(0.0, 60.0)
    yield Walk(api(database, played.clock, tick=lambda: next(minutes)), played)


def assert_none(word: str, found: dict[str, str]) -> None:
    seen = {
        asked: text[max(0, text.index(word) - 80) :][:200] for asked, text in found.items() if word in text
    }
    assert not seen, f"{word!r} is seen in {seen}"


async def assert_hidden(found: dict[str, str], played: Played) -> None:
    """No source, prompt or trace, no answer, and no problem of a draw that is not settled."""
    assert_none(HUSH, found)
    assert_none(ANSWER, found)
    async with played.database.session() as session:
        races = (await session.execute(select(Race.state, Race.drawn))).all()
    shown = {problem for state, drawn in races if state == "settled" for problem in drawn or ()}
    for problem_id in {f"pool-{i:03}" for i in range(40)} - shown:
        assert_none(f'"{problem_id}"', found)
        assert_none(query_of(problem_id), found)


async def test_no_endpoint_shows_source_prompt_trace_or_answer_during_the_embargo_and_after_it_they_are_there(
    played: Played, walk: Walk, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("arena", "storage", "judge", "neurons"):
        caplog.set_level(logging.DEBUG, logger=name)
    race_id = await played.open_first()
    for state in ("qualifying", "drawing", "racing", "judging"):
        assert (await played.race(race_id)).state == state
        await assert_hidden(await walk.texts(OTHER), played)
        await played.play_all()
        if state == "racing":
            await assert_hidden(await walk.texts(MINER), played)
        await played.advance(race_id)
    settled = await played.race(race_id)
    assert settled.state == "settled"
    await _void_the_next(played, settled)
    third = await _racing(played, settled)
    await assert_hidden(await walk.texts(MINER, OTHER), played)
    assert_none(HUSH, {"the log": caplog.text})
    assert_none(ANSWER, {"the log": caplog.text})
    await _asked_with_bodies(walk, played)
    assert (
        walk.answered
        == {path for method, path in endpoints(walk.app) if method == "GET"} - EMBARGOED - NOBODY_SIGNED_HERE
    )

    played.clock.move(hours=RULES.embargo_h)
    await _assert_published(walk, played, settled, third)


async def _assert_published(walk: Walk, played: Played, settled: Race, third: Race) -> None:
    """Of the first race; the void one and the one that goes on stay as they were."""
    async with asking(walk.app) as client:
        for name in ("champ", "good", "weak"):
            source = await client.get(f"/v1/agents/{played.submissions[name]}/source")
            assert source.content == hushed_source(name)
        assert (await client.get(f"/v1/agents/{played.submissions['idle']}/source")).status_code == 403
        traces = (await client.get("/v1/traces?limit=100")).json()["items"]
        assert {trace["race"] for trace in traces} == {settled.number}
        assert len(traces) == 3 * 4 + 2 * 10
        atif = await client.get(f"/v1/traces/{traces[0]['trace_id']}/atif")
        assert f"{HUSH} prompt" in atif.text
        async with played.database.session() as session:
            others = await session.scalars(
                select(Trace.id).join(Episode).where(Episode.race_id != settled.id, Trace.final)
            )
        for trace_id in others:
            assert (await client.get(f"/v1/traces/{trace_id}")).status_code == 403
            assert (await client.get(f"/v1/traces/{trace_id}/atif")).status_code == 403
    found = await walk.texts()
    assert_none(ANSWER, found)
    assert_none(f"{HUSH} idle", found)
    for problem_id in third.drawn or ():
        assert_none(f'"{problem_id}"', found)


async def _void_the_next(played: Played, settled: Race) -> None:
    """A second race, which an operator ends while it is racing."""
    void_id = await played.engine.open_race(settled.public_suite_id, settled.pool_suite_id)
    await played.enter(void_id)
    await played.play_all()
    await played.advance(void_id, times=2)
    async with played.database.session() as session:
        await operate(session, void_id, "void", operator="o", reason="a leak", now=played.clock())
    assert (await played.race(void_id)).state == "void"


async def _racing(played: Played, settled: Race) -> Race:
    """A third race, which goes on."""
    race_id = await played.engine.open_race(settled.public_suite_id, settled.pool_suite_id)
    await played.enter(race_id)
    await played.play_all()
    await played.advance(race_id, times=2)
    await played.play_all()
    return await played.race(race_id)


async def _asked_with_bodies(walk: Walk, played: Played) -> None:
    """Whoever sends what is like a hidden source, or is refused, learns nothing of what others sent."""
    found: dict[str, str] = {}
    played.clock.move(hours=13)  # so that nobody is cooling down, and the embargo goes on
    async with asking(walk.app) as client:
        for keypair, code, body in (
            (OTHER, "duplicate", hushed_source("good")),
            (MINER, "too_similar", hushed_source("champ") + b"\nx = 1\n"),
            (OTHER, "cooling_down", b"def ("),
        ):
            answer = await client.post(
                "/v1/submissions",
                content=body,
                auth=Signed(keypair, played.clock),
                headers={"X-Agent-Name": code},
            )
            assert answer.json()["code"] == code, answer.text
            found[code] = answer.text
        for action in ACTIONS:
            answer = await client.post(
                f"/v1/races/3/{action}", json={"reason": "test"}, auth=Signed(OPERATOR, played.clock)
            )
            assert answer.status_code == 200, answer.text
            found[action] = answer.text
    await assert_hidden(found, played)


def commands() -> dict[tuple[str, ...], Any]:
    """Every command, by its words."""

    def leaves(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield path, command
        else:
            for name, one in inner.items():
                yield from leaves(one, (*path, name))

    return dict(leaf for name in cli.COMMANDS for leaf in leaves(cli.command(name), (name,)))


def test_of_every_command_it_is_known_whether_it_prints_what_is_stored() -> None:
    known = set(PRINTS_WHAT_IS_STORED) | set(PRINTS_NOTHING_THAT_IS_STORED)
    assert set(commands()) == known, "say above whether the command prints what is stored, and how to ask it"


async def test_no_command_prints_source_prompt_trace_or_answer_during_the_embargo(
    played: Played, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    race_id = await played.open_first()
    for _ in range(4):
        await played.play_all()
        await played.advance(race_id)
    settled = await played.race(race_id)
    await _void_the_next(played, settled)
    await _racing(played, settled)
    found: dict[str, str] = {}
    for words, manners in PRINTS_WHAT_IS_STORED.items():
        for arguments in manners:
            line = [*words, *arguments, "--database-url", database_url]
            ran = await asyncio.to_thread(CliRunner().invoke, cli.app, line)
            found[" ".join(line[:-2])] = f"{ran.output} {ran.stderr} {ran.exception!r}"
            assert ran.exit_code in (0, 1), found
    await assert_hidden(found, played)
