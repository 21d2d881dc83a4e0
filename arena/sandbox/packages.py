"""The packages that agents may import, in the versions that this release was made with.

The one thing to know: an agent that works on one validator must work on all, so the versions stand in a file
that is shipped, `agent-packages.lock`; what is installed otherwise is shown as a difference, never silently
used in its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

LOCK = Path(__file__).with_name("agent-packages.lock")


def locked() -> dict[str, str]:
    """Name to version, of all that agents may import and of what that needs."""
    entries = (line.partition("==") for line in LOCK.read_text().splitlines())
    return {name: version for name, separator, version in entries if separator}


def differences(staged: Mapping[str, str]) -> list[str]:
    """What is staged otherwise than locked, one sentence each; none when all is as it should be."""
    wanted = locked()
    found = [
        f"{name} is {staged.get(name, 'not staged')}, locked is {version}: pip install {name}=={version}"
        for name, version in wanted.items()
        if staged.get(name) != version
    ]
    return found + [f"{name} {staged[name]} is not in the lock" for name in staged if name not in wanted]


def lock(staged: Mapping[str, str], file: Path = LOCK) -> None:
    """Write the versions of what is staged. For who makes a release."""
    file.write_text("".join(f"{name}=={version}\n" for name, version in sorted(staged.items())))
