"""A real OpenAI-compatible endpoint whose model does what the last message tells it to.

The last message's content is a JSON object: `message` (the assistant message), `status` (an error instead),
`body` (raw text instead), `fail_first` (how often to fail with 503 before answering), `hang` (no answer until
the asker gives up). To what is no order it says yes, unless it is not `well`.
"""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response

KEY = "sk-very-secret-0123456789"


class Puppet:
    """The endpoint, served on a port of its own in a thread. `requests` are the bodies it was sent."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.keys: set[str] = set()
        self.well = True
        self._arrived = threading.Condition()
        self._app = FastAPI()
        self._app.post("/v1/chat/completions")(self._answer)
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._server = uvicorn.Server(uvicorn.Config(self._app, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> Puppet:
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
        failed = sum(1 for earlier in self.requests[:-1] if earlier["messages"] == body["messages"])
        status = 503 if failed < order.get("fail_first", 0) else order.get("status", 200)
        if status != 200:
            error = {"error": {"message": f"no, not even with {KEY}"}}
            return Response(json.dumps(error), status)
        if "body" in order:
            return Response(order["body"])
        answer = {
            "id": "x",
            "choices": [{"index": 0, "finish_reason": "stop", "message": order["message"]}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }
        return Response(json.dumps(answer), media_type="application/json")


def say(text: str, **more: Any) -> list[dict[str, Any]]:
    """Messages that make the model say `text`."""
    return tell(message={"role": "assistant", "content": text}, **more)


def tell(**order: Any) -> list[dict[str, Any]]:
    """Messages that carry an order."""
    return [{"role": "user", "content": json.dumps(order)}]


def native_call(name: str, arguments: str, call_id: str = "c1") -> dict[str, Any]:
    """A native tool call, as a provider reports it."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
