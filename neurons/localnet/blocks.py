"""The chain: a pool of checked extrinsics, and blocks made from them, one author and no forks.

Every block is final when it is made. Time comes in through `clock_ms`; nothing here waits, sleeps or speaks
to a network, so a chain given the same clock and the same extrinsics makes the same blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from neurons.localnet import dispatch, epochs, timelock
from neurons.localnet.calls import Call, DispatchFailure
from neurons.localnet.codec import Codec, Extrinsic, bytes_of, compact, hash256, hex_of
from neurons.localnet.state import Block, Draft, Ledger, View

POOL_BOUND = 1024
_NO_PARENT = "0x" + "00" * 32
_BARE_V4 = b"\x04"
_DISPATCH_INFO = {"weight": {"ref_time": 0, "proof_size": 0}, "class": "Normal", "pays_fee": "No"}

Status = str | Mapping[str, str]
"""What a watcher of an extrinsic is told: "ready", {"inBlock": hash}, {"finalized": hash} or "invalid"."""
Watcher = Callable[[Status], None]


class Refused(Exception):
    """The pool did not take an extrinsic; code, message and detail are a Substrate node's."""

    def __init__(self, code: int, message: str, detail: str) -> None:
        super().__init__(f"{message}: {detail}")
        self.code = code
        self.message = message
        self.detail = detail


@dataclass(frozen=True, slots=True)
class _Waiting:
    extrinsic: Extrinsic
    birth: int
    watcher: Watcher | None


@dataclass(frozen=True, slots=True)
class _Order:
    """A change asked for through the admin door, with whom to tell what became of it."""

    apply: Callable[[Draft, int], None]
    done: Callable[[Block | None, ValueError | None], None]


