"""What is read of the chain, over the Bittensor SDK. `neurons.chain` adds what is written to it."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
from collections.abc import AsyncIterator, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self

import bittensor as bt
from bittensor.result import ErrorCode

from neurons.chain_link import Link, now
from neurons.chain_types import (
    Block,
    ChainRefused,
    ChainUnavailable,
    Commitment,
    Endpoint,
    Epoch,
    Metagraph,
    Neuron,
    SealedWeights,
    Standing,
)

_SILENCE_S = 60.0
"""Without a new block for this long, a subscription to them is opened anew: five blocks of mainnet."""
_PALLET = "SubtensorModule"


class ChainReader:
    """One subnet of one chain, over one connection that is opened at first use and replaced when it breaks.

    `network` is a name the SDK knows ("finney", "test") or a WebSocket URL. `deadline_s` bounds every single
    read, with all its tries.
    """

    def __init__(
        self,
        network: str,
        netuid: int,
        *,
        deadline_s: float = 30.0,
        fallbacks: Sequence[str] | None = None,
        archives: Sequence[str] | None = None,
    ) -> None:
        self.network = network
        self.netuid = netuid
        self._link = Link(network, deadline_s=deadline_s, fallbacks=fallbacks, archives=archives)
        self._read = self._link.read
        self._kept: Metagraph | None = None

    async def close(self) -> None:
        """Close the connection. The next use opens another."""
        await self._link.close()

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

    def heads(self) -> AsyncIterator[int]:
        """The numbers of new blocks, rising, over however many connections it takes."""
        return self._link.heads(silence_s=_SILENCE_S)

    async def wait_for_block(self, number: int, *, deadline_s: float) -> Block:
        """Wait until the chain has reached a block, and return it. Raises ChainUnavailable when late."""
        heads = self._link.heads(silence_s=min(_SILENCE_S, max(1.0, deadline_s / 4)))
        async with contextlib.aclosing(heads):
            try:
                async with asyncio.timeout(deadline_s):
                    async for newest in heads:
                        if newest >= number:
                            break
            except TimeoutError:
                raise ChainUnavailable(f"block {number} was not reached within {deadline_s:.0f} s") from None
        return await self.block(number)

    async def epoch(self) -> Epoch:
        """Where the subnet is in its tempo."""

        async def read(client: Any) -> Epoch:
            return await _epoch(await client.at(), self.netuid)

        return await self._read("read the epoch", read)

    async def spec_version(self) -> int:
        """The version of the chain's runtime; a change since the last look is logged."""
        return await self._link.spec_version()

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

    async def metagraph(self, *, fresh_s: float = 0.0) -> Metagraph:
        """All neurons, at one block; one that was read less than `fresh_s` ago will do.

        Raises ChainRefused ("subnet_not_exists").
        """
        if self._kept is not None and self._kept.age_s(now()) < fresh_s:
            return self._kept
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
                endpoint=_endpoint(n.axon),
            )
            for n in graph
        )
        self._kept = Metagraph(graph.block, graph.owner_hotkey, neurons, taken_at=now())
        return self._kept

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
        return Commitment(found.block, _plain(found.fields))

    async def commitments(self) -> dict[str, Commitment]:
        """What all hotkeys have committed to in plain bytes."""

        async def read(client: Any) -> dict[str, Commitment]:
            found = await bt.metagraph.fetch_commitments(client, self.netuid)
            return {hotkey: Commitment(c.block, _plain(c.fields)) for hotkey, c in found.items()}

        return await self._read("read the commitments", read)

    async def standing(self, hotkey: str) -> Standing:
        """How a validator's weights stand, at one block. Raises ChainRefused ("not_registered")."""

        async def read(client: Any) -> Standing | None:
            view = await client.at()
            uid = await view.query((_PALLET, "Uids"), [self.netuid, hotkey])
            return None if uid is None else await _standing(view, self.netuid, hotkey, int(uid))

        found = await self._read("read how our weights stand", read)
        if found is None:
            raise self._unregistered(hotkey)
        return found

    async def newest_version_key(self) -> int:
        """The version key that weights must reach, by the subnet owner's wish; 0 is any."""
        return int(await self._storage("WeightsVersionKey", self.netuid) or 0)

    def _unregistered(self, hotkey: str) -> ChainRefused:
        return ChainRefused(
            f"hotkey {hotkey} has no uid on subnet {self.netuid} of {self.network}",
            code=ErrorCode.NOT_REGISTERED.value,
            remediation=f"register it: btcli tx burned-register --netuid {self.netuid}",
        )

    async def _storage(self, item: str, *arguments: int) -> Any:
        return await self._read(f"read {item}", lambda client: client.query((_PALLET, item), list(arguments)))


async def _epoch(view: Any, netuid: int) -> Epoch:
    """From storage, because not every node answers the runtime's own call for it; the rule is the pallet's:
    an epoch runs `Tempo` blocks after the last, or earlier where the owner has asked for one.
    """
    tempo, last, pending = await asyncio.gather(
        *(view.query((_PALLET, item), [netuid]) for item in ("Tempo", "LastEpochBlock", "PendingEpochAt"))
    )
    tempo, last, pending = int(tempo or 0), int(last or 0), int(pending or 0)
    if not tempo:
        return Epoch(0, last, None)
    return Epoch(tempo, last, min(last + tempo, pending) if pending else last + tempo)


async def _standing(view: Any, netuid: int, hotkey: str, uid: int) -> Standing:
    async def of(item: str, *more: int) -> Any:
        return await view.query((_PALLET, item), [netuid, *more])

    updates, limit, cutoff, factor, commit_reveal, row, epoch = await asyncio.gather(
        *(of(item) for item in ("LastUpdate", "WeightsSetRateLimit", "ActivityCutoff")),
        of("ActivityCutoffFactorMilli"),
        of("CommitRevealWeightsEnabled"),
        of("Weights", uid),
        _epoch(view, netuid),
    )
    waiting = await view.read("timelocked_weight_commits", netuid=netuid) if commit_reveal else {}
    return Standing(
        block=int(view.block),
        uid=uid,
        last_update=int(updates[uid]) if updates and uid < len(updates) else 0,
        rate_limit=int(limit or 0),
        activity_cutoff=int(factor) * epoch.tempo // 1000 if factor and epoch.tempo else int(cutoff or 0),
        epoch=epoch,
        commit_reveal=bool(commit_reveal),
        row={int(target): int(weight) for target, weight in row or []},
        sealed=tuple(
            SealedWeights(commit["commit_block"], commit["reveal_round"])
            for commits in waiting.values()
            for commit in commits
            if commit["hotkey"] == hotkey
        ),
    )


def _block(info: Any) -> Block:
    return Block(info.number, info.hash, info.timestamp)


def _endpoint(axon: str | None) -> Endpoint | None:
    """From "ip:port"; None for what nobody can be reached at."""
    if not axon:
        return None
    host, _, port = axon.rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]"))
        return Endpoint(str(address), int(port)) if int(port) and not address.is_unspecified else None
    except ValueError:
        return None


def _plain(fields: Sequence[object]) -> bytes:
    raw = [value for entry in fields for kind, value in _variants(entry) if kind.startswith("Raw")]
    return b"".join(bytes.fromhex(value.removeprefix("0x")) for value in raw)


def _variants(entry: object) -> list[tuple[str, str]]:
    return [(k, v) for k, v in entry.items() if isinstance(v, str)] if isinstance(entry, dict) else []
