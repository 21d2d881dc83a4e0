"""The agent's launcher inside the sandbox: connect, load the agent, run it, pass on what it returns.

    python -I -B /.../agent_kit/launch.py [AGENT_FILE]

Reads ARENA_SOCKET (the recorder), ARENA_PACKAGES (folders with packages, separated like PATH) and, when no
file is named, ARENA_AGENT; the kit is the folder this file lies in. Sets OPENAI_BASE_URL and OPENAI_API_KEY,
so that the `openai` package works unchanged, and for agents of subnet 15 SANDBOX_PROXY_URL, SANDBOX_MODEL and
CHUTES_ACCESS_TOKEN. Exits with 1 and a traceback when the agent raises.
"""

from __future__ import annotations

import os
import sys
import types

TYPE_CHECKING = False  # `typing` itself costs more time than all else that is imported here
if TYPE_CHECKING:
    from typing import Any

MAX_CLAIM = 60_000
"""Characters of JSON. A larger return value is not worth a claim."""


def main() -> int:
    """Run the agent; its exit code."""
    agent_path = sys.argv[1] if len(sys.argv) > 1 else os.environ["ARENA_AGENT"]
    packages = os.environ.get("ARENA_PACKAGES", "").split(os.pathsep)
    # At the end, so that nothing in them can stand before the standard library.
    kit_folder = __file__.rsplit("/", 1)[0]
    sys.path += [kit_folder.rsplit("/", 1)[0], *filter(None, packages), f"{kit_folder}/subnet_15"]
    import agent_kit as kit  # type: ignore[import-not-found]  # there once its folder is on sys.path

    sys.argv = [agent_path]
    socket_path = os.environ["ARENA_SOCKET"]
    open_port(socket_path)
    # The recorder takes this request as the sign that all is in place: the agent comes right after it.
    kit.problem, kit.tools, kit.llm, connection = kit.connect(socket_path)
    try:
        claim = run(agent_path, kit)
    except SystemExit as end:
        return exit_code(end)
    except BaseException:  # noqa: BLE001 - the agent may raise anything; its traceback is for its author
        import traceback

        traceback.print_exc()
        return 1
    if claim is not None:
        make_claim(connection, claim)
    return 0


def open_port(socket_path: str) -> None:
    """Offer the model under a URL, for packages that only know URLs."""
    from agent_kit.shim import Shim  # type: ignore[import-not-found]

    try:
        shim = Shim(socket_path)
        shim.start()
    except (OSError, RuntimeError) as error:
        print(f"no OPENAI_BASE_URL here: {error}", file=sys.stderr)  # noqa: T201
        return
    url = f"http://127.0.0.1:{shim.port}"
    os.environ |= {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": "not-needed"}
    os.environ |= {"SANDBOX_PROXY_URL": url, "SANDBOX_MODEL": "default", "CHUTES_ACCESS_TOKEN": "not-needed"}


def run(agent_path: str, kit: Any) -> Any:
    """Load the agent and call its `solve(problem, tools, llm)` or `agent_main(problem)`.

    An agent that has neither is a script, and has run when it is loaded.
    """
    with open(agent_path, "rb") as file:  # noqa: PTH123
        code = compile(file.read(), agent_path, "exec", dont_inherit=True)
    entry = next((name for name in ("solve", "agent_main") if name in code.co_names), None)
    module = types.ModuleType("agent" if entry else "__main__")
    module.__file__ = agent_path
    sys.modules[module.__name__] = module
    exec(code, module.__dict__)  # noqa: S102 - running the agent is what this file is for
    if entry == "solve":
        return finish(module.__dict__["solve"](kit.problem, kit.tools, kit.llm))
    if entry == "agent_main":
        return finish(module.__dict__["agent_main"](dict(kit.problem)))
    return None


def finish(result: Any) -> Any:
    """The result itself, also of an `async def`."""
    if not hasattr(result, "__await__"):
        return result
    import asyncio

    async def awaited() -> Any:
        return await result

    return asyncio.run(awaited())


def make_claim(connection: Any, claim: Any) -> None:
    """Tell the recorder what the agent returned: a claim, which is kept apart.

    Of a list that is too long its end is sent: in a dialogue, the answer stands there.
    """
    import json

    try:
        text = json.dumps(claim, default=str, allow_nan=False)
        if len(text) > MAX_CLAIM and isinstance(claim, list):
            parts: list[Any] = []
            size = 0
            for part in reversed(json.loads(text)):
                size += len(json.dumps(part)) + 2
                if size > MAX_CLAIM:
                    break
                parts.insert(0, part)
            print("of the return value only the end was passed on", file=sys.stderr)  # noqa: T201
            connection.post("/claim", parts)
        elif len(text) <= MAX_CLAIM:
            connection.post("/claim", json.loads(text))
        else:
            print("the return value was not passed on: it is too long", file=sys.stderr)  # noqa: T201
    except (OSError, TypeError, ValueError, RecursionError) as error:
        print(f"the return value was not passed on: {error}", file=sys.stderr)  # noqa: T201


def exit_code(end: SystemExit) -> int:
    """The exit code that `end` asks for, as the interpreter understands it."""
    if end.code is None or isinstance(end.code, int):
        return int(end.code or 0) & 0xFF
    print(end.code, file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    status = main()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
    os._exit(status)  # threads that the agent left behind must not keep the episode open
