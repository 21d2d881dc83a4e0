"""Processes of the host, processes that outlive their episode, and privileges."""

from __future__ import annotations

from tests.hostile.seen import Breaches, Seen, expect


@expect(bare="always")
def kill_host_process(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(contained_only="it would kill the whole account's processes")
def kill_everything(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.ended("exit")


@expect(bare="always")
def trace_host_process(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def read_host_memory(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def daemon_left_behind(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.ended("exit")


@expect()
def daemons_that_breed(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.ended("exit")


@expect(bare="as root")
def terminal_input(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def become_root(seen: Seen) -> Breaches:
    yield from seen.refused()
    held = [name for name, bits in seen.get("capabilities").items() if bits]
    if held:
        yield f"capabilities are left: {', '.join(held)}"
    if seen.get("no_new_privileges") != "1":
        yield "a set-uid program would give privileges"


@expect()
def forged_word_of_the_sandbox(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.ended("exit")
    if seen.record.exit.return_code != 125:
        yield f"its exit code was taken for {seen.record.exit.return_code}"
