"""What the chain tells, as values, and what can go wrong with it, as errors. Free of the SDK.

There are three errors, by what a caller can do: wait (`ChainUnavailable`), change something (`ChainRefused`),
upgrade (`ChainUnreadable`).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


class ChainError(Exception):
    """Base of this module's errors."""


class ChainUnavailable(ChainError):
    """The chain could not be reached, or did not answer in time. Trying later may help."""


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


@dataclass(frozen=True, slots=True)
class Metagraph:
    """The subnet at one block. `owner_hotkey` usually holds uid 0; what is paid to it is burned."""

    block: int
    owner_hotkey: str
    neurons: tuple[Neuron, ...]

    def uids(self) -> dict[str, int]:
        """Uid by hotkey."""
        return {neuron.hotkey: neuron.uid for neuron in self.neurons}

    def burn_uid(self) -> int:
        """The uid whose weight is burned: the subnet owner's, or 0 when it holds none."""
        return self.uids().get(self.owner_hotkey, 0)


@dataclass(frozen=True, slots=True)
class Commitment:
    """What a hotkey has committed to, and in which block."""

    block: int
    content: bytes


@dataclass(frozen=True, slots=True)
class WeightReceipt:
    """Weights as sent and as read back from the chain.

    `sent` is scaled so that its largest entry is 65535, which is how the chain stores a row; `confirmed`
    means that `read_back` is exactly that. Where the subnet uses commit-reveal, weights stay sealed until
    `reveal_round` (a drand round) and cannot be confirmed before.
    """

    sent: dict[int, int]
    read_back: dict[int, int]
    confirmed: bool
    block_hash: str | None
    reveal_round: int | None = None
