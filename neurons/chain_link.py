"""The connection to the chain, and the only place where the SDK's errors become ours.

There is one client for as long as it works. A call that hangs is given up, and the client with it: a
connection that swallowed one question swallows the next. Reads are tried again, because that is harmless;
what is submitted is not, because only the chain knows whether it arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import bittensor as bt
from bittensor.result import ErrorCode

from neurons.chain_types import ChainError, ChainRefused, ChainUnavailable, ChainUnreadable

_log = logging.getLogger(__name__)

READ_TRIES = 3
PAUSE_S = 0.5
_MOST_PAUSE_S = 30.0
_CLOSE_S = 2.0
_CLOSE_TRIES = 10
_SESSION = "rpc-session"
"""What the SDK names the task that receives what a connection brings."""
_REFRESH_SPEC_S = 60.0
_POOL_IN_THE_WAY = frozenset(
    {
        *(
            "AlreadyImported",
            "AncientBirthBlock",
            "Dropped",
            "ExhaustsResources",
            "FinalityTimeout",
            "Future",
        ),
        *("Invalid", "PriorityTooLow", "Retracted", "Stale", "Usurped"),
    }
)
"""Pool rejections, by the SDK's names, that say nothing about the call itself."""

T = TypeVar("T")


def keep_sdk_files_in(folder: Path) -> None:
    """Have the SDK cache runtime metadata and token symbols in `folder`, not in the user's home.

    For local chains, each of which has a genesis of its own and would leave a file behind. Affects the whole
    process; call it once, before the first Chain.
    """
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["BITTENSOR_RUNTIME_CACHE_DIR"] = str(folder)
    os.environ["BTCLI_TOKEN_SYMBOLS_CACHE"] = str(folder / "token_symbols.json")


class _Busy(ChainUnavailable):
    """The endpoint limits how often we may ask; it said for how long."""

    def __init__(self, message: str, pause_s: float) -> None:
        super().__init__(message)
        self.pause_s = pause_s


