"""Whose money: episodes that a miner's own key pays for, and what becomes of them when it does not serve."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent

import pytest
from nacl.public import PrivateKey
from pydantic import SecretStr
from sqlalchemy import select, text

from arena import queue
from arena.paying import EndpointWithdrawn, OwnKeys
from arena.player import SandboxedPlayer
from arena.recorder.upstream import Upstream
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.sealing import NoSealingKey, Sealed, SealingKey, seal
from arena.verdict import Failed, Solved, Unscored, Verdict
from arena.worker import Assignment, assignment_for
from storage.database import Database
from storage.export import export
from storage.tables import SealedKey, Submission, Table
from storage.traces import TraceQuery
from tests.arena.ledger import Ledger, ledger_problem
from tests.arena.puppet import KEY, Puppet, say, tell
from tests.arena.stores import NOW, RULES, add_episodes

OWN = "sk-miners-own-9876543210"
OURS = SealingKey(PrivateKey.generate())
ASKS = f"llm.chat({say('yes')!r})"


def source(*lines: str) -> bytes:
    return dedent("def solve(problem, tools, llm):\n" + "".join(f"    {line}\n" for line in lines)).encode()


@pytest.fixture
async def own_keys(puppet: Puppet) -> OwnKeys:
    puppet.keys_taken = {KEY, OWN}
    return OwnKeys(OURS, {"near": puppet.base_url}, ("puppet-1",), timeout_s=5, retries=1, pause_s=0.01)


@pytest.fixture
async def house(puppet: Puppet) -> AsyncIterator[Upstream]:
    made = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), timeout_s=5, retries=1, pause_s=0.01)
    yield made
    await made.aclose()


class Paid:
    """Plays agents whose miner pays, from the database and back into it."""

    def __init__(self, database: Database, own_keys: OwnKeys | None, house: Upstream, root: Path) -> None:
        self.database = database
        self.player = SandboxedPlayer(
            {"s": Ledger()}, SubprocessSandbox(stage()), house, socket_root=root, own_keys=own_keys
        )

    async def leased(self, code: bytes, *, key: str | None = OWN, **sealed_for: str) -> Assignment:
        await add_episodes(self.database)
        async with self.database.session() as session:
            submission = (await session.scalars(select(Submission))).one()
            submission.source = code
            if key is not None:
                meant = {
                    "hotkey": submission.hotkey,
                    "source_sha256": submission.source_sha256,
                    "endpoint": "near",
                }
                box = seal(SecretStr(key), OURS.public_key, **{**meant, **sealed_for})
                session.add(
                    SealedKey(submission_id=submission.id, endpoint="near", box=box.box, sealed_at=NOW)
                )
        async with self.database.session() as session:
            leased = await queue.lease(session, worker="w", now=NOW, lease_s=60)
            assert leased is not None
            found = await assignment_for(session, leased)
        return Assignment(leased, found.source, ledger_problem(), found.rules, found.sealed)

    async def play(self, assignment: Assignment) -> Verdict:
        record = await self.player.play(assignment, 0)
        async with self.database.session() as session:
            await queue.complete(
                session,
                assignment.leased,
                verdict=record.verdict,
                events=record.events,
                wall_s=record.wall_s,
                now=NOW,
                rules=RULES,
            )
        return record.verdict


@pytest.fixture
async def paid(database: Database, own_keys: OwnKeys, house: Upstream, short_folder: Path) -> Paid:
    return Paid(database, own_keys, house, short_folder)


async def test_the_miners_key_pays_and_is_seen_by_nobody_but_the_provider(
    paid: Paid, puppet: Puppet, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    caplog.set_level(logging.DEBUG)
    failing = tell(status=400)
    code = source(
        ASKS,
        f"try: llm.chat({failing!r})",
        "except Exception as error: print(error)",
        "import os, sys",
        "print(os.environ, sys.argv)",
        "tools.answer(total=42)",
        "return dict(os.environ)",
    )
    verdict = await paid.play(await paid.leased(code))
    assert isinstance(verdict, Solved)
    assert puppet.keys == {f"Bearer {OWN}"}, "the house paid nothing"
    await export(
        paid.database,
        TraceQuery(),
        format="openai",
        out=tmp_path / "out",
        created_at=datetime.now(UTC),
        licence="none",
        overwrite=False,
    )
    exported = "".join(path.read_text() for path in (tmp_path / "out").rglob("*") if path.is_file())
    stored = await dump(paid.database)
    assert "puppet" in stored
    assert OWN not in stored
    assert OWN not in exported
    assert OWN not in caplog.text
    assert OWN not in repr(paid.__dict__) + repr(paid.player.__dict__)


async def dump(database: Database) -> str:
    """Every row of every table, as text."""
    rows: list[str] = []
    async with database.session() as session:
        for table in Table.metadata.sorted_tables:
            found = await session.execute(text(f'SELECT row_to_json(t)::text FROM "{table.name}" t'))
            rows += [str(row[0]) for row in found]
    return "\n".join(rows)


async def test_without_a_key_the_house_pays(paid: Paid, puppet: Puppet) -> None:
    verdict = await paid.play(await paid.leased(source(ASKS, "tools.answer(total=42)"), key=None))
    assert isinstance(verdict, Solved)
    assert puppet.keys == {f"Bearer {KEY}"}


async def test_a_dead_key_is_found_before_the_agent_asks_and_is_the_miners_to_answer_for(
    paid: Paid, puppet: Puppet
) -> None:
    puppet.keys_taken = {KEY}
    verdict = await paid.play(await paid.leased(source(ASKS, "tools.answer(total=42)")))
    assert isinstance(verdict, Failed)
    assert verdict.reason.startswith("own key refused: status 401")
    assert OWN not in verdict.reason
    assert "[key]" in verdict.reason
    assert len(puppet.requests) == 1, "our own question; the agent's was not passed on"
    assert puppet.keys == {f"Bearer {OWN}"}, "the house does not step in"


async def test_an_agent_that_needs_no_model_is_scored_in_spite_of_its_dead_key(
    paid: Paid, puppet: Puppet
) -> None:
    puppet.keys_taken = set()
    code = source(f"try: {ASKS}", "except Exception as error: assert error.code == 'key_refused', error")
    verdict = await paid.play(await paid.leased(code + b"    tools.answer(total=42)\n"))
    assert isinstance(verdict, Solved)


@pytest.mark.parametrize("status", [401, 402, 429])
async def test_a_key_that_dies_on_the_way_is_the_miners_too(paid: Paid, status: int) -> None:
    verdict = await paid.play(await paid.leased(source(ASKS, f"llm.chat({tell(status=status)!r})")))
    assert isinstance(verdict, Failed)
    assert verdict.reason.startswith(f"own key refused: status {status}")


async def test_a_provider_that_is_down_leaves_the_episode_unscored_though_the_miner_pays(paid: Paid) -> None:
    verdict = await paid.play(await paid.leased(source(f"llm.chat({tell(status=503)!r})")))
    assert isinstance(verdict, Unscored)
    assert verdict.reason.startswith("provider:")


async def test_a_box_that_was_copied_from_another_hotkey_pays_for_nothing(paid: Paid, puppet: Puppet) -> None:
    verdict = await paid.play(await paid.leased(source(ASKS), hotkey="somebody else"))
    assert isinstance(verdict, Failed)
    assert verdict.reason.startswith("own key refused: it was sealed for another")
    assert puppet.requests == []


async def test_a_key_that_served_is_not_tried_again_at_once(own_keys: OwnKeys, puppet: Puppet) -> None:
    for _ in range(3):
        async with own_keys.paying(_sealed()) as paid:
            assert paid.dead_key is None
    assert len(puppet.requests) == 1


async def test_an_endpoint_that_the_operator_took_away_is_our_doing(puppet: Puppet) -> None:
    keys = OwnKeys(OURS, {"other": puppet.base_url}, ("puppet-1",))
    with pytest.raises(EndpointWithdrawn, match="near"):
        async with keys.paying(_sealed()):
            pass


async def test_a_host_without_the_sealing_key_says_so(
    database: Database, house: Upstream, short_folder: Path
) -> None:
    with pytest.raises(NoSealingKey, match=r"sealing\.key"):
        async with OwnKeys(None, {}, ("m",)).paying(_sealed()):
            pass
    alone = Paid(database, None, house, short_folder)
    with pytest.raises(NoSealingKey):
        await alone.player.play(await alone.leased(source("pass")), 0)


def _sealed() -> Sealed:
    return seal(SecretStr(OWN), OURS.public_key, hotkey="hk", source_sha256="00", endpoint="near")
