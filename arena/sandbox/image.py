"""Makes the image that containers run from: the agents' Python and the shared libraries it needs, no more.

The one thing to know: nothing is pulled. The root file system is put together from what is staged and from
this host's libraries, imported, and from then on named by its content address alone, so that a tag moved by
somebody else changes nothing.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import httpx

from arena.sandbox.engine import EngineError, blocking, import_image
from arena.sandbox.layers import build_once
from arena.sandbox.sandbox import SandboxUnavailable
from arena.sandbox.seccomp import filter_program
from arena.sandbox.staging import StagedPython

REPOSITORY = "arena-sandbox"
FILTER = "/support/filter.bpf"
BOOT = "/support/boot.py"
_LAYOUT = 1
"""Raised when what is put into an image changes."""
_BOOT_SOURCE = Path(__file__).with_name("boot.py")
_EMPTY_FOLDERS = ("agent", "dev", "proc", "run", "run/arena", "sys", "work")
_EMPTY_FILES = ("agent/agent.py", "run/arena/recorder.sock", "run/arena/ready.sock")
"""Places for what is mounted: the root file system is read-only by then."""
_BATCH = 100


def ensure_image(staged: StagedPython, socket: Path) -> str:
    """The content address of the image for `staged`, imported where this engine has not got it.

    Takes about 10 s the first time. Blocks; call it outside the event loop. Raises SandboxUnavailable.
    """
    try:
        with blocking(socket) as client:
            engine = client.get("/info").raise_for_status().json()["ID"]
            key = _key(staged, engine)

            def build(folder: Path) -> None:
                (folder / "id").write_text(_imported(staged, client, key))

            for _ in range(2):
                kept = build_once(staged.support.parent, "image", key, build)
                identity = (kept / "id").read_text()
                if client.get(f"/images/{identity}/json").is_success:
                    return identity
                shutil.rmtree(kept)  # the engine's images were pruned
    except (httpx.HTTPError, OSError, EngineError, TimeoutError, KeyError, ValueError) as error:
        raise SandboxUnavailable(f"Docker's image for agents could not be made: {error}") from error
    raise SandboxUnavailable("Docker's image for agents is gone as soon as it is imported: is its disk full?")


def _key(staged: StagedPython, engine: str) -> str:
    parts = [part.name for part in (staged.interpreter, staged.packages_folder, staged.kit, staged.support)]
    content = (_LAYOUT, parts, engine, _BOOT_SOURCE.read_text(), filter_program().hex())
    return hashlib.sha256(repr(content).encode()).hexdigest()[:16]


def _imported(staged: StagedPython, client: httpx.Client, key: str) -> str:
    with tempfile.TemporaryDirectory(prefix="arena-image-") as folder:
        tar = Path(folder) / "root.tar"
        with tarfile.open(tar, "w") as archive:
            _pack(archive, staged)
        return import_image(client, tar, f"{REPOSITORY}:{key}")


def _pack(archive: tarfile.TarFile, staged: StagedPython) -> None:
    for name in _EMPTY_FOLDERS:
        _add_folder(archive, name)
    for name in _EMPTY_FILES:
        _add_bytes(archive, name, b"")
    _add_link(archive, "tmp", "work")
    for top in ("bin", "lib", "lib32", "lib64", "libx32", "sbin"):
        if (place := Path("/") / top).is_symlink():
            _add_link(archive, top, str(place.readlink()))
    for target, source in (
        ("python", staged.interpreter),
        ("packages", staged.packages_folder),
        ("kit", staged.kit),
        ("support", staged.support),
        ("etc", staged.support / "etc"),
    ):
        archive.add(source, target, filter=_by_root)
    _add_bytes(archive, BOOT.lstrip("/"), _BOOT_SOURCE.read_bytes())
    _add_bytes(archive, FILTER.lstrip("/"), filter_program())
    cache = Path("/etc/ld.so.cache")
    _add_bytes(archive, "etc/ld.so.cache", cache.read_bytes() if cache.is_file() else b"")
    for inside, library in sorted(_system_libraries(staged).items()):
        archive.add(library, inside.lstrip("/"), filter=_by_root)


def _system_libraries(staged: StagedPython) -> dict[str, Path]:
    """Where in the image each of the host's libraries goes that Python or a package is linked to."""
    binaries = [staged.python]
    for folder in (staged.interpreter, staged.packages_folder):
        binaries += sorted(folder.rglob("*.so*"))
    found: set[str] = set()
    for first in range(0, len(binaries), _BATCH):
        listed = subprocess.run(
            ["ldd", *map(str, binaries[first : first + _BATCH])],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"LC_ALL": "C", "LD_LIBRARY_PATH": str(staged.libraries), "PATH": os.defpath},
        ).stdout
        found |= set(re.findall(r"(/\S+) \(0x", listed))
    own = (str(staged.interpreter), str(staged.packages_folder))
    libraries = {path for path in found if not path.startswith(own)}
    # The C library loads this by itself, when a thread is cancelled.
    libraries |= {str(Path(path).with_name("libgcc_s.so.1")) for path in libraries if "/libc.so" in path}
    return {
        f"{Path(path).parent.resolve()}/{Path(path).name}": Path(path).resolve()
        for path in libraries
        if Path(path).is_file()
    }


def _by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name == "etc/ld.so.cache":
        return None  # the staged one is empty, a place for the host's
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def _add_folder(archive: tarfile.TarFile, name: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    archive.addfile(entry)


def _add_link(archive: tarfile.TarFile, name: str, target: str) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = tarfile.SYMTYPE, target
    archive.addfile(entry)


def _add_bytes(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o444
    archive.addfile(entry, io.BytesIO(content))
