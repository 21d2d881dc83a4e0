"""An OpenAI-compatible endpoint that writes constraints down in a wording of its own, and reads it again."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-never-to-be-shown"
Edit = Callable[[dict[str, Any]], Any]


@dataclass
class Model:
    """A scripted model: it writes constraints down in a wording of its own, and reads that wording again.

    `misread` changes what it reads, `says` what it writes, `status` what HTTP says, the first `faults` times.
    """

    misread: Edit = lambda read: read
    says: Callable[[str], str] = lambda text: text
    status: int = 200
    faults: int = 10**6
    asked: list[dict[str, Any]] = field(default_factory=list)

    def reply(self, request: dict[str, Any]) -> tuple[int, str]:
        self.asked.append(request)
        system, user = (message["content"] for message in request["messages"])
        reading = "JSON alone" in system
        faulty = len(self.asked) <= self.faults
        if self.status != 200 and faulty:
            return self.status, f"no, {KEY}"
        if not reading:
            text = self._written(json.loads(user), "one shop must" in system)
            return 200, "<think>hm</think> " + (self.says(text) if faulty else text)
        read = self._read(user)
        edited = self.misread(read) if faulty else read
        return 200, edited if isinstance(edited, str) else f"```json\n{json.dumps(edited)}\n```"

    @staticmethod
    def _written(items: list[dict[str, Any]], together: bool) -> str:
        said = [
            f"{item['kind']}: "
            + ", ".join(
                [f"{key} is {value}" for key, value in item["features"]]
                + [f"served by {service}" for service in item["services"]]
                + [f"{bound} {item[bound]:g}" for bound in ("low", "high") if item[bound] is not None]
            )
            for item in items
        ]
        return "I wish for " + " / ".join(said) + (" / all from one shop" if together else "")

    @staticmethod
    def _read(text: str) -> dict[str, Any]:
        parts = text.removeprefix("I wish for ").split(" / ")
        together = parts[-1] == "all from one shop"
        items = []
        for part in parts[: len(parts) - together]:
            kind, _, rest = part.partition(": ")
            item: dict[str, Any] = {"kind": kind, "features": [], "services": [], "low": None, "high": None}
            for said in rest.split(", "):
                if found := re.fullmatch(r"(.+?) is (.+)", said):
                    item["features"].append([found[1], found[2].upper()])
                elif said.startswith("served by "):
                    item["services"].append(said.removeprefix("served by "))
                elif said and not said.startswith("it says "):
                    bound, number = said.split(" ")
                    item[bound] = float(number)
            items.append(item)
        return {"items": items, "one_shop": together}


@contextmanager
def served(model: Model) -> Iterator[str]:
    """Serve the model; gives the endpoint's base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, text = model.reply(request)
            body: dict[str, Any] = {"error": {"message": text}}
            if status == 200:
                message = {"role": "assistant", "content": text}
                choice = {"index": 0, "message": message, "finish_reason": "stop"}
                body = {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": "m",
                    "choices": [choice],
                }
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    yield url
    server.shutdown()
    thread.join()
    server.server_close()
