"""Prints what became of every attack: `python -m tests.hostile [--backend NAME] [--only NAME] [--json]`.

Exits with 1 when a sandbox that must hold did not, or an attack could not be judged.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections import Counter
from dataclasses import asdict
from itertools import groupby

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from arena.sandbox.sandbox import SandboxUnavailable
from tests.hostile.backends import BACKENDS, CONTAINED, backend
from tests.hostile.expectations import all_expectations
from tests.hostile.stage import Result, run_suite

STATES = ("held", "breached", "error", "not run")


async def _run(name: str, only: list[str]) -> list[Result]:
    chosen = [each for each in all_expectations() if not only or each.name in only]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=len(chosen))
        async with backend(name) as sandbox:
            return await run_suite(
                sandbox,
                chosen,
                contained=name in CONTAINED,
                report=lambda _: progress.advance(task),
            )


def _show(results: dict[str, list[Result]]) -> None:
    console = Console()
    for name, rows in results.items():
        table = Table("agent", "tries", name, title_justify="left")
        for category, members in groupby(rows, key=lambda row: row.category):
            table.add_section()
            table.add_row(f"[bold]{category}")
            for row in members:
                said = row.state if row.state == "held" else f"{row.state}: {'; '.join(row.why)}"
                table.add_row(row.name, row.tries, escape(said))
        console.print(table)
    counts = Table("backend", *STATES)
    for name, rows in results.items():
        count = Counter(row.state for row in rows)
        counts.add_row(name, *(str(count[state]) for state in STATES))
    console.print(counts)


def main() -> int:
    """Run what was asked for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="default: bubblewrap")
    parser.add_argument("--only", action="append", default=[], metavar="AGENT", help="run this agent only")
    parser.add_argument("--json", action="store_true", help="for a script to read")
    chosen = parser.parse_args()
    try:
        results = {name: asyncio.run(_run(name, chosen.only)) for name in chosen.backend or ["bubblewrap"]}
    except SandboxUnavailable as error:
        print(error, file=sys.stderr)
        return 2
    if chosen.json:
        print(json.dumps({name: [asdict(row) for row in rows] for name, rows in results.items()}))
    else:
        _show(results)
    bad = [
        row
        for name, rows in results.items()
        for row in rows
        if row.state == "error" or (row.state == "breached" and name in CONTAINED)
    ]
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
