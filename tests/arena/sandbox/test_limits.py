"""Control groups of this very kernel, and what is refused as a limit."""

from __future__ import annotations

import dataclasses
import os
import resource
import subprocess
from pathlib import Path

import pytest

from arena.sandbox.limits import FOLDER, ControlGroup, Hierarchies, resource_limits, sweep_stale
from arena.sandbox.sandbox import Limits


@pytest.fixture
def hierarchies(limits: Limits) -> Hierarchies:
    found = Hierarchies.of_this_host()
    group = ControlGroup.create(limits, found)
    enforced = group.enforced
    group.destroy()
    if not enforced:
        pytest.skip("no control group can be made here: not root, or mounted read-only")
    return found


def join(group: ControlGroup) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(["sleep", "1000"])
    for entrance in group.entrances:
        entrance.write_text(str(process.pid))
    return process


def test_a_destroyed_group_has_killed_its_members(hierarchies: Hierarchies, limits: Limits) -> None:
    group = ControlGroup.create(limits, hierarchies)
    process = join(group)
    assert group.members() == {process.pid}
    assert group.destroy() == ()
    assert process.wait(5) == -9
    assert not any(entrance.parent.exists() for entrance in group.entrances)


def test_groups_of_a_dead_owner_are_swept_and_those_of_a_living_one_kept(
    hierarchies: Hierarchies, limits: Limits
) -> None:
    kept = ControlGroup.create(limits, hierarchies)
    ended = subprocess.Popen(["true"])
    ended.wait(5)
    parts = kept.entrances[0].parent.name.split("-")
    orphaned = "-".join([parts[0], str(ended.pid), *parts[2:]])
    folders = {name: mount / FOLDER / orphaned for name, mount in hierarchies.folders.items()}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    process = join(ControlGroup(hierarchies.unified, folders))
    assert sweep_stale(hierarchies) >= 1
    assert process.wait(5) == -9
    assert not any(folder.exists() for folder in folders.values())
    assert all(entrance.exists() for entrance in kept.entrances)
    kept.destroy()


def test_another_pid_namespaces_groups_are_left_alone(hierarchies: Hierarchies) -> None:
    name, mount = next(iter(hierarchies.folders.items()))
    foreign = mount / FOLDER / "1-1-1-0"
    foreign.mkdir(parents=True, exist_ok=True)
    sweep_stale(hierarchies)
    assert foreign.is_dir(), name
    foreign.rmdir()


def test_a_unified_group_is_emptied(limits: Limits) -> None:
    mount = next((Path(line.split()[1]) for line in mounts() if line.split()[2] == "cgroup2"), None)
    if mount is None or not os.access(mount, os.W_OK) or os.geteuid() != 0:
        pytest.skip("no unified hierarchy that can be written here")
    folder = mount / f"arena-test-{os.getpid()}"
    folder.mkdir()
    group = ControlGroup(unified=True, folders={"unified": folder})
    process = join(group)
    assert group.destroy() == ()
    assert process.wait(5) == -9
    assert not folder.exists()


def mounts() -> list[str]:
    return Path("/proc/self/mounts").read_text().splitlines()


def test_hierarchies_are_read_from_the_mounts(tmp_path: Path) -> None:
    unified = tmp_path / "unified"
    unified.mkdir()
    (unified / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    table = tmp_path / "mounts"
    table.write_text(f"tmpfs /x tmpfs rw 0 0\ncgroup2 {unified} cgroup2 rw,nosuid 0 0\n")
    assert Hierarchies.of_this_host(table) == Hierarchies(True, {"unified": unified})
    (unified / "cgroup.controllers").write_text("hugetlb\n")
    table.write_text(f"cgroup2 {unified} cgroup2 rw 0 0\ncgroup /c/both cgroup rw,cpu,cpuacct 0 0\n")
    both = Path("/c/both")
    assert Hierarchies.of_this_host(table) == Hierarchies(False, {"cpu": both, "cpuacct": both})


def test_without_a_group_the_address_space_is_limited(limits: Limits) -> None:
    assert resource.RLIMIT_AS in resource_limits(limits, frozenset())
    assert resource.RLIMIT_AS not in resource_limits(limits, frozenset({"memory"}))


@pytest.mark.parametrize(
    "change",
    [
        {"wall_s": 0},
        {"cpu_s": -1},
        {"memory_bytes": 1 << 20},
        {"processes": 2},
        {"open_files": 3},
        {"output_bytes": 0},
    ],
)
def test_limits_under_which_no_agent_could_run_are_refused(limits: Limits, change: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(change))):
        dataclasses.replace(limits, **change)
