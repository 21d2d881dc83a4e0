"""`arena doctor`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from arena.sandbox.bubblewrap import BubblewrapSandbox
from arena.sandbox.installation import ensure_bubblewrap
from arena.sandbox.probe import Probe
from arena.sandbox.staging import stage


def run(
    as_json: Annotated[bool, typer.Option("--json", help="Print the checks for machines.")] = False,
) -> None:
    """Probe this machine's sandbox with a canary that tries what agents must not do."""
    probe = asyncio.run(_probe())
    if as_json:
        typer.echo(json.dumps(asdict(probe), indent=2))
    else:
        table = Table(title=f"sandbox: {'holds' if probe.ok else 'DOES NOT HOLD'}", title_justify="left")
        for column in ("check", "holds", "detail"):
            table.add_column(column)
        for check in probe.checks:
            table.add_row(check.name, "yes" if check.ok else "[red]NO[/red]", escape(check.detail))
        Console().print(table)
    if not probe.ok:
        raise typer.Exit(1)


async def _probe() -> Probe:
    executable = await ensure_bubblewrap()
    return await BubblewrapSandbox(await asyncio.to_thread(stage), executable).probe()
