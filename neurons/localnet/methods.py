"""Substrate's JSON-RPC methods that answer at once, as the Bittensor SDK calls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from neurons.localnet import runtime_api
from neurons.localnet.blocks import Blockchain
from neurons.localnet.codec import bytes_of, hex_of
from neurons.localnet.faults import Faults
from neurons.localnet.state import Block

_MAX_KEYS_A_PAGE = 1000
_ANSWERS_KEPT = 16

Parameters = list[Any]
Method = Callable[[Parameters], Any]


class RpcError(Exception):
    """An answer that is an error, with its JSON-RPC code."""

    def __init__(self, code: int, message: str, detail: object = None) -> None:
        super().__init__(message)
        self.body = {"code": code, "message": message} | ({} if detail is None else {"data": detail})


class ChainMethods:
    """The methods over one chain. `table` is by name; parameters are padded with None."""

    def __init__(self, chain: Blockchain, faults: Faults) -> None:
        self._chain = chain
        self._faults = faults
        # Runtime calls are functions of the block: a metagraph is put together once, whoever asks.
        self._runtime_call = lru_cache(maxsize=_ANSWERS_KEPT)(self._call_runtime)
        self.table: Mapping[str, Method] = {
            "chain_getBlock": self._get_block,
            "chain_getBlockHash": self._get_block_hash,
            "chain_getFinalizedHead": lambda _: chain.finalized.hash,
            "chain_getHead": lambda _: chain.head.hash,
            "chain_getHeader": self._get_header,
            "chain_getRuntimeVersion": self._runtime_version,
            "state_call": lambda p: self._runtime_call(self._find(p[2]).hash, p[0], p[1] or "0x"),
            "state_getKeysPaged": self._get_keys,
            "state_getMetadata": lambda p: chain.runtime(self._find(p[0])).metadata_v14,
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
        }

    def _find(self, block_hash: str | None) -> Block:
        block = self._chain.block_of(block_hash)
        if block is None:
            raise RpcError(4003, f"Client error: UnknownBlock: {block_hash} is not on this chain")
        return block

    def _get_block(self, parameters: Parameters) -> dict[str, Any] | None:
        block = self._chain.block_of(parameters[0])
        if block is None:
            return None
        body = {"header": block.header, "extrinsics": list(block.extrinsics)}
        return {"block": body, "justifications": None}

    def _get_block_hash(self, parameters: Parameters) -> str | None:
        number = parameters[0]
        if number is None:
            return self._chain.head.hash
        block = self._chain.block_at(int(number, 16) if isinstance(number, str) else int(number))
        return None if block is None else block.hash

    def _get_header(self, parameters: Parameters) -> Mapping[str, Any] | None:
        block = self._chain.block_of(parameters[0])
        return None if block is None else block.header

    def _get_storage(self, parameters: Parameters) -> str | None:
        return self._read(self._find(parameters[1]), parameters[0])

    def _query_storage(self, parameters: Parameters) -> list[dict[str, Any]]:
        block = self._find(parameters[1])
        changes = [[key, self._read(block, key)] for key in parameters[0]]
        return [{"block": block.hash, "changes": changes}]

    def _get_keys(self, parameters: Parameters) -> list[str]:
        prefix, limit = bytes_of(parameters[0]), min(int(parameters[1]), _MAX_KEYS_A_PAGE)
        after = bytes_of(parameters[2]) if parameters[2] else prefix
        reader = self._chain.view(self._find(parameters[3])).reader
        return [hex_of(key) for key in reader.keys(prefix, after, limit) if not self._is_missing(key)]

    def _read(self, block: Block, key: str) -> str | None:
        wanted = bytes_of(key)
        raw = None if self._is_missing(wanted) else self._chain.view(block).reader.read(wanted)
        return None if raw is None else hex_of(raw)

    def _is_missing(self, key: bytes) -> bool:
        return any(key.startswith(self._chain.codec.entry_prefix(entry)) for entry in self._faults.missing())

    def _call_runtime(self, block_hash: str, name: str, arguments: str) -> str:
        block = self._find(block_hash)
        runtime = self._chain.runtime(block)
        return hex_of(runtime_api.call(self._chain.view(block), runtime, name, bytes_of(arguments)))

    def _runtime_version(self, parameters: Parameters) -> dict[str, Any]:
        runtime = self._chain.runtime(self._find(parameters[0]))
        return {
            "specName": "node-subtensor",
            "implName": "arena-localnet",
            "authoringVersion": 1,
            "specVersion": runtime.spec_version,
            "implVersion": 1,
            "apis": [],
            "transactionVersion": runtime.transaction_version,
            "stateVersion": 1,
        }
