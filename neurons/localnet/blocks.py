"""The chain: a pool of checked extrinsics, and blocks made from them by one author.

A block is final when it is made, or so many blocks later as was asked for; until then it can be taken back
(`reorg`), which is the only fork there is. Time comes in through `clock_ms`; nothing here waits, sleeps or
speaks to a network, so a chain given the same clock, seed and calls makes the same blocks.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from neurons.localnet import dispatch, epochs, timelock
from neurons.localnet.calls import Call, DispatchFailure, Event, failed, succeeded
from neurons.localnet.codec import Codec, Extrinsic, Runtime, bytes_of, compact, hash256, hex_of
from neurons.localnet.faults import Faults
from neurons.localnet.state import Block, Draft, Ledger, View

POOL_BOUND = 1024
_NO_PARENT = "0x" + "00" * 32
_BARE_V4 = b"\x04"
_RUNTIME_KEY, _SEED_KEY = b":arena:runtime", b":arena:seed"
"""Which runtime a block has, and what the first one's hash was seeded with; no pallet's keys begin so."""
_RUNTIME_UPDATED = "0x08"
"""The digest item `RuntimeEnvironmentUpdated`."""
_REPLACEMENT = "0x00" + (compact(11) + b"replacement").hex()
"""A digest item `Other`, so that a block in place of another has another hash."""

Status = str | Mapping[str, str]
"""What a watcher of an extrinsic is told: "ready", "invalid", {"inBlock": hash}, "retracted", "finalized"."""
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
class _Made:
    """A block that is not final yet, and what was in it."""

    block: Block
    included: tuple[_Waiting, ...]


@dataclass(frozen=True, slots=True)
class _Order:
    """A change asked for through the admin door, with whom to tell what became of it."""

    apply: Callable[[Draft, int], None]
    done: Callable[[Block | None, ValueError | None], None]


class Blockchain:
    """The chain on a ledger. Opens where the ledger ends, or begins a new chain with `genesis` and `seed`."""

    def __init__(
        self,
        codec: Codec,
        ledger: Ledger,
        *,
        clock_ms: Callable[[], int],
        genesis: Callable[[Draft], None],
        finality_lag: int = 0,
        seed: int = 0,
    ) -> None:
        self.codec = codec
        self.faults = Faults()
        self._finality_lag = finality_lag
        self._unfinal: deque[_Made] = deque()
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
            draft.changes[_RUNTIME_KEY] = _runtime_fact(codec.spec_version, ())
            draft.changes[_SEED_KEY] = str(seed).encode()
            facts = {"spec_version": str(codec.spec_version)}
            self.head = self._seal(draft, b"", (), [], [], facts)
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
        self.finalized = self.block_at(max(0, self.head.number - finality_lag)) or first

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

    def runtime(self, block: Block) -> Runtime:
        """The runtime after a block. Raises StateDiscarded."""
        raw = self.view(block).reader.read(_RUNTIME_KEY)
        assert raw is not None
        spec_version, without = json.loads(raw)
        return self.codec.runtime_at(spec_version, tuple(without))

    def check_upgrade(self, spec_version: int, without: tuple[str, ...]) -> None:
        """Raises ValueError for an upgrade that cannot be."""
        now = self.runtime(self.head).spec_version
        if not now < spec_version < 1 << 32:
            raise ValueError(f"the runtime is {now}; an upgrade needs a higher version, not {spec_version}")
        self.codec.runtime_at(spec_version, without)

    def upgrade(self, state: Draft, spec_version: int, without: tuple[str, ...]) -> None:
        """Have `state` be of another runtime version, which lacks storage entries, each Pallet.Item."""
        state.changes[_RUNTIME_KEY] = _runtime_fact(spec_version, without)
        upgraded = {"spec_version": spec_version, "spec_name": "node-subtensor"}
        state.put("System", "LastRuntimeUpgrade", value=upgraded)

    @property
    def has_work(self) -> bool:
        """Whether an extrinsic waits for a block."""
        return bool(self._pool)

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
            extrinsic,
            self.runtime(self.head),
            genesis=bytes_of(self.genesis.hash),
            era_block=bytes_of(born.hash),
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
        return self._make(frozenset(), [])

    def reorg(self) -> Block:
        """Replace the newest block, unless it is final, by another of its number; returns that.

        Its extrinsics go back to the pool and are in the block after, as when another author's block won.
        What the admin door ordered in it is undone and not repeated.
        """
        if not self._unfinal:
            raise ValueError("every block is final: start the node with --finality-lag 1 or more")
        made = self._unfinal.pop()
        parent = self.block_at(made.block.number - 1)
        assert parent is not None
        self._ledger.take_back()
        self.head = parent
        _tell(made.included, {"retracted": made.block.hash})
        self._pool = {w.extrinsic.hash: w for w in made.included} | self._pool
        return self._make(frozenset(w.extrinsic.hash for w in made.included), [_REPLACEMENT])

    def _make(self, held: frozenset[str], logs: list[str]) -> Block:
        """A block without the extrinsics `held`, with digest items `logs`."""
        number = self.head.number + 1
        draft = Draft(self.codec, self._ledger)
        now = max(self._clock_ms(), draft.get("Timestamp", "Now") + 1)
        draft.put("System", "Number", value=number)
        draft.put("Timestamp", "Now", value=now)
        told = [(order, self._obey(draft, order, number)) for order in self._take_orders()]
        inherent = _BARE_V4 + self.codec.compose_call("Timestamp", "set", {"now": now})
        events = [succeeded().during(0)]
        if _RUNTIME_KEY in draft.changes:
            logs = [*logs, _RUNTIME_UPDATED]
            events.append(Event("System", "CodeUpdated", None).at_end())
        ready = self._ready(draft, number, held)
        for index, waiting in enumerate(ready, start=1):
            events += [event.during(index) for event in self._include(draft, waiting.extrinsic, number)]
        events += [event.at_end() for event in epochs.run_due(draft, number)]
        self.head = self._seal(draft, compact(len(inherent)) + inherent, ready, events, logs)
        _tell(ready, {"inBlock": self.head.hash})
        self._unfinal.append(_Made(self.head, tuple(ready)))
        while len(self._unfinal) > self._finality_lag:
            made = self._unfinal.popleft()
            self.finalized = made.block
            _tell(made.included, {"finalized": made.block.hash})
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

    def _ready(self, draft: Draft, number: int, held: frozenset[str]) -> list[_Waiting]:
        """Take from the pool what can run now; drop what no longer can. Nonces of an account run in order."""
        nonces: dict[str, int] = {}
        ready: list[_Waiting] = []
        for key, waiting in sorted(self._pool.items(), key=lambda entry: entry[1].extrinsic.nonce):
            extrinsic = waiting.extrinsic
            expected = nonces.get(extrinsic.address)
            if expected is None:
                expected = draft.get("System", "Account", extrinsic.address)["nonce"]
            nonces[extrinsic.address] = expected
            if key in held:
                continue
            if extrinsic.nonce < expected or _birth(extrinsic.era, number) != waiting.birth:
                del self._pool[key]
                if waiting.watcher is not None:
                    waiting.watcher("invalid")
            elif extrinsic.nonce == expected:
                del self._pool[key]
                nonces[extrinsic.address] = expected + 1
                ready.append(waiting)
        return ready

    def _include(self, draft: Draft, extrinsic: Extrinsic, number: int) -> list[Event]:
        """Run an extrinsic on the draft; its nonce is used up whether it fails or not."""
        account = draft.get("System", "Account", extrinsic.address)
        draft.put("System", "Account", extrinsic.address, value={**account, "nonce": extrinsic.nonce + 1})
        attempt = draft.fork()
        call = Call(extrinsic.address, number, extrinsic.arguments)
        told = self.faults.take(f"{extrinsic.pallet}.{extrinsic.function}", "fail")
        try:
            if told is not None:
                pallet, _, name = told.error.partition(".")
                raise DispatchFailure(name, pallet)
            deposited = dispatch.execute(attempt, extrinsic.pallet, extrinsic.function, call)
        except DispatchFailure as failure:
            return [failed(self.codec.dispatch_error(failure.pallet, failure.name))]
        draft.absorb(attempt)
        return [*deposited, succeeded()]

    def _seal(
        self,
        draft: Draft,
        inherent: bytes,
        included: Sequence[_Waiting],
        events: list[dict[str, Any]],
        logs: list[str],
        facts: Mapping[str, str] | None = None,
    ) -> Block:
        """Write the block. Its state root chains over the changes of each block; it is not a Merkle root.

        Nor is the root of the extrinsics, which leaves out signatures: they are random, and the hash of a
        block is to follow from the calls in it.
        """
        draft.put("System", "Events", value=events)
        parent = None if facts else self.head
        changed = b"".join(
            hash256(key) + (b"" if value is None else hash256(value))
            for key, value in sorted(draft.changes.items())
        )
        parent_hash = _NO_PARENT if parent is None else parent.hash
        before = b"" if parent is None else bytes_of(parent.header["stateRoot"])
        number = 0 if parent is None else parent.number + 1
        said = b"".join(hash256(w.extrinsic.said) for w in included)
        state_root, extrinsics_root = hash256(before + changed), hash256(hash256(inherent) + said)
        header = {
            "parentHash": parent_hash,
            "number": hex(number),
            "stateRoot": hex_of(state_root),
            "extrinsicsRoot": hex_of(extrinsics_root),
            "digest": {"logs": logs},
        }
        digest = compact(len(logs)) + b"".join(map(bytes_of, logs))
        encoded = bytes_of(parent_hash) + compact(number) + state_root + extrinsics_root + digest
        extrinsics = (inherent, *(w.extrinsic.raw for w in included)) if number else ()
        block = Block(number, hex_of(hash256(encoded)), header, tuple(map(hex_of, extrinsics)))
        self._ledger.append(block, draft.changes, facts)
        return block


def _birth(era: tuple[int, int] | None, current: int) -> int:
    """The block a signature's era begins at, seen from `current` (Substrate, `Era::birth`)."""
    if era is None:
        return 0
    period, phase = era
    return (max(current, phase) - phase) // period * period + phase


def _tell(included: Sequence[_Waiting], status: Status) -> None:
    for waiting in included:
        if waiting.watcher is not None:
            waiting.watcher(status)


def _runtime_fact(spec_version: int, without: tuple[str, ...]) -> bytes:
    return json.dumps([spec_version, list(without)]).encode()
