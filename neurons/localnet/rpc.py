"""The node's face: JSON-RPC 2.0 over WebSocket, in the methods that the Bittensor SDK calls.

Besides Substrate's methods there are four of our own, `localnet_*`: the admin door for demos, through which
balances and stake come out of nothing. Whoever can connect can use it; the node therefore listens on the
loopback address only.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from neurons.localnet import runtime_api, subnet
from neurons.localnet.blocks import Blockchain, Refused, Status
from neurons.localnet.codec import MalformedExtrinsic, bytes_of, hex_of
from neurons.localnet.runtime_api import UnknownRuntimeApi
from neurons.localnet.state import Block, Draft, StateDiscarded
from neurons.localnet.subnet import SubnetOptions

HOST = "127.0.0.1"
_MAX_FRAME_BYTES = 16 << 20
_MAX_CONNECTIONS = 128
_MAX_KEYS_A_PAGE = 1000
_NOTICES_BOUND = 256
_SEND_DEADLINE_S = 10.0
_ORDER_DEADLINE_S = 30.0

_log = logging.getLogger(__name__)


class RpcError(Exception):
    """An answer that is an error, with its JSON-RPC code."""

    def __init__(self, code: int, message: str, detail: str | None = None) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message} | ({} if detail is None else {"data": detail})


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
    """Serves one chain and makes its blocks."""

    def __init__(self, chain: Blockchain, *, block_time_s: float, parent_pid: int | None = None) -> None:
        if block_time_s <= 0:
            raise ValueError("the block time must be positive")
        self._chain = chain
        self._block_time_s = block_time_s
        self._parent_pid = parent_pid
        self._connections: set[_Connection] = set()
        self._ids = itertools.count(1)
        self._methods: dict[str, Callable[[list[Any]], Any]] = {
            "chain_getBlock": self._get_block,
            "chain_getBlockHash": self._get_block_hash,
            "chain_getFinalizedHead": lambda _: chain.head.hash,
            "chain_getHead": lambda _: chain.head.hash,
            "chain_getHeader": self._get_header,
            "state_call": self._state_call,
            "state_getKeysPaged": self._get_keys,
            "state_getRuntimeVersion": self._runtime_version,
            "state_getStorage": self._get_storage,
            "state_getStorageAt": self._get_storage,
            "state_queryStorageAt": self._query_storage,
            "account_nextIndex": lambda p: chain.next_nonce(p[0]),
            "system_accountNextIndex": lambda p: chain.next_nonce(p[0]),
            "author_submitExtrinsic": lambda p: chain.submit(bytes_of(p[0])),
            "system_chain": lambda _: "Local arena chain",
            "system_health": lambda _: {"peers": 0, "isSyncing": False, "shouldHavePeers": False},
            "system_name": lambda _: "arena-localnet",
            "system_properties": lambda _: {"ss58Format": 42, "tokenDecimals": 9, "tokenSymbol": "TAO"},
            "rpc_methods": lambda _: {"methods": sorted([*self._methods, *self._orders])},
            "localnet_info": self._info,
        }
        self._orders: dict[str, Callable[[list[Any]], Callable[[Draft, int], None]]] = {
            "localnet_createSubnet": _create_subnet,
            "localnet_fund": _fund,
            "localnet_setStake": _set_stake,
        }

    async def run(self, port: int, ready: Callable[[int], None]) -> None:
        """Serve until cancelled, or until the parent process is gone. Port 0 takes any free one.

        `ready` is told the port once connections are accepted.
        """
        async with serve(self._serve, HOST, port, max_size=_MAX_FRAME_BYTES) as server:
            ready(server.sockets[0].getsockname()[1])
            loop = asyncio.get_running_loop()
            due = loop.time()
            while self._parent_pid is None or os.getppid() == self._parent_pid:
                # After a pause, go on from now: a burst of blocks would end rate limits all at once.
                due = max(due + self._block_time_s, loop.time())
                await asyncio.sleep(due - loop.time())
                block = self._chain.produce()
                for connection in self._connections:
                    for subscription, method in connection.heads.items():
                        connection.notify(method, subscription, block.header)
        _log.info("the parent process is gone; stopping")

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
            answer, after = await self._answer(connection, request)
            answers.append(answer)
            afterwards.append(after)
        await self._send(connection, answers if isinstance(asked, list) else answers[0])
        for after in afterwards:
            if after is not None:
                after()

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
            elif method in self._orders:
                result = await self._order(self._orders[method](parameters))
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
                connection.notify(head_notices[method], name, self._chain.head.header)

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

    async def _order(self, apply: Callable[[Draft, int], None]) -> dict[str, Any]:
        future: asyncio.Future[Block] = asyncio.get_running_loop().create_future()

        def done(block: Block | None, error: ValueError | None) -> None:
            if future.done():
                return
            if block is None:
                future.set_exception(RpcError(-32602, "Invalid params", str(error)))
            else:
                future.set_result(block)

        self._chain.order(apply, done)
        block = await asyncio.wait_for(future, _ORDER_DEADLINE_S)
        return {"block": block.number, "hash": block.hash}

    async def _send_notices(self, connection: _Connection) -> None:
        while True:
            await self._send(connection, await connection.notices.get())

    async def _send(self, connection: _Connection, message: object) -> None:
        sending: Awaitable[None] = connection.socket.send(json.dumps(message))
        try:
            await asyncio.wait_for(sending, _SEND_DEADLINE_S)
        except (ConnectionClosed, TimeoutError):
            connection.socket.transport.abort()

    def _find(self, block_hash: str | None) -> Block:
        block = self._chain.block_of(block_hash)
        if block is None:
            raise RpcError(4003, f"Client error: UnknownBlock: {block_hash} is not on this chain")
        return block

    def _get_block(self, parameters: list[Any]) -> dict[str, Any] | None:
        block = self._chain.block_of(parameters[0])
        if block is None:
            return None
        body = {"header": block.header, "extrinsics": list(block.extrinsics)}
        return {"block": body, "justifications": None}

    def _get_block_hash(self, parameters: list[Any]) -> str | None:
        number = parameters[0]
        if number is None:
            return self._chain.head.hash
        block = self._chain.block_at(int(number, 16) if isinstance(number, str) else int(number))
        return None if block is None else block.hash

    def _get_header(self, parameters: list[Any]) -> Mapping[str, Any] | None:
        block = self._chain.block_of(parameters[0])
        return None if block is None else block.header

    def _get_storage(self, parameters: list[Any]) -> str | None:
        view = self._chain.view(self._find(parameters[1]))
        raw = view.reader.read(bytes_of(parameters[0]))
        return None if raw is None else hex_of(raw)

    def _query_storage(self, parameters: list[Any]) -> list[dict[str, Any]]:
        block = self._find(parameters[1])
        reader = self._chain.view(block).reader
        changes = []
        for key in parameters[0]:
            raw = reader.read(bytes_of(key))
            changes.append([key, None if raw is None else hex_of(raw)])
        return [{"block": block.hash, "changes": changes}]

    def _get_keys(self, parameters: list[Any]) -> list[str]:
        prefix, limit = bytes_of(parameters[0]), min(int(parameters[1]), _MAX_KEYS_A_PAGE)
        after = bytes_of(parameters[2]) if parameters[2] else prefix
        reader = self._chain.view(self._find(parameters[3])).reader
        return [hex_of(key) for key in reader.keys(prefix, after, limit)]

    def _state_call(self, parameters: list[Any]) -> str:
        view = self._chain.view(self._find(parameters[2]))
        return hex_of(runtime_api.call(view, parameters[0], bytes_of(parameters[1] or "0x")))

    def _runtime_version(self, _: list[Any]) -> dict[str, Any]:
        return {
            "specName": "node-subtensor",
            "implName": "arena-localnet",
            "authoringVersion": 1,
            "specVersion": self._chain.codec.spec_version,
            "implVersion": 1,
            "apis": [],
            "transactionVersion": self._chain.codec.transaction_version,
            "stateVersion": 1,
        }

    def _info(self, _: list[Any]) -> dict[str, Any]:
        return {
            "genesis": self._chain.genesis.hash,
            "block": self._chain.head.number,
            "netuids": subnet.netuids(self._chain.view()),
            "block_time_s": self._block_time_s,
        }


def _fund(parameters: list[Any]) -> Callable[[Draft, int], None]:
    address, tao = str(parameters[0]), float(parameters[1])
    return lambda state, _: subnet.fund(state, address, tao)


def _set_stake(parameters: list[Any]) -> Callable[[Draft, int], None]:
    netuid, hotkey, tao = int(parameters[0]), str(parameters[1]), float(parameters[2])
    return lambda state, _: subnet.set_stake(state, netuid, hotkey, tao)


def _create_subnet(parameters: list[Any]) -> Callable[[Draft, int], None]:
    netuid, coldkey, hotkey = int(parameters[0]), str(parameters[1]), str(parameters[2])
    asked = dict(parameters[3] or {})
    unknown = set(asked) - {f.name for f in fields(SubnetOptions)}
    if unknown:
        raise ValueError(
            f"unknown subnet options {sorted(unknown)}; known: {sorted(asdict(SubnetOptions()))}"
        )
    options = SubnetOptions(**asked)

    def apply(state: Draft, block: int) -> None:
        subnet.create(state, netuid, owner_coldkey=coldkey, owner_hotkey=hotkey, block=block, options=options)

    return apply


def _failure(request_id: object, error: RpcError) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.body}
