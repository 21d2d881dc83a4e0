"""The last trusted code inside a sandbox: says that everything stands, then becomes the agent's command.

Runs as `python -I -S -B start.py READY_FD PROCESSES COMMAND...`. The byte it writes is how the outside tells
a sandbox that could not be built from an agent that failed; the agent itself never holds that descriptor. A
command that is this very interpreter with the same options runs on in it, which saves every episode a second
start of Python. Standard library only, and little of it, for the same reason; without `site`, which has no
packages to find here, and of which scripts know only `exit` and `quit`.
"""

import _sitebuiltins
import builtins
import os
import resource
import sys


def main() -> None:
    """Limit processes, close every other descriptor, report, and go over to the command."""
    ready, processes, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if processes:
        # Set inside the sandbox's own user namespace, where only its own processes are counted.
        resource.setrlimit(resource.RLIMIT_NPROC, (processes, processes))
    os.closerange(3, ready)
    os.closerange(ready + 1, 4096)
    if command[:3] == [sys.executable, "-I", "-B"]:
        run_script(ready, command[3:])
    else:
        execute(ready, command)


def run_script(ready: int, arguments: list[str]) -> None:
    """Run the script `arguments[0]` as `__main__` of this interpreter, as if it had been started with it."""
    with open(arguments[0], "rb") as file:  # noqa: PTH123 - pathlib would slow the start
        source = file.read()
    os.write(ready, b"R")
    os.close(ready)
    # Compiled only now: a source that does not compile is the agent's fault.
    code = compile(source, arguments[0], "exec", dont_inherit=True)
    for name in ("exit", "quit"):
        setattr(builtins, name, _sitebuiltins.Quitter(name, "Ctrl-D (i.e. EOF)"))
    module = type(sys)("__main__")
    module.__file__ = arguments[0]
    module.__dict__["__builtins__"] = __builtins__
    sys.modules["__main__"] = module
    sys.argv[:] = arguments
    exec(code, module.__dict__)  # noqa: S102 - running the agent is what we are here for


def execute(ready: int, command: list[str]) -> None:
    """Replace this process by `command`."""
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
