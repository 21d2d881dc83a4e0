"""The chain, as the rest of the program sees it: the only module that calls the Bittensor SDK for it.

Whatever the SDK raises becomes one of the three errors of `neurons.chain_types`. Nothing here reports a
success that was not read back: a submission whose fate is unknown is looked for on the chain before it is
tried again.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import bittensor as bt
from bittensor.result import ErrorCode

from neurons.chain_types import (
    Block,
    ChainError,
    ChainRefused,
    ChainUnavailable,
    ChainUnreadable,
    Commitment,
    Metagraph,
    Neuron,
    WeightReceipt,
)
from neurons.wallets import Wallet
from neurons.weights import max_upscaled

__all__ = [
    "Block",
    "Chain",
    "ChainError",
    "ChainRefused",
    "ChainUnavailable",
    "ChainUnreadable",
    "Commitment",
    "Metagraph",
    "Neuron",
    "WeightReceipt",
    "keep_sdk_files_in",
]

_READ_TRIES = 3
_SUBMIT_TRIES = 3
_RATE_LIMIT_WAITS = 5
_READ_BACK_TRIES = 5
_PAUSE_S = 0.5
_COMMITMENT_BYTES = 128
_POOL_IN_THE_WAY = frozenset(
    {
        *(
            "AlreadyImported",
            "AncientBirthBlock",
            "Dropped",
            "ExhaustsResources",
            "FinalityTimeout",
            "Future",
        ),
        *("Invalid", "PriorityTooLow", "Retracted", "Stale", "Usurped"),
    }
)
"""Pool rejections, by the SDK's names, that say nothing about the call itself."""


