"""Proof of what was exported: hashes, Merkle trees, and the manifest of an export.

The one thing to know: a Merkle root commits to every leaf and to their order, and a proof of about log2(n)
hashes shows that one leaf is among them without the others. The tree is the one of RFC 6962 section 2.1
(SHA-256; a leaf is hashed with the prefix 0x00, a node with 0x01, so that neither can pass for the other; the
split is at the largest power of two below the size). A proof is checked as in RFC 9162 section 2.1.3.2.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

MANIFEST_NAME = "manifest.json"
MANIFEST_VERSION = 1


def sha256_hex(content: bytes) -> str:
    """SHA-256 of bytes, in hex."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's content, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def merkle_root(leaves: Sequence[bytes]) -> str:
    """The root over `leaves` (their content, not their hashes), in hex. Of no leaves: SHA-256 of nothing."""
    if not leaves:
        return sha256_hex(b"")
    return _levels(leaves)[-1][0].hex()


def inclusion_proof(leaves: Sequence[bytes], index: int) -> tuple[str, ...]:
    """The hashes (hex, from the leaf upwards) that lead from leaf `index` to the root. Raises IndexError."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"there is no leaf {index} among {len(leaves)}")
    proof: list[str] = []
    for level in _levels(leaves)[:-1]:
        sibling = index ^ 1
        if sibling < len(level):  # the last node of an odd level goes up alone
            proof.append(level[sibling].hex())
        index >>= 1
    return tuple(proof)


def verify_inclusion(leaf: bytes, index: int, size: int, proof: Sequence[str], root: str) -> bool:
    """Whether `proof` shows that `leaf` is number `index` of the `size` leaves under `root`. Never raises."""
    if not 0 <= index < size:
        return False
    try:
        path = [bytes.fromhex(step) for step in proof]
    except ValueError:
        return False
    position, last, found = index, size - 1, _leaf(leaf)
    for step in path:
        if last == 0:
            return False
        if position & 1 or position == last:
            found = _node(step, found)
            while not position & 1 and position != 0:
                position >>= 1
                last >>= 1
        else:
            found = _node(found, step)
        position >>= 1
        last >>= 1
    return last == 0 and found.hex() == root


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """One file of an export: where it lies in it, its size in bytes, and its SHA-256 (hex)."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class ExportManifest:
    """What an export holds, and how to check it.

    `merkle_root` is over the chain heads of the traces (each as its 32 bytes), in the order of
    `chain_heads.txt`. `left_out` says how many traces the format could not hold, by reason.
    """

    format: str
    created_at: str
    licence: str
    query: Mapping[str, Any]
    traces: int
    left_out: Mapping[str, int]
    verdicts: Mapping[str, int]
    judged: int
    unjudged: int
    tool_calls: Mapping[str, int]
    merkle_root: str
    files: tuple[ExportedFile, ...]
    manifest_version: int = MANIFEST_VERSION

    def to_json(self) -> dict[str, Any]:
        """The manifest as a JSON object."""
        return asdict(self)

    def to_bytes(self) -> bytes:
        """The manifest as it is written: equal manifests give equal bytes."""
        return json.dumps(self.to_json(), indent=2, sort_keys=True, ensure_ascii=False).encode() + b"\n"


def check_files(folder: Path) -> list[str]:
    """What is wrong with the export in `folder`, one sentence each; empty when every hash holds."""
    manifest = json.loads((folder / MANIFEST_NAME).read_bytes())
    wrong = []
    for file in manifest["files"]:
        path = folder / file["path"]
        if not path.is_file():
            wrong.append(f"{file['path']} is missing")
        elif sha256_file(path) != file["sha256"]:
            wrong.append(f"{file['path']} is not the file that was exported")
    return wrong


def _leaf(content: bytes) -> bytes:
    return hashlib.sha256(b"\x00" + content).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _levels(leaves: Sequence[bytes]) -> list[list[bytes]]:
    """All levels of the tree, leaves first. Pairing upwards gives the tree of the RFC's top-down split."""
    levels = [[_leaf(content) for content in leaves]]
    while len(levels[-1]) > 1:
        below = levels[-1]
        above = [_node(below[i], below[i + 1]) for i in range(0, len(below) - 1, 2)]
        levels.append(above + below[len(above) * 2 :])
    return levels
