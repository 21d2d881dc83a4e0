from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.strict_json import StrictJsonError, loads
from storage.events import digest

SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
SAFE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | SAFE_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(SAFE_TEXT, inner, max_size=4),
    max_leaves=20,
)


@given(SAFE, st.booleans())
def test_what_is_safe_comes_back_as_it_was(value: object, ascii_only: bool) -> None:
    assert loads(json.dumps(value, ensure_ascii=ascii_only).encode(), max_bytes=1 << 20) == value


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\u0d8e1-+.NaI tf', max_size=60).map(str.encode))
def test_any_bytes_give_a_value_that_can_be_stored_or_the_one_error(source: bytes) -> None:
    try:
        value = loads(source, max_bytes=150)
    except StrictJsonError:
        return
    digest(value)
    assert "\\u0000" not in json.dumps(value).replace("\\\\", "")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (b'{"a": 1, "a": 2}', "same key twice"),
        (b'{"a": 1, "\\u0061": 2}', "same key twice"),
        (b"NaN", "NaN"),
        (b"[-Infinity]", "-Infinity"),
        (b"1e999", "too large"),
        (b"-1e999", "too large"),
        (b"9223372036854775808", "64 bits"),
        (b"1" * 5000, "64 bits"),
        (b'"\\ud800"', "surrogate"),
        (b'{"\\udfff": 1}', "surrogate"),
        (b'["\\u0000"]', "NUL"),
        (b'"\0"', "not JSON"),
        (b"\xff", "UTF-8"),
        ("\ud800", "UTF-8"),
        (b"[" * 33 + b"]" * 33, "nested deeper"),
        (b"[" * 100_000, "more than|nested deeper"),
        (b'{"a":' * 5_000, "nested deeper"),
        (b"[" + b"1," * 60_000 + b"1]", "more than"),
        (b" " * 200_001, "larger than"),
        (b"", "not JSON"),
        (b"\xef\xbb\xbf1", "not JSON"),
        (b'"' + b'\\"' * 50_000, "not JSON"),
    ],
)
def test_hostile_input_is_refused_with_a_sentence(source: bytes | str, why: str) -> None:
    with pytest.raises(StrictJsonError, match=why):
        loads(source, max_bytes=200_000)


def test_brackets_and_commas_inside_strings_are_not_structure() -> None:
    text = '\\"[{,' * 30_000
    assert loads(json.dumps([text]).encode(), max_bytes=1 << 20) == [text]
