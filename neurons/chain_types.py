"""What the chain tells, as values, what can go wrong with it, as errors, and what can be asked of it. Free of
the SDK.

There are four errors, by what a caller can do: wait (`ChainUnavailable`), change something (`ChainRefused`),
upgrade (`ChainUnreadable`), start anew (`ChainStalled`). Each message says which.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from neurons.wallets import Wallet


class ChainError(Exception):
    """Base of this module's errors."""


class ChainUnavailable(ChainError):
    """The chain could not be reached, or did not answer in time. Trying later may help."""


class ChainStalled(ChainError):
    """The chain answers with no new block, or not at all, for longer than can be waited for."""


RATE_LIMITED = "rate_limited"
NOT_REGISTERED = "not_registered"
SUBNET_NOT_EXISTS = "subnet_not_exists"
"""Words of `ChainRefused.code` that something is decided by."""


class ChainRefused(ChainError):
    """The chain, or a check before it, said no.

    `code` is the SDK's word for why ("rate_limited", "not_registered", "not_authorized", ...); `name` is the
    chain's own, when it gave one; `retry_at_block` is set when waiting for that block would help.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str,
        remediation: str,
        name: str | None = None,
        retry_at_block: int | None = None,
    ) -> None:
        super().__init__(f"{message} ({code}): {remediation}")
        self.code = code
        self.remediation = remediation
        self.name = name
        self.retry_at_block = retry_at_block


class ChainUnreadable(ChainError):
    """The installed SDK and the chain's runtime do not understand each other."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block. `timestamp` is its author's, UTC."""

    number: int
    hash: str
    timestamp: datetime


@dataclass(frozen=True, slots=True)
class Epoch:
    """Where a subnet is in its tempo, in blocks. `next_block` is when the chain will next run its consensus;
    None where it never does (tempo 0).
    """

    tempo: int
    last_block: int
    next_block: int | None


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a hotkey says that it answers: an IP address and a TCP port."""

    ip: str
    port: int

    @property
    def url(self) -> str:
        """As an HTTP base URL."""
        return f"http://[{self.ip}]:{self.port}" if ":" in self.ip else f"http://{self.ip}:{self.port}"


@dataclass(frozen=True, slots=True)
class Neuron:
    """One uid of the subnet. `stake` is in the subnet's alpha; `incentive` is a share, 0 to 1."""

    uid: int
    hotkey: str
    coldkey: str
    stake: float
    validator_permit: bool
    incentive: float
    active: bool
    last_update: int
    registered_at: int
    endpoint: Endpoint | None = None


@dataclass(frozen=True, slots=True)
class Metagraph:
    """The subnet at one block. `owner_hotkey` usually holds uid 0; what is paid to it is burned.

    `taken_at` is the reading of the event loop's clock when it was read, in seconds.
    """

    block: int
    owner_hotkey: str
    neurons: tuple[Neuron, ...]
    taken_at: float = 0.0

    def uids(self) -> dict[str, int]:
        """Uid by hotkey."""
        return {neuron.hotkey: neuron.uid for neuron in self.neurons}

    def of(self, hotkey: str) -> Neuron | None:
        """The neuron of a hotkey, or None when it holds no uid."""
        return next((neuron for neuron in self.neurons if neuron.hotkey == hotkey), None)

    def burn_uid(self) -> int:
        """The uid whose weight is burned: the subnet owner's, or 0 when it holds none."""
        return self.uids().get(self.owner_hotkey, 0)

    def age_s(self, now: float) -> float:
        """Seconds since it was read, at a reading of the event loop's clock."""
        return now - self.taken_at


@dataclass(frozen=True, slots=True)
class Commitment:
    """What a hotkey has committed to, and in which block."""

    block: int
    content: bytes


@dataclass(frozen=True, slots=True)
class SealedWeights:
    """Weights that the chain holds under a timelock, until the drand round in which it opens them itself."""

    block: int
    reveal_round: int


@dataclass(frozen=True, slots=True)
class Standing:
    """What the chain holds of one validator's weights, and when it takes the next, all at one block.

    `row` are the weights that count: u16 by uid, the largest 65535. `rate_limit` and `activity_cutoff` are in
    blocks: the chain refuses weights sooner than the one after `last_update`, and takes a validator for
    inactive after the other. `last_update` moves when sealed weights are sent, not when they are opened.
    """

    block: int
    uid: int
    last_update: int
    rate_limit: int
    activity_cutoff: int
    epoch: Epoch
    commit_reveal: bool
    row: dict[int, int]
    sealed: tuple[SealedWeights, ...] = ()

    @property
    def blocks_since_update(self) -> int:
        """How long ago weights were sent, in blocks."""
        return max(0, self.block - self.last_update)


@dataclass(frozen=True, slots=True)
class WeightReceipt:
    """Weights as sent and as read back from the chain.

    `sent` is scaled so that its largest entry is 65535, which is how the chain stores a row; `confirmed`
    means that `read_back` is exactly that. Where the subnet uses commit-reveal, weights stay sealed until
    `reveal_round` (a drand round), which was itself read back, and cannot be confirmed before.
    """

    sent: dict[int, int]
    read_back: dict[int, int]
    confirmed: bool
    block_hash: str | None
    reveal_round: int | None = None


class Subnet(Protocol):
    """All that this program asks of a chain, about one subnet. `neurons.chain.Chain` is the one real answer.

    Every call has a deadline, and raises nothing but `ChainError`s (and ValueError for arguments that no
    chain would take).
    """

    network: str
    netuid: int

    async def head(self) -> Block:
        """The newest block."""

    async def block(self, number: int) -> Block:
        """A block by number. Raises ChainRefused ("not_found") when there is none yet."""

    async def first_block_at(self, when: datetime) -> Block | None:
        """The first block whose timestamp is at or after `when`, or None while there is none."""

    def heads(self) -> AsyncIterator[int]:
        """The numbers of new blocks, rising, over however many connections it takes."""

    async def epoch(self) -> Epoch:
        """Where the subnet is in its tempo."""

    async def spec_version(self) -> int:
        """The version of the chain's runtime."""

    async def registered(self, hotkey: str) -> int | None:
        """The hotkey's uid on the subnet, or None."""

    async def metagraph(self, *, fresh_s: float = 0.0) -> Metagraph:
        """All neurons, at one block; one that was read less than `fresh_s` ago will do."""

    async def commitment(self, hotkey: str) -> Commitment | None:
        """What the hotkey has committed to in plain bytes, or None."""

    async def commitments(self) -> dict[str, Commitment]:
        """What all hotkeys have committed to in plain bytes."""

    async def weights(self, uid: int) -> dict[int, int]:
        """A validator's weights as stored: u16 by uid, the largest 65535; empty when it has set none."""

    async def standing(self, hotkey: str) -> Standing:
        """How a validator's weights stand. Raises ChainRefused ("not_registered")."""

    async def set_weights(
        self, wallet: Wallet, weights: Mapping[int, int], *, deadline_s: float = 180.0
    ) -> WeightReceipt:
        """Set u16 weights by uid, and read them back."""

    async def register(self, wallet: Wallet, *, deadline_s: float = 120.0) -> int:
        """Register the hotkey, for the burn price from the coldkey; returns its uid, also if it had one."""

    async def commit(self, wallet: Wallet, content: bytes, *, deadline_s: float = 120.0) -> int:
        """Commit the hotkey to up to 128 bytes; returns the block."""

    async def serve(self, wallet: Wallet, endpoint: Endpoint, *, deadline_s: float = 120.0) -> None:
        """Announce where the hotkey answers; without effect when that stands already."""
