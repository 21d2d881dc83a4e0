"""Asks the kernel for what only the administrator may have: clock, swap, modules, reboot, quotas."""

import ctypes
import errno

LIBRARY = ctypes.CDLL(None, use_errno=True)


def call(number, *arguments):
    """The word for how the system call went; any error but these two means that the kernel took it up."""
    if LIBRARY.syscall(number, *arguments) >= 0:
        return "worked"
    code = ctypes.get_errno()
    name = errno.errorcode[code]
    return name if code in (errno.EPERM, errno.ENOSYS) else f"taken up, {name}"


# Each with arguments that the kernel could do nothing with, were it to look at them.
CALLS = {
    "acct": (163, b"/nonexistent"),
    "adjtimex": (159, 1),
    "chroot": (161, b"/nonexistent"),
    "clock_settime": (227, 99, None),
    "delete_module": (176, b"no-such-module", 0),
    "finit_module": (313, -1, None, 0),
    "init_module": (175, 1, 1, None),
    "ioperm": (173, 1 << 30, 1, 1),
    "kexec_load": (246, 0, 1000, None, 0),
    "mount": (165, b"/nonexistent", b"/nonexistent", b"none", 0, None),
    "pivot_root": (155, b"/nonexistent", b"/nonexistent"),
    "quotactl": (179, 1 << 30, b"/nonexistent", 0, None),
    "reboot": (169, 1, 2, 3, None),
    "sethostname": (170, None, 4096),
    "settimeofday": (164, 1, 1),
    "swapoff": (168, b"/nonexistent"),
    "swapon": (167, b"/nonexistent", 0),
    "syslog": (103, 99, None, 0),
    "umount2": (166, b"/nonexistent", 0),
    "fanotify_init": (300, 1 << 30, 0),
    "lookup_dcookie": (212, 0, None, 0),
}


def solve(problem, tools, llm):
    return {"attempts": {name: call(*arguments) for name, arguments in CALLS.items()}}
