"""A model's answer in the words of the chat API, for the agent: whole, or as server-sent events.

The one thing to know: text is passed on as it comes, tool calls only when the whole answer is in and
recorded. A call that an agent makes because the model asked for it so never comes before the model's asking.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from arena.recorder.chat import Reply
from arena.recorder.wire import Response

DONE = b"data: [DONE]\n\n"


def whole(reply: Reply, *, call_id: str, model: str, created: int) -> dict[str, Any]:
    """The answer to an unstreamed request."""
    choice = {
        "index": 0,
        "message": reply.message,
        "finish_reason": reply.finish_reason,
        "logprobs": reply.logprobs,
    }
    return {**_frame("chat.completion", call_id, model, created), "choices": [choice], "usage": _usage(reply)}


class LiveAnswer:
    """A streamed answer on its way to an agent.

    What comes from the provider is put here without waiting for the agent to take it: one that reads slowly
    must not make the provider look slow. What waits is bounded by the largest answer of a provider.
    """

    def __init__(self, call_id: str, model: str, created: int, *, include_usage: bool) -> None:
        self._frame = _frame("chat.completion.chunk", call_id, model, created)
        self._include_usage = include_usage
        self._waiting: deque[bytes] = deque()
        self._changed = asyncio.Event()
        self._said: dict[str, list[str]] = {}

    def say(self, delta: dict[str, str]) -> None:
        """Pass pieces of text on, by their keys in a message: content, reasoning_content, ..."""
        role = {} if self.begun else {"role": "assistant"}
        for key, text in delta.items():
            self._said.setdefault(key, []).append(text)
        self._put({**role, **delta})

    @property
    def begun(self) -> bool:
        """Whether anything was passed on."""
        return bool(self._said)

    def message(self) -> dict[str, Any]:
        """What was passed on so far, as a message."""
        said = {key: "".join(pieces) for key, pieces in self._said.items()}
        return {"role": "assistant", "content": None, **said}

    def end(self, reply: Reply) -> Response:
        """The rest of the answer: what of it was not yet said."""
        unsaid = ("tool_calls",) if self.begun else tuple(reply.message)
        rest = {key: value for key, value in reply.message.items() if key in unsaid}
        if "tool_calls" in rest:
            rest["tool_calls"] = [{"index": i, **call} for i, call in enumerate(rest["tool_calls"])]
        if rest:
            self._put(rest)
        self._put({}, reply.finish_reason, reply.logprobs)
        if self._include_usage:
            self._send(_event({**self._frame, "choices": [], "usage": _usage(reply)}))
        self._send(DONE)
        return Response(200, b"", "text/event-stream")

    async def first(self, answering: asyncio.Task[Response]) -> None:
        """Wait until there is something to send, or `answering` is done. It has deadlines of its own."""
        answering.add_done_callback(lambda _: self._changed.set())
        while not self._waiting and not answering.done():
            await self._change()

    async def pieces(self, answering: asyncio.Task[Response]) -> AsyncIterator[bytes]:
        """What to send, after `first`, until `answering` is done; if it failed, its error comes last."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()
            if answering.done():
                break
            await self._change()
        if not answering.cancelled() and answering.result().status != 200:
            yield b"data: " + answering.result().body + b"\n\n"

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _put(
        self, delta: dict[str, Any], finish_reason: str | None = None, logprobs: dict[str, Any] | None = None
    ) -> None:
        choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish_reason}
        if logprobs is not None:
            choice["logprobs"] = logprobs
        self._send(_event({**self._frame, "choices": [choice]}))

    def _send(self, piece: bytes) -> None:
        self._waiting.append(piece)
        self._changed.set()


def _event(chunk: dict[str, Any]) -> bytes:
    return f"data: {json.dumps(chunk, ensure_ascii=False)}\n\n".encode()


def _frame(kind: str, call_id: str, model: str, created: int) -> dict[str, Any]:
    return {"id": f"chatcmpl-{call_id}", "object": kind, "created": created, "model": model}


def _usage(reply: Reply) -> dict[str, Any] | None:
    if reply.usage is None:
        return None
    prompt, completion = reply.usage.prompt_tokens, reply.usage.completion_tokens
    counted = {"prompt_tokens": prompt, "completion_tokens": completion}
    return {**reply.usage.model_dump(), **counted, "total_tokens": prompt + completion}
