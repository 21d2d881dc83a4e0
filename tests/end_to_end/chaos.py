"""A race under processes that die: they are started, killed and started again, and so is the database."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO
from uuid import UUID

import asyncpg
import psutil
from fastapi import Request, Response

from arena.suites import store_suite
from storage.database import Database
from storage.embedded import EmbeddedServer
from storage.errors import DatabaseUnavailable
from storage.tables import Submission
from tests.arena.puppet import Puppet
from tests.arena.sums import sums
from tests.end_to_end.chaos_process import RULES, engine_on, judging
from tests.end_to_end.family import Family

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 4
BOUNDARY = datetime(2021, 6, 1, tzinfo=UTC)
"""Long past for every process, and the same in every run: the draw and the champion's age follow from it."""
EPISODES = 5 * (RULES.public_size + RULES.drawn_size)
GONE_DEADLINE_S = 30.0
_LOOK_S = 0.1

AGENT = """
import json

WRONG_EVERY = {wrong_every}
SHOWS = {shows}

def solve(problem, tools, llm):
    name, _, asked = problem.query.partition(": ")
    a, b = (int(word) for word in asked.rstrip("?").split(" + "))
    total = a + b + (1 if a % WRONG_EVERY == 0 else 0)
    said = f"{{a}} plus {{b}} makes {{total}}." if SHOWS else "I guess."
    calls = [("add", {{"amount": a}}), ("answer", {{"total": total}}), ("finish", {{}})]
    message = {{
        "role": "assistant",
        "content": said,
        "tool_calls": [
            {{"id": f"c{{i}}", "type": "function", "function": {{"name": n, "arguments": json.dumps(v)}}}}
            for i, (n, v) in enumerate(calls)
        ],
    }}
    order = json.dumps({{"message": message}})
    reply = llm.chat([{{"role": "user", "content": problem.query}}, {{"role": "user", "content": order}}])
    for call in reply["tool_calls"]:
        tools.call(call["function"]["name"], call["function"]["arguments"])
"""
CAST = {
    "champion": (2, True),
    "best": (9, True),
    "middling": (3, True),
    "silent": (5, False),
    "poor": (1, True),
}
"""Agents by hotkey: every how many sums they are wrong, and whether they show the sum."""


class Provider(Puppet):
    """The model's endpoint, which is out of order now and then."""

    outages = 0
    _back_at = 0.0

    def fail_for(self, seconds: float) -> None:
        """Be out of order for that long."""
        self._back_at = time.monotonic() + seconds
        self.outages += 1

    async def _answer(self, request: Request) -> Response:
        if time.monotonic() < self._back_at:
            return Response('{"error": {"message": "out of order"}}', 503)
        self.requests.clear()  # nobody looks at them, and there are many
        return await super()._answer(request)


