"""Where the local chain's runtime metadata comes from.

The SDK's source distribution (not its wheel) ships the metadata of a real Subtensor runtime, recorded for its
own tests. It is fetched once with pip, checked against a fixed digest and kept in the user's cache. It is
always that of `METADATA_SDK`, whichever 11.x SDK is installed, so that a local chain is the same everywhere.

`python -m neurons.localnet.metadata` fetches it ahead of time, for machines that go offline afterwards.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

METADATA_SDK = "11.3.0"
GOLDEN_SHA256 = "a74c2f7fd7d9c40ba8111170bf74dddfad57a040d181b3532acb2a9ce2ef2f11"
_MEMBER = f"bittensor-{METADATA_SDK}/tests/fixtures/golden.json"
_MAX_MEMBER_BYTES = 16 << 20
_DOWNLOAD_DEADLINE_S = 180.0


class MetadataUnavailable(RuntimeError):
    """The runtime metadata is not cached and could not be fetched; the message says what to do."""


@dataclass(frozen=True, slots=True)
class RuntimeMetadata:
    """Metadata V15 as SCALE bytes (beginning with the magic `meta`), V14 as hex, and whose they are."""

    v15: bytes
    v14_hex: str
    spec_version: int
    transaction_version: int
    ss58_format: int


def cache_dir() -> Path:
    """Where fetched files are kept: ARENA_CACHE_DIR, else the user's cache folder."""
    override = os.environ.get("ARENA_CACHE_DIR")
    if override:
        return Path(override)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "bittensor-agent-arena"


def load() -> RuntimeMetadata:
    """The metadata, fetched first if it is not in the cache. Raises MetadataUnavailable."""
    recorded = json.loads(ensure().read_bytes())
    network = recorded["network"]
    return RuntimeMetadata(
        v15=_unwrap_option(bytes.fromhex(recorded["metadata"]["v15_hex"].removeprefix("0x"))),
        v14_hex=recorded["metadata"]["v14_hex"],
        spec_version=network["spec_version"],
        transaction_version=network["transaction_version"],
        ss58_format=network["ss58_format"],
    )


def ensure() -> Path:
    """The path of the verified file in the cache. Fetches it with pip when absent or damaged.

    Raises MetadataUnavailable.
    """
    target = cache_dir() / f"subtensor-golden-{METADATA_SDK}.json"
    if target.is_file() and _sha256(target.read_bytes()) == GOLDEN_SHA256:
        return target
    content = _fetch()
    if _sha256(content) != GOLDEN_SHA256:
        raise MetadataUnavailable(
            f"the metadata inside bittensor {METADATA_SDK}'s source distribution has SHA-256 "
            f"{_sha256(content)}, not {GOLDEN_SHA256}: check which package index pip is using"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=target.parent, prefix=target.name, delete=False) as partial:
        partial.write(content)
    Path(partial.name).replace(target)
    return target


def _fetch() -> bytes:
    with tempfile.TemporaryDirectory(prefix="arena-metadata-") as folder:
        requirement = f"bittensor=={METADATA_SDK}"
        # Only bittensor itself from source: with `:all:`, pip would build the build tools from source too.
        command = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--no-binary",
            "bittensor",
        ]
        advice = (
            f"run `python -m neurons.localnet.metadata` once while a package index is reachable, or copy "
            f"{_MEMBER.split('/', 1)[1]} of bittensor-{METADATA_SDK}.tar.gz to "
            f"{cache_dir() / f'subtensor-golden-{METADATA_SDK}.json'}"
        )
        try:
            done = subprocess.run(
                [*command, "--dest", folder, requirement],
                capture_output=True,
                text=True,
                timeout=_DOWNLOAD_DEADLINE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise MetadataUnavailable(
                f"pip did not deliver {requirement} within {_DOWNLOAD_DEADLINE_S:.0f} s: {advice}"
            ) from error
        archives = sorted(Path(folder).glob("*.tar.gz"))
        if done.returncode != 0 or not archives:
            said = (done.stderr or done.stdout).strip().splitlines()
            reason = said[-1] if said else f"exit status {done.returncode}"
            raise MetadataUnavailable(f"pip could not download {requirement} ({reason}): {advice}")
        return _member(archives[0])


def _member(archive: Path) -> bytes:
    """The one file we want, read in place: nothing of the archive is ever written by its own names."""
    with tarfile.open(archive, "r:gz") as tar:
        try:
            info = tar.getmember(_MEMBER)
        except KeyError as error:
            raise MetadataUnavailable(f"{archive.name} does not contain {_MEMBER}") from error
        stream = tar.extractfile(info) if info.isreg() else None
        if stream is None or info.size > _MAX_MEMBER_BYTES:
            raise MetadataUnavailable(f"{_MEMBER} in {archive.name} is not a file of a believable size")
        return stream.read()


def _unwrap_option(blob: bytes) -> bytes:
    """The payload of a SCALE `Option<OpaqueMetadata>`, found by the magic that starts every metadata."""
    start = blob.find(b"meta", 0, 16)
    if start < 0:
        raise MetadataUnavailable("the recorded metadata does not begin with the Substrate magic")
    return blob[start:]


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def main() -> int:
    """Fetch the metadata and print where it lies."""
    try:
        sys.stdout.write(f"{ensure()}\n")
    except MetadataUnavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
