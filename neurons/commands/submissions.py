"""`arena submissions`."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from arena.calibration.measure import Tally, measure
from arena.rules import SimilarityRules
from neurons import settings
from neurons.commands.flags import Json

app = typer.Typer(help="What becomes of what miners send.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """What becomes of what miners send."""


@app.command("calibrate")
def calibrate(
    seed: Annotated[int, typer.Option(help="Of the copies that are made.")] = 0,
    rounds: Annotated[int, typer.Option(min=1, max=50, help="Copies of each kind for each source.")] = 2,
    as_json: Json = False,
) -> None:
    """Make copies of sources in many ways, and print which are told from honest work by the rules."""
    rules = settings.load().rules.similarity
    tallies = measure(rules, seed=seed, rounds=rounds)
    if as_json:
        kinds = [asdict(tally) | {"rate": tally.rate} for tally in tallies]
        typer.echo(json.dumps({"rules": rules.model_dump(), "seed": seed, "kinds": kinds}, indent=2))
        return
    console = Console(width=None if Console().is_terminal else 120)
    console.print(_table([t for t in tallies if t.copies], "Copies", "recall", "least like its source"))
    console.print(
        _table([t for t in tallies if not t.copies], "Honest", "false positives", "most like another")
    )
    console.print(_said(rules), soft_wrap=True)


def _table(tallies: list[Tally], title: str, rate: str, share: str) -> Table:
    grid = Table(title=title, title_justify="left")
    grid.add_column("kind")
    for name in ("sources", "called copies", rate, share):
        grid.add_column(name, justify="right")
    for tally in tallies:
        extreme = tally.farthest if tally.copies else tally.nearest
        grid.add_row(tally.kind, str(tally.sources), str(tally.called), f"{tally.rate:.1%}", f"{extreme:.2f}")
    return grid


def _said(rules: SimilarityRules) -> str:
    return (
        f"A copy shares {rules.threshold:.0%} of the fingerprints of either source, or has that much of "
        f"its own from up to {rules.merged_from} together. A fingerprint is of {rules.k} tokens; one of "
        f"{rules.window} is kept."
    )
