"""SCALE: the bytes of storage, calls, extrinsics and events, as the real runtime's metadata defines them.

The encoding itself is `bittensor_core.Runtime`, the Rust codec of the SDK, used here on the server's side.
What is added is what a node needs and a client does not: reading the signed parts of an extrinsic, the
numbers of dispatch errors, and one storage entry that the recorded metadata lacks.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import bittensor_core

from neurons.localnet.metadata import RuntimeMetadata

_SIGNED_V4 = 0x84
_MULTI_ADDRESS_ID = 0x00
_RUNTIMES_KEPT = 8
_SCHEMES = {0: "ed25519", 1: "sr25519"}


class MalformedExtrinsic(ValueError):
    """The bytes are not a signed version-4 extrinsic that this chain can read."""


@dataclass(frozen=True, slots=True)
class Extrinsic:
    """A signed extrinsic, taken apart. `era` is None when immortal, else (period, phase) in blocks."""

    raw: bytes
    address: str
    scheme: int
    signature: bytes
    era: tuple[int, int] | None
    nonce: int
    tip: int
    call: bytes
    pallet: str
    function: str
    arguments: dict[str, Any]

    @property
    def said(self) -> bytes:
        """Who calls what, without the signature."""
        return b"|".join((self.address.encode(), str(self.nonce).encode(), self.call))

    @property
    def hash(self) -> str:
        """BLAKE2b-256 of the bytes, as a node reports it."""
        return hex_of(hash256(self.raw))


@dataclass(frozen=True, slots=True)
class StorageItem:
    """One storage entry: how to encode its value, and what a missing value reads as."""

    value_type: str
    default: Any


class Runtime:
    """What a client is told of the runtime at some block, and what its signatures cover."""

    def __init__(self, metadata: RuntimeMetadata) -> None:
        self.metadata_option = b"\x01" + compact(len(metadata.v15)) + metadata.v15
        """`Option<OpaqueMetadata>`, as the runtime API `Metadata_metadata_at_version` returns it."""
        self.metadata_v14 = metadata.v14_hex
        self.spec_version = metadata.spec_version
        self.transaction_version = metadata.transaction_version
        self.codec = bittensor_core.Runtime(
            metadata.v15, metadata.spec_version, metadata.transaction_version, metadata.ss58_format
        )


class Codec:
    """Encodes and decodes everything of this chain: its storage keeps one layout through all upgrades."""

    def __init__(self, metadata: RuntimeMetadata) -> None:
        self._metadata = replace(metadata, v15=_with_epoch_consensus(metadata.v15))
        self.spec_version = metadata.spec_version
        self.runtime_at = lru_cache(maxsize=_RUNTIMES_KEPT)(self._runtime_at)
        self.runtime = self.runtime_at(metadata.spec_version, ()).codec
        described = self.runtime.metadata_ir()
        pallets = (json.loads(described) if isinstance(described, str) else described)["pallets"]
        self._errors = {
            (p["name"], e["name"]): (p["index"], e["index"]) for p in pallets for e in p["errors"]
        }
        apis = self.runtime.runtime_api_map
        self._apis: dict[str, Any] = apis() if callable(apis) else apis
        self._types = {t["id"]: t["type"] for t in json.loads(self.runtime.registry_json())["types"]}
        self._item = lru_cache(maxsize=None)(self._read_item)

    def storage_key(self, pallet: str, item: str, arguments: tuple[Any, ...] = ()) -> bytes:
        """The storage key of an item, hashed as the metadata says; with fewer arguments, a prefix of keys."""
        return bytes(self.runtime.storage_key(pallet, item, list(arguments)))

    def entry_prefix(self, entry: str) -> bytes:
        """What the keys of an entry named as Pallet.Item have in common. Raises ValueError."""
        pallet, _, item = entry.partition(".")
        return self.storage_key(pallet, item)

    def is_default(self, pallet: str, item: str, value: object) -> bool:
        """Whether a value is what an absent key reads as."""
        return bool(value == self.decode_storage(pallet, item, None))

    def encode_storage(self, pallet: str, item: str, value: object) -> bytes:
        """A storage value as SCALE."""
        return bytes(self.runtime.encode(self._item(pallet, item).value_type, value))

    def decode_storage(self, pallet: str, item: str, raw: bytes | None) -> Any:
        """A storage value from SCALE; None stands for an absent key and reads as the item's default."""
        entry = self._item(pallet, item)
        if raw is None:
            return self.runtime.decode(entry.value_type, entry.default) if entry.default is not None else None
        return self.runtime.decode(entry.value_type, raw)

    def compose_call(self, pallet: str, function: str, arguments: dict[str, Any]) -> bytes:
        """A call as SCALE."""
        return bytes(self.runtime.compose_call(pallet, function, arguments))

    def has_error(self, pallet: str, name: str) -> bool:
        """Whether the runtime declares this dispatch error."""
        return (pallet, name) in self._errors

    def dispatch_error(self, pallet: str, name: str) -> dict[str, Any]:
        """The `DispatchError` value of a named pallet error. Raises KeyError when the runtime has none."""
        pallet_index, error_index = self._errors[pallet, name]
        return {"Module": {"index": pallet_index, "error": f"0x{error_index:02x}000000"}}

    def encode_api_result(self, api: str, method: str, value: object) -> bytes:
        """The SCALE result of a runtime API call. None encodes an absent option."""
        if value is None:
            return b"\x00"
        return bytes(self.runtime.encode(self._apis[api][method]["output"], value))

    def api_record_fields(self, api: str, method: str) -> tuple[str, ...]:
        """The field names of the record that a runtime API returns as an `Option`."""
        output = self._types[int(self._apis[api][method]["output"].split("::")[1])]
        some = next(v for v in output["def"]["variant"]["variants"] if v["name"] == "Some")
        record = self._types[some["fields"][0]["type"]]
        return tuple(field["name"] for field in record["def"]["composite"]["fields"])

    def _runtime_at(self, spec_version: int, without: tuple[str, ...]) -> Runtime:
        """The runtime of a version, lacking storage entries named as Pallet.Item. Raises ValueError."""
        v15 = self._metadata.v15
        for entry in without:
            v15 = _without_entry(v15, *entry.split(".", 1))
        return Runtime(replace(self._metadata, v15=v15, spec_version=spec_version))

    def decode_extrinsic(self, raw: bytes) -> Extrinsic:
        """Take a signed extrinsic apart. Raises MalformedExtrinsic."""
        try:
            decoded = self.runtime.decode_extrinsic(raw)
            length, at = read_compact(raw, 0)
            if length != len(raw) - at or raw[at] != _SIGNED_V4 or raw[at + 1] != _MULTI_ADDRESS_ID:
                raise MalformedExtrinsic("only signed version-4 extrinsics of a plain account are accepted")
            at += 2 + 32
            scheme = raw[at]
            if scheme not in _SCHEMES:
                raise MalformedExtrinsic("only sr25519 and ed25519 signatures are accepted")
            signature = raw[at + 1 : at + 65]
            era, at = read_era(raw, at + 65)
            nonce, at = read_compact(raw, at)
            tip, at = read_compact(raw, at)
            if raw[at] != 0:
                raise MalformedExtrinsic("CheckMetadataHash is not supported: sign with it disabled")
            call = decoded["call"]
            return Extrinsic(
                raw=raw,
                address=decoded["address"],
                scheme=scheme,
                signature=signature,
                era=era,
                nonce=nonce,
                tip=tip,
                call=raw[at + 1 :],
                pallet=call["call_module"],
                function=call["call_function"],
                arguments={a["name"]: a["value"] for a in call["call_args"]},
            )
        except MalformedExtrinsic:
            raise
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise MalformedExtrinsic(f"the extrinsic could not be decoded: {error}") from error

    def signature_is_valid(
        self, extrinsic: Extrinsic, runtime: Runtime, *, genesis: bytes, era_block: bytes
    ) -> bool:
        """Whether the signature covers this call, nonce, era, runtime version and genesis."""
        era: object = "00"
        if extrinsic.era is not None:
            era = {"period": extrinsic.era[0], "phase": extrinsic.era[1]}
        payload = runtime.codec.signature_payload(
            extrinsic.call,
            era=era,
            nonce=extrinsic.nonce,
            tip=extrinsic.tip,
            tip_asset_id=None,
            genesis_hash=genesis,
            era_block_hash=era_block,
        )
        return bool(
            bittensor_core.verify(bytes(payload), extrinsic.signature, extrinsic.address, extrinsic.scheme)
        )

    def _read_item(self, pallet: str, item: str) -> StorageItem:
        entry = self.runtime.storage_entry(pallet, item)
        default = bytes(entry.default_bytes) if entry.modifier == "Default" else None
        return StorageItem(entry.value_type, default)


