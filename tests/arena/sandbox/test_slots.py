"""A slot in which something is left is not used again, and says so; a uid is one job's at a time."""

from __future__ import annotations

import dataclasses
import logging
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.inside import FIRST_UID, SLOTS
from arena.sandbox.limits import own_identity
from arena.sandbox.residue import residue
from arena.sandbox.sandbox import Limits, SlotQuarantined
from arena.sandbox.slots import NoSlotLeft, Slots, quarantined_here
from arena.sandbox.staging import StagedPython
from neurons.doctor import check_sandbox
from neurons.settings import Settings
from tests.arena.sandbox.conftest import MakeJob

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has uids to give to slots")
SLOT = 731
"""One that no other test uses."""
UID = FIRST_UID + SLOT


def our_mounts() -> list[str]:
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if own_identity() in line]


@pytest.fixture
def squatter(staged: StagedPython) -> Iterator[subprocess.Popen[bytes]]:
    """A process that runs under the slot's uid, as one would that had escaped its teardown."""
    with subprocess.Popen(
        [str(staged.python), "-I", "-S", "-c", "import sys; sys.stdin.read()"],
        env={"LD_LIBRARY_PATH": str(staged.libraries)},
        stdin=subprocess.PIPE,
        user=UID,
        cwd="/",
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@as_root
async def test_a_slot_with_something_left_in_it_is_quarantined_until_it_is_gone(
    sandbox: BubblewrapSandbox,
    staged: StagedPython,
    bwrap: Path,
    job: MakeJob,
    limits: Limits,
    squatter: subprocess.Popen[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.ERROR):
        ended = await sandbox.run(job("print('ran')"), limits, slot=SLOT)
    assert (ended.reason, ended.stdout, ended.leftovers) == ("exit", "ran\n", 1)
    assert f"process {squatter.pid} of uid {UID}" in caplog.text
    assert SLOT in sandbox.quarantined
    with pytest.raises(SlotQuarantined, match=f"process {squatter.pid}"):
        await sandbox.run(job(""), limits, slot=SLOT)
    assert [(each.uid, each.why) for each in quarantined_here() if each.uid == UID] == [
        (UID, f"process {squatter.pid} of uid {UID}")
    ]
    # Another process of this host gives that uid to nobody while something is left there.
    other = BubblewrapSandbox(staged, bwrap)
    assert (await other.run(job(""), limits, slot=SLOT)).leftovers == 0
    with Slots(own_uid=False).claim(SLOT) as uid:
        assert uid != UID
    squatter.kill()
    squatter.wait(10)
    with Slots(own_uid=False).claim(SLOT) as uid:
        assert uid == UID
    assert not [each for each in quarantined_here() if each.uid == UID]


@as_root
def test_two_claims_of_one_slot_never_share_a_uid() -> None:
    with Slots(own_uid=False).claim(SLOT) as first, Slots(own_uid=False).claim(SLOT) as second:
        assert first != second
    with Slots(own_uid=False).claim(SLOTS - 1) as last, Slots(own_uid=False).claim(SLOTS - 1) as next_one:
        assert last != next_one


def test_a_slot_is_claimed_once_in_a_sandbox_and_is_one() -> None:
    slots = Slots(own_uid=True)
    with slots.claim(3) as uid, pytest.raises(ValueError, match="slot 3"), slots.claim(3):
        pass
    assert uid == -1
    with pytest.raises(ValueError, match="slot"), slots.claim(SLOTS):
        pass


@as_root
def test_what_a_uid_leaves_is_found_even_where_it_hides(
    squatter: subprocess.Popen[bytes], staged: StagedPython
) -> None:
    hider = (
        "import ctypes, sys\n"
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n"  # then its folder in /proc is root's
        "print(ctypes.CDLL(None).shmget(0, 4096, 0o1600), flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [str(staged.python), "-I", "-c", hider],
        env={"LD_LIBRARY_PATH": str(staged.libraries)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        user=UID + 1,
        cwd="/",
    ) as process:
        assert process.stdout is not None
        shared = process.stdout.readline().decode().strip()
        try:
            assert set(residue(UID + 1)) == {
                f"process {process.pid} of uid {UID + 1}",
                f"System V shm object {shared} of uid {UID + 1}",
            }
            assert residue(UID) == (f"process {squatter.pid} of uid {UID}",)
        finally:
            process.kill()
            subprocess.run(["ipcrm", "-m", shared], check=True, timeout=10)
    assert residue(UID + 1) == ()


def test_no_slot_left_says_what_is_in_them() -> None:
    error = NoSlotLeft({4: "process 12 of uid 61004", 1: "control group /x"})
    assert "slot 1: control group /x; slot 4: process 12 of uid 61004" in str(error)
    assert "arena doctor" in str(error)


@as_root
async def test_the_work_folder_is_bounded_in_files_and_is_gone_afterwards(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits
) -> None:
    source = """
import os
made, folders = 0, ('/work', '/dev/shm')
try:
    while made < 5000:
        os.close(os.open(f'{folders[made & 1]}/{made}', os.O_CREAT))
        made += 1
except OSError as error:
    print(made, error.strerror, flush=True)
    %s
"""
    few = dataclasses.replace(limits, work_inodes=100)
    survived = await sandbox.run(job(source % "pass"), few, slot=SLOT)
    assert survived.stdout == "100 No space left on device\n"
    assert (survived.reason, survived.hit) == ("exit", ("work_inodes",))
    died = await sandbox.run(job(source % "raise"), few, slot=SLOT)
    assert (died.reason, died.return_code, died.hit) == ("work_inodes", 1, ("work_inodes",))
    assert "100 files" in died.detail
    assert not our_mounts()


@as_root
async def test_doctor_says_which_slots_are_out_of_use(
    sandbox: BubblewrapSandbox, job: MakeJob, limits: Limits, squatter: subprocess.Popen[bytes]
) -> None:
    await sandbox.run(job(""), limits, slot=SLOT)
    finding = await check_sandbox(Settings())
    assert finding.state == "problem"
    assert f"process {squatter.pid} of uid {UID}" in finding.detail
    squatter.kill()
    squatter.wait(10)
    with Slots(own_uid=False).claim(SLOT):
        pass  # finds nothing left, which ends the quarantine
