"""The recorder's routes as Python objects: `problem`, `tools.find_product(q=...)`, `llm.chat(messages)`.

Plain HTTP by hand, one connection a request: loading the standard HTTP client takes longer than many an
episode's own work, and a connection of one's own is safe in threads.
"""

from __future__ import annotations

import json
import socket

TYPE_CHECKING = False  # `typing` itself costs more time than all else that is imported here
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

TIMEOUT_S = 900.0
"""For one answer. The episode's own limit is usually shorter."""


class ToolError(Exception):
    """A tool refused a call; the text says what to change."""


class ModelError(Exception):
    """The model gave no answer. `code` is e.g. `budget_spent` or `provider`, `status` that of HTTP."""

    def __init__(self, message: str, code: str | None, status: int) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


class Problem(dict[str, "Any"]):
    """The problem: `problem.query`, `problem["query"]`, likewise category, problem_id, environment."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the problem has no {name}; it has: {', '.join(self)}") from None


class Connection:
    """Speaks HTTP with the recorder's socket. `timeout_s` is for each wait of one request."""

    def __init__(self, socket_path: str, timeout_s: float = TIMEOUT_S) -> None:
        self._socket_path = socket_path
        self._timeout_s = timeout_s

    def get(self, path: str) -> tuple[int, Any]:
        """(status, JSON value). Raises OSError when the recorder is gone."""
        return self._exchange("GET", path, b"")

    def post(self, path: str, value: object) -> tuple[int, Any]:
        """(status, JSON value). Raises OSError when the recorder is gone, TypeError on what is not JSON."""
        return self._exchange("POST", path, json.dumps(value).encode())

    def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: arena\r\nconnection: close\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(self._timeout_s)
            channel.connect(self._socket_path)
            channel.sendall(head.encode("ascii") + body)
            answer = bytearray()
            while piece := channel.recv(1 << 16):
                answer += piece
        start, separator, content = bytes(answer).partition(b"\r\n\r\n")
        if not separator:
            raise ConnectionError("the recorder closed the connection: the episode is over")
        return int(start.split(b" ", 2)[1]), json.loads(content)


class Tools:
    """The environment's tools, each a method with keyword arguments.

    A call returns the tool's content and raises ToolError when the tool refuses it. `specs` is the list to
    pass to a model as `tools`.
    """

    def __init__(self, connection: Connection, specs: Sequence[Mapping[str, Any]]) -> None:
        self._connection = connection
        self.specs = [dict(spec) for spec in specs]

    def call(self, name: str, arguments: object) -> Any:
        """Call a tool by name, with arguments as a model may have written them."""
        status, answer = self._connection.post(f"/tools/{_segment(name)}", arguments)
        error = answer.get("error")
        if isinstance(error, dict):
            error = error.get("message")
        if error is not None or status != 200:
            raise ToolError(error or f"refused with status {status}")
        return answer["content"]

    def __dir__(self) -> list[str]:
        return ["call", "specs", *(spec["function"]["name"] for spec in self.specs)]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        offered = [spec["function"]["name"] for spec in self.specs]
        if name not in offered:
            raise AttributeError(f"no tool {name}; there is: {', '.join(offered)}")

        def call(**arguments: Any) -> Any:
            return self.call(name, arguments)

        return call


class Llm:
    """The model. For streaming and the rest of the API, the `openai` package works unchanged as well."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def chat(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]] | None = None,
        **params: Any,
    ) -> dict[str, Any]:
        """The assistant message that answers `messages`: a dict to append to them as it is.

        `params` are those of chat completions: model, temperature, max_tokens, seed and so on.
        Raises ModelError.
        """
        request = {**params, "messages": list(messages)}
        if tools:
            request["tools"] = list(tools)
        status, answer = self._connection.post("/v1/chat/completions", request)
        if status != 200:
            error = answer["error"]
            raise ModelError(error["message"], error.get("code"), status)
        message: dict[str, Any] = answer["choices"][0]["message"]
        return message


def connect(socket_path: str) -> tuple[Problem, Tools, Llm, Connection]:
    """What an agent works with, from the recorder's socket. Raises OSError when there is no recorder."""
    connection = Connection(socket_path)
    _, offered = connection.get("/problem")
    return Problem(offered["problem"]), Tools(connection, offered["tools"]), Llm(connection), connection


def _segment(name: str) -> str:
    """`name` as one segment of a path."""
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in name.encode()
    )
