from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.figures import figures, joints, orders, sums


def _sums(text: str) -> list[tuple[str, bool]]:
    found = figures(text)
    return [(one.stated.text, one.right) for one in sums(found, joints(text, found))]


@pytest.mark.parametrize(
    ("text", "stated", "right"),
    [
        ("12.40 + 7.60 = 20.00", "20.00", True),
        ("12.40 + 7.60 = 21.00", "21.00", False),
        ("1,250 (the desk) + 300 (a lamp) = 1,550", "1,550", True),
        ("12,40 € + 7,60 € = 20,00 €", "20,00", True),
        ("20% of 350 = 70", "70", True),
        ("350 - 20% = 280", "280", True),
        ("350 − 280 = 70", "70", True),
        ("3 x 45 + 10 = 145", "145", True),
        ("100 / 3 = 33.3", "33.3", True),
        ("**12** + **8** = **20**", "20", True),
        ("12 加 8 等于 20", "20", True),
    ],
)
def test_a_stated_expression_is_done_again(text: str, stated: str, right: bool) -> None:
    assert _sums(text) == [(stated, right)]


@pytest.mark.parametrize(
    "text", ["100-200 PHP", "amounts -12.40, -7.60 = all of them", "5 / 6", "a = 7", "of 3 lamps 2 = ok"]
)
def test_what_is_no_expression_is_left_alone(text: str) -> None:
    assert all(right for _, right in _sums(text))


def test_a_chain_goes_on_from_its_own_result() -> None:
    assert _sums("100 + 50 = 150, 150 + 25 = 175") == [("150", True), ("175", True)]


@pytest.mark.parametrize(("text", "right"), [("90 <= 100", True), ("120 < 100", False), ("7 ≥ 7", True)])
def test_an_inequality_is_checked(text: str, right: bool) -> None:
    found = figures(text)
    assert [one.right for one in orders(found, joints(text, found))] == [right]


@pytest.mark.parametrize(
    ("text", "readings"),
    [("1,349", (1349, 1.349)), ("1.349", (1.349, 1349)), ("84,20", (84.2,)), ("1.349,50", (1349.5,))],
)
def test_separators_are_read_in_every_way_that_they_are_written(
    text: str, readings: tuple[float, ...]
) -> None:
    assert figures(text)[0].readings == readings


def test_digits_inside_a_model_name_or_an_id_are_no_figures() -> None:
    assert [f.text for f in figures("KX-2044 and RK61 of t-0012, 99")] == ["99"]


@given(st.text(alphabet="0123456789+-*/=<>.,% ()ab\n", max_size=200))
def test_no_text_raises(text: str) -> None:
    found = figures(text)
    between = joints(text, found)
    list(sums(found, between))
    list(orders(found, between))
    assert all(text[f.span.start : f.span.end] == f.text for f in found)
