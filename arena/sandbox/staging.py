"""Stages the agents' Python: interpreter, packages and agent kit, where a sandbox's uid can read them.

The one thing to know: an agent sees this tree and nothing else of the host's Python, so that what it can
import is the same on every validator. Each part lies in a folder named by what went into it, is built once
beside its final place and renamed into it; a folder that exists is complete. Nothing is downloaded: packages
are copied from the environment that runs us.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import re
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from arena.sandbox.appearance import SUPPORT_FILES
from arena.sandbox.layers import build_once
from arena.sandbox.sandbox import SandboxUnavailable

PACKAGES = ("openai", "httpx", "numpy", "rapidfuzz", "pydantic")
"""What an agent may import beside the standard library and the agent kit, with all they require."""

SYSTEM_ROOT = Path("/var/lib/bittensor-agent-arena")
RUNTIME_FOLDER = Path("/run/bittensor-agent-arena")
LAYOUT = 2
"""Raised when the way a part is built changes, so that parts built before are not used again."""

_UNUSED_STDLIB = {
    "test",
    "tests",
    "idlelib",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "site-packages",
    "dist-packages",
    "__pycache__",
}
_UNUSED_IN_PACKAGES = {"..", "tests", "__pycache__"}
"""'..' leads to scripts and manual pages; caches are built again, for the place where the agent sees them."""
_SYSTEM_LIBRARIES = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/")
_COMPILE_DEADLINE_S = 120.0


@dataclass(frozen=True, slots=True)
class StagedPython:
    """Where the parts lie on the host.

    `interpreter` is the folder with `bin/` and the standard library, `packages_folder` and `kit` go on
    sys.path, `support` holds the sandbox's own small files. `packages` maps name to version, for miners to
    read.
    """

    interpreter: Path
    packages_folder: Path
    kit: Path
    support: Path
    python_version: str
    packages: dict[str, str] = field(default_factory=dict)

    @property
    def python(self) -> Path:
        """The interpreter's executable."""
        return self.interpreter / "bin" / "python3"

    @property
    def libraries(self) -> Path:
        """Shared libraries that the interpreter brings along, for LD_LIBRARY_PATH."""
        return self.interpreter / "lib" / "shared"


def default_root() -> Path:
    """Where parts are kept when nobody says otherwise."""
    if os.geteuid() == 0:
        return SYSTEM_ROOT
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "bittensor-agent-arena"


def stage(
    root: Path | None = None, *, kit: Path | None = None, packages: Sequence[str] = PACKAGES
) -> StagedPython:
    """The agents' Python under `root`, built where it is not there yet.

    Takes some seconds the first time and is a matter of milliseconds after. Blocks; call it outside the event
    loop. `kit` is the agent kit's source folder, `packages` what agents may import. Raises SandboxUnavailable
    when the tree cannot be made or read by the sandbox's uid.
    """
    root = default_root() if root is None else root
    kit = Path(__file__).resolve().parents[1] / "agent_kit" if kit is None else kit
    if not (kit / "launch.py").is_file():
        raise SandboxUnavailable(
            f"{kit} is not the agent kit, for it has no launch.py: install this program again"
        )
    distributions = closure(packages)
    try:
        _make_readable_folder(root)
        if os.geteuid() == 0:
            check_reachable(root)
        interpreter = build_once(root, "python", _interpreter_key(), _build_interpreter)
        python = interpreter / "bin" / "python3"

        def build_packages(target: Path) -> None:
            for distribution in distributions:
                _copy_distribution(distribution, target)
            _byte_compile(python, target, "/packages")

        def build_kit(target: Path) -> None:
            for file, place in _kit_files(kit):
                _copy(file, target / "agent_kit" / place)
            (target / "agent_kit").mkdir(exist_ok=True)
            _byte_compile(python, target, "/kit")

        def build_support(target: Path) -> None:
            _build_support(target)
            _byte_compile(python, target / "screening", "/support/screening")

        return StagedPython(
            interpreter=interpreter,
            packages_folder=build_once(root, "packages", _packages_key(distributions), build_packages),
            kit=build_once(root, "kit", _kit_key(kit), build_kit),
            support=build_once(root, "support", _support_key(), build_support),
            python_version=sys.version.split()[0],
            packages={canonicalize_name(each.name): each.version for each in distributions},
        )
    except (OSError, subprocess.SubprocessError, TimeoutError) as error:
        raise SandboxUnavailable(
            f"The agents' Python could not be staged under {root}: {error}. Give a folder that can be "
            "written and has 300 MB free."
        ) from error


