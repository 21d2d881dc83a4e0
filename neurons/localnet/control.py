"""What no real chain lets anyone do: TAO out of nothing, subnets at will, time at will, and faults.

Whoever can connect can use it; the node therefore listens on the loopback address only, to programs and not
to web pages, and takes faults only when it was started with `--faults`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

from neurons.localnet import runtime_api, subnet, timelock
from neurons.localnet.blocks import Blockchain
from neurons.localnet.faults import Fault, Faults
from neurons.localnet.methods import Parameters, RpcError
from neurons.localnet.state import Block, Draft
from neurons.localnet.subnet import PALLET, SubnetOptions

_ORDER_DEADLINE_S = 30.0
_BREATH_S = 0.001
_MOST_BLOCKS_AT_ONCE = 2000
_MOST_NEURONS_AT_ONCE = 4096
_FAULTS_OFF = "this node takes no faults: start it with --faults"


class Control:
    """The `localnet_*` methods over one chain. `make_block` makes and announces one."""

    def __init__(
        self,
        chain: Blockchain,
        faults: Faults,
        *,
        faults_on: bool,
        block_time_s: float,
        make_block: Callable[[], Block],
        announce: Callable[[Block], None],
    ) -> None:
        self._chain = chain
        self._faults = faults
        self._faults_on = faults_on
        self._block_time_s = block_time_s
        self._make_block = make_block
        self._announce = announce
        orders: dict[str, Callable[[Parameters], Callable[[Draft, int], None]]] = {
            "localnet_createSubnet": _create_subnet,
            "localnet_fund": _fund,
            "localnet_populate": _populate,
            "localnet_pulse": _pulse,
            "localnet_setStake": _set_stake,
            "localnet_upgrade": self._upgrade,
        }
        self.table: Mapping[str, Callable[[Parameters], Awaitable[Any]]] = {
            **{name: self._ordering(order) for name, order in orders.items()},
            "localnet_advance": self._advance,
            "localnet_clearFaults": self._clear,
            "localnet_fault": self._fault,
            "localnet_info": self._info,
            "localnet_reorg": self._reorg,
            "localnet_show": self._show,
        }

    def _ordering(
        self, order: Callable[[Parameters], Callable[[Draft, int], None]]
    ) -> Callable[[Parameters], Awaitable[Any]]:
        async def carried_out(parameters: Parameters) -> dict[str, Any]:
            return await self._order(order(parameters))

        return carried_out

    async def _order(self, apply: Callable[[Draft, int], None]) -> dict[str, Any]:
        future: asyncio.Future[Block] = asyncio.get_running_loop().create_future()

        def done(block: Block | None, error: ValueError | None) -> None:
            if future.done():
                return
            if block is None:
                future.set_exception(RpcError(-32602, "Invalid params", str(error)))
            else:
                future.set_result(block)

        self._chain.order(apply, done)
        if not self._block_time_s:
            self._make_block()
        block = await asyncio.wait_for(future, _ORDER_DEADLINE_S)
        return {"block": block.number, "hash": block.hash}

    async def _advance(self, parameters: Parameters) -> dict[str, Any]:
        count = int(parameters[0] or 1)
        if not 0 < count <= _MOST_BLOCKS_AT_ONCE:
            raise ValueError(f"advance by 1..{_MOST_BLOCKS_AT_ONCE} blocks at a time")
        for _ in range(count):
            block = self._make_block()
            # Time for subscribers to be told: one that falls behind by too much is cut off.
            await asyncio.sleep(_BREATH_S)
        return {"block": block.number, "hash": block.hash}

    async def _fault(self, parameters: Parameters) -> list[dict[str, Any]]:
        self._check_faults()
        fault = Fault.of(dict(parameters[0]))
        if fault.kind == "missing":
            self._chain.codec.entry_prefix(fault.entry)
        if fault.kind == "fail" and not self._chain.codec.has_error(*fault.error.split(".")):
            raise ValueError(f"the runtime has no error {fault.error}")
        self._faults.inject(fault)
        return self._faults.shown()

    async def _clear(self, _: Parameters) -> int:
        self._check_faults()
        return self._faults.clear()

    async def _reorg(self, _: Parameters) -> dict[str, Any]:
        self._check_faults()
        block = self._chain.reorg()
        self._announce(block)
        return {"block": block.number, "hash": block.hash}

    def _check_faults(self) -> None:
        if not self._faults_on:
            raise RpcError(-32601, _FAULTS_OFF, _FAULTS_OFF)

    def _upgrade(self, parameters: Parameters) -> Callable[[Draft, int], None]:
        self._check_faults()
        spec_version, without = int(parameters[0]), tuple(str(entry) for entry in parameters[1] or ())
        self._chain.check_upgrade(spec_version, without)
        return lambda state, _: self._chain.upgrade(state, spec_version, without)

    async def _info(self, _: Parameters) -> dict[str, Any]:
        return {
            "genesis": self._chain.genesis.hash,
            "block": self._chain.head.number,
            "netuids": subnet.netuids(self._chain.view()),
            "block_time_s": self._block_time_s,
            "spec_version": self._chain.runtime(self._chain.head).spec_version,
            "faults": self._faults.shown() if self._faults_on else None,
        }

    async def _show(self, parameters: Parameters) -> list[dict[str, Any]]:
        """The neurons of a subnet, as they are now."""
        netuid, view = int(parameters[0]), self._chain.view()
        if not subnet.exists(view, netuid):
            raise ValueError(f"there is no subnet {netuid}")
        weights = [view.get(PALLET, "Weights", netuid, uid) for uid in range(subnet.size(view, netuid))]
        shown = ("uid", "hotkey", "coldkey", "validator_permit", "incentive", "dividends", "consensus")
        more = ("validator_trust", "emission", "last_update", "axon_info")
        return [
            {name: record[name] for name in (*shown, *more)}
            | {"stake": record["stake"][0][1], "weights": weights[record["uid"]]}
            for record in json.loads(json.dumps(runtime_api.neurons(view, netuid), default=str))
        ]


def _fund(parameters: Parameters) -> Callable[[Draft, int], None]:
    address, tao = str(parameters[0]), float(parameters[1])
    return lambda state, _: subnet.fund(state, address, tao)


def _set_stake(parameters: Parameters) -> Callable[[Draft, int], None]:
    netuid, hotkey, tao = int(parameters[0]), str(parameters[1]), float(parameters[2])
    return lambda state, _: subnet.set_stake(state, netuid, hotkey, tao)


def _pulse(parameters: Parameters) -> Callable[[Draft, int], None]:
    reveal_round, signature = int(parameters[0]), str(parameters[1])
    return lambda state, _: timelock.store_pulse(state, reveal_round, signature)


def _populate(parameters: Parameters) -> Callable[[Draft, int], None]:
    """Give uids to hotkeys without a private key, (hotkey, coldkey) each, free of charge: to measure with."""
    netuid, keys = int(parameters[0]), [(str(hotkey), str(coldkey)) for hotkey, coldkey in parameters[1]]
    if len(keys) > _MOST_NEURONS_AT_ONCE:
        raise ValueError(f"at most {_MOST_NEURONS_AT_ONCE} neurons at a time")

    def apply(state: Draft, block: int) -> None:
        if not subnet.exists(state, netuid):
            raise ValueError(f"there is no subnet {netuid}")
        subnet.append_neurons(state, netuid, keys, block=block)

    return apply


def _create_subnet(parameters: Parameters) -> Callable[[Draft, int], None]:
    netuid, coldkey, hotkey = int(parameters[0]), str(parameters[1]), str(parameters[2])
    asked = dict(parameters[3] or {})
    unknown = set(asked) - {f.name for f in fields(SubnetOptions)}
    if unknown:
        raise ValueError(
            f"unknown subnet options {sorted(unknown)}; known: {sorted(asdict(SubnetOptions()))}"
        )
    options = SubnetOptions(**asked)

    def apply(state: Draft, block: int) -> None:
        subnet.create(state, netuid, owner_coldkey=coldkey, owner_hotkey=hotkey, block=block, options=options)

    return apply
