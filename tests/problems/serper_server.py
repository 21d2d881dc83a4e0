"""A Serper-compatible service on a real socket, whose replies a test lays down beforehand."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

VIOLIN = {
    "title": "Alec Aitken",
    "link": "https://example.org/aitken",
    "snippet": "Aitken played the violin so well that he was said to be up to professional standard.",
}


class SerperServer:
    """Answers each request with the next of `replies` (status, body); the last one is used from then on.

    A status of 0 closes the connection, one of -1 holds the answer back until the server is closed.
    """

    def __init__(self) -> None:
        self.replies: list[tuple[int, Any]] = [(200, {"organic": [VIOLIN]})]
        self.requests: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self._closed = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._answering())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> SerperServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                outer.requests.append({"path": self.path, **json.loads(self.rfile.read(length))})
                outer.keys.append(self.headers["x-api-key"])
                status, body = outer.replies[0]
                if len(outer.replies) > 1:
                    outer.replies.pop(0)
                if status == -1:
                    outer._closed.wait(30)
                if status <= 0:
                    self.close_connection = True
                    return
                sent = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(sent)))
                self.end_headers()
                self.wfile.write(sent)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Answering
