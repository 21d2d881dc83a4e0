"""A real OpenAI-compatible endpoint whose model does what the last message tells it to.

The last message's content is a JSON object: `message` (the assistant message), `status` (an error instead),
`body` (raw text instead), `fail_first` (how often to fail with 503, or with `first_status`, before
answering), `retry_after` (a header of failures), `cut` (close the connection in the middle of the answer),
`hang` (no answer until the asker gives up), `pieces` (the deltas of a streamed answer, one event each),
`wait` (stream no further until `go_on`), `logprobs`, `usage`. It streams only when there are `pieces`. To
what is no order it says yes, unless it is not `well`.
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator
from typing import Any, Self

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import StreamingResponse

KEY = "sk-very-secret-0123456789"
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Puppet:
    """The endpoint, served on a port of its own in a thread. `requests` are the bodies it was sent."""

    def __init__(self, port: int = 0) -> None:
        """`port` 0: any that is free."""
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.well = True
        self.go_on = threading.Event()
        """Lets streams that wait go on."""
        self.keys_taken: set[str] | None = None
        """Keys that are served; None: all."""
        self._arrived = threading.Condition()
        self._app = FastAPI()
        self._app.post("/v1/chat/completions")(self._answer)
        self._socket = socket.create_server(("127.0.0.1", port))
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._server = uvicorn.Server(uvicorn.Config(self._app, log_level="critical"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    def wait_for_requests(self, count: int) -> None:
        """Block until that many requests have come."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, timeout=20)

    def _order(self, content: str) -> dict[str, Any]:
        try:
            return dict(json.loads(content))
        except ValueError:
            return {"message": {"role": "assistant", "content": "yes"}} if self.well else {"hang": True}

    async def _answer(self, request: Request) -> Response:
        body = await request.json()
        with self._arrived:
            self.requests.append(body)
            self._arrived.notify_all()
        self.keys.add(request.headers["authorization"])
        order = self._order(body["messages"][-1]["content"])
        if order.get("hang"):
            while (await request.receive())["type"] != "http.disconnect":
                pass
        key = request.headers["authorization"].removeprefix("Bearer ")
        if self.keys_taken is not None and key not in self.keys_taken:
            return Response(json.dumps({"error": {"message": f"no such key: {key}"}}), 401)
        failed = sum(1 for earlier in self.requests[:-1] if earlier["messages"] == body["messages"])
        status = order.get("status", 200)
        if failed < order.get("fail_first", 0):
            status = order.get("first_status", 503)
        if status != 200:
            error = {"error": {"message": f"no, not even with {KEY}"}}
            headers = {"retry-after": order["retry_after"]} if "retry_after" in order else {}
            return Response(json.dumps(error), status, headers=headers)
        if "body" in order:
            return Response(order["body"])
        if body.get("stream") and "pieces" in order:
            return StreamingResponse(self._stream(order), media_type="text/event-stream")
        message = order.get(
            "message", {"content": "".join(p.get("content", "") for p in order.get("pieces", []))}
        )
        answer = {
            "id": "x",
            "model": "puppet-1-2026",
            "choices": [
                {"index": 0, "finish_reason": "stop", "message": message, "logprobs": order.get("logprobs")}
            ],
            "usage": order.get("usage", USAGE),
        }
        text = json.dumps(answer)
        if order.get("cut"):
            return StreamingResponse(_cut(text), headers={"content-length": str(len(text))})
        return Response(text, media_type="application/json")

    async def _stream(self, order: dict[str, Any]) -> AsyncIterator[str]:
        for number, delta in enumerate(order["pieces"]):
            if number and order.get("wait"):
                await asyncio.to_thread(self.go_on.wait, 20)
            yield _event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        if order.get("cut"):
            raise ConnectionAbortedError
        logprobs = {"logprobs": order["logprobs"]} if "logprobs" in order else {}
        yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", **logprobs}]})
        yield _event({"choices": [], "usage": order.get("usage", USAGE)})
        yield "data: [DONE]\n\n"


async def _cut(text: str) -> AsyncIterator[str]:
    yield text[: len(text) // 2]
    raise ConnectionAbortedError


def _event(value: dict[str, Any]) -> str:
    return f"data: {json.dumps({'id': 'x', 'model': 'puppet-1-2026', **value})}\n\n"


def say(text: str, **more: Any) -> list[dict[str, Any]]:
    """Messages that make the model say `text`."""
    return tell(message={"role": "assistant", "content": text}, **more)


def tell(**order: Any) -> list[dict[str, Any]]:
    """Messages that carry an order."""
    return [{"role": "user", "content": json.dumps(order)}]


def native_call(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    """A native tool call, as a provider reports it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
