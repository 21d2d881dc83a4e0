"""Changes the shape of its own address space, for exploits that need it so."""

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


def solve(problem, tools, llm):
    attempts = {"no randomness": call(135, 0x0040000), "read implies execute": call(135, 0x0400000)}
    attempts["descriptor table"] = call(154, 1, ctypes.create_string_buffer(16), 16)
    attempts["secret memory"] = call(447, 0)
    attempts["compare with process 1"] = call(312, 1, 1, 0, 0, 0)
    attempts["memory policy"] = call(238, 1, None, 0)
    return {"attempts": attempts}
