"""The filter, run instruction by instruction as the kernel would, on both machines."""

from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.sandbox.seccomp import DENIED, MACHINES, NAMESPACE_FLAGS, filter_program, syscall_number

ALLOW, KILL = 0x7FFF0000, 0x80000000
X32 = 0x40000000


def refused(code: int) -> int:
    return 0x50000 | code


def verdict(machine: str, number: int, *arguments: int, arch: int | None = None) -> int:
    """What the filter returns for a system call."""
    arch = MACHINES[machine].audit_arch if arch is None else arch
    padded = [*arguments, *[0] * (6 - len(arguments))]
    call = struct.pack("<IIQ6Q", number, arch, 0, *padded)
    program = list(struct.iter_unpack("=HBBI", filter_program(machine)))
    accumulator = at = 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", call, constant)
        elif code == 0x06:
            return int(constant)
        else:
            test = {
                0x15: accumulator == constant,
                0x35: accumulator >= constant,
                0x45: bool(accumulator & constant),
            }
            at += if_true if test[code] else if_false


machines = pytest.mark.parametrize("machine", MACHINES)


@machines
@given(number=st.integers(0, X32 - 1))
def test_exactly_the_listed_calls_are_refused(machine: str, number: int) -> None:
    about = MACHINES[machine]
    looked_into = {about.clone, about.clone3, about.ioctl, about.socket, about.socketpair}
    denied = {numbers[about.column] for numbers in DENIED.values()}
    if number not in looked_into:
        assert verdict(machine, number) == (refused(errno.EPERM) if number in denied else ALLOW)


@machines
@pytest.mark.parametrize("name", DENIED)
def test_each_listed_call_is_refused(machine: str, name: str) -> None:
    number = syscall_number(name, machine)
    if number is not None:
        assert verdict(machine, number) == refused(errno.EPERM)


@machines
@given(number=st.integers(0, 600), arch=st.integers(0, 2**32 - 1))
def test_a_foreign_abi_kills(machine: str, number: int, arch: int) -> None:
    if arch != MACHINES[machine].audit_arch:
        assert verdict(machine, number, arch=arch) == KILL


@given(number=st.integers(X32, 2**32 - 1))
def test_x32_kills(number: int) -> None:
    assert verdict("x86_64", number) == KILL


@machines
@given(family=st.integers(0, 2**32 - 1))
def test_only_unix_and_internet_sockets_open(machine: str, family: int) -> None:
    about = MACHINES[machine]
    outside = refused(errno.EAFNOSUPPORT)
    assert verdict(machine, about.socket, family) == (ALLOW if family in (1, 2, 10) else outside)
    assert verdict(machine, about.socketpair, family) == (ALLOW if family == 1 else outside)


@machines
@given(flags=st.integers(0, 2**32 - 1))
def test_clone_may_not_make_namespaces_and_clone3_is_unknown(machine: str, flags: int) -> None:
    about = MACHINES[machine]
    expected = refused(errno.EPERM) if flags & NAMESPACE_FLAGS else ALLOW
    assert verdict(machine, about.clone, flags) == expected
    assert verdict(machine, about.clone3, flags) == refused(errno.ENOSYS)


@machines
@given(request=st.sampled_from([0x5412, 0x541C, 0x5413, 0x5401]))
def test_terminal_input_cannot_be_forged(machine: str, request: int) -> None:
    forging = request in (0x5412, 0x541C)
    assert verdict(machine, MACHINES[machine].ioctl, 1, request) == (
        refused(errno.EPERM) if forging else ALLOW
    )


def test_an_unknown_machine_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="riscv64"):
        filter_program("riscv64")