class Link:
    """One client of one network, opened at first use and replaced when it no longer answers.

    Belongs to the event loop it is first used in. `deadline_s` bounds a read with all its tries.
    `fallbacks` and `archives` are endpoints to go to when the network's own does not answer, or has forgotten
    old state; None leaves that to the SDK.
    """

    def __init__(
        self,
        network: str,
        *,
        deadline_s: float,
        fallbacks: Sequence[str] | None = None,
        archives: Sequence[str] | None = None,
    ) -> None:
        self.network = network
        self._deadline_s = deadline_s
        self._fallbacks = None if fallbacks is None else list(fallbacks)
        self._archives = None if archives is None else list(archives)
        self._client: Any = None
        self._connecting = asyncio.Lock()
        self._spec: int | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        """Close the connection. The next use opens another."""
        client, self._client = self._client, None
        await asyncio.gather(put_away(client), *self._leaving)

    async def read(self, what: str, read: Callable[[Any], Awaitable[T]]) -> T:
        """A read, tried again when the connection breaks or hangs. The deadline covers all tries."""
        ends_at = now() + self._deadline_s
        for attempt in range(1, READ_TRIES + 1):
            try:
                # A share of what is left, so that a call that hangs leaves time to ask another connection.
                share = (ends_at - now()) / (READ_TRIES + 1 - attempt)
                return await self.call(what, read, ends_at=now() + share)
            except ChainUnavailable as error:
                pause = error.pause_s if isinstance(error, _Busy) else PAUSE_S
                if attempt == READ_TRIES or now() + pause >= ends_at:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError("unreachable")

    async def call(self, what: str, ask: Callable[[Any], Awaitable[T]], *, ends_at: float) -> T:
        """Ask once, until `ends_at` by the event loop's clock. Raises ChainError and nothing else."""
        client = None
        async with boundary(what):
            try:
                async with asyncio.timeout_at(ends_at):
                    client = await self._connected()
                    return await ask(client)
            except TimeoutError:
                self._drop(client)
                raise

    async def heads(self, *, silence_s: float) -> AsyncGenerator[int, None]:
        """Numbers of new blocks as they come, each greater than the last.

        A subscription does not outlive its connection, and one that is silent for `silence_s` may be dead
        without saying so: both are opened again, for as long as the caller listens.
        """
        newest, failures = -1, 0
        while True:
            try:
                async for number in self._subscription(silence_s):
                    failures = 0
                    if number > newest:
                        newest = number
                        yield number
            except ChainUnavailable as error:
                failures += 1
                _log.info("the subscription to new blocks ended, opening another: %s", error)
                await asyncio.sleep(min(_MOST_PAUSE_S, PAUSE_S * 2.0 ** min(failures - 1, 10)))

    async def spec_version(self) -> int:
        """The version of the chain's runtime; a change since the last look is logged."""
        found = int(await self.read("read the runtime's version", lambda c: c.spec_version()))
        if self._spec is None:
            _log.info("%s runs spec %d; bittensor %s is installed", self.network, found, bt.__version__)
        elif found != self._spec:
            _log.warning(
                "the runtime of %s was upgraded from spec %d to %d; bittensor %s is installed: watch for "
                "errors that name it, and try newer versions on the test network first",
                *(self.network, self._spec, found, bt.__version__),
            )
        self._spec = found
        return found

    async def _subscription(self, silence_s: float) -> AsyncIterator[int]:
        client = None
        async with boundary("follow new blocks"):
            try:
                async with asyncio.timeout(self._deadline_s):
                    client = await self._connected()
                stream = client.blocks()
                while True:
                    coming: asyncio.Future[Any] = asyncio.ensure_future(anext(stream, None))
                    try:
                        await asyncio.wait({coming}, timeout=silence_s)
                    finally:
                        if not coming.done():
                            self._soon(_let_go(stream, coming))
                    if not coming.done():
                        raise TimeoutError
                    header = coming.result()
                    if header is None:
                        raise ConnectionError("it ended")
                    try:
                        yield int(header.number)
                    except GeneratorExit:
                        self._soon(_let_go(stream))
                        raise
            except TimeoutError:
                self._drop(client)
                raise

    async def _connected(self) -> Any:
        async with self._connecting:
            if self._client is None:
                client = bt.Client(
                    self.network, fallback_endpoints=self._fallbacks, archive_endpoints=self._archives
                )
                before = _sessions()
                try:
                    await client.connect()
                except BaseException:
                    # The SDK keeps no hold on a session whose first words were cut short.
                    self._soon(_end(_sessions() - before))
                    raise
                self._client = client
            return self._client

    def _drop(self, client: Any) -> None:
        """Have the next call open another connection, unless one did; nobody waits for the old one."""
        if client is not None and self._client is client:
            self._client = None
            self._soon(put_away(client))

    def _soon(self, leaving: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(leaving)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


@asynccontextmanager
async def boundary(what: str) -> AsyncIterator[None]:
    """Turn whatever the SDK raises into one of our errors."""
    try:
        yield
    except ChainError:
        raise
    except TimeoutError as error:
        raise ChainUnavailable(f"could not {what}: the chain did not answer in time") from error
    except bt.RpcPolicyError as error:
        pause = _seconds(error.retry_after)
        raise _Busy(f"could not {what}: the endpoint limits requests ({error})", pause) from error
    except (OSError, bt.RpcConnectionError, bt.ConnectionNotReady) as error:
        raise ChainUnavailable(f"could not {what}: {error}") from error
    except bt.ChainError as error:
        if error.code is ErrorCode.UNKNOWN or error.name in _POOL_IN_THE_WAY:
            # No dispatch error has this code: it is the transport's, or the pool's.
            raise ChainUnavailable(f"could not {what}: {error}") from error
        raise ChainRefused(
            f"could not {what}: {error}",
            code=error.code.value,
            remediation=error.remediation,
            name=error.name,
        ) from error
    except Exception as error:
        # The SDK reports a runtime it does not know by whatever its decoder happens to raise.
        raise ChainUnreadable(
            f"could not {what}: the installed bittensor {bt.__version__} and the chain disagree "
            f"({type(error).__name__}: {error}); upgrade it"
        ) from error


def now() -> float:
    """The event loop's clock, in seconds."""
    return asyncio.get_running_loop().time()


def _seconds(retry_after: str | None) -> float:
    try:
        return min(_MOST_PAUSE_S, max(PAUSE_S, float(retry_after or PAUSE_S)))
    except ValueError:
        return _MOST_PAUSE_S  # a date: the endpoint wants more time than a read has


async def _let_go(stream: Any, coming: asyncio.Future[Any] | None = None) -> None:
    """Unsubscribe. The SDK asks the node to, and waits for its answer without a deadline, even when
    cancelled: so not here, and not for long.
    """

    async def unsubscribe() -> None:
        if coming is not None:
            coming.cancel()
            await asyncio.wait({coming})
        with contextlib.suppress(ChainError):
            async with boundary("unsubscribe"):
                await stream.aclose()

    ending = asyncio.create_task(unsubscribe())
    await asyncio.wait({ending}, timeout=_CLOSE_S)
    for task in (ending, coming):
        if task is not None and not task.done():
            task.cancel()


async def put_away(client: Any) -> None:
    """Close a client that may not want to be closed.

    The SDK cancels its receiving task and waits for it. Before Python 3.12 `asyncio.wait_for` can swallow a
    cancellation that comes together with a frame, and then that wait has no end: so we ask again. Asked
    again, the SDK forgets the task without looking: so we end it ourselves, or the event loop could not end.
    """
    if client is None:
        return
    receiving = _receiving(client)
    for _ in range(_CLOSE_TRIES):
        closing = asyncio.create_task(client.close())
        await asyncio.wait({closing}, timeout=_CLOSE_S / _CLOSE_TRIES)
        if closing.done():
            if not closing.cancelled() and (error := closing.exception()) is not None:
                _log.debug("a connection closed with %r", error)
            break
        closing.cancel()
    else:
        _log.warning("a connection to the chain could not be closed within %.0f s", _CLOSE_S)
    await _end(receiving | _receiving(client))


def _receiving(client: Any) -> set[asyncio.Task[Any]]:
    """The SDK's task that receives for this client. None are found in an SDK that names them otherwise."""
    session = getattr(getattr(client, "_substrate", None), "_session", None)
    task = getattr(session, "_supervisor", None)
    return {task} if isinstance(task, asyncio.Task) else set()


def _sessions() -> set[asyncio.Task[Any]]:
    """The SDK's receiving tasks."""
    return {task for task in asyncio.all_tasks() if task.get_name() == _SESSION}


async def _end(sessions: set[asyncio.Task[Any]]) -> None:
    """End what receives for nobody any more."""
    for _ in range(_CLOSE_TRIES):
        sessions = {task for task in sessions if not task.done()}
        if not sessions:
            return
        for task in sessions:
            task.cancel()
        _, sessions = await asyncio.wait(sessions, timeout=_CLOSE_S / _CLOSE_TRIES)
