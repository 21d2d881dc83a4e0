"""Output is shown to people, so it must not speak to their terminals."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.sandbox.ending import Report, printable


@given(st.binary())
def test_no_control_character_survives(raw: bytes) -> None:
    kinds = {unicodedata.category(character) for character in printable(raw) if character not in "\n\t"}
    assert "Cc" not in kinds


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"])))
def test_ordinary_text_is_left_as_it_is(text: str) -> None:
    assert printable(text.encode()) == text


@pytest.mark.parametrize(
    "raw",
    [
        b"a\x1b[2Jb",
        b"a\x1b]0;title\x07b",
        b"a\x1b]8;;http://x\x1b\\b",
        b"a\x1bcb",
        b"a\x1b(0b",
        "a\u202eb".encode(),
        b"a\0b",
    ],
)
def test_escapes_go_whole(raw: bytes) -> None:
    assert printable(raw) == "ab"


def test_a_report_that_is_not_whole_is_none() -> None:
    assert Report.parse(b"") is None
    assert Report.parse(b"0 0.1") is None
    assert Report.parse(b"9 0.1 2 0\n") == Report(9, 0.1, 2, 0)


def test_signals_count_as_in_the_shell() -> None:
    assert Report(9, 0, 0, 0).return_code == 137
    assert Report(3 << 8, 0, 0, 0).return_code == 3
