"""What a miner is shown: tables for people, lines of JSON for machines."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from arena.api.schemas import Feedback
from neurons.mining.node import Told
from neurons.mining.sending import Delivery
from neurons.mining.validators import Seen

_LOOKS = {"accepted": "green", "refused": "red", "withdrawn": "yellow", "unreachable": "yellow"}


def _short(hotkey: str) -> str:
    return f"{hotkey[:6]}…{hotkey[-4:]}"


def standing_table(seen: Sequence[Seen]) -> Table:
    """Where a source stands with every validator."""
    table = Table(box=None, pad_edge=False)
    for column in ("validator", "at", "state", "race", "played", "qualifying", "detail"):
        table.add_column(column)
    for one in seen:
        race = "" if one.race is None else f"{one.race} {one.phase}"
        played = f"{one.done}/{one.episodes}" if one.episodes else ""
        score = "" if one.qualifying_score is None else f"{one.qualifying_score:.3f}"
        state = Text(one.state, _LOOKS.get(one.state, ""))
        # Text, because what a validator says may hold what rich takes for markup.
        rest = (Text(race), Text(played), Text(score), Text(one.detail))
        table.add_row(_short(one.validator), Text(one.url), state, *rest)
    return table


def delivery_table(deliveries: Sequence[Delivery]) -> Table:
    """What every validator said to a submission."""
    table = Table(box=None, pad_edge=False)
    for column in ("validator", "at", "said", "tries", "detail"):
        table.add_column(column)
    for one in deliveries:
        look = "green" if one.took else "yellow" if one.took is None else "red"
        said = Text(one.code, look)
        table.add_row(_short(one.validator), Text(one.url), said, str(one.tries), Text(one.detail))
    return table


def feedback_table(by_validator: Mapping[str, Sequence[Feedback]]) -> Table:
    """How an agent did with every validator, by race and phase."""
    table = Table(box=None, pad_edge=False)
    for column in ("validator", "race", "phase", "solved", "failed", "unscored", "grade", "why it failed"):
        table.add_column(column)
    for validator, told in by_validator.items():
        for race, phase in sorted({(f.race, f.phase) for f in told}, key=lambda key: (key[0], key[1])):
            here = [f for f in told if (f.race, f.phase) == (race, phase)]
            verdicts = Counter(f.verdict for f in here)
            grades = [f.grade for f in here if f.grade is not None]
            grade = f"{sum(grades) / len(grades):.2f}" if grades else ""
            why = Counter(w for f in here for w in (f.failed_rules or ((f.reason,) if f.reason else ())))
            counts = (str(verdicts[v]) for v in ("solved", "failed", "unscored"))
            reasons = Text(", ".join(f"{w} {n}" for w, n in why.most_common(4)))
            table.add_row(_short(validator), str(race), phase, *counts, grade, reasons)
    return table


def event_line(told: Told) -> str:
    """One line of JSON, with the time."""
    values = {
        key: [s.to_json() for s in value] if key == "validators" else value
        for key, value in told.values.items()
    }
    at = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"event": told.event, "at": at, **values})


def show(told: Told, *, as_json: bool) -> None:
    """Tell something that happened at the node: on stdout, so that it can be read by another program."""
    if as_json:
        typer.echo(event_line(told))
        return
    console = Console(highlight=False)
    if told.event == "standing":
        seen: list[Seen] = told.values["validators"]
        if seen:
            console.print(standing_table(seen))
        else:
            console.print("no validator with a permit has announced where it answers yet")
        return
    said = ", ".join(f"{key} {value}" for key, value in told.values.items())
    console.print(Text(f"{told.event}: {said}"), soft_wrap=True)