def closure(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    """The installed distributions of `names` and of everything they require here, by name.

    Raises SandboxUnavailable when one is not installed.
    """
    found: dict[str, importlib.metadata.Distribution] = {}
    wanted: list[tuple[str, frozenset[str]]] = [(canonicalize_name(name), frozenset()) for name in names]
    seen: set[tuple[str, frozenset[str]]] = set()
    while wanted:
        name, extras = entry = wanted.pop()
        if entry in seen:
            continue
        seen.add(entry)
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError as error:
            raise SandboxUnavailable(
                f"Agents may import {name}, but it is not installed: pip install {name}"
            ) from error
        found[name] = distribution
        for requirement in map(Requirement, distribution.requires or ()):
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in extras | {""}):
                wanted.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return [found[name] for name in sorted(found)]


def check_reachable(path: Path) -> None:
    """Raise SandboxUnavailable when another uid cannot get to `path`, and say which folder is shut."""
    for folder in (path, *path.resolve().parents):
        if not folder.stat().st_mode & stat.S_IXOTH:
            raise SandboxUnavailable(
                f"{path} cannot be reached from the sandbox, because {folder} is shut to other users: "
                f"choose a place outside it, or run chmod o+x {folder}"
            )


def socket_root() -> Path:
    """Where recorder sockets may lie: in reach of every sandbox uid, and short enough for a socket's path."""
    if os.geteuid() != 0:
        return Path(tempfile.gettempdir()) / f"bittensor-agent-arena-{os.geteuid()}"
    return RUNTIME_FOLDER


def socket_folder(prefix: str | None = None) -> Path:
    """A new folder under `socket_root`, its name beginning with `prefix`. The caller removes it."""
    root = socket_root()
    root.mkdir(exist_ok=True)
    root.chmod(0o711)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=root))
    folder.chmod(0o711)
    return folder


def _key(*parts: object) -> str:
    return hashlib.sha256(repr((LAYOUT, *parts)).encode()).hexdigest()[:16]


def _real_executable() -> Path:
    base = getattr(sys, "_base_executable", None) or sys.executable
    return Path(base).resolve()


def _interpreter_key() -> str:
    executable = _real_executable()
    about = executable.stat()
    return _key(sys.version, str(executable), about.st_size, about.st_mtime_ns, sysconfig.get_path("stdlib"))


def _build_interpreter(target: Path) -> None:
    """Copy executable, standard library and the shared libraries that the system's folders do not hold."""
    executable, stdlib = _real_executable(), Path(sysconfig.get_path("stdlib"))
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = target / "bin" / "python3"
    _copy(executable, python)
    place = target / sys.platlibdir / version
    for file in _files_below(stdlib, _UNUSED_STDLIB):
        if not file.relative_to(stdlib).parts[0].startswith("config-"):
            _copy(file, place / file.relative_to(stdlib))
    extensions = sysconfig.get_config_var("DESTSHARED")
    if extensions and not (place / Path(extensions).name).exists():
        for file in _files_below(Path(extensions), _UNUSED_STDLIB):
            _copy(file, place / "lib-dynload" / file.relative_to(extensions))
    # The landmark by which Python knows its own folder, even where no extension is shared.
    (place / "lib-dynload").mkdir(parents=True, exist_ok=True)
    for library in _foreign_libraries([executable, *(place / "lib-dynload").glob("*.so")]):
        _copy(library, target / "lib" / "shared" / library.name)
    (target / "lib" / "shared").mkdir(parents=True, exist_ok=True)
    _check_runs(python)
    _byte_compile(python, target / sys.platlibdir, f"/python/{sys.platlibdir}")


def _foreign_libraries(binaries: list[Path]) -> Iterator[Path]:
    """Shared libraries of `binaries` outside the system's folders, which alone the sandbox mounts."""
    listed = subprocess.run(
        ["ldd", *map(str, binaries)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"LC_ALL": "C"},
    ).stdout
    for path in sorted(set(re.findall(r"=> (/\S+) \(", listed))):
        if not path.startswith(_SYSTEM_LIBRARIES):
            yield Path(path)


