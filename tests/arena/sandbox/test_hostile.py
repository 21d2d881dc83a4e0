"""Hostile programs in the real sandbox: each tries one thing, and the test looks at what is left of it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import secrets
import socket
from pathlib import Path

import pytest

from arena.sandbox.bubblewrap import AGENT_UID, BubblewrapSandbox
from arena.sandbox.limits import FOLDER, Hierarchies
from arena.sandbox.sandbox import PLAIN_PYTHON, Exit, Job, Limits
from tests.arena.sandbox.conftest import MakeJob

REPORT = """
import os, sys, socket, ctypes, errno, signal, time
def tried(what, *arguments):
    try:
        print(what.__name__, 'WORKED', repr(what(*arguments))[:200])
    except OSError as error:
        print(what.__name__, errno.errorcode.get(error.errno, error))
def call(number, *arguments):
    library = ctypes.CDLL(None, use_errno=True)
    result = library.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), 'refused')
    return result
"""


def processes_with(mark: str) -> list[str]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and mark.encode() in (folder / "cmdline").read_bytes():
                found.append(folder.name)
        except OSError:
            continue
    return found


def host_says(name: str) -> str:
    return (Path("/proc") / name).read_text().strip()


def own_groups() -> list[Path]:
    mine = f"*-{os.getpid()}-*"
    return [
        group
        for mount in Hierarchies.of_this_host().folders.values()
        for group in (mount / FOLDER).glob(mine)
    ]


def assert_clean(ended: Exit) -> None:
    assert ended.leftovers == 0
    assert own_groups() == []


async def run(sandbox: BubblewrapSandbox, job: Job, limits: Limits) -> Exit:
    ended = await sandbox.run(job, limits, slot=1)
    assert_clean(ended)
    assert ended.reason != "setup_error", ended.detail
    return ended


async def test_host_files_cannot_be_read(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, open_folder: Path
) -> None:
    secret = open_folder / "wallet"
    secret.write_text("coldkey")
    secret.chmod(0o644)
    paths = [
        "/etc/shadow",
        str(secret),
        "/proc/1/root/etc/shadow",
        "/root",
        "/home",
        "/var",
        "/sys",
        "/usr/bin",
    ]
    source = f"{REPORT}\nfor p in {paths!r}:\n    tried(os.stat, p)\n    tried(os.open, p, 0)"
    ended = await run(sandbox, job(source), limits)
    assert ended.return_code == 0
    assert "WORKED" not in ended.stdout


async def test_the_hosts_environment_does_not_come_through(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = secrets.token_hex(16)
    monkeypatch.setenv("WALLET_PASSWORD", token)
    source = """
import os
for pid in [p for p in os.listdir('/proc') if p.isdigit()]:
    try:
        print(open(f'/proc/{pid}/environ').read(), open(f'/proc/{pid}/cmdline').read())
    except OSError as error:
        print(error)
print(dict(os.environ))
"""
    ended = await run(sandbox, job(source), limits)
    assert token not in ended.stdout
    assert "/agent/agent.py" in ended.stdout
    assert str(Path.home()) not in ended.stdout


async def test_no_command_line_inside_shows_where_things_lie_on_the_host(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, recorder: Path
) -> None:
    source = """
import os
for pid in filter(str.isdigit, os.listdir('/proc')):
    print(open(f'/proc/{pid}/cmdline').read())
"""
    ended = await run(sandbox, job(source), limits)
    assert "bwrap" in ended.stdout
    assert str(recorder.parent) not in ended.stdout


async def test_host_services_and_the_internet_are_out_of_reach(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    abstract = f"arena-test-{secrets.token_hex(8)}"
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as local:
        local.bind(f"\0{abstract}")
        local.listen()
        source = f"""{REPORT}
for address in [('127.0.0.1', {server.getsockname()[1]}), ('169.254.169.254', 80), ('1.1.1.1', 53)]:
    client = socket.socket()
    client.settimeout(1)
    tried(client.connect, address)
tried(socket.socket(socket.AF_UNIX).connect, '\\0{abstract}')
tried(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b'x', ('8.8.8.8', 53))
tried(socket.getaddrinfo, 'example.com', 80)
print(socket.getaddrinfo('localhost', 80)[0][4])
"""
        ended = await run(sandbox, job(source), limits)
    assert "WORKED" not in ended.stdout
    assert ended.stdout.count("ENETUNREACH") == 3
    assert "127.0.0.1" in ended.stdout


async def test_a_fork_bomb_is_bounded_and_gone_afterwards(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os, time
born = 0
try:
    for _ in range(300):
        if os.fork() == 0:
            time.sleep(1000)
        born += 1
except OSError:
    print(born, flush=True)
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.reason == "exit"
    assert 0 < int(ended.stdout) <= limits.processes


async def test_an_endless_fork_bomb_ends_with_the_wall(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
    ended = await run(sandbox, job(source), dataclasses.replace(limits, wall_s=1.0))
    assert ended.reason == "wall"
    assert ended.return_code is None


async def test_memory_is_bounded_over_all_processes(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os
for _ in range(3):
    os.fork()
held = []
while True:
    held.append(b'x' * (4 << 20))
"""
    if "memory" not in Hierarchies.of_this_host().folders and not Hierarchies.of_this_host().unified:
        pytest.skip("no control group for memory here: only each process is bounded")
    ended = await run(sandbox, job(source), limits)
    assert ended.reason == "memory" or "MemoryError" in ended.stderr
    assert ended.peak_memory_bytes <= limits.memory_bytes


