"""A validator collects from nodes on a local chain: whatever a node does, it costs only its own turn."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.responses import RedirectResponse, Response, StreamingResponse
from sqlalchemy import select

from neurons.chain import Chain
from neurons.chain_types import Endpoint
from neurons.localnet.launch import LocalNet
from neurons.mining.door import SOURCE_PATH, create_door
from neurons.mining.node import Node, Told
from neurons.mining.validators import Asking, Validator, permitted
from neurons.serving import serving
from neurons.validator import Validator as Running
from neurons.wallets import Wallet
from storage.database import Database
from storage.tables import Submission
from tests.neurons.conftest import NETUID
from tests.neurons.parts import validator_of

SOURCE = b"def solve(problem, tools, llm):\n    tools.terminate()\n"
NewWallet = Callable[[], Wallet]


async def has_permit(chain: Chain, hotkey: str) -> None:
    async with asyncio.timeout(20):
        while True:
            neuron = (await chain.metagraph()).of(hotkey)
            if neuron is not None and neuron.validator_permit:
                return
            await chain.wait_for_block((await chain.head()).number + 1, deadline_s=10)


@pytest.fixture
async def validator(
    database: Database, localnet: LocalNet, chain: Chain, new_wallet: NewWallet, tmp_path: Path
) -> Running:
    wallet = new_wallet()
    await chain.register(wallet)
    localnet.set_stake(NETUID, wallet.hotkey.ss58_address, 5000.0)
    await has_permit(chain, wallet.hotkey.ss58_address)
    return validator_of(database, chain, wallet, tmp_path)


@pytest.fixture
async def miner(chain: Chain, new_wallet: NewWallet) -> Wallet:
    wallet = new_wallet()
    await chain.register(wallet)
    return wallet


@asynccontextmanager
async def at(chain: Chain, wallet: Wallet, app: FastAPI) -> AsyncIterator[str]:
    """Serve `app`, announced as the wallet's node."""
    async with serving(app, "127.0.0.1", 0) as url:
        await chain.serve(wallet, Endpoint("127.0.0.1", int(url.rpartition(":")[2])))
        yield url


def a_node(chain: Chain, wallet: Wallet, agent: Path, told: list[Told]) -> tuple[Node, FastAPI]:
    node = Node(chain, wallet, agent, "shopper", most_bytes=1 << 18, tell=told.append)
    app = create_door(
        node.shelf,
        hotkey=wallet.hotkey.ss58_address,
        permitted=lambda hotkey: permitted(chain, hotkey),
        served=node.note_served,
    )
    return node, app


async def test_a_node_commits_and_a_validator_collects_once(
    validator: Running, chain: Chain, miner: Wallet, tmp_path: Path
) -> None:
    agent, told = tmp_path / "agent.py", list[Told]()
    agent.write_bytes(SOURCE)
    node, app = a_node(chain, miner, agent, told)
    async with at(chain, miner, app):
        await node.look()
        assert told == []  # it may still be being written
        await node.look()
        assert [t.event for t in told] == ["committed"]
        hotkey = miner.hotkey.ss58_address
        assert (await validator.collector().round())[hotkey].code == "collected"
        assert hotkey not in await validator.collector().round()
    async with validator.database.session() as session:
        stored = (await session.scalars(select(Submission))).one()
    assert (stored.source, stored.name, stored.hotkey) == (SOURCE, "shopper", miner.hotkey.ss58_address)
    assert stored.commitment_block == told[0].values["block"]
    assert told[-1].values == {"validator": validator.hotkey}


async def test_a_changed_file_waits_for_the_cooldown_and_the_old_source_is_served_until_then(
    validator: Running, chain: Chain, miner: Wallet, tmp_path: Path
) -> None:
    agent, told = tmp_path / "agent.py", list[Told]()
    agent.write_bytes(SOURCE)
    node, app = a_node(chain, miner, agent, told)
    wallet = validator._parts.wallet
    async with serving(validator.app(), "127.0.0.1", 0) as api, at(chain, miner, app):
        await chain.serve(wallet, Endpoint("127.0.0.1", int(api.rpartition(":")[2])))
        await node.look()
        await node.look()
        await validator.collector().round()
        agent.write_bytes(SOURCE + b"# better\n")
        await chain.metagraph()
        await node.look()
        await node.look()
        await node.look()
        assert [t.event for t in told] == ["committed", "collected", "waiting"]
        assert node.shelf.agent is not None
        assert node.shelf.agent.source == SOURCE
        seen = await node.standing()
    assert [(s.state, s.validator) for s in seen] == [("accepted", validator.hotkey)]
    committed = await chain.commitment(miner.hotkey.ss58_address)
    assert committed is not None
    assert committed.content.hex() == node.shelf.agent.sha256


