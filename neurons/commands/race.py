"""`arena race`."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from sqlalchemy import select

from arena.achievements import attempts_of
from arena.findings import Step
from arena.verification import verify_race
from neurons import settings
from neurons.commands.flags import DatabaseUrl, DataDir, Json
from neurons.host import existing_store
from neurons.peer_race import verify_published
from neurons.verifying import means_of, weights_step
from problems.report import Achieved, Report, report
from storage.tables import Race

app = typer.Typer(
    help="Races: what became of them, and whether it follows from the record.", no_args_is_help=True
)

_COLUMNS = ("race", "state", "boundary", "problems", "left_out", "promoted", "reason")
_LOOKS = {"same": "green", "differs": "bold red", "not checked": "yellow"}


@app.command("verify")
def verify(
    number: Annotated[int, typer.Argument(help="The race's number.")],
    api_url: Annotated[
        str | None,
        typer.Option("--api.url", help="Another validator: check what it publishes of its race."),
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Decide a race again from what is stored, and compare. Exit status 1 when anything differs."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})

    async def work() -> list[Step]:
        if api_url is not None:
            return await verify_published(api_url, number)
        async with existing_store(chosen) as database:
            steps = await verify_race(database, number, await means_of(database, chosen))
            return [*steps, await weights_step(database, number)]

    steps = asyncio.run(work())
    same = not any(step.status == "differs" for step in steps)
    if as_json:
        found = {"race": number, "same": same, "steps": [step.to_json() for step in steps]}
        typer.echo(json.dumps(found, indent=2))
    else:
        console = Console(highlight=False)
        for step in steps:
            console.print(
                Text.assemble(f"{step.name:14}", (step.status, _LOOKS[step.status])), soft_wrap=True
            )
            for note in step.notes:
                console.print(Text(f"    {note}"), soft_wrap=True)
    if not same:
        raise typer.Exit(1)


@app.command("list")
def list_races(data_dir: DataDir = None, database_url: DatabaseUrl = None, as_json: Json = False) -> None:
    """Every race of the store, the latest first."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})

    async def work() -> list[dict[str, Any]]:
        async with existing_store(chosen) as database, database.session() as session:
            return [_entry(race) for race in await session.scalars(select(Race).order_by(Race.number.desc()))]

    races = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps({"races": races}, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for column in _COLUMNS:
        table.add_column(column.replace("_", " "))
    for race in races:
        table.add_row(*(_cell(race[column]) for column in _COLUMNS))
    Console().print(table)


def _entry(race: Race) -> dict[str, Any]:
    settlement = race.settlement or {}
    problems, promotion = settlement.get("problems", {}), settlement.get("promotion", {})
    return {
        "race": race.number,
        "state": race.state,
        "boundary": None if race.boundary_at is None else race.boundary_at.isoformat(timespec="seconds"),
        "problems": len(problems["counted"]) if problems else None,
        "left_out": len(problems["left_out"]) if problems else None,
        "promoted": promotion.get("promoted"),
        "reason": race.void_reason or promotion.get("reason"),
    }


def _cell(value: object) -> Text:
    if value is None or isinstance(value, bool):
        return Text("" if value is None else "yes" if value else "no")
    return Text(str(value))


@app.command("report")
def report_race(
    number: Annotated[int, typer.Argument(help="The race's number.")],
    phase: Annotated[Literal["race", "qualifying"], typer.Option(help="Which of its problems.")] = "race",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """What each agent achieved by category: success (ASR), relevance (CAR), and how many had no score."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})

    async def work() -> dict[str, Report]:
        async with existing_store(chosen) as database, database.session() as session:
            found = await attempts_of(session, number, phase)
            return {agent: report(attempts) for agent, attempts in found.items()}

    reports = asyncio.run(work())
    if as_json:
        agents = {agent: made.to_json() for agent, made in reports.items()}
        typer.echo(json.dumps({"race": number, "phase": phase, "agents": agents}, indent=2))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("agent", "category", "scored", "left out", "ASR %", "95 %", "CAR %", "95 % "):
        table.add_column(column, justify="left" if column in ("agent", "category") else "right")
    for agent, made in reports.items():
        for category, achieved in (*made.by_category.items(), ("all", made.overall)):
            table.add_row(Text(agent.split()[0]), Text(category), *_figures(achieved))
    Console().print(table)


def _figures(achieved: Achieved) -> tuple[str, ...]:
    asr = achieved.asr
    return (
        str(asr.n),
        str(achieved.left_out),
        _percent(asr.share),
        _interval((asr.low, asr.high) if asr.n else None),
        _percent(achieved.car),
        _interval(achieved.car_interval),
    )


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"


def _interval(bounds: tuple[float, float] | None) -> str:
    return "" if bounds is None else f"{_percent(bounds[0])}-{_percent(bounds[1])}"