def hash256(content: bytes) -> bytes:
    """BLAKE2b with a 32-byte digest, Substrate's default hash."""
    return blake2b(content, digest_size=32).digest()


def hex_of(content: bytes) -> str:
    """0x-prefixed hex."""
    return "0x" + content.hex()


def bytes_of(text: str) -> bytes:
    """Bytes of 0x-prefixed hex. Raises ValueError."""
    return bytes.fromhex(text.removeprefix("0x"))


def plain_bytes(value: object) -> bytes:
    """The bytes of a decoded `Vec<u8>`, which the codec gives as hex or, where it reads as one, as text."""
    if isinstance(value, str):
        return bytes.fromhex(value[2:]) if value.startswith("0x") else value.encode()
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    return bytes(value)  # type: ignore[call-overload, no-any-return]


def ss58_of(account: bytes) -> str:
    """The address of a 32-byte account id."""
    return str(bittensor_core.ss58_encode(account))


def compact(number: int) -> bytes:
    """A SCALE compact integer, up to 2^30 - 1."""
    if number < 1 << 6:
        return bytes([number << 2])
    if number < 1 << 14:
        return (number << 2 | 1).to_bytes(2, "little")
    if number < 1 << 30:
        return (number << 2 | 2).to_bytes(4, "little")
    raise ValueError(f"{number} is too large for the compact modes used here")


