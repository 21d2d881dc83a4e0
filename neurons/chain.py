"""The chain, as the rest of the program sees it: `Chain` answers what `Subnet` asks, over the Bittensor SDK.

Nothing here reports a success that was not read back: a submission whose fate is unknown is looked for on the
chain before it is tried again. The SDK is imported here, in `neurons.chain_reads`, in `neurons.chain_link`,
and where hotkeys sign; nowhere else.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import bittensor as bt
from bittensor.result import ErrorCode

from neurons.chain_link import keep_sdk_files_in, now
from neurons.chain_reads import ChainReader
from neurons.chain_types import (
    Block,
    ChainError,
    ChainRefused,
    ChainStalled,
    ChainUnavailable,
    ChainUnreadable,
    Commitment,
    Endpoint,
    Epoch,
    Metagraph,
    Neuron,
    SealedWeights,
    Standing,
    Subnet,
    WeightReceipt,
)
from neurons.wallets import Wallet
from neurons.weights import max_upscaled

__all__ = [
    "Block",
    "Chain",
    "ChainError",
    "ChainRefused",
    "ChainStalled",
    "ChainUnavailable",
    "ChainUnreadable",
    "Commitment",
    "Endpoint",
    "Epoch",
    "Metagraph",
    "Neuron",
    "SealedWeights",
    "Standing",
    "Subnet",
    "WeightReceipt",
    "keep_sdk_files_in",
]

_SUBMIT_TRIES = 3
_RATE_LIMIT_WAITS = 5
_READ_BACK_TRIES = 5
_COMMITMENT_BYTES = 128
_COMMIT_WAITS = 5
_PASSING = frozenset({ErrorCode.RATE_LIMITED.value, ErrorCode.LIMIT_EXCEEDED.value})
"""Refusals of a commitment that another block may not repeat."""


class Chain(ChainReader):
    """One subnet of one chain, to read and to write.

    Submissions have deadlines of their own, given with the call. `version_key` goes with weights: a subnet's
    owner can demand a newest one.
    """

    def __init__(
        self,
        network: str,
        netuid: int,
        *,
        version_key: int = 0,
        deadline_s: float = 30.0,
        fallbacks: Sequence[str] | None = None,
        archives: Sequence[str] | None = None,
    ) -> None:
        super().__init__(network, netuid, deadline_s=deadline_s, fallbacks=fallbacks, archives=archives)
        self._version_key = version_key

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
            "register", lambda client: client.submit_call(call, wallet), landed, now() + deadline_s
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

        ends_at = now() + deadline_s
        for wait in range(_COMMIT_WAITS + 1):
            try:
                await self._until_landed(
                    "commit",
                    lambda client: client.submit_call(call, wallet, signer="hotkey"),
                    landed,
                    ends_at,
                )
                break
            except ChainRefused as refusal:
                # The pallet counts bytes, and limits how often; both pass with the blocks.
                if refusal.code not in _PASSING or wait == _COMMIT_WAITS or now() >= ends_at:
                    raise
                await self._next_block(ends_at)
        if (block := await self._read_back(landed, ends_at)) is not None:
            return int(block)
        raise ChainUnavailable("the commitment was included but cannot be read yet: try again")

    async def serve(self, wallet: Wallet, endpoint: Endpoint, *, deadline_s: float = 120.0) -> None:
        """Announce where the hotkey answers; without effect when that stands already.

        Raises ChainRefused (an address that the chain takes for none, a hotkey without a uid, the serving
        rate limit), ChainUnavailable.
        """
        hotkey = wallet.hotkey.ss58_address

        async def landed() -> Endpoint | None:
            neuron = (await self.metagraph()).of(hotkey)
            if neuron is None:
                raise self._unregistered(hotkey)
            return endpoint if neuron.endpoint == endpoint else None

        if await landed() is not None:
            return
        intent = bt.ServeAxon(netuid=self.netuid, ip=endpoint.ip, port=endpoint.port)
        ends_at = now() + deadline_s
        await self._until_landed(
            "announce our endpoint", lambda client: client.execute(intent, wallet), landed, ends_at
        )
        if await self._read_back(landed, ends_at) is None:
            raise ChainUnavailable("the endpoint was announced but cannot be read yet: try again")

    async def set_weights(
        self, wallet: Wallet, weights: Mapping[int, int], *, deadline_s: float = 180.0
    ) -> WeightReceipt:
        """Set u16 weights by uid, in the clear or sealed as the subnet wants them, and read them back.

        When the rate limit has not passed, waits for it if it ends within the deadline. Raises ChainRefused
        (with `retry_at_block` for a rate limit that ends too late), ChainUnavailable, and ValueError for
        weights that are no u16 or all zero.
        """
        sent = max_upscaled(weights)
        ends_at = now() + deadline_s
        hotkey = wallet.hotkey.ss58_address
        since = (await self.standing(hotkey)).block
        intent = bt.SetWeights(netuid=self.netuid, weights=sent, version_key=self._version_key)

        async def landed() -> Standing | None:
            standing = await self.standing(hotkey)
            if standing.last_update <= since:
                return None
            if standing.commit_reveal:
                return standing if any(sealed.block > since for sealed in standing.sealed) else None
            return standing if standing.row == sent else None

        result = None
        for wait in range(_RATE_LIMIT_WAITS + 1):
            try:
                result = await self._until_landed(
                    "set weights", lambda client: client.execute(intent, wallet), landed, ends_at
                )
                break
            except ChainRefused as refusal:
                if refusal.code != ErrorCode.RATE_LIMITED.value or wait == _RATE_LIMIT_WAITS:
                    raise
                if await landed() is not None:
                    break
                await self._await_rate_limit(hotkey, ends_at)
        found = await self._read_back(landed, ends_at) or await self.standing(hotkey)
        return WeightReceipt(
            sent,
            found.row,
            confirmed=not found.commit_reveal and found.row == sent and found.last_update > since,
            block_hash=None if result is None else result.block_hash,
            reveal_round=max((s.reveal_round for s in found.sealed if s.block > since), default=None),
        )

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

        async def once(client: Any) -> Any:
            result = await submit(client)
            if not result.success:
                raise result.error or bt.ChainError(result.message)
            return result

        for attempt in range(1, _SUBMIT_TRIES + 1):
            left = ends_at - now()
            try:
                # Half of what is left, so that an answer that never comes leaves time to look and try again.
                return await self._link.call(
                    what, once, ends_at=ends_at if attempt == _SUBMIT_TRIES else now() + left / 2
                )
            except ChainUnavailable:
                if await landed() is not None:
                    return None
                if attempt == _SUBMIT_TRIES or now() >= ends_at:
                    raise
                await self._next_block(ends_at)
                if await landed() is not None:
                    return None
        raise AssertionError("unreachable")

    async def _read_back(self, landed: Callable[[], Awaitable[Any]], ends_at: float) -> Any:
        """What `landed` finds, within some blocks; None when it does not."""
        for _ in range(_READ_BACK_TRIES):
            if (found := await landed()) is not None:
                return found
            if now() >= ends_at:
                break
            await self._next_block(ends_at)
        return None

    async def _await_rate_limit(self, hotkey: str, ends_at: float) -> None:
        standing = await self.standing(hotkey)
        target = standing.last_update + standing.rate_limit
        blocks = max(0, target - standing.block)
        left = ends_at - now()
        seconds = blocks * await self._read("read the block time", lambda c: c.block_time())
        if seconds > left:
            raise ChainRefused(
                f"weights were set less than {standing.rate_limit} blocks ago",
                code=ErrorCode.RATE_LIMITED.value,
                remediation=f"wait {blocks} blocks, about {seconds:.0f} s, until block {target}",
                retry_at_block=target,
            )
        await self.wait_for_block(target, deadline_s=left)

    async def _next_block(self, ends_at: float) -> None:
        newest = await self.head()
        await self.wait_for_block(newest.number + 1, deadline_s=max(0.0, ends_at - now()))
