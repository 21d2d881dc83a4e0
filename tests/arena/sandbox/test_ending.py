"""What is said of an end: which limit it was, and when a limit that merely refuses is the reason."""

from __future__ import annotations

import signal

import pytest

from arena.sandbox.ending import Report, judged
from arena.sandbox.limits import Usage
from arena.sandbox.sandbox import EndReason, Exit, Limits
from arena.sandbox.work_folder import Fill

NOTHING = Usage(cpu_s=1.0, peak_memory_bytes=1 << 20, out_of_memory_kills=0)
FULL = Fill(bytes_full=True, inodes_full=False)
NO_INODES = Fill(bytes_full=False, inodes_full=True)


def end(
    limits: Limits,
    *,
    code: int = 0,
    reason: EndReason = "exit",
    usage: Usage = NOTHING,
    overflowed: bool = False,
    fill: Fill | None = None,
) -> Exit:
    status = code - 128 if code > 128 else code << 8
    return judged(
        reason,
        report=Report(status, 1.0, 1 << 20, 0),
        wall_s=2.0,
        limits=limits,
        usage=usage,
        streams=(bytearray(), bytearray()),
        overflowed=overflowed,
        fill=fill,
    )


@pytest.mark.parametrize(
    ("usage", "fill", "name"),
    [
        (Usage(1.0, 1, 0, refused_processes=3), None, "processes"),
        (NOTHING, FULL, "work_bytes"),
        (NOTHING, NO_INODES, "work_inodes"),
        (Usage(1.0, 1, out_of_memory_kills=1), None, "memory"),
    ],
)
def test_a_limit_that_only_refuses_is_the_reason_of_an_agent_that_then_failed(
    limits: Limits, usage: Usage, fill: Fill | None, name: str
) -> None:
    survived, died = (end(limits, code=code, usage=usage, fill=fill) for code in (0, 1))
    assert (survived.reason, survived.return_code, survived.hit) == ("exit", 0, (name,))
    assert (died.reason, died.return_code, died.hit) == (name, 1, (name,))


def test_what_ends_an_agent_by_itself_is_the_reason_whatever_its_code(limits: Limits) -> None:
    busy = Usage(cpu_s=limits.cpu_s + 1, peak_memory_bytes=1, out_of_memory_kills=0)
    assert end(limits, usage=busy).reason == "cpu"
    assert end(limits, overflowed=True).reason == "output"
    assert end(limits, code=128 + signal.SIGXCPU).reason == "cpu"
    assert end(limits, code=128 + signal.SIGXFSZ).reason == "file_size"


def test_the_first_that_ends_is_named_before_what_was_also_hit(limits: Limits) -> None:
    ended = end(limits, reason="wall", code=137, fill=FULL, usage=Usage(1.0, 1, 0, refused_processes=1))
    assert (ended.reason, ended.return_code) == ("wall", None)
    assert ended.hit == ("wall", "processes", "work_bytes")


def test_a_crash_within_all_limits_is_an_exit(limits: Limits) -> None:
    ended = end(limits, code=1)
    assert (ended.reason, ended.return_code, ended.hit) == ("exit", 1, ())
    assert end(limits, code=128 + signal.SIGSEGV).reason == "exit"


def test_an_end_that_nobody_witnessed_is_ours(limits: Limits) -> None:
    ended = judged(
        "exit",
        report=None,
        wall_s=1.0,
        limits=limits,
        usage=NOTHING,
        streams=(bytearray(), bytearray()),
        overflowed=False,
        fill=None,
    )
    assert ended.reason == "setup_error"


def test_a_sandbox_that_the_host_kills_is_ours_and_one_that_runs_out_of_memory_is_not(limits: Limits) -> None:
    def killed(reason: EndReason = "exit", status: int = signal.SIGKILL, out_of_memory: int = 0) -> Exit:
        return judged(
            reason,
            report=Report(status, 1.0, 1 << 20, 0),
            wall_s=2.0,
            limits=limits,
            usage=Usage(cpu_s=1.0, peak_memory_bytes=1, out_of_memory_kills=out_of_memory),
            streams=(bytearray(), bytearray()),
            overflowed=False,
            fill=None,
            monitored=True,
        )

    assert killed().reason == "setup_error"
    assert "killed from outside" in killed().detail
    assert killed(out_of_memory=1).reason == "memory"
    assert killed("wall").reason == "wall"
    assert killed(status=137 << 8).reason == "exit", "what the agent did to itself is told by the exit code"
