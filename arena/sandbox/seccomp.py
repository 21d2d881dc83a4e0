"""The system-call filter an agent runs under, as classic BPF for `bwrap --seccomp`.

The one thing to know: it is a denylist behind the namespaces, not the wall itself. It closes what namespaces
leave open (AF_VSOCK and other socket families, io_uring, ptrace, foreign system-call ABIs) and the doors to
kernel code that no agent needs. Numbers are from Linux's asm/unistd_64.h and asm-generic/unistd.h; the
program's format is that of seccomp(2).
"""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Denials = Mapping[str, tuple[int | None, int | None]]

DENIED: Denials = {
    # name: (x86_64, aarch64); None where the machine has no such call
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "listmount": (458, 458),
    "lookup_dcookie": (212, 18),
    "lsm_set_self_attr": (460, 460),
    "mbind": (237, 235),
    "memfd_secret": (447, 447),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "set_mempolicy": (238, 237),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "statmount": (457, 457),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "_sysctl": (156, None),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "ustat": (136, None),
    "vhangup": (153, 58),
}
"""Calls refused with EPERM whatever their arguments."""

ALLOWED_FAMILIES = (1, 2, 10)
"""AF_UNIX, AF_INET, AF_INET6: what an agent needs to reach the recorder and its own loopback."""

NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET together."""

_TIOCSTI, _TIOCLINUX = 0x5412, 0x541C
"""Terminal requests that put characters into somebody else's input."""

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT, _SECOND_ARGUMENT_AT = 0, 4, 16, 24  # offsets in struct seccomp_data


@dataclass(frozen=True, slots=True)
class Machine:
    """One architecture: its AUDIT_ARCH value and the calls the filter looks into."""

    column: Literal[0, 1]
    audit_arch: int
    clone: int
    clone3: int
    ioctl: int
    socket: int
    socketpair: int


MACHINES: Mapping[str, Machine] = {
    "x86_64": Machine(0, 0xC000003E, clone=56, clone3=435, ioctl=16, socket=41, socketpair=53),
    "aarch64": Machine(1, 0xC00000B7, clone=220, clone3=435, ioctl=29, socket=198, socketpair=199),
}

Instruction = tuple[int, int, int, int]
"""(code, jump if true, jump if false, constant), as in struct sock_filter."""


def syscall_number(name: str, machine: str | None = None) -> int | None:
    """The number of a denied call on `machine` (default: this one); None where it does not exist."""
    return DENIED[name][_machine(machine).column]


def filter_program(machine: str | None = None) -> bytes:
    """The filter as packed `struct sock_filter`s, 8 bytes each, in this machine's byte order.

    Raises NotImplementedError on an architecture whose numbers are not known here.
    """
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions(_machine(machine)))


def instructions(machine: Machine) -> list[Instruction]:
    """The filter, instruction by instruction. Once a block is entered it ends in a return."""
    program = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 1, 0, machine.audit_arch),
        (_RETURN, 0, 0, _KILL),  # a 32-bit call on a 64-bit machine would pass every check below
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if machine.column == 0:
        program += [
            (_AT_LEAST, 0, 1, 0x40000000),
            (_RETURN, 0, 0, _KILL),
        ]  # x32 shares the architecture value
    for numbers in DENIED.values():
        if (number := numbers[machine.column]) is not None:
            program += [(_EQUAL, 0, 1, number), _refuse(errno.EPERM)]
    # ENOSYS: the C library then falls back to clone, whose flags a filter can read.
    program += [(_EQUAL, 0, 1, machine.clone3), _refuse(errno.ENOSYS)]
    program += _when(
        machine.clone, _FIRST_ARGUMENT_AT, [(_ANY_BIT, 0, 1, NAMESPACE_FLAGS), _refuse(errno.EPERM), _allow()]
    )
    program += _when(
        machine.ioctl,
        _SECOND_ARGUMENT_AT,
        [(_EQUAL, 1, 0, _TIOCSTI), (_EQUAL, 0, 1, _TIOCLINUX), _refuse(errno.EPERM), _allow()],
    )
    for number, families in ((machine.socket, ALLOWED_FAMILIES), (machine.socketpair, ALLOWED_FAMILIES[:1])):
        accepted = [step for family in families for step in ((_EQUAL, 0, 1, family), _allow())]
        program += _when(number, _FIRST_ARGUMENT_AT, [*accepted, _refuse(errno.EAFNOSUPPORT)])
    return [*program, _allow()]


def _machine(name: str | None) -> Machine:
    name = platform.machine() if name is None else name
    if name not in MACHINES:
        raise NotImplementedError(f"no system-call filter for {name}: known are {', '.join(MACHINES)}")
    return MACHINES[name]


def _allow() -> Instruction:
    return (_RETURN, 0, 0, _ALLOW)


def _refuse(code: int) -> Instruction:
    return (_RETURN, 0, 0, _ERRNO | code)


def _when(number: int, offset: int, block: list[Instruction]) -> list[Instruction]:
    """Run `block` on the argument at `offset` when the call is `number`; the block must end in a return."""
    return [(_EQUAL, 0, len(block) + 1, number), (_LOAD, 0, 0, offset), *block]
