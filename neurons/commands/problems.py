"""`arena problems`."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from problems.golden import score_file

app = typer.Typer(help="Problems and their outcome rules.", no_args_is_help=True)


@app.command("score")
def score(
    file: Annotated[
        Path, typer.Argument(help="Scored answers, one JSON object a line.", exists=True, dir_okay=False)
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the result for machines.")] = False,
) -> None:
    """Score every answer in FILE by the rules, and say how many match the expected scores."""
    report = score_file(file)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        for mismatch in report.mismatches:
            typer.echo(
                f"{mismatch.case_id}: {mismatch.component} should be {mismatch.expected}, is {mismatch.got}"
            )
        typer.echo(f"{report.matched} of {report.total} match")
    if report.matched != report.total:
        raise typer.Exit(1)
