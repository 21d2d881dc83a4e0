from __future__ import annotations

import json
import sys

import pytest
from rich.console import Console

from bench.figures import COLUMNS, Figure, main, table


@pytest.mark.parametrize(
    ("figure", "met"),
    [
        (Figure("f", 2.0, "s"), None),
        (Figure("f", 2.0, "s", goal=2.0), True),
        (Figure("f", 2.1, "s", goal=2.0), False),
        (Figure("f", 2.1, "s", goal=2.0, at_most=False), True),
        (Figure("f", 3.0, "s", baseline=2.0, goal=1.5, of="ratio"), True),
        (Figure("f", 3.0, "s", baseline=2.0, goal=0.9, of="difference"), False),
        (Figure("f", 3.0, "s", baseline=0.0, goal=3.0, of="difference"), True),
    ],
)
def test_a_goal_bounds_the_quantity_it_names(figure: Figure, met: bool | None) -> None:
    assert figure.met is met


@pytest.mark.parametrize("of", ["ratio", "difference"])
def test_a_goal_for_a_comparison_that_was_not_made_is_not_met(of: str) -> None:
    assert Figure("f", 0.0, "s", goal=1.0, of=of).met is False  # type: ignore[arg-type]


def test_a_ratio_to_nothing_is_no_number() -> None:
    assert Figure("f", 2.0, "s", baseline=0.0).ratio is None
    assert Figure("f", 2.0, "s").ratio is None


def test_the_entry_says_the_goal_in_words() -> None:
    entry = Figure("f", 3.0, "ms", baseline=2.0, goal=60, of="difference").to_json()
    assert tuple(entry) == COLUMNS
    assert entry["goal"] == "difference <= 60"
    assert entry["ratio"] == 1.5


def measure(quick: bool) -> list[Figure]:
    return [Figure("start [/of] it", 1.0 if quick else 2.0, "s", goal=1.0)]


@pytest.mark.parametrize(("flags", "value"), [(["--quick", "--json"], 1.0), (["--json"], 2.0)])
def test_a_benchmark_prints_json(
    flags: list[str], value: float, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["b", *flags])
    main(measure)
    [figure] = json.loads(capsys.readouterr().out)["figures"]
    assert figure["value"] == value


def test_the_table_shows_names_as_they_are_and_missed_goals_loudly(
    capsys: pytest.CaptureFixture[str],
) -> None:
    Console(width=200).print(table([f.to_json() for f in measure(quick=False)], "[/t]"))
    shown = capsys.readouterr().out
    assert "start [/of] it" in shown
    assert "NO" in shown
