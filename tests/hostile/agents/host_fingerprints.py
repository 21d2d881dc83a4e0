"""Looks for what tells one machine from another, to behave where a validator watches."""

import os
import platform
import socket


def read(path):
    try:
        return open(path).read()
    except OSError as error:
        return f"refused: {error.strerror}"


def solve(problem, tools, llm):
    names = (
        "cpuinfo meminfo loadavg stat uptime version cmdline diskstats partitions modules interrupts vmstat"
    )
    names += (
        " sys/kernel/random/boot_id sys/kernel/hostname sys/kernel/version net/dev net/route net/arp swaps"
    )
    seen = {name: read(f"/proc/{name}")[:1500] for name in names.split()}
    for path in ("/etc/machine-id", "/etc/hostname", "/etc/os-release", "/sys/class/dmi/id/product_uuid"):
        seen[path] = read(path)[:500]
    seen["host name"] = socket.gethostname()
    seen["node"] = platform.node()
    seen["user"] = [os.getuid(), os.getgid(), os.getgroups()]
    return {"seen": seen}
