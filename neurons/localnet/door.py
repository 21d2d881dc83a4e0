"""The admin door of a running node, seen from outside: the `localnet_*` methods as a Python object."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from websockets.exceptions import WebSocketException
from websockets.sync.client import connect

from neurons.localnet.faults import Fault
from neurons.localnet.subnet import SubnetOptions

_DEADLINE_S = 30.0
_BLOCKS_A_CALL = 1000
_MOST_ANSWER_BYTES = 16 << 20


class LocalNetFailed(RuntimeError):
    """The node did not start, did not answer, or refused an order; the message holds what it said."""


class Door:
    """The door of the node at a WebSocket URL. Each order is in a block when it returns.

    Raises LocalNetFailed wherever the node refuses or cannot be reached.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def url(self) -> str:
        """Where the node listens."""
        return self._url

    def fund(self, address: str, tao: float) -> int:
        """Give an account TAO; returns the block it happened in."""
        return int(self._order("localnet_fund", [address, tao])["block"])

    def set_stake(self, netuid: int, hotkey: str, tao: float) -> int:
        """Set a hotkey's stake on a subnet, and with it its validator permit; returns the block."""
        return int(self._order("localnet_setStake", [netuid, hotkey, tao])["block"])

    def create_subnet(
        self, netuid: int, *, owner_coldkey: str, owner_hotkey: str, options: SubnetOptions | None = None
    ) -> int:
        """Create a subnet whose owner's hotkey is uid 0; returns the block."""
        asked = asdict(options or SubnetOptions())
        order = [netuid, owner_coldkey, owner_hotkey, asked]
        return int(self._order("localnet_createSubnet", order)["block"])

    def populate(self, netuid: int, keys: Iterable[tuple[str, str]]) -> int:
        """Give uids to up to 4,096 (hotkey, coldkey) at once, free of charge; returns the block."""
        return int(self._order("localnet_populate", [netuid, [list(pair) for pair in keys]])["block"])

    def pulse(self, reveal_round: int, signature: str) -> int:
        """Let the chain know drand's signature of a round, in hex; returns the block."""
        return int(self._order("localnet_pulse", [reveal_round, signature])["block"])

    def advance(self, blocks: int = 1) -> int:
        """Make so many blocks now; returns the newest."""
        newest = 0
        while blocks > 0:
            newest = int(self._order("localnet_advance", [min(blocks, _BLOCKS_A_CALL)])["block"])
            blocks -= _BLOCKS_A_CALL
        return newest

    def fault(self, fault: Fault) -> list[dict[str, Any]]:
        """Inject a fault; returns all that wait. The node must have been started to take faults."""
        waiting: list[dict[str, Any]] = self._order("localnet_fault", [asdict(fault)])
        return waiting

    def clear_faults(self) -> int:
        """Forget all faults; returns how many waited."""
        return int(self._order("localnet_clearFaults", []))

    def reorg(self) -> str:
        """Replace the newest block, which must not be final yet; returns the hash of the other."""
        return str(self._order("localnet_reorg", [])["hash"])

    def upgrade(self, spec_version: int, without: Iterable[str] = ()) -> int:
        """Raise the runtime's version, and take storage entries (Pallet.Item) away; returns the block."""
        return int(self._order("localnet_upgrade", [spec_version, list(without)])["block"])

    def info(self) -> dict[str, Any]:
        """{"genesis", "block", "netuids", "block_time_s", "spec_version", "faults"}."""
        found: dict[str, Any] = self._order("localnet_info", [])
        return found

    def show(self, netuid: int) -> list[dict[str, Any]]:
        """The neurons of a subnet: keys, stake in rao, weights, and what the last epoch said, in u16."""
        neurons: list[dict[str, Any]] = self._order("localnet_show", [netuid])
        return neurons

    def _order(self, method: str, parameters: list[Any]) -> Any:
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters}
        try:
            with connect(
                self.url, open_timeout=_DEADLINE_S, proxy=None, max_size=_MOST_ANSWER_BYTES
            ) as socket:
                socket.send(json.dumps(request))
                answer = json.loads(socket.recv(timeout=_DEADLINE_S))
        except (OSError, TimeoutError, WebSocketException) as error:
            raise LocalNetFailed(f"the local chain at {self.url} did not answer {method}: {error}") from error
        if "error" in answer:
            refusal = answer["error"]
            raise LocalNetFailed(f"{method} was refused: {refusal.get('data', refusal['message'])}")
        return answer["result"]
