"""Gets bubblewrap onto this machine where we may, and says how where we may not.

The one thing to know: finding it proves nothing; only the probe tells whether it holds.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

from arena.sandbox.sandbox import SandboxUnavailable

INSTALL_DEADLINE_S = 180.0
_LAST_WORDS = 400
_APPARMOR_SWITCH = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")


def _installed() -> Path | None:
    found = shutil.which("bwrap")
    return Path(found).resolve() if found else None


async def ensure_bubblewrap(*, install: bool = True) -> Path:
    """The path of `bwrap`, installed by apt-get when it is missing, we are root, and `install` allows it.

    Raises SandboxUnavailable with what to do.
    """
    if found := _installed():
        return found
    if not install or os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise SandboxUnavailable(f"bubblewrap is not installed. {advice()}")
    # The package lists of a fresh image are empty, so a first attempt may fail for that alone.
    tried = await _apt("install", "-y", "--no-install-recommends", "bubblewrap")
    if _installed() is None:
        await _apt("update")
        tried = await _apt("install", "-y", "--no-install-recommends", "bubblewrap")
    if found := _installed():
        return found
    raise SandboxUnavailable(f"bubblewrap could not be installed by apt-get ({tried}). {advice()}")


def advice(backend: str = "bubblewrap") -> str:
    """What the operator of this machine should do to get a backend to work."""
    if backend == "docker":
        return "Use an engine of this host, not of another, and one that runs Linux containers itself."
    lines = ["Install it: apt-get install bubblewrap, dnf install bubblewrap, or pacman -S bubblewrap."]
    if _APPARMOR_SWITCH.exists() and _APPARMOR_SWITCH.read_text().strip() == "1":
        lines.append(
            "This kernel keeps user namespaces from unprofiled programs: give /usr/bin/bwrap an AppArmor "
            "profile with 'userns,' or set kernel.apparmor_restrict_unprivileged_userns=0."
        )
    lines.append(
        "In a container, start it with --security-opt seccomp=unconfined "
        "--security-opt systempaths=unconfined --security-opt apparmor=unconfined."
    )
    return " ".join(lines)


async def _apt(*arguments: str) -> str:
    """Run apt-get and return the end of what it said; the caller looks whether it helped."""
    process = await asyncio.create_subprocess_exec(
        "apt-get",
        *("-o", "DPkg::Lock::Timeout=60"),
        *arguments,
        env={"PATH": os.environ.get("PATH", os.defpath), "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), INSTALL_DEADLINE_S)
    except TimeoutError:
        return f"apt-get {arguments[0]} took longer than {INSTALL_DEADLINE_S:g} s"
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    return said.decode("utf-8", "replace").strip()[-_LAST_WORDS:]
