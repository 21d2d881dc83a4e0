"""The node's face: JSON-RPC 2.0 over WebSocket, in the methods that the Bittensor SDK calls.

Besides Substrate's methods there are our own, `localnet_*`, for what no real chain lets anyone do
(`neurons.localnet.control`).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from neurons.localnet.blocks import Blockchain, Refused, Status
from neurons.localnet.codec import MalformedExtrinsic, bytes_of
from neurons.localnet.control import Control
from neurons.localnet.faults import Fault
from neurons.localnet.methods import ChainMethods, RpcError
from neurons.localnet.runtime_api import UnknownRuntimeApi
from neurons.localnet.state import Block, StateDiscarded

HOST = "127.0.0.1"
_MAX_FRAME_BYTES = 16 << 20
_MAX_CONNECTIONS = 128
_NOTICES_BOUND = 256
_SEND_DEADLINE_S = 10.0
_PARENT_LOOK_S = 0.25
_ANSWERED_BY = {
    "refuse": RpcError(
        -32005,
        "rate limit exceeded",
        {"policy": "requests", "reason": "this node was told to refuse", "retry_after": 1},
    ),
    "reject": RpcError(1010, "Invalid Transaction", "Transaction was rejected, as this node was told to"),
}

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Connection:
    """One client: its subscriptions, and the notices waiting to be sent to it."""

    socket: ServerConnection
    notices: asyncio.Queue[dict[str, Any]] = field(default_factory=lambda: asyncio.Queue(_NOTICES_BOUND))
    heads: dict[str, str] = field(default_factory=dict)
    """Method of the notices by subscription id."""

    def notify(self, method: str, subscription: str, result: object) -> None:
        params = {"subscription": subscription, "result": result}
        try:
            self.notices.put_nowait({"jsonrpc": "2.0", "method": method, "params": params})
        except asyncio.QueueFull:
            # A subscriber that misses a block must not go on as if it had not: it is disconnected instead.
            self.socket.transport.abort()


class Node:
    """Serves one chain and makes its blocks, every `block_time_s` or, if that is 0, when there is work."""

    def __init__(
        self,
        chain: Blockchain,
        *,
        block_time_s: float,
        faults_on: bool = False,
        parent_pid: int | None = None,
    ) -> None:
        if block_time_s < 0:
            raise ValueError("the block time must not be negative")
        self._chain = chain
        self._block_time_s = block_time_s
        self._parent_pid = parent_pid
        self._connections: set[_Connection] = set()
        self._ids = itertools.count(1)
        self._faults = chain.faults
        self._methods = ChainMethods(chain, self._faults).table
        self._controls = Control(
            chain,
            self._faults,
            faults_on=faults_on,
            block_time_s=block_time_s,
            make_block=self._make_block,
            announce=self._announce,
        ).table

    async def run(self, port: int, ready: Callable[[int], None]) -> None:
        """Serve until cancelled, or until the parent process is gone. Port 0 takes any free one.

        `ready` is told the port once connections are accepted.
        """
        # A browser names the page's origin, a program does not: pages may not reach a node on loopback.
        async with serve(self._serve, HOST, port, max_size=_MAX_FRAME_BYTES, origins=[None]) as server:
            ready(server.sockets[0].getsockname()[1])
            loop = asyncio.get_running_loop()
            due = loop.time()
            while self._parent_pid is None or os.getppid() == self._parent_pid:
                # After a pause, go on from now: a burst of blocks would end rate limits all at once.
                due = max(due + (self._block_time_s or _PARENT_LOOK_S), loop.time())
                await asyncio.sleep(due - loop.time())
                if self._block_time_s:
                    self._make_block()
        _log.info("the parent process is gone; stopping")

    def _make_block(self) -> Block:
        before = self._chain.finalized
        block = self._chain.produce()
        self._announce(block)
        if self._chain.finalized != before:
            self._notify("chain_finalizedHead", self._chain.finalized)
        return block

    def _announce(self, block: Block) -> None:
        self._notify("chain_newHead", block)

    def _notify(self, method: str, block: Block) -> None:
        for connection in self._connections:
            for subscription, notices in connection.heads.items():
                if notices == method:
                    connection.notify(method, subscription, block.header)

    async def _serve(self, socket: ServerConnection) -> None:
        if len(self._connections) >= _MAX_CONNECTIONS:
            await socket.close(1013, "too many connections")
            return
        connection = _Connection(socket)
        self._connections.add(connection)
        notifier = asyncio.create_task(self._send_notices(connection))
        try:
            async for frame in socket:
                await self._answer_frame(connection, frame)
        except (ConnectionClosed, TimeoutError):
            _log.debug("a client went away")
        finally:
            self._connections.discard(connection)
            notifier.cancel()

    async def _answer_frame(self, connection: _Connection, frame: str | bytes) -> None:
        try:
            asked = json.loads(frame)
        except ValueError:
            await self._send(connection, _failure(None, RpcError(-32700, "Parse error")))
            return
        requests = asked if isinstance(asked, list) else [asked]
        answers, afterwards = [], []
        for request in requests:
            fault = self._fault_for(request)
            if fault is not None and fault.kind == "drop":
                connection.socket.transport.abort()
                return
            if fault is not None and fault.kind == "hang":
                continue
            if fault is not None and fault.kind in _ANSWERED_BY:
                answers.append(_failure(request.get("id"), _ANSWERED_BY[fault.kind]))
                continue
            answer, after = await self._answer(connection, request)
            if fault is not None and fault.kind == "lose":
                connection.socket.transport.abort()
                return
            if fault is not None and fault.kind == "slow":
                await asyncio.sleep(fault.seconds)
            answers.append(answer)
            afterwards.append(after)
        if answers:
            await self._send(connection, answers if isinstance(asked, list) else answers[0])
        for after in afterwards:
            if after is not None:
                after()
        if not self._block_time_s and self._chain.has_work:
            self._make_block()

    def _fault_for(self, request: Any) -> Fault | None:
        method = request.get("method") if isinstance(request, dict) else None
        if not isinstance(method, str) or method in self._controls:
            return None
        kinds = ("drop", "lose", "hang", "slow", "refuse")
        rejected = self._faults.take(method, "reject") if method.startswith("author_submit") else None
        return rejected or self._faults.take(method, *kinds)

    async def _answer(
        self, connection: _Connection, request: Any
    ) -> tuple[dict[str, Any], Callable[[], None] | None]:
        """The answer, and what to start once it has been sent (a subscription's first notices)."""
        if not isinstance(request, dict) or not isinstance(request.get("method"), str):
            return _failure(None, RpcError(-32600, "Invalid request")), None
        request_id, method = request.get("id"), request["method"]
        # A parameter left out and a null one mean the same in Substrate's methods.
        parameters = [*(request.get("params") or []), None, None, None, None]
        after = None
        try:
            if method in self._methods:
                result = self._methods[method](parameters)
            elif method in self._controls:
                result = await self._controls[method](parameters)
            elif method == "rpc_methods":
                result = {"methods": sorted([*self._methods, *self._controls])}
            else:
                result, after = self._subscription(connection, method, parameters)
        except RpcError as error:
            return _failure(request_id, error), None
        except Refused as error:
            return _failure(request_id, RpcError(error.code, error.message, error.detail)), None
        except MalformedExtrinsic as error:
            return _failure(request_id, RpcError(1002, "Verification Error", str(error))), None
        except StateDiscarded as error:
            # The SDK recognises discarded state by these words.
            wording = f"State already discarded for {parameters[-5]}"
            return _failure(request_id, RpcError(4003, f"Client error: {error}", wording)), None
        except UnknownRuntimeApi as error:
            return _failure(request_id, RpcError(4003, "Client error", str(error))), None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            _log.info("could not answer %s: %r", method, error)
            return _failure(request_id, RpcError(-32602, "Invalid params", str(error))), None
        return {"jsonrpc": "2.0", "id": request_id, "result": result}, after

    def _subscription(
        self, connection: _Connection, method: str, parameters: list[Any]
    ) -> tuple[Any, Callable[[], None] | None]:
        name = f"s{next(self._ids)}"
        head_notices = {
            "chain_subscribeNewHeads": "chain_newHead",
            "chain_subscribeFinalizedHeads": "chain_finalizedHead",
        }
        if method in head_notices:

            def begin() -> None:
                connection.heads[name] = head_notices[method]
                newest = self._chain.head if method == "chain_subscribeNewHeads" else self._chain.finalized
                connection.notify(head_notices[method], name, newest.header)

            return name, begin
        if method == "author_submitAndWatchExtrinsic":

            def tell(status: Status) -> None:
                connection.notify("author_extrinsicUpdate", name, status)

            self._chain.submit(bytes_of(parameters[0]), tell)
            return name, lambda: tell("ready")
        if method in ("chain_unsubscribeNewHeads", "chain_unsubscribeFinalizedHeads"):
            return connection.heads.pop(str(parameters[0]), None) is not None, None
        if method == "author_unwatchExtrinsic":
            return True, None
        raise RpcError(-32601, f"Method not found: {method}")

    async def _send_notices(self, connection: _Connection) -> None:
        while True:
            await self._send(connection, await connection.notices.get())

    async def _send(self, connection: _Connection, message: object) -> None:
        sending: Awaitable[None] = connection.socket.send(json.dumps(message))
        try:
            await asyncio.wait_for(sending, _SEND_DEADLINE_S)
        except (ConnectionClosed, TimeoutError):
            connection.socket.transport.abort()


def _failure(request_id: object, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.body}
