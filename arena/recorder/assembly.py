"""A provider's streamed answer, put together again to what it would have been whole.

The one thing to know: pieces of text are passed on as they come, and everything, tool calls, usage and log
probabilities too, is in the value at the end. A stream that stops before it said that it was finished is no
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from arena import strict_json
from arena.recorder.chat import ChatError

TEXTS = ("content", "reasoning_content", "reasoning", "refusal")
"""The parts of a message that are text and come in pieces."""
MAX_CALLS = 128
"""Tool calls of one answer; a provider that numbers one beyond is not followed there."""


class Assembly:
    """Takes the bytes of server-sent events and gives the completion."""

    def __init__(self, say: Callable[[dict[str, str]], None], max_bytes: int) -> None:
        """`say` is given each piece of text, by its key in the message."""
        self._say = say
        self._max_bytes = max_bytes
        self._unread = b""
        self._data: list[bytes] = []
        self._named: dict[str, Any] = {}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[dict[str, Any]] = []
        self._logprobs: dict[str, list[Any]] = {}
        self._usage: Any = None
        self._finish: Any = None
        self._done = False

    def feed(self, piece: bytes) -> None:
        """Take the next bytes. Raises StrictJsonError and ChatError on what is not chat."""
        *lines, self._unread = (self._unread + piece).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                data, self._data = b"\n".join(self._data), []
                self._event(data)

    def completion(self) -> dict[str, Any]:
        """The whole, in the form of an unstreamed answer. Raises ChatError when the stream broke off."""
        if not self._done and self._finish is None:
            raise ChatError("the stream broke off")
        message: dict[str, Any] = {key: "".join(pieces) for key, pieces in self._texts.items()}
        if self._calls:
            message["tool_calls"] = [_joined(call) for call in self._calls]
        choice = {"message": message, "finish_reason": self._finish, "logprobs": self._logprobs or None}
        return {**self._named, "choices": [choice], "usage": self._usage}

    def _event(self, data: bytes) -> None:
        if data.strip() == b"[DONE]":
            self._done = True
            return
        chunk = strict_json.loads(data, max_bytes=self._max_bytes)
        if not isinstance(chunk, dict):
            raise ChatError("a piece of the stream is no object")
        if chunk.get("error") is not None:
            raise ChatError("the provider broke the stream off with an error")
        for key in ("id", "model", "system_fingerprint"):
            if chunk.get(key) is not None:
                self._named.setdefault(key, chunk[key])
        if chunk.get("usage") is not None:
            self._usage = chunk["usage"]
        for choice in _objects(chunk.get("choices")):
            if choice.get("index", 0) == 0:
                self._choice(choice)

    def _choice(self, choice: dict[str, Any]) -> None:
        if choice.get("finish_reason") is not None:
            self._finish = choice["finish_reason"]
        for key, values in _object(choice.get("logprobs")).items():
            if isinstance(values, list):
                self._logprobs.setdefault(key, []).extend(values)
        delta = _object(choice.get("delta"))
        for call in _objects(delta.get("tool_calls")):
            self._call(call)
        said = {key: delta[key] for key in TEXTS if delta.get(key)}
        if not all(isinstance(text, str) for text in said.values()):
            raise ChatError("a piece of text in the stream is no string")
        for key, text in said.items():
            self._texts.setdefault(key, []).append(text)
        if said:
            self._say(said)

    def _call(self, piece: dict[str, Any]) -> None:
        index = piece.get("index")
        if not isinstance(index, int):  # without a number, a piece with an id begins a call
            index = len(self._calls) - (0 if piece.get("id") or not self._calls else 1)
        if not 0 <= index < MAX_CALLS:
            raise ChatError(f"a tool call of the stream has the number {index}")
        while len(self._calls) <= index:
            self._calls.append({"id": None, "name": "", "arguments": []})
        call, function = self._calls[index], _object(piece.get("function"))
        call["id"] = call["id"] or piece.get("id")
        call["name"] = call["name"] or function.get("name") or ""
        if function.get("arguments"):
            call["arguments"].append(function["arguments"])


def _joined(call: dict[str, Any]) -> dict[str, Any]:
    pieces = call["arguments"]
    if len(pieces) == 1 and isinstance(pieces[0], dict):
        arguments: Any = pieces[0]
    elif all(isinstance(piece, str) for piece in pieces):
        arguments = "".join(pieces)
    else:
        raise ChatError("the arguments of a tool call in the stream are no string")
    return {"id": call["id"], "function": {"name": call["name"], "arguments": arguments}}


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _objects(value: object) -> Iterator[dict[str, Any]]:
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict):
            yield item
