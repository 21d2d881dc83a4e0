"""Mounts by the newer calls, which a filter made for the old one lets through."""

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


CALLS = {
    "open_tree": (428, -1, b"/nonexistent", 0),
    "move_mount": (429, -1, b"/nonexistent", -1, b"/nonexistent", 0),
    "fsopen": (430, b"no-such-filesystem", 0),
    "fsconfig": (431, -1, 0, None, None, 0),
    "fsmount": (432, -1, 0, 0),
    "fspick": (433, -1, b"/nonexistent", 0),
    "mount_setattr": (442, -1, b"/nonexistent", 0, None, 0),
    "statmount": (457, None, None, 0, 0),
    "listmount": (458, None, None, 0, 0),
    "open_tree_attr": (467, -1, b"/nonexistent", 0, None, 0),
}


def solve(problem, tools, llm):
    return {"attempts": {name: call(*arguments) for name, arguments in CALLS.items()}}