@dataclass
class Chaos:
    """One race on a database and processes of its own."""

    folder: Path
    model_url: str
    cast: tuple[str, ...]
    """Processes that are to run, each named for what it does and, after a dash, for which it is."""
    family: Family = field(default_factory=Family)
    server: EmbeddedServer = field(init=False)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    started: set[int] = field(default_factory=set)
    """Ids of all that ever ran."""
    kills: int = 0
    restarts: int = 0

    def __post_init__(self) -> None:
        self.server = EmbeddedServer(self.folder / "store")
        admin = asyncio.run(self._query("CREATE DATABASE chaos", database="postgres"))
        assert admin == []
        self.log: IO[bytes] = (self.folder / "log").open("wb")

    @property
    def workers(self) -> list[str]:
        """Those of its processes that play."""
        return [name for name in self.cast if name.startswith("worker")]

    @property
    def url(self) -> str:
        return self.server.url("chaos").render_as_string(hide_password=False)

    def open_race(self) -> None:
        """The same race in every run: agents, problems, seeds and times."""
        asyncio.run(self._open_race())

    def start(self) -> None:
        """Start whatever does not run."""
        for name in self.cast:
            child = self.running.get(name)
            if child is None or child.poll() is not None:
                self.running[name] = subprocess.Popen(
                    [
                        *(sys.executable, "-m", "tests.end_to_end.chaos_process", name.partition("-")[0]),
                        *(self.url, self.model_url),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=self.log,
                    stderr=self.log,
                    cwd=ROOT,
                )
                self.started.add(self.running[name].pid)

    def kill(self, name: str) -> None:
        """SIGKILL for a process, and nothing else."""
        child = self.running[name]
        if child.poll() is None:
            child.kill()
            child.wait(GONE_DEADLINE_S)
            self.kills += 1

    def restart_database(self, *, hard: bool) -> None:
        """End the server at once, `hard` with SIGKILL, and start it again on what it had written."""
        lines = (self.folder / "store" / "postgres" / "postmaster.pid").read_text().splitlines()
        postmaster = psutil.Process(int(lines[0]))
        backends = postmaster.children(recursive=True)
        postmaster.send_signal(signal.SIGKILL if hard else signal.SIGQUIT)
        psutil.wait_procs([postmaster, *backends], timeout=GONE_DEADLINE_S)
        old, self.server = self.server, self._started()
        old.release()
        self.restarts += 1

    def done(self) -> int | None:
        """Episodes that are done; None while the database does not answer."""
        try:
            ((count,),) = asyncio.run(self._query("SELECT count(*) FROM episode WHERE state = 'done'"))
        except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
            return None
        return int(str(count))

    def state(self) -> str:
        ((state,),) = asyncio.run(self._query("SELECT state FROM race"))
        return str(state)

    def run(self, strike: Callable[[], None] = lambda: None, *, kills: int = 0, deadline_s: float) -> None:
        """Until the race is over and there were that many `kills`.

        `strike` kills once, or not if it finds nobody to kill. It comes as episodes get done, so that all of
        the harm falls into the race, and every few seconds though none is done.
        """
        until = time.monotonic() + deadline_s
        patience = 0.0
        while True:
            assert time.monotonic() < until, f"not over in time: {self.told()}"
            self.start()
            time.sleep(_LOOK_S)
            self.family.collect([child.pid for child in self.running.values()])
            done = self.done()
            if done is None:
                continue
            due = kills if done >= EPISODES else int(kills * (done + 1) / EPISODES)
            if self.kills < due or (self.kills < kills and time.monotonic() > patience > 0):
                patience = time.monotonic() + 3.0
                strike()
            elif self.kills >= kills and self.state() in ("settled", "void"):
                break

    def end(self) -> list[str]:
        """End all that runs, with SIGKILL too; what of the family still lives after a while."""
        for name in self.running:
            self.kill(name)
        left = self.family.left(GONE_DEADLINE_S)
        self.family.collect([child.pid for child in self.running.values()])
        return left

    def told(self) -> str:
        """The last that processes said."""
        self.log.flush()
        return (self.folder / "log").read_text(errors="replace")[-3000:]

    def _started(self) -> EmbeddedServer:
        for _ in range(20):
            try:
                return EmbeddedServer(self.folder / "store")
            except DatabaseUnavailable:
                time.sleep(0.5)
        raise AssertionError("the database does not start again")

    async def _query(self, statement: str, *, database: str = "chaos") -> list[tuple[object, ...]]:
        url = self.server.url(database)
        connection = await asyncpg.connect(
            user=url.username, database=database, host=url.query["host"], timeout=10, command_timeout=30
        )
        try:
            return [tuple(row) for row in await connection.fetch(statement)]
        finally:
            await connection.close(timeout=10)

    async def _open_race(self) -> None:
        async with Database.open(self.url, self.folder) as database:
            await database.migrate()
            public = await store_suite(database, sums("public", RULES.public_size), "public")
            pool = await store_suite(database, sums("pool", 60), "pool")
            async with database.session() as session:
                for i, (hotkey, (wrong_every, shows)) in enumerate(CAST.items()):
                    source = AGENT.format(wrong_every=wrong_every, shows=shows).encode()
                    session.add(
                        Submission(
                            id=UUID(int=i + 1),
                            hotkey=hotkey,
                            source_sha256=hashlib.sha256(source).hexdigest(),
                            source=source,
                            name=hotkey,
                            state="accepted",
                            submitted_at=BOUNDARY - timedelta(days=1, seconds=-i),
                        )
                    )
            engine = engine_on(database, judging(database))
            engine._clock = lambda: BOUNDARY - timedelta(hours=1)
            race_id = await engine.open_race(
                public, pool, founding_champion=UUID(int=1), boundary_at=BOUNDARY
            )
            await engine.enter(race_id, [UUID(int=i + 1) for i in range(1, len(CAST))])


@contextlib.contextmanager
def chaos_in(folder: Path, model_url: str, *, beside: tuple[str, ...] = ()) -> Iterator[Chaos]:
    """A race in `folder`, and an end to all that it started. `beside` are further processes of it."""
    folder.mkdir()
    folder.chmod(0o755)
    chaos = Chaos(folder, model_url, ("engine", *(f"worker-{i}" for i in range(WORKERS)), *beside))
    with chaos.family.adopting():
        try:
            chaos.open_race()
            yield chaos
        finally:
            chaos.end()
            chaos.server.release()
            chaos.log.close()