async def test_the_disk_cannot_be_filled(sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits) -> None:
    source = """
import os, resource
def fill(folder):
    written = 0
    try:
        for number in range(40):
            with open(f'{folder}/{number}', 'wb', buffering=0) as file:
                written += file.write(b'x' * (1 << 20))
    except OSError as error:
        print(folder, written, error.strerror)
fill('/work')
fill('/dev/shm')
try:
    os.truncate(os.open('/work/0', os.O_RDWR), 1 << 40)
except OSError as error:
    print(error.strerror)
"""
    ended = await run(sandbox, job("import signal; signal.signal(25, signal.SIG_IGN)\n" + source), limits)
    work, memory, sparse = ended.stdout.splitlines()
    assert "No space left" in work
    assert int(work.split()[1]) <= limits.work_bytes
    assert "No space left" in memory
    assert sparse == "File too large"


@pytest.mark.parametrize("stream", [1, 2])
async def test_an_output_flood_is_cut_and_ended(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, stream: int
) -> None:
    source = f"import os\nwhile True:\n    os.write({stream}, b'x' * 65536)"
    ended = await run(sandbox, job(source), limits)
    assert ended.reason == "output"
    assert len(ended.stdout) + len(ended.stderr) == limits.output_bytes


async def test_a_sleeper_that_ignores_every_signal_ends_with_the_wall(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import signal, time
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
time.sleep(1000)
"""
    ended = await run(sandbox, job(source), dataclasses.replace(limits, wall_s=0.3))
    assert ended.reason == "wall"


async def test_burning_cpu_in_many_processes_is_stopped_by_the_sum(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = "import os\nfor _ in range(2): os.fork()\nwhile True: pass"
    ended = await run(sandbox, job(source), dataclasses.replace(limits, cpu_s=1.0))
    assert ended.reason == "cpu"
    assert ended.cpu_s > 1.0


async def test_a_daemon_does_not_outlive_its_agent(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    mark = f"daemon-{secrets.token_hex(8)}"
    source = f"""
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.closerange(0, 64)
        os.execv(sys.executable, [sys.executable, '-I', '-c', 'import time; time.sleep(1000)', '{mark}'])
    os._exit(0)
os.wait()
while not any('{mark}' in open(f'/proc/{{p}}/cmdline').read() for p in os.listdir('/proc') if p.isdigit()
              and int(p) != os.getpid()):
    pass
print('started')
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.stdout == "started\n"
    assert processes_with(mark) == []


async def test_a_child_that_keeps_the_output_open_does_not_hold_us_up(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    ended = await run(sandbox, job("import os, time\nif os.fork() == 0:\n    time.sleep(1000)"), limits)
    assert ended.reason == "exit"
    assert ended.return_code == 0
    assert ended.wall_s < limits.wall_s


async def test_sockets_that_lead_out_of_the_namespace_are_refused(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = f"""{REPORT}
kinds = [(40, 1, 0), (16, 3, 0), (17, 3, 0), (38, 5, 0), (44, 3, 0), (2, 3, 1), (10, 3, 58)]
for family, kind, number in kinds:
    tried(socket.socket, family, kind, number)
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.return_code == 0
    assert len(ended.stdout.splitlines()) == 7
    assert "WORKED" not in ended.stdout


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers below are of x86_64")
async def test_kernel_doors_are_shut(sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits) -> None:
    source = f"""{REPORT}
for number, *arguments in [
    (272, 0x10000000), (272, 0x40000000), (308, 0, 0), (165, b'x', b'/work', b'tmpfs', 0, 0),
    (166, b'/proc', 2), (155, b'/', b'/work'), (161, b'/work'), (321, 0, None, 0), (323, 1),
    (425, 8, ctypes.create_string_buffer(256)), (101, 0, 0, 0, 0), (101, 16, 1, 0, 0),
    (310, 1, None, 0, None, 0, 0), (250, 0, -3, 1), (135, 0x40000), (56, 0x10000000 | 17, 0, 0, 0, 0),
    (435, ctypes.create_string_buffer(88), 88), (105, 0), (438, 3, 0, 0)
]:
    tried(call, number, *arguments)
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.return_code == 0
    assert len(ended.stdout.splitlines()) == 19
    assert "WORKED" not in ended.stdout


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the machine code below is of x86_64")
async def test_the_32_bit_door_kills(sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits) -> None:
    source = """
import ctypes, mmap
code = mmap.mmap(-1, 4096, prot=7)
code.write(bytes.fromhex('b814000000cd80c3'))
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))())
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.stdout == ""
    assert ended.return_code == 128 + 31  # SIGSYS


async def test_nothing_but_the_work_folder_can_be_written(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, recorder: Path
) -> None:
    folders = "/ /usr /usr/lib /etc /agent /python /packages /kit /support /run/arena /dev /proc"
    source = f"""{REPORT}
for folder in {folders!r}.split():
    tried(os.open, folder + '/escaped', os.O_CREAT | os.O_WRONLY)
tried(os.unlink, '/run/arena/recorder.sock')
tried(os.chmod, '/agent/agent.py', 0o777)
tried(os.open, '/agent/agent.py', os.O_WRONLY)
tried(os.open, '/proc/sys/kernel/core_pattern', os.O_WRONLY)
open('/work/mine', 'w').write('x')
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.return_code == 0, ended.stderr
    assert "WORKED" not in ended.stdout
    assert recorder in list(recorder.parent.iterdir())


async def test_killing_everything_in_sight_reaches_nobody_outside(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = f"""{REPORT}
os.kill(1, 9)
tried(os.kill, {os.getpid()}, 9)
print(sorted(p for p in os.listdir('/proc') if p.isdigit()), flush=True)
os.kill(os.getpid(), 9)
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.stdout.splitlines() == ["kill ESRCH", "['1', '2']"]
    assert ended.reason == "exit"
    assert ended.return_code == 137


async def test_symlinks_lead_nowhere(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, open_folder: Path
) -> None:
    secret = open_folder / "secret"
    secret.touch()
    source = f"""{REPORT}
for number, target in enumerate(['/etc/shadow', {str(secret)!r}, '/proc/1/root{secret}', '../../..{secret}']):
    os.symlink(target, str(number))
    tried(os.open, str(number), 0)
tried(os.link, '/agent/agent.py', '/work/hard')
tried(os.mknod, '/work/disk', 0o60600, os.makedev(254, 0))
os.mkfifo('/work/fifo')
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.return_code == 0, ended.stderr
    assert len(ended.stdout.splitlines()) == 6
    assert "WORKED" not in ended.stdout


async def test_limits_cannot_be_raised_and_privileges_not_regained(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os, resource
for name in ('NPROC', 'FSIZE', 'CPU', 'NOFILE', 'CORE'):
    try:
        resource.setrlimit(getattr(resource, 'RLIMIT_' + name), (resource.RLIM_INFINITY,) * 2)
        print('RAISED', name)
    except (ValueError, OSError):
        pass
status = dict(line.split(':', 1) for line in open('/proc/self/status').read().splitlines())
print(os.getuid(), int(status['CapEff'], 16), int(status['CapBnd'], 16), status['NoNewPrivs'].strip())
try:
    os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-1000')
    print('SPARED')
except OSError:
    pass
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.stdout.split() == [str(AGENT_UID), "0", "0", "1"]


async def test_the_host_cannot_be_told_by_its_fingerprints(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    own = [host_says(name) for name in ("version", "sys/kernel/random/boot_id", "cmdline")]
    names = "cpuinfo meminfo loadavg uptime version cmdline stat sys/kernel/random/boot_id"
    source = f"""
import socket
for name in {names!r}.split():
    print(open('/proc/' + name).read())
print(socket.gethostname())
"""
    ended = await run(sandbox, job(source), limits)
    assert ended.return_code == 0, ended.stderr
    assert [text for text in own if text in ended.stdout] == []
    assert "model name" not in ended.stdout
    assert ended.stdout.splitlines()[-1] == "sandbox"


async def test_agents_at_once_do_not_see_each_other(
    sandbox: BubblewrapSandbox, recorder: Path, limits: Limits
) -> None:
    source = b"""
import os, sys
open('/work/mine', 'w').write(sys.argv[1])
print(os.listdir('/work'), sorted(p for p in os.listdir('/proc') if p.isdigit()), sys.argv[1])
"""
    jobs = [Job(source, recorder, (*PLAIN_PYTHON, f"agent{slot}")) for slot in range(4)]
    ended = await asyncio.gather(*(sandbox.run(job, limits, slot=slot) for slot, job in enumerate(jobs)))
    assert [each.stdout for each in ended] == [f"['mine'] ['1', '2'] agent{slot}\n" for slot in range(4)]
