"""What an agent sees in place of the host's own: the same on every validator, and no more than is needed.

The one thing to know: an agent that can tell one validator from another can behave well for one alone. What
files tell of the host is replaced by constants or left out. What the processor, the kernel and its clocks
tell by themselves cannot be hidden by a sandbox; docs/sandbox.md lists it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

HOSTNAME: Final = "sandbox"

CONSTANTS: Mapping[str, str] = {
    "cmdline": "\n",
    "cpuinfo": "processor\t: 0\n\n",
    "loadavg": "0.00 0.00 0.00 1/1 1\n",
    "meminfo": "MemTotal: 1048576 kB\nMemFree: 1048576 kB\nMemAvailable: 1048576 kB\n",
    "stat": "cpu 0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\nbtime 0\n",
    "uptime": "0.00 0.00\n",
    "version": "Linux\n",
    "sys/kernel/random/boot_id": "00000000-0000-0000-0000-000000000000\n",
    "sys/kernel/osrelease": "0\n",
    "sys/kernel/version": "0\n",
}
"""Files of /proc that libraries read, by their name there, with what stands in them."""

BLANK: tuple[str, ...] = ("diskstats", "interrupts", "modules", "partitions")
"""Files of /proc that no library needs and that name the host's devices: empty. There are others that count
what the kernel did; each one hidden costs every episode 0.3 ms in bubblewrap, and the clocks and sysinfo(2)
tell as much."""

SUPPORT_FILES: Mapping[str, str] = {
    "etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "etc/passwd": "agent:x:1000:1000:agent:/work:/usr/sbin/nologin\n",
    "etc/group": "agent:x:1000:\n",
    "etc/ld.so.cache": "",
    **{f"proc/{name}": text for name, text in CONSTANTS.items()},
    **{f"proc/{name}": "" for name in BLANK},
}
"""All of them, by path under the staged support folder."""
