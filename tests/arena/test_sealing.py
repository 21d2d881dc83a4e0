"""Sealed keys: only the validator opens them, only for what they are for, and nothing shows them."""

from __future__ import annotations

import base64
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nacl.public import PrivateKey
from pydantic import SecretStr

from arena.sealing import SEALED_CHARS, BadSeal, NoSealingKey, Sealed, SealingKey, seal

OURS = SealingKey(PrivateKey.generate())
MEANT = {"hotkey": "hk", "source_sha256": "00", "endpoint": "near"}
KEYS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=512)


def sealed(key: str = "sk-own") -> Sealed:
    return seal(SecretStr(key), OURS.public_key, **MEANT)


@given(KEYS)
@settings(max_examples=30, deadline=None)
def test_what_was_sealed_is_opened_and_its_length_tells_nothing(key: str) -> None:
    box = sealed(key)
    assert OURS.open(box).get_secret_value() == key
    assert len(box.box) == len(sealed("x").box) <= SEALED_CHARS
    assert key not in box.box or len(key) < 8


@pytest.mark.parametrize("field", ["hotkey", "source_sha256", "endpoint"])
def test_a_box_that_was_copied_pays_for_nothing_else(field: str) -> None:
    with pytest.raises(BadSeal, match="another hotkey, source or endpoint"):
        OURS.open(replace(sealed(), **{field: "another"}))


def test_another_validator_cannot_open_it() -> None:
    with pytest.raises(BadSeal, match="not sealed for this validator"):
        SealingKey(PrivateKey.generate()).open(sealed())


@given(st.binary(max_size=300))
@settings(max_examples=50, deadline=None)
def test_rubbish_is_refused_with_a_sentence(rubbish: bytes) -> None:
    with pytest.raises(BadSeal):
        OURS.open(replace(sealed(), box=base64.b64encode(rubbish).decode()))


@pytest.mark.parametrize("key", ["", "a b", "a\r\nhost: evil", "ключ", "x" * 513])
def test_a_key_that_cannot_stand_in_a_header_is_not_sealed(key: str) -> None:
    with pytest.raises(BadSeal, match="printable ASCII"):
        sealed(key)


@pytest.mark.parametrize("public", ["", "00", "zz" * 32])
def test_what_is_no_public_key_is_refused(public: str) -> None:
    with pytest.raises(BadSeal, match="no public key"):
        seal(SecretStr("k"), public, **MEANT)


def test_the_private_key_is_made_once_and_is_ours_alone(tmp_path: Path) -> None:
    file = tmp_path / "folder" / "sealing.key"
    first = SealingKey.kept(file, make=True)
    assert SealingKey.kept(file, make=True).public_key == SealingKey.kept(file, make=False).public_key
    assert first.public_key == SealingKey.kept(file, make=False).public_key
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["sealing.key"]
    assert file.read_text() not in repr(first)
    file.chmod(0o644)
    with pytest.raises(NoSealingKey, match="chmod 600"):
        SealingKey.kept(file, make=True)


def test_a_key_file_that_is_not_there_or_is_none_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NoSealingKey, match="copy the validator's"):
        SealingKey.kept(tmp_path / "sealing.key", make=False)
    broken = tmp_path / "broken"
    broken.touch(mode=0o600)
    with pytest.raises(NoSealingKey, match="holds no sealing key"):
        SealingKey.kept(broken, make=True)
