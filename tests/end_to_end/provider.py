"""A model provider that fails when a test says so: the scripted shopper over HTTP, behind a switch."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from starlette.middleware.base import RequestResponseEndpoint

from arena.scripted_shopper.server import create_app

Conversation = list[dict[str, Any]]
"""The messages of a request."""


class Provider:
    """The endpoint, on a port of its own in a thread of its own. `fails` decides by the conversation."""

    def __init__(self) -> None:
        self.fails: Callable[[Conversation], bool] = lambda _: False
        app = create_app()
        app.middleware("http")(self._switch)
        self._app: FastAPI = app
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._server = uvicorn.Server(uvicorn.Config(self._app, log_level="error"))
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]})

    def __enter__(self) -> Provider:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _switch(self, request: Request, answer: RequestResponseEndpoint) -> Response:
        if self.fails(json.loads(await request.body())["messages"]):
            return Response('{"error": {"message": "out of order"}}', 503)
        return await answer(request)


def asked_for(conversation: Conversation) -> str:
    """What the user asked first, which tells one problem's conversations from another's."""
    return next(str(message["content"]) for message in conversation if message["role"] == "user")
