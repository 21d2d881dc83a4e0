"""The client with which agents of Bittensor's subnet 15 reach tools and model.

The one thing to know: it never raises for what the other side does. An answer that is not JSON, or has a
status other than 200, is None to the agent; why stands on stderr.
"""

import http.client
import json
import os
import sys
import time
from typing import Any
from urllib.parse import urlencode, urlsplit

_SPENT = b'"budget_spent"'
"""In a refusal that no waiting changes."""


class ProxyClient:
    """Requests to the address in `SANDBOX_PROXY_URL`, or to `proxy_url`. Times are in seconds.

    Requests that failed on the other side are made again, at most `max_retries` times: after
    `rate_limit_retry_delay` where it said that there were too many, else after `retry_delay`.
    """

    def __init__(
        self,
        proxy_url: str | None = None,
        timeout: float = 300.0,
        max_retries: int = 2,
        retry_delay: float = 0.5,
        rate_limit_retry_delay: float = 2.0,
        api_key: str | None = None,
    ) -> None:
        """`api_key` is sent along and means nothing here: the arena adds the real one."""
        address = urlsplit(proxy_url or os.environ["SANDBOX_PROXY_URL"])
        self._host, self._port = address.hostname or "127.0.0.1", address.port or 80
        self._prefix = address.path.rstrip("/")
        self._timeout = timeout
        self._retries = max_retries
        self._pauses = {True: rate_limit_retry_delay, False: retry_delay}
        self._key = api_key or os.environ.get("CHUTES_ACCESS_TOKEN", "")

    def get(self, path: str, params: dict[str, Any] | None = None) -> Any:
        """The parsed answer to GET, or None. Parameters that are None are left out."""
        given = urlencode({name: value for name, value in (params or {}).items() if value is not None})
        return self._ask("GET", path, f"?{given}" if given else "", None)

    def post(self, path: str, json_data: Any = None) -> Any:
        """The parsed answer to POST with `json_data` as its body, or None."""
        return self._ask("POST", path, "", json.dumps(json_data).encode())

    def _ask(self, method: str, path: str, query: str, body: bytes | None) -> Any:
        target = f"{self._prefix}/{path.lstrip('/')}{query}"
        for left in range(self._retries, -1, -1):
            try:
                status, content = self._once(method, target, body)
            except (OSError, http.client.HTTPException) as error:
                why, limited, passing = f"{type(error).__name__}: {error}", False, True
            else:
                if status == 200:
                    try:
                        return json.loads(content)
                    except (ValueError, RecursionError):
                        why, limited, passing = "its answer is no JSON", False, False
                else:
                    why, limited = f"status {status}", status == 429
                    passing = (limited or status >= 500) and _SPENT not in content.replace(b" ", b"")
            if not passing or not left:
                break
            time.sleep(self._pauses[limited])
        print(f"{method} {path} gave nothing: {why}", file=sys.stderr)  # noqa: T201
        return None

    def _once(self, method: str, target: str, body: bytes | None) -> tuple[int, bytes]:
        headers = {"Accept": "application/json", "Authorization": f"Bearer {self._key}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        connection = http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)
        try:
            connection.request(method, target, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
