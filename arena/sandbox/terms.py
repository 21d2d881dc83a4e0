"""The limits of an episode in words: what each counts, what binds it, and what hitting it means.

The one thing to know: an agent's author reads this to know what an end was, so each entry says honestly what
is not known. Values come from the rules of the race, where they stand for every validator alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from arena.rules import Rules
from arena.sandbox.sandbox import LimitName


@dataclass(frozen=True, slots=True)
class Term:
    """One limit. `ends`: whether hitting it ends the agent by itself; `seen`: how we know that it was hit."""

    name: LimitName
    value: float
    unit: str
    counts: str
    bound_by: str
    ends: bool
    seen: str


def terms(rules: Rules) -> Iterator[Term]:
    """Every limit, with its value by these rules."""
    box = rules.sandbox
    yield Term(
        *("wall", box.wall_s, "s", "time from the agent's first instruction", "our clock"),
        ends=True,
        seen="we end it",
    )
    yield Term(
        *("cpu", box.cpu_s, "s", "CPU time of all processes together", "control group; RLIMIT_CPU for each"),
        ends=True,
        seen="the group's account, SIGXCPU",
    )
    yield Term(
        *("memory", box.memory_bytes, "bytes", "memory of all processes, the work folder included"),
        bound_by="control group, without swap; else RLIMIT_AS for each process",
        ends=True,
        seen="the kernel's count of kills; unknown without a control group",
    )
    yield Term(
        *("processes", box.processes, "", "processes and threads", "control group; else RLIMIT_NPROC"),
        ends=False,
        seen="the group's count of refusals (EAGAIN); unknown without one",
    )
    yield Term(
        *("file_size", box.file_bytes, "bytes", "one file", "RLIMIT_FSIZE"),
        ends=False,
        seen="only by SIGXFSZ, which Python ignores: usually the agent alone sees the refusal (EFBIG)",
    )
    yield Term(
        *("open_files", box.open_files, "", "open files of one process", "RLIMIT_NOFILE"),
        ends=False,
        seen="not at all: the agent alone sees the refusal (EMFILE)",
    )
    yield Term(
        *("work_bytes", box.work_bytes, "bytes", "the work folder and /dev/shm", "the folder's file system"),
        ends=False,
        seen="when it is full at the end (ENOSPC)",
    )
    yield Term(
        *("work_inodes", box.work_inodes, "", "files and folders in the work folder"),
        bound_by="the folder's file system as root and in Docker; else memory alone",
        ends=False,
        seen="when none is free at the end (ENOSPC)",
    )
    yield Term(
        *("output", box.output_bytes, "bytes", "what is printed, stdout and stderr together", "our reading"),
        ends=True,
        seen="we end it",
    )
    yield Term(
        *("connections", rules.budget.connections, "", "connections to the recorder at a time"),
        bound_by="the recorder",
        ends=False,
        seen="further ones are refused",
    )