def read_compact(raw: bytes, at: int) -> tuple[int, int]:
    """The SCALE compact integer at an offset, and the offset after it."""
    mode = raw[at] & 3
    if mode == 3:
        size = (raw[at] >> 2) + 4
        return int.from_bytes(raw[at + 1 : at + 1 + size], "little"), at + 1 + size
    size = (1, 2, 4)[mode]
    return int.from_bytes(raw[at : at + size], "little") >> 2, at + size


def read_era(raw: bytes, at: int) -> tuple[tuple[int, int] | None, int]:
    """The era at an offset, and the offset after it.

    Mortal eras are two bytes: log2(period) - 1 in the low four bits, and the phase, in units of
    max(period / 4096, 1) blocks, above them (Substrate, `sp_runtime::generic::Era`).
    """
    if raw[at] == 0:
        return None, at + 1
    encoded = int.from_bytes(raw[at : at + 2], "little")
    period = 2 << (encoded % 16)
    phase = (encoded >> 4) * max(period >> 12, 1)
    if period < 4 or phase >= period:
        raise MalformedExtrinsic("the era is not valid")
    return (period, phase), at + 2


def _with_epoch_consensus(v15: bytes) -> bytes:
    """The metadata with `SubtensorModule.SubnetEpochConsensus` added when it is missing.

    SDK 11.3 reads this entry before it sets weights, but was recorded against a runtime just before it came.
    It is a map from netuid to a one-byte enum whose 0 is Yuma consensus; cloning the key and value types of
    `MechanismCountCurrent`, a map from netuid to u8, yields the same bytes on the wire.
    """
    name, twin, pallet = "SubnetEpochConsensus", "MechanismCountCurrent", "SubtensorModule"
    if _scale_str(name) in v15:
        return v15
    marker = _scale_str(pallet) + b"\x01" + _scale_str(pallet)  # the pallet's name, Some(storage), its prefix
    count_at = v15.index(marker) + len(marker)
    count, entries_at = read_compact(v15, count_at)
    shape_at = v15.index(_scale_str(twin) + b"\x01\x01", entries_at) + len(_scale_str(twin))
    hashers, end = read_compact(v15, shape_at + 2)  # after "has a default" and "is a map"
    _, end = read_compact(v15, end + hashers)
    _, end = read_compact(v15, end)
    entry = _scale_str(name) + v15[shape_at:end] + compact(1) + b"\x00" + compact(0)
    return v15[:count_at] + compact(count + 1) + entry + v15[entries_at:]


def _without_entry(v15: bytes, pallet: str, item: str = "") -> bytes:
    """The metadata with a storage entry's name changed, so that nobody finds it. Raises ValueError."""
    try:
        begin = v15.index(_scale_str(pallet) + b"\x01" + _scale_str(pallet))
        at = v15.index(_scale_str(item), begin)
    except ValueError as error:
        raise ValueError(f"the runtime has no storage entry {pallet}.{item}") from error
    return v15[:at] + _scale_str("_" + item[1:]) + v15[at + len(_scale_str(item)) :]


def _scale_str(text: str) -> bytes:
    return compact(len(text.encode())) + text.encode()
