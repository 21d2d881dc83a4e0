"""The kernel's own surface: calls that no agent needs, and dialects that slip past filters."""

from __future__ import annotations

from tests.hostile.seen import Breaches, Seen, expect

SIGSYS = 128 + 31


@expect(bare="as root")
def privileged_calls(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def new_namespaces(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def mount_anew(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def io_uring(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def programs_in_the_kernel(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect()
def page_faults_in_own_hands(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def kernel_keyrings(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def files_by_number(seen: Seen) -> Breaches:
    yield from seen.refused()


def _killed(seen: Seen) -> Breaches:
    """The call must not have been answered: the filter ends whoever makes it."""
    if seen.get("attempt") != "begun":
        yield f"the kernel answered: {seen.report}"
    if seen.record.exit.return_code != SIGSYS:
        yield f"it ended with {seen.record.exit.return_code}, not by the filter"


@expect(bare="always")
def foreign_system_calls(seen: Seen) -> Breaches:
    yield from _killed(seen)


@expect(bare="always")
def foreign_sockets(seen: Seen) -> Breaches:
    yield from _killed(seen)


@expect()
def odd_system_calls(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def personality_and_segments(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def descriptors_of_others(seen: Seen) -> Breaches:
    yield from seen.refused()