def _packages_key(distributions: list[importlib.metadata.Distribution]) -> str:
    records = [distribution.read_text("RECORD") or "" for distribution in distributions]
    return _key(_interpreter_key(), [(each.name, each.version) for each in distributions], records)


def _copy_distribution(distribution: importlib.metadata.Distribution, target: Path) -> None:
    files = distribution.files
    if not files:
        raise SandboxUnavailable(
            f"{distribution.name} lists no files, so it cannot be copied for agents: install it again"
        )
    for file in files:
        if not _UNUSED_IN_PACKAGES.intersection(file.parts):
            source = Path(str(distribution.locate_file(file)))
            if source.is_file():
                _copy(source, target / file)


def _kit_files(kit: Path) -> list[tuple[Path, Path]]:
    return [(file, file.relative_to(kit)) for file in sorted(_files_below(kit, {"__pycache__"}))]


def _kit_key(kit: Path) -> str:
    content = [(str(place), hashlib.sha256(file.read_bytes()).hexdigest()) for file, place in _kit_files(kit)]
    return _key(_interpreter_key(), content)


_START = Path(__file__).with_name("start.py")
_ARENA = Path(__file__).resolve().parents[1]
_SCREENING_FILES = tuple(
    _ARENA / f"{name}.py"
    for name in ("__init__", "literals", "screening_child", "similarity", "source_policy")
)
"""The program that reads submissions, and all of ours that it imports."""


def _support_key() -> str:
    return _key(
        _interpreter_key(),
        sorted(SUPPORT_FILES.items()),
        [file.read_text() for file in (_START, *_SCREENING_FILES)],
    )


def _build_support(target: Path) -> None:
    for name, text in SUPPORT_FILES.items():
        file = target / name
        _make_readable_folder(file.parent)
        file.write_text(text)
        file.chmod(0o644)
    _copy(_START, target / "start.py")
    for file in _SCREENING_FILES:
        _copy(file, target / "screening" / "arena" / file.name)


def _library_path(python: Path) -> dict[str, str]:
    return {"LD_LIBRARY_PATH": str(python.parents[1] / "lib" / "shared"), "LC_ALL": "C.UTF-8"}


def _check_runs(python: Path) -> None:
    tried = subprocess.run(
        [str(python), "-I", "-c", "import ctypes, json, socket, ssl"],
        env=_library_path(python),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=_COMPILE_DEADLINE_S,
        check=False,
    )
    if tried.returncode != 0:
        raise SandboxUnavailable(
            f"A copy of {_real_executable()} does not run ({tried.stderr.strip()[-500:]}): use a CPython "
            "3.11 or later built by your distribution, pyenv or uv"
        )


def _byte_compile(python: Path, folder: Path, seen_as: str) -> None:
    """Compile `folder` with the path an agent sees in it, in a process of the staged interpreter.

    Unchecked: the tree never changes, and an agent's imports need not stat every source.
    """
    subprocess.run(
        [
            *(str(python), "-I", "-m", "compileall", "-q", "-q", "-j", "0"),
            *("--invalidation-mode", "unchecked-hash", "-s", str(folder), "-p", seen_as, str(folder)),
        ],
        env=_library_path(python),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=_COMPILE_DEADLINE_S,
        # Packages may hold files for other versions of Python that do not compile here.
        check=False,
    )
    for cache in folder.rglob("__pycache__"):
        cache.chmod(0o755)
        for file in cache.iterdir():
            file.chmod(0o644)


def _files_below(folder: Path, unwanted: set[str]) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in unwanted]
        yield from (Path(where) / name for name in files if not name.endswith((".pyc", ".a")))


def _copy(source: Path, target: Path) -> None:
    """Copy content, readable by all and executable where the source is."""
    _make_readable_folder(target.parent)
    shutil.copyfile(source, target)
    target.chmod(0o755 if source.stat().st_mode & stat.S_IXUSR else 0o644)


def _make_readable_folder(folder: Path) -> None:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir(exist_ok=True)
        each.chmod(0o755)
