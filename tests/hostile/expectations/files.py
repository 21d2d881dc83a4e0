"""Files of the host, its secrets, and results left in the work folder for a reader to trip over."""

from __future__ import annotations

from tests.hostile.seen import Breaches, NotShown, Seen, expect


def _only_our_own(seen: Seen) -> Breaches:
    """What was found must not be the host's; the secret itself is looked for in every run."""
    if not seen.get("looked") > 0:
        raise NotShown("no process was looked at")
    if seen.get("found"):
        yield "the secret of a process on the host was read"


@expect(bare="as root")
def read_shadow(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def read_wallet(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def read_home_folders(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def read_environments(seen: Seen) -> Breaches:
    yield from _only_our_own(seen)


@expect(bare="always")
def read_command_lines(seen: Seen) -> Breaches:
    yield from _only_our_own(seen)


@expect(bare="always")
def read_open_files_of_others(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def control_sockets(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def open_devices(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def make_devices(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def write_outside(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def write_over_trusted_code(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="as root")
def write_kernel_settings(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def links_out_of_the_work_folder(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def hard_link_to_the_recorder(seen: Seen) -> Breaches:
    yield from seen.refused()


@expect(bare="always")
def replace_the_recorder(seen: Seen) -> Breaches:
    yield from seen.refused()
    if len(seen.bodies("tool_call", name="add")) != 2:
        yield "the recorder lost calls"


def _nothing_read(seen: Seen) -> Breaches:
    """Nothing on the host reads the work folder, so whatever lies there changes nothing."""
    seen.get("attempt")
    yield from seen.ended("exit")
    yield from seen.no_calls("answer")


@expect()
def files_that_harm_whoever_reads_them(seen: Seen) -> Breaches:
    yield from _nothing_read(seen)


@expect()
def result_as_a_link(seen: Seen) -> Breaches:
    yield from _nothing_read(seen)


@expect()
def result_as_a_pipe(seen: Seen) -> Breaches:
    yield from _nothing_read(seen)


@expect()
def result_as_a_sparse_file(seen: Seen) -> Breaches:
    yield from _nothing_read(seen)


@expect()
def result_written_as_a_verdict(seen: Seen) -> Breaches:
    yield from _nothing_read(seen)
