"""More than its share of processes, memory, disk, descriptors, processor, time or output."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from arena.verdict import Solved
from tests.hostile.seen import LIMITS, Breaches, Seen, expect

SHORT = dataclasses.replace(LIMITS, wall_s=2.0)
LITTLE_CPU = dataclasses.replace(LIMITS, cpu_s=1.0)
WITHOUT_END = "it would take the machine down"
_ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


@expect(bare="always")
def fork_bomb(seen: Seen) -> Breaches:
    yield from seen.at_most("children", seen.limits.processes)


@expect(limits=SHORT, contained_only=WITHOUT_END)
def fork_bomb_without_end(seen: Seen) -> Breaches:
    yield from seen.ended("wall", "cpu", "memory")


@expect(bare="always")
def thread_bomb(seen: Seen) -> Breaches:
    yield from seen.at_most("threads", seen.limits.processes)


@expect(bare="always")
def memory_in_one_process(seen: Seen) -> Breaches:
    if seen.get("attempt") == "touched it all":
        yield "all the memory was there"


@expect(bare="always")
def memory_in_children(seen: Seen) -> Breaches:
    if seen.record.exit.reason != "memory":
        yield from seen.at_most("held_bytes", seen.limits.memory_bytes)


@expect(bare="always")
def memory_in_shared_segments(seen: Seen) -> Breaches:
    if seen.get("attempt") == "filled a segment":
        yield "a segment beyond the limit was filled"


@expect(bare="always")
def memory_in_nameless_files(seen: Seen) -> Breaches:
    yield from seen.at_most("held_bytes", seen.limits.memory_bytes)


@expect()
def memory_in_pipes(seen: Seen) -> Breaches:
    yield from seen.at_most("held_bytes", seen.limits.memory_bytes)


@expect(bare="always")
def disk_fill(seen: Seen) -> Breaches:
    yield from seen.at_most("written_bytes", seen.limits.work_bytes)


@expect(bare="always")
def disk_fill_elsewhere(seen: Seen) -> Breaches:
    # A megabyte of shared memory is apart from the work folder in one of the sandboxes.
    yield from seen.at_most("written_bytes", seen.limits.work_bytes + (2 << 20))


@expect()
def one_file_beyond_its_limit(seen: Seen) -> Breaches:
    yield from seen.at_most("written_bytes", seen.limits.file_bytes)


@expect()
def sparse_file(seen: Seen) -> Breaches:
    yield from seen.refused()
    if seen.get("size") > seen.limits.file_bytes:
        yield f"the file claims {seen.get('size')} bytes"


@expect(limits=dataclasses.replace(LIMITS, memory_bytes=48 << 20), bare="always")
def inode_flood(seen: Seen) -> Breaches:
    if seen.record.exit.reason != "memory":
        yield from seen.at_most("files", seen.limits.work_inodes)


@expect()
def descriptor_flood(seen: Seen) -> Breaches:
    yield from seen.at_most("descriptors", seen.limits.open_files)


@expect(bare="as root")
def descriptors_stashed_in_sockets(seen: Seen) -> Breaches:
    # The kernel lets a user park as many as it may have open, and looks before each message.
    yield from seen.at_most("descriptors", 3 * seen.limits.open_files)


@expect(limits=LITTLE_CPU)
def cpu_burn(seen: Seen) -> Breaches:
    yield from seen.ended("cpu")


@expect(limits=LITTLE_CPU)
def cpu_burn_deaf_to_its_signal(seen: Seen) -> Breaches:
    yield from seen.ended("cpu", "exit")


@expect(limits=dataclasses.replace(LITTLE_CPU, cpu_s=0.5), bare="always")
def cpu_burn_in_children(seen: Seen) -> Breaches:
    yield from seen.ended("cpu")


@expect(limits=dataclasses.replace(LITTLE_CPU, cpu_s=0.5), bare="always")
def cpu_burn_in_generations(seen: Seen) -> Breaches:
    yield from seen.ended("cpu")


@expect(limits=SHORT)
def sleep_deaf_to_all_signals(seen: Seen) -> Breaches:
    yield from seen.ended("wall")


@expect(limits=SHORT)
def stop_oneself(seen: Seen) -> Breaches:
    yield from seen.ended("wall")


@expect()
def output_flood(seen: Seen) -> Breaches:
    yield from seen.ended("output")


@expect()
def error_flood(seen: Seen) -> Breaches:
    yield from seen.ended("output")


@expect(verdict=Solved)
def closed_output(seen: Seen) -> Breaches:
    if not seen.bodies("tool_call", name="answer"):
        yield "an honest call was lost"


@expect()
def output_held_by_a_child(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.ended("exit")


@expect()
def terminal_escapes(seen: Seen) -> Breaches:
    seen.get("attempt")
    if _ESCAPES.search(seen.record.exit.stdout + seen.record.exit.stderr):
        yield "a log would carry terminal escapes"


@expect(bare="as root")
def limits_raised(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def deep_folders(seen: Seen) -> Breaches:
    if not seen.get("depth") > 0:
        yield "no folder could be made in the work folder"
    if any(_work_folders()):
        yield "a work folder of the agent's was left on the host"


def _work_folders() -> list[Path]:
    return [path for path in Path("/tmp").glob("arena-work-*") if (path / "work" / "d").is_dir()]
