"""`arena demo`."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from neurons import settings
from neurons.demo.loop import run_demo
from neurons.demo.options import DemoOptions
from neurons.demo.printing import show
from neurons.demo.screen import Screen
from neurons.settings import SettingsError


class World(StrEnum):
    """What can be played."""

    shopping = "shopping"
    ledger = "ledger"


def run(
    environment: Annotated[World, typer.Option(help="The world that is played.")] = World.shopping,
    problems: Annotated[
        Path | None,
        typer.Option(
            help="ShoppingBench's files, an ORO suite, or a folder that arena problems made; else problems "
            "are generated."
        ),
    ] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Where everything is kept.")] = None,
    database_url: Annotated[
        str | None, typer.Option(help="A PostgreSQL URL instead of the embedded server.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the catalog and the problems.")] = 7,
    products: Annotated[int, typer.Option(help="Size of the generated catalog.")] = 3000,
    public: Annotated[int, typer.Option(help="Problems of the public suite.")] = 12,
    drawn: Annotated[int, typer.Option(help="Problems of the hidden draw.")] = 24,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run agents without a sandbox.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report for machines.")] = False,
) -> None:
    """The whole loop on this machine. Killed and started again, it goes on from where it was."""
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "database_url": database_url,
            "sandbox": {"unsafe": True if unsafe_no_sandbox else None},
        }
    )
    if environment is World.ledger and problems is not None:
        raise SettingsError("--problems are of the shopping world: leave it out, or leave --environment out")
    options = DemoOptions(
        environment=environment.value,
        seed=seed,
        problems=problems.absolute() if problems else None,
        products=products,
        public=public,
        drawn=drawn,
    )
    with Screen(Console(stderr=True)) as screen:
        report = asyncio.run(
            run_demo(
                options,
                chosen.data_dir.absolute(),
                screen,
                database_url=chosen.url(),
                unsafe=chosen.sandbox.unsafe,
            )
        )
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        show(report, Console())