async def test_a_file_that_is_no_python_is_not_committed_and_told_of_once(
    chain: Chain, miner: Wallet, tmp_path: Path
) -> None:
    agent, told = tmp_path / "agent.py", list[Told]()
    node, _ = a_node(chain, miner, agent, told)
    await node.look()
    agent.write_text("def solve(:")
    for _ in range(4):
        await node.look()
    assert [t.event for t in told] == ["unusable", "unusable"]
    assert await chain.commitment(miner.hotkey.ss58_address) is None


def sends(content: bytes, **more: str) -> Callable[[], Awaitable[Response]]:
    async def answer() -> Response:
        return Response(content, headers={"X-Agent-Name": "a", **more})

    return answer


async def hangs() -> Response:
    await asyncio.Event().wait()
    raise AssertionError


async def endless() -> Response:
    async def pieces() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65536
            await asyncio.sleep(0)  # once nobody listens, sending never waits

    return StreamingResponse(pieces())


async def elsewhere() -> Response:
    return RedirectResponse("http://127.0.0.1:1/")


BAD = {
    "wrong_hash": sends(SOURCE + b"#"),
    "too_slow": hangs,
    "too_large": endless,
    "redirected": elsewhere,
    "bad_name": sends(SOURCE, **{"X-Agent-Name": "n" * 99}),
}


async def test_bad_nodes_cost_their_own_turn_and_the_good_one_beside_them_is_collected(
    validator: Running, chain: Chain, new_wallet: NewWallet, tmp_path: Path
) -> None:
    (tmp_path / "agent.py").write_bytes(SOURCE + b"# the good one\n")
    hotkeys: dict[str, str] = {}
    bad: dict[str, Wallet] = {}
    async with AsyncExitStack() as stack:
        for code, answer in BAD.items():
            app = FastAPI()
            app.get(SOURCE_PATH)(answer)
            bad[code] = new_wallet()
            await chain.register(bad[code])
            await stack.enter_async_context(at(chain, bad[code], app))
            await chain.commit(bad[code], hashlib.sha256(SOURCE).digest())
            hotkeys[bad[code].hotkey.ss58_address] = code
        good = new_wallet()
        await chain.register(good)
        node, app = a_node(chain, good, tmp_path / "agent.py", [])
        await stack.enter_async_context(at(chain, good, app))
        await node.look()
        await node.look()
        hotkeys[good.hotkey.ss58_address] = "collected"
        ended = await validator.collector(deadline_s=2.0).round()
        api = await stack.enter_async_context(serving(validator.app(), "127.0.0.1", 0))
        endpoint = Endpoint("127.0.0.1", int(api.rpartition(":")[2]))
        seen = {
            code: await Asking(wallet, local=True).seen(
                Validator(validator.hotkey, 0.0, endpoint), hashlib.sha256(SOURCE).hexdigest()
            )
            for code, wallet in bad.items()
        }
    # The chain is all tests' own: nodes of earlier ones are unreachable by now.
    assert {hotkeys[h]: a.code for h, a in ended.items() if h in hotkeys} == {
        c: c for c in (*BAD, "collected")
    }
    # Each miner can see why, and none has to wait for it.
    assert {code: s.detail.partition(":")[0] for code, s in seen.items()} == {c: c for c in BAD}
    assert {s.may_submit_at for s in seen.values()} == {None}
    async with validator.database.session() as session:
        assert (await session.scalars(select(Submission.hotkey))).all() == [good.hotkey.ss58_address]


async def test_a_node_that_failed_is_not_asked_again_at_once(
    validator: Running, chain: Chain, miner: Wallet
) -> None:
    app = FastAPI()
    app.get(SOURCE_PATH)(sends(b"something else"))
    async with at(chain, miner, app):
        await chain.commit(miner, hashlib.sha256(SOURCE).digest())
        hotkey = miner.hotkey.ss58_address
        assert (await validator.collector().round())[hotkey].code == "wrong_hash"
        assert hotkey not in await validator.collector().round()
