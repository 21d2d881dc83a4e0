"""Merkle trees: the RFC's own definition, and proofs that prove only what is so."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.provenance import inclusion_proof, merkle_root, sha256_file, sha256_hex, verify_inclusion

LEAVES = st.lists(st.binary(max_size=8), min_size=1, max_size=40)


def tree_hash(leaves: list[bytes]) -> bytes:
    """MTH of RFC 6962 section 2.1, as it is written there."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return hashlib.sha256(b"\x01" + tree_hash(leaves[:split]) + tree_hash(leaves[split:])).digest()


@given(st.lists(st.binary(max_size=8), max_size=40))
def test_the_root_is_the_one_of_the_rfc(leaves: list[bytes]) -> None:
    assert merkle_root(leaves) == tree_hash(leaves).hex()


def test_the_root_of_known_leaves_is_the_published_one() -> None:
    """Test vectors of the Certificate Transparency reference implementation."""
    vectors = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657"]
    leaves = [bytes.fromhex(v) for v in [*vectors, "606162636465666768696a6b6c6d6e6f"]]
    assert merkle_root(leaves) == "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328"


@given(LEAVES, st.data())
def test_every_leaf_can_be_proven_and_only_where_it_is(leaves: list[bytes], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(leaves) - 1))
    proof, root = inclusion_proof(leaves, index), merkle_root(leaves)
    assert verify_inclusion(leaves[index], index, len(leaves), proof, root)
    assert not verify_inclusion(leaves[index] + b"x", index, len(leaves), proof, root)
    assert not verify_inclusion(leaves[index], index, len(leaves), [*proof, root], root)
    assert not verify_inclusion(leaves[index], index, len(leaves), proof, sha256_hex(b"other"))
    other = data.draw(st.integers(0, len(leaves) - 1))
    if leaves[other] != leaves[index]:
        assert not verify_inclusion(leaves[other], other, len(leaves), proof, root)


def test_a_node_cannot_pass_for_a_leaf() -> None:
    left, right = (hashlib.sha256(b"\x00" + leaf).digest() for leaf in (b"a", b"b"))
    assert merkle_root([b"a", b"b"]) != merkle_root([left + right])


def test_a_proof_of_no_leaf_is_refused() -> None:
    with pytest.raises(IndexError):
        inclusion_proof([b"a"], 1)
    assert not verify_inclusion(b"a", 0, 0, [], merkle_root([]))
    assert not verify_inclusion(b"a", 0, 2, ["not hex"], merkle_root([b"a", b"b"]))


def test_a_files_hash_is_the_hash_of_its_content(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"content")
    assert sha256_file(tmp_path / "f") == sha256_hex(b"content")
