"""How much one caller may ask: token buckets by hotkey and by address, and a deadline for every request.

The buckets live in this process, in bounded memory. They keep one caller from taking up all of a validator;
they are no defence against many addresses at once, which is for whatever stands in front of it.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections import OrderedDict
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from arena.api.problem_details import details


class Buckets:
    """A token bucket for every key: `burst` requests at once, and `per_minute` in the long run.

    At most `keep` keys are remembered; the one unseen longest is forgotten first, and begins anew.
    """

    def __init__(self, per_minute: float, burst: int, *, keep: int) -> None:
        self._per_s = per_minute / 60.0
        self._burst = float(burst)
        self._keep = keep
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """Tokens left, and when that was so, by key; the one unseen longest first."""

    def __len__(self) -> int:
        return len(self._left)

    def take(self, key: str, now: float) -> float:
        """Take a token: 0 when there was one, else the seconds until there is. `now` is in seconds, and does
        not go back.
        """
        tokens, at = self._left.get(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - at) * self._per_s)
        wait_s = 0.0 if tokens >= 1.0 else (1.0 - tokens) / self._per_s
        self._left[key] = (tokens - 1.0 if wait_s == 0.0 else tokens, now)
        self._left.move_to_end(key)
        if len(self._left) > self._keep:
            self._left.popitem(last=False)
        return wait_s


def network(host: str) -> str:
    """Whom an address belongs to: itself, but of an IPv6 address the /64, which one caller has whole."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)


class Limited:
    """Refuses whom `buckets` has no token for, and ends requests that take longer than `deadline_s`."""

    def __init__(self, app: ASGIApp, buckets: Buckets, tick: Callable[[], float], deadline_s: float) -> None:
        self._app = app
        self._buckets = buckets
        self._tick = tick
        self._deadline_s = deadline_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host = scope["client"][0] if scope.get("client") else ""
        wait_s = self._buckets.take(network(host), self._tick())
        if wait_s:
            refused = details(
                "rate_limited",
                "this address asks more often than the rules allow; wait as long as Retry-After says",
                headers={"Retry-After": str(int(wait_s) + 1)},
            )
            await refused(scope, receive, send)
            return
        await self._served(scope, receive, send)

    async def _served(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def noting(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            async with asyncio.timeout(self._deadline_s) as deadline:
                await self._app(scope, receive, noting)
        except TimeoutError:
            if not deadline.expired() or begun:
                raise
            late = details("unavailable", "we could not answer in time; try again later")
            await late(scope, receive, send)
