"""Who had a source first: proven by the block of its commitment, not by when it was sent.

A commitment is the source's SHA-256, so it proves that its hotkey had this very source by that block. With
one exception: everybody can read a digest off the chain, or among the transactions that wait for a block, and
commit to it as well. Such a hotkey cannot send the source until it is public. So of two submissions with
*equal* digests, an earlier block wins only while the other's source is still hidden.

Rules may do without commitments. A source that was sent without one gives way to a like one that has one, but
again only while it is hidden: later, it may have been the model for it.

Within one block the order of commitments is not known to us, and any order by content could be ground out by
a copyist with a comment: there, what was sent first stands.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Claim:
    """A source with its proof. `block` is None without one: it comes after every claim that has one."""

    source_sha256: str
    block: int | None


def stands(stored: Claim, new: Claim, *, stored_is_public: bool) -> bool:
    """Whether a stored submission comes before a like one that is sent now."""
    if new.block is None:
        return True
    if stored.block is None:
        return stored_is_public
    if new.block < stored.block:
        return stored_is_public and stored.source_sha256 == new.source_sha256
    return True
