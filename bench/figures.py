"""What a benchmark prints: figures, each a value beside a baseline measured in the same run.

A benchmark module defines `measure(quick: bool) -> list[Figure]` and ends in `main(measure)`. Machines are
noisy, so a figure without a baseline from the same run says little; one with a goal says whether it was met.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured number.

    `ratio` is value / baseline. `goal` bounds the quantity named by `of`, from above (`at_most`) or below.
    """

    figure: str
    value: float
    unit: str
    baseline: float | None = None
    goal: float | None = None
    of: Literal["value", "ratio", "difference"] = "value"
    at_most: bool = True

    @property
    def ratio(self) -> float | None:
        """Value over baseline; None without a baseline."""
        return self.value / self.baseline if self.baseline else None

    @property
    def met(self) -> bool | None:
        """Whether the goal holds; None without a goal."""
        if self.goal is None:
            return None
        against = {
            "value": self.value,
            "ratio": self.ratio,
            "difference": self.value - self.baseline if self.baseline is not None else None,
        }[self.of]
        if against is None:
            return False
        return against <= self.goal if self.at_most else against >= self.goal

    def goal_text(self) -> str:
        """The goal in words: `difference <= 60`."""
        if self.goal is None:
            return ""
        return f"{self.of} {'<=' if self.at_most else '>='} {self.goal:g}"

    def to_json(self) -> dict[str, object]:
        """The entry that `--json` prints."""
        return {
            "figure": self.figure,
            "value": self.value,
            "unit": self.unit,
            "baseline": self.baseline,
            "ratio": self.ratio,
            "goal": self.goal_text() or None,
            "met": self.met,
        }


COLUMNS = ("figure", "value", "unit", "baseline", "ratio", "goal", "met")


def table(entries: Sequence[dict[str, object]], title: str) -> Table:
    """Entries of `--json` as one table."""
    grid = Table(title=escape(title), title_justify="left")
    for name in COLUMNS:
        grid.add_column(name, justify="left" if name in ("figure", "unit", "goal") else "right")
    for entry in entries:
        grid.add_row(*(_cell(entry[key]) for key in COLUMNS))
    return grid


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:.4g}" if isinstance(value, float) else escape(str(value))


def main(measure: Callable[[bool], Sequence[Figure]]) -> None:
    """Command line of one benchmark: `[--quick] [--json]`."""
    parser = argparse.ArgumentParser(description=sys.modules[measure.__module__].__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds; under 45 seconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    present(measure(options.quick), as_json=options.json)


def present(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print figures as one JSON object or as a table."""
    entries = [figure.to_json() for figure in figures]
    if as_json:
        print(json.dumps({"figures": entries}, indent=2))
    else:
        Console().print(table(entries, sys.argv[0]))
