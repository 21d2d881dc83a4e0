"""What an agent's code may use: the problem, the tools and the model, over one Unix socket.

    def solve(problem, tools, llm): ...

is the one obvious way. A file that has no `solve` may have `agent_main(problem)`, as agents of subnet 15 do
(see `subnet_15`), or is a script, with `from agent_kit import problem, tools, llm`. In each of them the
`openai` package works unchanged.

The one thing to know: nothing here is trusted. It runs in the agent's own process, which may change it at
will; what counts is what arrives at the other end of the socket. Only the standard library is used, and as
little of it as will do, because every episode pays for the imports.
"""

from __future__ import annotations

from .client import Llm, ModelError, Problem, ToolError, Tools, connect

TYPE_CHECKING = False  # `typing` itself costs more time than all else that is imported here
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Llm", "ModelError", "Problem", "ToolError", "Tools", "connect", "llm", "problem", "tools"]


def __getattr__(name: str) -> Any:
    """`problem`, `tools` and `llm` exist once the launcher has set them."""
    if name in {"problem", "tools", "llm"}:
        raise AttributeError(f"{name} exists only inside an episode: start the agent through the launcher")
    raise AttributeError(f"agent_kit has no {name}")
