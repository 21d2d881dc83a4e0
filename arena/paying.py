"""Who pays for an episode's model calls: the house, or the miner with a key of his own.

The one thing to know: a miner's key that the provider refuses (wrong, blocked, out of credit, used too much)
is the miner's to answer for, or whoever is losing would take his key away and not be scored. So the episode
goes on without a model, the agent is scored on what it did, and its miner is told why. A provider that is
down leaves it unscored, as ever; so does an endpoint or a sealing key that *we* lack.
"""

from __future__ import annotations

import hashlib
import ssl
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pydantic import SecretStr

from arena.recorder.budget import Price
from arena.recorder.upstream import KeyRefused, Upstream
from arena.sealing import BadSeal, NoSealingKey, Sealed, SealingKey

GOOD_FOR_S = 300.0
"""A key that served is not tried again before the next episodes within this time."""
BAD_FOR_S = 30.0
_REMEMBERED = 1_024


class EndpointWithdrawn(RuntimeError):
    """The operator no longer lets miners' keys go to an endpoint that a miner chose."""


@dataclass(frozen=True, slots=True)
class Paid:
    """The provider of one episode. `dead_key` says why the miner's key will not serve; None when it may."""

    upstream: Upstream
    dead_key: str | None = None


class OwnKeys:
    """Opens miners' keys, in memory, for one episode at a time.

    `endpoints` are the addresses that keys may go to, by name: a key can name one and not bring one. `models`
    and `prices` are those of the house.
    """

    def __init__(
        self,
        sealing: SealingKey | None,
        endpoints: Mapping[str, str],
        models: tuple[str, ...],
        *,
        timeout_s: float = 60.0,
        retries: int = 2,
        pause_s: float = 0.5,
        prices: Mapping[str, Price] | None = None,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sealing = sealing
        self._endpoints = dict(endpoints)
        self._models = models
        self._timeout_s, self._retries, self._pause_s = timeout_s, retries, pause_s
        self._prices = prices
        self._tick = tick
        self._ssl = ssl.create_default_context()  # it takes longer to make than a short episode
        self._tried: OrderedDict[bytes, tuple[float, str | None]] = OrderedDict()

    @asynccontextmanager
    async def paying(self, sealed: Sealed) -> AsyncIterator[Paid]:
        """A provider that the key in `sealed` pays for. Raises NoSealingKey and EndpointWithdrawn."""
        if self._sealing is None:
            raise NoSealingKey("this host has no sealing key: copy the validator's sealing.key to it")
        url = self._endpoints.get(sealed.endpoint)
        if url is None:
            raise EndpointWithdrawn(f"miners' keys may not go to {sealed.endpoint} any more")
        try:
            key: SecretStr | None = self._sealing.open(sealed)
            dead = None
        except BadSeal as bad:
            key, dead = None, str(bad)
        upstream = Upstream(
            url,
            key,
            self._models,
            self._timeout_s,
            self._retries,
            pause_s=self._pause_s,
            prices=self._prices,
            miners_key=True,
            verify=self._ssl,
        )
        try:
            yield Paid(upstream, dead if key is None else await self._dead(upstream, url, key))
        finally:
            await upstream.aclose()

    async def _dead(self, upstream: Upstream, url: str, key: SecretStr) -> str | None:
        """Why the key does not serve; asked of the provider, unless it was asked just now."""
        which = hashlib.sha256(f"{url}\n{key.get_secret_value()}".encode()).digest()
        tried_at, why = self._tried.get(which, (float("-inf"), None))
        if self._tick() - tried_at < (GOOD_FOR_S if why is None else BAD_FOR_S):
            return why
        try:
            await upstream.check_key()
            why = None
        except KeyRefused as refused:
            why = str(refused)
        self._tried[which] = (self._tick(), why)
        self._tried.move_to_end(which)
        if len(self._tried) > _REMEMBERED:
            self._tried.popitem(last=False)
        return why