class Blockchain:
    """The chain on a ledger. Opens where the ledger ends, or begins a new chain with `genesis`."""

    def __init__(
        self,
        codec: Codec,
        ledger: Ledger,
        *,
        clock_ms: Callable[[], int],
        genesis: Callable[[Draft], None],
    ) -> None:
        self.codec = codec
        self._ledger = ledger
        self._clock_ms = clock_ms
        self._pool: dict[str, _Waiting] = {}
        self._orders: list[_Order] = []
        last = ledger.last_block()
        if last is None:
            draft = Draft(codec, ledger)
            genesis(draft)
            timelock.store_pulse(draft, timelock.KNOWN_ROUND, timelock.KNOWN_SIGNATURE)
            draft.put("Timestamp", "Now", value=clock_ms())
            self.head = self._seal(draft, [], [], {"spec_version": str(codec.spec_version)})
        elif ledger.fact("spec_version") != str(codec.spec_version):
            raise ValueError(
                f"the state file belongs to runtime {ledger.fact('spec_version')}, "
                f"this node runs {codec.spec_version}: use a new file"
            )
        else:
            self.head = last
        first = ledger.block_at(0)
        assert first is not None
        self.genesis = first

    def block_at(self, number: int) -> Block | None:
        """The block of a number, or None."""
        return self._ledger.block_at(number)

    def block_of(self, block_hash: str | None) -> Block | None:
        """The block of a hash (None: the newest), or None."""
        return self.head if block_hash in (None, self.head.hash) else self._ledger.block_of(str(block_hash))

    def view(self, block: Block | None = None) -> View:
        """Storage after a block (None: the newest). Raises StateDiscarded."""
        number = self.head.number if block is None else block.number
        return View(self.codec, self._ledger.at(number, self.head.number))

    def next_nonce(self, address: str) -> int:
        """The nonce after those of the account's included and pooled extrinsics."""
        nonce: int = self.view().get("System", "Account", address)["nonce"]
        pooled = {w.extrinsic.nonce for w in self._pool.values() if w.extrinsic.address == address}
        while nonce in pooled:
            nonce += 1
        return nonce

    def submit(self, raw: bytes, watcher: Watcher | None = None) -> str:
        """Check an extrinsic and put it in the pool; returns its hash. Raises Refused, MalformedExtrinsic."""
        extrinsic = self.codec.decode_extrinsic(raw)
        if extrinsic.hash in self._pool:
            raise Refused(1013, "Transaction is already imported", "the pool holds this very transaction")
        birth = _birth(extrinsic.era, self.head.number + 1)
        born = self.block_at(birth)
        if born is None:
            raise Refused(1010, "Invalid Transaction", "Transaction is outdated")
        if not self.codec.signature_is_valid(
            extrinsic, genesis=bytes_of(self.genesis.hash), era_block=bytes_of(born.hash)
        ):
            raise Refused(1010, "Invalid Transaction", "Transaction has a bad signature")
        if extrinsic.nonce < self.view().get("System", "Account", extrinsic.address)["nonce"]:
            raise Refused(1010, "Invalid Transaction", "Transaction is outdated")
        if any(
            w.extrinsic.address == extrinsic.address and w.extrinsic.nonce == extrinsic.nonce
            for w in self._pool.values()
        ):
            raise Refused(1014, "Priority is too low", "another transaction has this nonce")
        if len(self._pool) >= POOL_BOUND:
            raise Refused(1016, "Immediately Dropped", "the pool is full")
        self._pool[extrinsic.hash] = _Waiting(extrinsic, birth, watcher)
        return extrinsic.hash

    def order(
        self,
        apply: Callable[[Draft, int], None],
        done: Callable[[Block | None, ValueError | None], None],
    ) -> None:
        """Make a change, outside of all rules, at the start of the next block.

        `apply` gets storage and the block's number and may raise ValueError, which drops its changes; `done`
        is told the block, or the error.
        """
        self._orders.append(_Order(apply, done))

    def produce(self) -> Block:
        """Make the next block from the pool."""
        number = self.head.number + 1
        draft = Draft(self.codec, self._ledger)
        now = max(self._clock_ms(), draft.get("Timestamp", "Now") + 1)
        draft.put("System", "Number", value=number)
        draft.put("Timestamp", "Now", value=now)
        told = [(order, self._obey(draft, order, number)) for order in self._take_orders()]
        inherent = _BARE_V4 + self.codec.compose_call("Timestamp", "set", {"now": now})
        included = [compact(len(inherent)) + inherent]
        events = [_outcome(0, "ExtrinsicSuccess", {"dispatch_info": _DISPATCH_INFO})]
        watchers: list[Watcher] = []
        for waiting in self._ready(draft, number):
            events += self._include(draft, waiting.extrinsic, number, len(included))
            included.append(waiting.extrinsic.raw)
            if waiting.watcher is not None:
                watchers.append(waiting.watcher)
        events += [_at_end(e.pallet, e.name, e.attributes) for e in epochs.run_due(draft, number)]
        self.head = self._seal(draft, included, events)
        for watcher in watchers:
            watcher({"inBlock": self.head.hash})
            watcher({"finalized": self.head.hash})
        for order, error in told:
            order.done(None if error else self.head, error)
        return self.head

    def _take_orders(self) -> list[_Order]:
        orders, self._orders = self._orders, []
        return orders

    def _obey(self, draft: Draft, order: _Order, number: int) -> ValueError | None:
        attempt = draft.fork()
        try:
            order.apply(attempt, number)
        except ValueError as error:
            return error
        draft.absorb(attempt)
        return None

    def _ready(self, draft: Draft, number: int) -> list[_Waiting]:
        """Take from the pool what can run now; drop what no longer can. Nonces of an account run in order."""
        nonces: dict[str, int] = {}
        ready: list[_Waiting] = []
        for key, waiting in sorted(self._pool.items(), key=lambda entry: entry[1].extrinsic.nonce):
            extrinsic = waiting.extrinsic
            expected = nonces.get(extrinsic.address)
            if expected is None:
                expected = draft.get("System", "Account", extrinsic.address)["nonce"]
            nonces[extrinsic.address] = expected
            if extrinsic.nonce < expected or _birth(extrinsic.era, number) != waiting.birth:
                del self._pool[key]
                if waiting.watcher is not None:
                    waiting.watcher("invalid")
            elif extrinsic.nonce == expected:
                del self._pool[key]
                nonces[extrinsic.address] = expected + 1
                ready.append(waiting)
        return ready

    def _include(self, draft: Draft, extrinsic: Extrinsic, number: int, index: int) -> list[dict[str, Any]]:
        """Run an extrinsic on the draft; its nonce is used up whether it fails or not."""
        account = draft.get("System", "Account", extrinsic.address)
        draft.put("System", "Account", extrinsic.address, value={**account, "nonce": extrinsic.nonce + 1})
        attempt = draft.fork()
        call = Call(extrinsic.address, number, extrinsic.arguments)
        try:
            deposited = dispatch.execute(attempt, extrinsic.pallet, extrinsic.function, call)
        except DispatchFailure as failure:
            error = self.codec.dispatch_error(failure.pallet, failure.name)
            failed = {"dispatch_error": error, "dispatch_info": _DISPATCH_INFO}
            return [_outcome(index, "ExtrinsicFailed", failed)]
        draft.absorb(attempt)
        return [
            *(_event(index, event.pallet, event.name, event.attributes) for event in deposited),
            _outcome(index, "ExtrinsicSuccess", {"dispatch_info": _DISPATCH_INFO}),
        ]

    def _seal(
        self,
        draft: Draft,
        extrinsics: list[bytes],
        events: list[dict[str, Any]],
        facts: Mapping[str, str] | None = None,
    ) -> Block:
        """Write the block. Its state root chains over the changes of each block; it is not a Merkle root."""
        draft.put("System", "Events", value=events)
        parent = None if facts else self.head
        changed = b"".join(
            hash256(key) + (b"" if value is None else hash256(value))
            for key, value in sorted(draft.changes.items())
        )
        parent_hash = _NO_PARENT if parent is None else parent.hash
        before = b"" if parent is None else bytes_of(parent.header["stateRoot"])
        number = 0 if parent is None else parent.number + 1
        state_root, extrinsics_root = hash256(before + changed), hash256(b"".join(map(hash256, extrinsics)))
        header = {
            "parentHash": parent_hash,
            "number": hex(number),
            "stateRoot": hex_of(state_root),
            "extrinsicsRoot": hex_of(extrinsics_root),
            "digest": {"logs": []},
        }
        encoded = bytes_of(parent_hash) + compact(number) + state_root + extrinsics_root + compact(0)
        block = Block(number, hex_of(hash256(encoded)), header, tuple(hex_of(x) for x in extrinsics))
        self._ledger.append(block, draft.changes, facts)
        return block


def _birth(era: tuple[int, int] | None, current: int) -> int:
    """The block a signature's era begins at, seen from `current` (Substrate, `Era::birth`)."""
    if era is None:
        return 0
    period, phase = era
    return (max(current, phase) - phase) // period * period + phase


def _event(index: int, pallet: str, name: str, attributes: object) -> dict[str, Any]:
    return {"phase": {"ApplyExtrinsic": index}, "event": {pallet: {name: attributes}}, "topics": []}


def _at_end(pallet: str, name: str, attributes: object) -> dict[str, Any]:
    return {"phase": "Finalization", "event": {pallet: {name: attributes}}, "topics": []}


def _outcome(index: int, name: str, attributes: object) -> dict[str, Any]:
    return _event(index, "System", name, attributes)