def keep_sdk_files_in(folder: Path) -> None:
    """Have the SDK cache runtime metadata and token symbols in `folder`, not in the user's home.

    For local chains, each of which has a genesis of its own and would leave a file behind. Affects the whole
    process; call it once, before the first Chain.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["BITTENSOR_RUNTIME_CACHE_DIR"] = str(folder)
    os.environ["BTCLI_TOKEN_SYMBOLS_CACHE"] = str(folder / "token_symbols.json")


class Chain:
    """One subnet of one chain, over one connection that is opened at first use and reopened when it breaks.

    `network` is a name the SDK knows ("finney", "test") or a WebSocket URL. Belongs to the event loop it is
    first used in. `deadline_s` bounds every single operation; submissions have their own, given with the
    call.
    """

    def __init__(self, network: str, netuid: int, *, version_key: int = 0, deadline_s: float = 30.0) -> None:
        self.network = network
        self.netuid = netuid
        self._version_key = version_key
        self._deadline_s = deadline_s
        self._client: Any = None
        self._connecting = asyncio.Lock()

    async def close(self) -> None:
        """Close the connection. The next use opens another."""
        client, self._client = self._client, None
        if client is not None:
            async with _boundary("close"), asyncio.timeout(self._deadline_s):
                await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def head(self) -> Block:
        """The newest block."""
        return _block(await self._read("read the newest block", lambda client: client.block_info()))

    async def block_hash(self, number: int) -> str:
        """The hash of a block. Raises ChainRefused ("not_found") when there is none yet."""
        return (await self.block(number)).hash

    async def block(self, number: int) -> Block:
        """A block by number. Raises ChainRefused ("not_found") when there is none yet."""
        info = await self._read(f"read block {number}", lambda client: client.block_info(number))
        if info is None:
            raise ChainRefused(
                f"there is no block {number}", code="not_found", remediation="wait until the chain reaches it"
            )
        return _block(info)

    async def first_block_at(self, when: datetime) -> Block | None:
        """The first block whose timestamp is at or after `when` (aware), or None while there is none.

        Timestamps rise with numbers, so it is found by bisection, backwards from the newest block in doubling
        strides. All nodes give the same answer, however late they ask, as long as they keep the state.
        """
        newest = await self.head()
        if newest.timestamp < when:
            return None
        at_or_after, stride, before = newest, 1, -1
        while at_or_after.number > 0:
            earlier = await self.block(max(0, at_or_after.number - stride))
            if earlier.timestamp < when:
                before = earlier.number
                break
            at_or_after, stride = earlier, stride * 2
        while at_or_after.number - before > 1:
            middle = await self.block((at_or_after.number + before) // 2)
            if middle.timestamp < when:
                before = middle.number
            else:
                at_or_after = middle
        return at_or_after

    async def wait_for_block(self, number: int, *, deadline_s: float) -> Block:
        """Wait until the chain has reached a block, and return it. Raises ChainUnavailable when late."""
        ends_at = _now() + deadline_s
        while (newest := await self.head()).number < number:
            left = ends_at - _now()
            if left <= 0:
                raise ChainUnavailable(f"block {number} was not reached within {deadline_s:.0f} s")
            try:
                async with _boundary(f"wait for block {number}"):
                    await (await self._connected()).wait_for_block(number, timeout=left)
            except ChainUnavailable:
                # A head subscription does not outlive its connection; the loop looks again.
                await asyncio.sleep(min(_PAUSE_S, max(0.0, left)))
        return newest if newest.number == number else await self.block(number)

    async def balance(self, address: str) -> float:
        """Free balance of an account, in TAO."""
        free = await self._read("read a balance", lambda c: c.balances.balance(coldkey_ss58=address))
        return float(free.tao)

    async def registered(self, hotkey: str) -> int | None:
        """The hotkey's uid on the subnet, or None."""
        uid: int | None = await self._read(
            "look up a uid", lambda c: c.neurons.uid(hotkey_ss58=hotkey, netuid=self.netuid)
        )
        return uid

    async def metagraph(self) -> Metagraph:
        """All neurons, at one block. Raises ChainRefused ("subnet_not_exists")."""
        graph = await self._read(
            "read the metagraph", lambda c: bt.metagraph.fetch(c, self.netuid, commitments=False)
        )
        if graph is None:
            raise ChainRefused(
                f"there is no subnet {self.netuid} on {self.network}",
                code=ErrorCode.SUBNET_NOT_EXISTS.value,
                remediation="set another netuid",
            )
        neurons = tuple(
            Neuron(
                uid=n.uid,
                hotkey=n.hotkey,
                coldkey=n.coldkey,
                stake=float(n.total_stake.rao) / 1e9,
                validator_permit=n.validator_permit,
                incentive=n.incentive,
                active=n.active,
                last_update=n.last_update,
                registered_at=n.block_at_registration,
            )
            for n in graph
        )
        return Metagraph(graph.block, graph.owner_hotkey, neurons)

    async def weights(self, uid: int) -> dict[int, int]:
        """A validator's weights as stored: u16 by uid, the largest 65535; empty when it has set none."""
        row = await self._storage("Weights", self.netuid, uid)
        return {int(target): int(weight) for target, weight in row or []}

    async def commitment(self, hotkey: str) -> Commitment | None:
        """What the hotkey has committed to in plain bytes, or None."""
        found = await self._read(
            "read a commitment", lambda c: c.identity.commitment(hotkey_ss58=hotkey, netuid=self.netuid)
        )
        if found is None:
            return None
        raw = [value for entry in found.fields for kind, value in _variants(entry) if kind.startswith("Raw")]
        return Commitment(found.block, b"".join(bytes.fromhex(v.removeprefix("0x")) for v in raw))

    async def register(self, wallet: Wallet, *, deadline_s: float = 120.0) -> int:
        """Register the hotkey, paying the burn price from the coldkey; returns its uid, also if it had one.

        Raises ChainRefused, ChainUnavailable.
        """
        hotkey = wallet.hotkey.ss58_address
        if (uid := await self.registered(hotkey)) is not None:
            return uid
        call = bt.calls.SubtensorModule.burned_register(netuid=self.netuid, hotkey=hotkey)

        async def landed() -> int | None:
            return await self.registered(hotkey)

        await self._until_landed(
            "register", lambda client: client.submit_call(call, wallet), landed, _now() + deadline_s
        )
        if (uid := await self.registered(hotkey)) is None:
            raise ChainUnavailable("the registration was included but cannot be read yet: try again")
        return uid

    async def commit(self, wallet: Wallet, content: bytes, *, deadline_s: float = 120.0) -> int:
        """Commit the hotkey to up to 128 bytes (such as a source's SHA-256); returns the block.

        A repeated commitment to the same bytes is a new one, in a new block. Raises ChainRefused,
        ChainUnavailable, and ValueError for too many bytes.
        """
        if not 0 < len(content) <= _COMMITMENT_BYTES:
            raise ValueError(f"a commitment holds 1 to {_COMMITMENT_BYTES} bytes, not {len(content)}")
        hotkey = wallet.hotkey.ss58_address
        since = (await self.head()).number
        fields = [[{f"Raw{len(content)}": content}]]
        call = bt.calls.Commitments.set_commitment(netuid=self.netuid, info={"fields": fields})

        async def landed() -> int | None:
            found = await self.commitment(hotkey)
            return found.block if found and found.block > since and found.content == content else None

        ends_at = _now() + deadline_s
        await self._until_landed(
            "commit", lambda client: client.submit_call(call, wallet, signer="hotkey"), landed, ends_at
        )
        for _ in range(_READ_BACK_TRIES):
            if (block := await landed()) is not None:
                return block
            await self._next_block(ends_at)
        raise ChainUnavailable("the commitment was included but cannot be read yet: try again")

    async def set_weights(
        self, wallet: Wallet, weights: Mapping[int, int], *, deadline_s: float = 180.0
    ) -> WeightReceipt:
        """Set u16 weights by uid, and read them back.

        When the rate limit has not passed, waits for it if it ends within the deadline. Raises ChainRefused
        (with `retry_at_block` for a rate limit that ends too late), ChainUnavailable, and ValueError for
        weights that are no u16 or all zero.
        """
        sent = max_upscaled(weights)
        ends_at = _now() + deadline_s
        uid = await self.registered(wallet.hotkey.ss58_address)
        if uid is None:
            raise ChainRefused(
                f"hotkey {wallet.hotkey.ss58_address} has no uid on subnet {self.netuid}",
                code=ErrorCode.NOT_REGISTERED.value,
                remediation="register it first",
            )
        since = (await self.head()).number
        intent = bt.SetWeights(netuid=self.netuid, weights=sent, version_key=self._version_key)

        async def landed() -> dict[int, int] | None:
            row = await self.weights(uid)
            return row if row == sent and await self._last_update(uid) > since else None

        for wait in range(_RATE_LIMIT_WAITS + 1):
            try:
                result = await self._until_landed(
                    "set weights", lambda client: client.execute(intent, wallet), landed, ends_at
                )
                break
            except ChainRefused as refusal:
                if refusal.code != ErrorCode.RATE_LIMITED.value or wait == _RATE_LIMIT_WAITS:
                    raise
                if (row := await landed()) is not None:
                    return WeightReceipt(sent, row, confirmed=True, block_hash=None)
                await self._await_rate_limit(uid, ends_at)
        block_hash = None if result is None else result.block_hash
        sealed = None if result is None else result.data.get("reveal_round")
        read_back = await self.weights(uid)
        for _ in range(0 if sealed is not None else _READ_BACK_TRIES):
            if read_back == sent or _now() >= ends_at:
                break
            await self._next_block(ends_at)
            read_back = await self.weights(uid)
        confirmed = sealed is None and read_back == sent
        return WeightReceipt(sent, read_back, confirmed, block_hash, sealed)

    async def _until_landed(
        self,
        what: str,
        submit: Callable[[Any], Awaitable[Any]],
        landed: Callable[[], Awaitable[object | None]],
        ends_at: float,
    ) -> Any:
        """Submit until it is on the chain; the SDK's result, or None when only `landed` knows of it.

        A refusal is raised at once. When the connection broke or the pool was in the way, its fate is
        unknown: the SDK never sends an extrinsic twice, so it is looked for first.
        """
        for attempt in range(1, _SUBMIT_TRIES + 1):
            try:
                async with _boundary(what), asyncio.timeout_at(ends_at):
                    result = await submit(await self._connected())
                    if result.success:
                        return result
                    raise result.error or bt.ChainError(result.message)
            except ChainUnavailable:
                if await landed() is not None:
                    return None
                if attempt == _SUBMIT_TRIES or _now() >= ends_at:
                    raise
                await self._next_block(ends_at)
                if await landed() is not None:
                    return None
        raise AssertionError("unreachable")

    async def _await_rate_limit(self, uid: int, ends_at: float) -> None:
        limit = int(await self._storage("WeightsSetRateLimit", self.netuid) or 0)
        target = await self._last_update(uid) + limit
        blocks = target - (await self.head()).number
        left = ends_at - _now()
        seconds = max(0, blocks) * await self._read("read the block time", lambda c: c.block_time())
        if seconds > left:
            raise ChainRefused(
                f"weights were set less than {limit} blocks ago",
                code=ErrorCode.RATE_LIMITED.value,
                remediation=f"wait {blocks} blocks, about {seconds:.0f} s, until block {target}",
                retry_at_block=target,
            )
        await self.wait_for_block(target, deadline_s=left)

    async def _next_block(self, ends_at: float) -> None:
        newest = await self.head()
        await self.wait_for_block(newest.number + 1, deadline_s=max(0.0, ends_at - _now()))

    async def _last_update(self, uid: int) -> int:
        updates = await self._storage("LastUpdate", self.netuid)
        return int(updates[uid]) if updates and uid < len(updates) else 0

    async def _storage(self, item: str, *arguments: int) -> Any:
        return await self._read(
            f"read {item}", lambda client: client.query(("SubtensorModule", item), list(arguments))
        )

    async def _read(self, what: str, read: Callable[[Any], Awaitable[Any]]) -> Any:
        """A read, tried again when the connection breaks. The deadline covers all tries."""
        ends_at = _now() + self._deadline_s
        for attempt in range(1, _READ_TRIES + 1):
            try:
                async with _boundary(what), asyncio.timeout_at(ends_at):
                    return await read(await self._connected())
            except ChainUnavailable:
                if attempt == _READ_TRIES or _now() + _PAUSE_S >= ends_at:
                    raise
                await asyncio.sleep(_PAUSE_S)
        raise AssertionError("unreachable")

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                client = bt.Client(self.network)
                await client.connect()
                self._client = client
            return self._client


