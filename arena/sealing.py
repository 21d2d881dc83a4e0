"""A miner's own model key, sealed so that only the validator can open it.

A sealed box (X25519 and XSalsa20-Poly1305, as libsodium has it) holds the key together with who sent it, for
which source and for which endpoint. The one thing to know: these three are checked when it is opened, so a
box that somebody copied on its way pays for nobody else's agent, and goes to no other address. Nothing here
shows a key: not in messages, not in `repr`.

The private key lies in the data folder, readable by us alone. The public one is announced with a signature of
the validator's hotkey, so that nobody between can have keys sealed to himself.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox
from pydantic import SecretStr

SEALED_CHARS = 2_048
"""The longest box that is taken, as base64."""
KEY_CHARS = 512
_PADDED = 1_024
"""Every box is as long as another: its length says nothing of the key."""
_CONTEXT = b"agent arena, sealing key, version 1: "


class BadSeal(ValueError):
    """A box that cannot be opened, or that was not sealed for this; the message holds nothing of it."""


class NoSealingKey(RuntimeError):
    """This host cannot open what miners have sealed; the message says where the key is to lie."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """A box as it is stored, with what it must turn out to be for."""

    hotkey: str
    source_sha256: str
    endpoint: str
    """The name of one of the validator's endpoints; its address is not the miner's to say."""
    box: str
    """Base64."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a miner needs to seal a key. `signature` is the validator's hotkey's over `signed_text`."""

    public_key: str
    signature: str
    endpoints: Mapping[str, str]
    """Addresses by name: where a miner's key may go."""


def signed_text(public_key: str) -> bytes:
    """What the validator's hotkey signs."""
    return _CONTEXT + bytes.fromhex(public_key)


def checked_key(key: str) -> SecretStr:
    """A key that can stand in a header. Raises BadSeal."""
    if not (0 < len(key) <= KEY_CHARS and key.isascii() and key.isprintable() and " " not in key):
        raise BadSeal(f"a model key has 1 to {KEY_CHARS} printable ASCII characters and no spaces")
    return SecretStr(key)


def seal(key: SecretStr, public_key: str, *, hotkey: str, source_sha256: str, endpoint: str) -> Sealed:
    """Seal a key for the holder of `public_key` (hex). Raises BadSeal when either cannot be one."""
    checked_key(key.get_secret_value())
    held = {"key": key.get_secret_value(), "for": [hotkey, source_sha256, endpoint]}
    text = json.dumps(held).encode()
    try:
        box = SealedBox(PublicKey(bytes.fromhex(public_key))).encrypt(text.ljust(_PADDED))
    except (CryptoError, ValueError, TypeError):
        raise BadSeal("what the validator announces is no public key") from None
    return Sealed(hotkey, source_sha256, endpoint, base64.b64encode(bytes(box)).decode())


class SealingKey:
    """The validator's own key pair."""

    def __init__(self, private: PrivateKey) -> None:
        self._private = private

    def __repr__(self) -> str:
        return f"SealingKey(public_key={self.public_key!r})"

    @property
    def public_key(self) -> str:
        """In hex."""
        return bytes(self._private.public_key).hex()

    @classmethod
    def kept(cls, file: Path, *, make: bool) -> SealingKey:
        """The key in `file`; made, for us alone to read, when it is not there and `make` is set.

        Raises NoSealingKey when there is none, or when others can read it.
        """
        if make and not file.exists():
            _write_once(file, bytes(PrivateKey.generate()))
        try:
            if file.stat().st_mode & 0o077:
                raise NoSealingKey(f"others can read {file}, which opens miners' keys: chmod 600 {file}")
            return cls(PrivateKey(bytes.fromhex(file.read_text())))
        except FileNotFoundError:
            raise NoSealingKey(
                f"there is no {file}, without which miners' own keys cannot be opened: copy the validator's"
            ) from None
        except (CryptoError, ValueError, TypeError):
            raise NoSealingKey(f"{file} holds no sealing key: restore it, or copy the validator's") from None

    def open(self, sealed: Sealed) -> SecretStr:
        """The key in a box. Raises BadSeal."""
        try:
            text = SealedBox(self._private).decrypt(base64.b64decode(sealed.box, validate=True))
            held = json.loads(text)
            key, meant = held["key"], held["for"]
        except (CryptoError, binascii.Error, ValueError, KeyError, TypeError, RecursionError):
            raise BadSeal("it was not sealed for this validator") from None
        if meant != [sealed.hotkey, sealed.source_sha256, sealed.endpoint]:
            raise BadSeal("it was sealed for another hotkey, source or endpoint")
        if not isinstance(key, str):
            raise BadSeal("it holds no key")
        return checked_key(key)


def _write_once(file: Path, private: bytes) -> None:
    """Whole or not at all, and never over another process's."""
    file.parent.mkdir(parents=True, exist_ok=True)
    aside = file.with_name(f"{file.name}.{os.getpid()}")
    with os.fdopen(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as opened:
        opened.write(private.hex())
    with contextlib.suppress(FileExistsError):
        os.link(aside, file)
    aside.unlink()
