"""The last trusted code inside a sandbox: says that everything stands, then becomes the agent's command.

Runs as `python -I -S start.py READY_FD PROCESSES COMMAND...`. The byte it writes is how the outside tells a
sandbox that could not be built from an agent that failed; the agent itself never holds that descriptor.
Standard library only, and little of it: its imports are paid for by every episode.
"""

import os
import resource
import sys


def main() -> None:
    """Limit processes, close every other descriptor, report, and execute the command."""
    ready, processes, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if processes:
        # Set inside the sandbox's own user namespace, where only its own processes are counted.
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    os.closerange(3, ready)
    os.closerange(ready + 1, 4096)
    if not os.access(command[0], os.X_OK):
        sys.exit(f"{command[0]} cannot be executed here")
    os.set_inheritable(ready, False)
    os.write(ready, b"R")
    try:
        os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(ready, b"E")
        sys.exit(f"{command[0]}: {error}")


main()