@asynccontextmanager
async def _boundary(what: str) -> AsyncIterator[None]:
    """Turn whatever the SDK raises into one of this module's errors."""
    try:
        yield
    except ChainError:
        raise
    except TimeoutError as error:
        raise ChainUnavailable(f"could not {what}: the chain did not answer in time") from error
    except (OSError, bt.RpcConnectionError, bt.ConnectionNotReady) as error:
        raise ChainUnavailable(f"could not {what}: {error}") from error
    except bt.ChainError as error:
        if error.code is ErrorCode.UNKNOWN or error.name in _POOL_IN_THE_WAY:
            # No dispatch error has this code: it is the transport's, or the pool's.
            raise ChainUnavailable(f"could not {what}: {error}") from error
        raise ChainRefused(
            f"could not {what}: {error}",
            code=error.code.value,
            remediation=error.remediation,
            name=error.name,
        ) from error
    except Exception as error:
        # The SDK reports a runtime it does not know by whatever its decoder happens to raise.
        raise ChainUnreadable(
            f"could not {what}: the installed bittensor {bt.__version__} and the chain disagree "
            f"({type(error).__name__}: {error}); upgrade it"
        ) from error


def _block(info: Any) -> Block:
    return Block(info.number, info.hash, info.timestamp)


def _variants(entry: object) -> list[tuple[str, str]]:
    return [(k, v) for k, v in entry.items() if isinstance(v, str)] if isinstance(entry, dict) else []


def _now() -> float:
    return asyncio.get_running_loop().time()
