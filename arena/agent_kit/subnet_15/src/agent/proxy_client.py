"""`ProxyClient`: products and the model by the paths of subnet 15's proxy, answered by the recorder.

    GET  /search/find_product, /search/view_product_information   the tools
    POST /inference/chat/completions                               the model

The one thing to know: there is nothing else to reach. Any other path gives None, as every failure does, with
a line on stderr that says why.
"""

from __future__ import annotations

import os
import sys
import time
from urllib.parse import urlencode

from agent_kit.client import Connection  # type: ignore[import-not-found]  # there inside the sandbox

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

DEFAULT_TIMEOUT = 120
DEFAULT_MAX_RETRIES = 3
DEFAULT_RETRY_DELAY = 2
DEFAULT_RATE_LIMIT_RETRY_DELAY = 5
LONGEST_DELAY_S = 10.0
TOO_MANY = 429
_PASSING = (TOO_MANY, 500, 502, 503, 504)
"""Statuses of what may be otherwise a little later."""
_FOR_GOOD = ("budget_spent", "arena")
"""Codes of errors that no retry mends."""


class ProxyClient:
    """Asks the recorder. `get` and `post` give the parsed JSON of an answer, or None.

    `proxy_url` and `api_key` are taken without effect: where to go and who pays is not the agent's to say.
    Delays are in seconds, double with each retry, and are 10 s at most.
    """

    def __init__(
        self,
        proxy_url: str | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        max_retries: int = DEFAULT_MAX_RETRIES,
        retry_delay: float = DEFAULT_RETRY_DELAY,
        rate_limit_retry_delay: float = DEFAULT_RATE_LIMIT_RETRY_DELAY,
        api_key: str | None = None,
    ) -> None:
        self.proxy_url = proxy_url or os.environ.get("SANDBOX_PROXY_URL", "")
        self.timeout = timeout
        self.max_retries = max_retries
        self.retry_delay = retry_delay
        self.rate_limit_retry_delay = rate_limit_retry_delay
        self.api_key = api_key or os.environ.get("CHUTES_ACCESS_TOKEN")
        self._connection = Connection(os.environ["ARENA_SOCKET"], timeout)

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """Parameters that are None are left out."""
        given = {name: value for name, value in (params or {}).items() if value is not None}
        target = f"{path}?{urlencode(given, doseq=True)}" if given else path
        return self._answer("GET", path, lambda: self._connection.get(target))

    def post(self, path: str, json_data: Mapping[str, Any] | None = None) -> Any:
        """Send `json_data` as JSON."""
        return self._answer("POST", path, lambda: self._connection.post(path, json_data or {}))

    def _answer(self, method: str, path: str, ask: Any) -> Any:
        why = "it was not to be tried"
        for attempt in range(self.max_retries):
            status, answer, why = 0, None, ""
            try:
                status, answer = ask()
            except (OSError, ValueError) as error:  # no recorder, or no JSON
                why = str(error)
            if status == 200:
                return answer
            refusal = answer.get("error") if isinstance(answer, dict) else None
            told = refusal if isinstance(refusal, dict) else {"message": refusal}
            code, why = told.get("code"), why or f"status {status}: {told.get('message')}"
            if (status and status not in _PASSING) or code in _FOR_GOOD:
                break
            if attempt + 1 < self.max_retries:
                first = self.rate_limit_retry_delay if status == TOO_MANY else self.retry_delay
                time.sleep(min(first * 2**attempt, LONGEST_DELAY_S))
        print(f"{method} {path} gave nothing: {why}", file=sys.stderr)  # noqa: T201
        return None
