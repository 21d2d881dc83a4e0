"""A whole subnet: three validators, of which one forges and one is down in parts, and eight miners, five of
them nodes; five races on one chain, decided together.

Everything is real but the episodes, which end at once: an agent solves as many problems as its source says.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from fastapi import FastAPI, HTTPException
from sqlalchemy import select

from arena import queue
from arena.race_records import race_inputs
from arena.races import OVER
from arena.recorder.upstream import Upstream
from arena.rules import Rules
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.settlement import Settlement, settle
from arena.suites import store_suite
from arena.verification import Means, verify_race
from distill.filters import FilterConfig, accepts
from neurons.chain import Chain
from neurons.chain_types import Endpoint
from neurons.localnet.launch import LocalNet
from neurons.localnet.subnet import SubnetOptions
from neurons.mining.door import create_door
from neurons.mining.node import Node
from neurons.mining.sending import send_to_all
from neurons.mining.validators import permitted
from neurons.peer_race import verify_published
from neurons.peers import Peers
from neurons.serving import serving
from neurons.validator import Parts, Validator, utc_now
from neurons.wallets import Wallet, demo_wallet
from neurons.weights import max_upscaled, weights_by_uid
from problems.problem import canonical_json
from storage.database import Database
from storage.tables import Episode, Race, Reign, Submission
from tests.arena.stores import failed, finish, solved, suite

NETUID = 3
MEMBERS = 12
"""The owner, three validators and eight miners: the subnet is full."""
OPTIONS = SubnetOptions(
    tempo=20, weights_rate_limit=4, immunity_period=10, max_uids=MEMBERS, serving_rate_limit=1
)
RULES = Rules.load(
    {
        "public_size": 3,
        "drawn_size": 10,
        "entry_share": 0.0,
        "cooldown_h": 0.0,
        "judge_pause_s": 0.0,
        "retry_backoff_s": 0.0,
        "consensus": "median",
        "consensus_deadline_s": 12.0,
        "promotion": {"alpha": 0.2},
    }
)
INTAKE = timedelta(seconds=6)
STAKES = {"honest": 40_000.0, "flaky": 30_000.0, "forger": 30_000.0}
SKILLS = {
    "node0": 3,
    "node1": 2,
    "node2": 2,
    "node3": 1,
    "node4": 0,
    "upload0": 2,
    "upload1": 1,
    "upload2": 0,
}
FRIEND = "upload2"
"""Whom the forger would have crowned and paid."""


def source(name: str, skill: int) -> bytes:
    """An agent of that skill, like no other: as fingerprints have it, there is too little to compare."""
    return f"NAME = {name!r}\nSKILL = {skill}\n".encode()


def skill_of(text: bytes) -> int:
    return int(text.rpartition(b"= ")[2])


@dataclass
class Site:
    """One validator: its own database, its own wallet, at one address whatever happens to it."""

    name: str
    folder: Path
    chain: Chain
    wallet: Wallet
    port: int = 0
    suites: tuple[str, str] = ("", "")
    validator: Validator | None = None
    _stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    @property
    def here(self) -> Validator:
        assert self.validator is not None, f"{self.name} is down"
        return self.validator

    async def up(self) -> None:
        self._stack = contextlib.AsyncExitStack()
        database = await self._stack.enter_async_context(Database.open(None, self.folder))
        await database.migrate()
        self.suites = (
            await store_suite(database, suite("public", 3), "public"),
            await store_suite(database, suite("pool", 60), "pool"),
        )
        upstream = Upstream("http://127.0.0.1:9/v1", None, ("none",))
        self._stack.push_async_callback(upstream.aclose)
        self.validator = Validator(
            Parts(
                database=database,
                rules=RULES,
                environments={},
                sandbox=SubprocessSandbox(stage()),
                upstream=upstream,
                chain=self.chain,
                wallet=self.wallet,
                socket_root=self.folder,
                slots=1,
            )
        )
        app = self.validator.app()
        url = await self._stack.enter_async_context(serving(app, "127.0.0.1", self.port))
        self.port = int(url.rpartition(":")[2])
        await self.chain.serve(self.wallet, Endpoint("127.0.0.1", self.port))

    async def down(self) -> None:
        self.validator = None
        await self._stack.aclose()

    async def take_in(self, boundary_at: datetime, number: int) -> UUID:
        """Open the race and take in whoever comes until its boundary."""
        engine = self.here.engine
        await engine.catch_up(*self.suites, until=number)
        race_id = await engine.open_race(*self.suites, boundary_at=boundary_at, number=number)
        collector = self.here.collector(deadline_s=3.0)
        while utc_now() < boundary_at - timedelta(seconds=1):
            await collector.round()
            await engine.enter(race_id)
            await asyncio.sleep(0.2)
        return race_id

    async def race(self, race_id: UUID, *, until: frozenset[str] = OVER) -> str:
        while True:
            await self.play()
            state = await self.here.engine.advance(race_id)
            if state in until:
                return state
            await asyncio.sleep(0.1)

    async def play(self) -> None:
        database = self.here.database
        async with database.session() as session:
            skills = {
                row.id: skill_of(row.source)
                for row in await session.execute(select(Submission.id, Submission.source))
            }
        while True:
            async with database.session() as session:
                leased = await queue.lease(session, worker=self.name, now=utc_now(), lease_s=45)
                if leased is None:
                    return
                episode = await session.get_one(Episode, leased.episode_id)
            verdict = solved() if episode.position < skills[leased.submission_id] else failed()
            await finish(database, leased, verdict, now=utc_now(), rules=RULES)

    async def settled(self, number: int) -> dict[str, Any]:
        """The race as stored, after it was decided again to the same bytes."""
        async with self.here.database.session() as session:
            race = (await session.scalars(select(Race).where(Race.number == number))).one()
        assert race.settlement is not None, (self.name, race.state, race.void_reason)
        credits = await self.here.engine.credits(race.id)
        async with self.here.database.session() as session:
            again = settle(await race_inputs(session, race, credits))
        assert isinstance(again, Settlement)
        assert again.to_bytes() == canonical_json(race.settlement)
        return race.settlement

    async def verified(self, number: int) -> set[str]:
        """The steps of verifying that found a difference. Nothing recorded these episodes, which end at once,
        so their records are not looked at.
        """
        filters = FilterConfig()
        means = Means(
            accepts_into_corpus=lambda trace: accepts(trace, filters),
            environments={},
            regrade=lambda *_: None,
        )
        steps = await verify_race(self.here.database, number, means)
        return {step.name for step in steps if step.status == "differs"} - {"records"}

    async def champions(self) -> list[str]:
        async with self.here.database.session() as session:
            rows = await session.scalars(
                select(Submission.name)
                .join(Reign, Reign.submission_id == Submission.id)
                .join(Race, Race.id == Reign.race_id)
                .order_by(Race.number)
            )
            return list(rows)


class Forger:
    """A validator that never plays: it signs, as its own, what crowns its friend, and pays nobody else."""

    def __init__(self, chain: Chain, wallet: Wallet, model: str, friend: str) -> None:
        self._chain = chain
        self._wallet = wallet
        self._model = model
        self._friend = friend
        self._peers = Peers(chain, wallet)
        self.asked = 0

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/v1/races/{number}/signed")
        async def signed(number: int) -> dict[str, str]:
            self.asked += 1
            _, heard = await self._peers.ask(number, known={})
            true = next((h.body for h in heard if h.hotkey == self._model and h.body), None)
            if true is None:
                raise HTTPException(404)
            body = canonical_json(self._forged(json.loads(true)))
            return {"hotkey": self._peers.hotkey, "body": body.decode(), "signature": self._peers.sign(body)}

        return app

    def _forged(self, result: dict[str, Any]) -> dict[str, Any]:
        friend = next(a for a in result["agents"] if a["hotkey"] == self._friend)
        for agent in result["agents"]:
            agent["score"] = 1.0 if agent is friend else 0.0
        return result | {
            "validator": self._peers.hotkey,
            "champion": {"hotkey": self._friend, "source_sha256": friend["source_sha256"]},
            "promoted": True,
            "credits": {self._friend: 10**6},
            "units": {self._friend: 65535},
            "burn": 0,
        }

    async def pay(self) -> None:
        uid = await self._chain.registered(self._friend)
        assert uid is not None
        await self._chain.set_weights(self._wallet, {uid: 65535})


@pytest.fixture
def full_subnet(metadata: Path, tmp_path: Path) -> Any:
    with LocalNet(netuid=NETUID, options=OPTIONS, block_time_s=0.1, log=tmp_path / "node.log") as net:
        yield net


@pytest.mark.slow
async def test_five_races_come_out_as_the_rules_say_whatever_one_validator_forges_and_one_misses(
    full_subnet: LocalNet, open_folder: Path
) -> None:
    net = full_subnet

    async with contextlib.AsyncExitStack() as stack:
        chain = await stack.enter_async_context(Chain(net.url, NETUID))

        async def member(name: str) -> Wallet:
            wallet = demo_wallet(name, open_folder / "wallets", network=net.url)
            await asyncio.to_thread(net.fund, wallet.coldkey.ss58_address, 10.0)
            await chain.register(wallet)
            return wallet

        validators = {name: await member(name) for name in STAKES}
        miners = {name: await member(name) for name in SKILLS}
        for name, wallet in validators.items():
            await asyncio.to_thread(net.set_stake, NETUID, wallet.hotkey.ss58_address, STAKES[name])
        honest, flaky = (
            Site(name, open_folder / name, chain, validators[name]) for name in ("honest", "flaky")
        )
        for site in (honest, flaky):
            site.folder.mkdir()
            site.folder.chmod(0o755)
            await site.up()
            stack.push_async_callback(site.down)
        friend = miners[FRIEND].hotkey.ss58_address
        forger = Forger(chain, validators["forger"], honest.here.hotkey, friend)
        url = await stack.enter_async_context(serving(forger.app(), "127.0.0.1", 0))
        await chain.serve(validators["forger"], Endpoint("127.0.0.1", int(url.rpartition(":")[2])))
        await _permits(chain, [w.hotkey.ss58_address for w in validators.values()])

        files = {name: open_folder / f"{name}.py" for name in SKILLS if name.startswith("node")}
        for name, file in files.items():
            file.write_bytes(source(name, SKILLS[name]))
            await stack.enter_async_context(_node(chain, miners[name], file))

        async def upload(name: str, skill: int) -> None:
            # The forger takes no submissions: a refusal of its own is all that one gets there.
            await send_to_all(
                chain, miners[name], source=source(name, skill), name=name, tries=1, pause_s=0.0
            )

        for name in ("upload0", "upload1", "upload2"):
            await upload(name, SKILLS[name])

        async def together(number: int, *sites: Site) -> None:
            boundary_at = utc_now() + INTAKE
            ids = await asyncio.gather(*(site.take_in(boundary_at, number) for site in sites))
            await asyncio.gather(*(_raced(site, race_id) for site, race_id in zip(sites, ids, strict=True)))

        async def paid(number: int, *sites: Site) -> None:
            """All pay; what stands on the chain is what the record comes to."""
            await forger.pay()
            graph = await chain.metagraph()
            for site in sites:
                settlement = await site.settled(number)
                async with site.here.database.session() as session:
                    race_id = (await session.scalars(select(Race.id).where(Race.number == number))).one()
                receipt = await site.here.pay(race_id)
                payout = settlement["payout"]
                row = weights_by_uid(
                    payout["units"],
                    burn=payout["burn"],
                    uids=graph.uids(),
                    burn_uid=graph.burn_uid(),
                )
                assert receipt.confirmed
                assert await chain.weights(graph.uids()[site.here.hotkey]) == max_upscaled(row.weights)
            assert await chain.weights(graph.uids()[validators["forger"].hotkey.ss58_address]) == {
                graph.uids()[friend]: 65535
            }

        # 1: all are there. Nobody holds the top, so the best is crowned.
        await together(1, honest, flaky)
        await paid(1, honest, flaky)
        assert await honest.champions() == ["node0"]
        assert (await honest.settled(1))["payout"] == (await flaky.settled(1))["payout"]
        assert len((await honest.settled(1))["agents"]) == len(SKILLS)

        # 2: one is ended in the middle of the race, and comes back while the other waits for it.
        boundary_at = utc_now() + INTAKE
        first, second = await asyncio.gather(*(site.take_in(boundary_at, 2) for site in (honest, flaky)))
        assert await flaky.race(second, until=frozenset({"racing"})) == "racing"
        waiting = asyncio.create_task(_raced(honest, first))
        await flaky.down()
        await flaky.up()
        await asyncio.gather(waiting, _raced(flaky, second))
        await paid(2, honest, flaky)
        assert (await honest.settled(2))["payout"] == (await flaky.settled(2))["payout"]
        assert (await honest.settled(2))["promotion"]["promoted"] is False

        # 3: it is away, and a miner sends a far better agent: it is crowned without it.
        await flaky.down()
        await upload("upload0", 10)
        await together(3, honest)
        await paid(3, honest)
        assert await honest.champions() == ["node0", "upload0"]
        missed = (await honest.settled(3))["consensus"]
        assert missed["left_out"].keys() == {validators["flaky"].hotkey.ss58_address}

        # 4: it is back, knows what was drawn, and follows the vote. A node's file has changed meanwhile.
        await flaky.up()
        await upload("upload0", 10)
        files["node1"].write_bytes(source("node1", 4))
        await together(4, honest, flaky)
        await paid(4, honest, flaky)
        assert (await flaky.champions())[-1] == "upload0"
        assert await _drawn(flaky, 3) == await _drawn(honest, 3)

        # 5: all agree again, to the unit.
        await together(5, honest, flaky)
        await paid(5, honest, flaky)
        last = await honest.settled(5)
        assert last["payout"] == (await flaky.settled(5))["payout"]
        assert last["consensus"]["taken"].keys() == {w.hotkey.ss58_address for w in validators.values()}
        assert await honest.champions() == ["node0", "upload0"]
        assert forger.asked
        for number in (1, 2, 4, 5):
            assert await honest.verified(number) == await flaky.verified(number) == set()
        published = await verify_published(f"http://127.0.0.1:{flaky.port}", 5)
        assert {step.name: step.status for step in published} == {
            **dict.fromkeys(("signature", "rules", "race", "scores", "payout", "settlement"), "same"),
            **dict.fromkeys(("draw", "episodes"), "not checked"),
        }

        # On chain: the consensus pays whom the rules pay, in their proportion, its friend nothing.
        await chain.wait_for_block((await chain.head()).number + 2 * OPTIONS.tempo, deadline_s=60)
        graph = await chain.metagraph()
        units = last["payout"]["units"]
        total = sum(units.values()) + last["payout"]["burn"]
        for wallet in miners.values():
            neuron = graph.of(wallet.hotkey.ss58_address)
            assert neuron is not None
            assert neuron.incentive == pytest.approx(units.get(neuron.hotkey, 0) / total, abs=2e-3)
        assert friend not in units

        # Newcomers take the places of those who earn nothing, the longest there first: the forger, whom the
        # consensus leaves no dividend, and then the first of the miners who are paid nothing.
        unpaid = [w for w in miners.values() if w.hotkey.ss58_address not in units]
        since = {neuron.hotkey: neuron.registered_at for neuron in graph.neurons}
        first_unpaid = min(unpaid, key=lambda w: since[w.hotkey.ss58_address])
        for name, leaves in (("newcomer", validators["forger"]), ("another", first_unpaid)):
            seat = graph.uids()[leaves.hotkey.ss58_address]
            newcomer = await member(name)
            assert await chain.registered(newcomer.hotkey.ss58_address) == seat
            assert await chain.registered(leaves.hotkey.ss58_address) is None


async def _raced(site: Site, race_id: UUID) -> None:
    async with asyncio.timeout(120):
        assert await site.race(race_id) == "settled"


async def _drawn(site: Site, number: int) -> list[str]:
    async with site.here.database.session() as session:
        drawn = await session.scalar(select(Race.drawn).where(Race.number == number))
    assert drawn is not None
    return list(drawn)


async def _permits(chain: Chain, hotkeys: list[str]) -> None:
    async with asyncio.timeout(60):
        while True:
            graph = await chain.metagraph()
            found = [graph.of(hotkey) for hotkey in hotkeys]
            if all(n is not None and n.validator_permit and n.endpoint for n in found):
                return
            await chain.wait_for_block((await chain.head()).number + 1, deadline_s=10)


@contextlib.asynccontextmanager
async def _node(chain: Chain, wallet: Wallet, agent: Path) -> AsyncIterator[Node]:
    """A miner's node, running as the command runs it."""
    node = Node(chain, wallet, agent, agent.stem, most_bytes=1 << 18, tell=lambda _: None)
    hotkey = wallet.hotkey.ss58_address
    permits: Callable[[str], Any] = lambda caller: permitted(chain, caller)  # noqa: E731
    door = create_door(node.shelf, hotkey=hotkey, permitted=permits, served=node.note_served)
    async with serving(door, "127.0.0.1", 0) as url:
        await chain.serve(wallet, Endpoint("127.0.0.1", int(url.rpartition(":")[2])))
        task = asyncio.create_task(node.keep_committed())
        try:
            yield node
        finally:
            task.cancel()
