"""`arena traces`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated
from uuid import UUID

import typer
from sqlalchemy import select

from judge.rejudging import Shift, rejudge
from judge.rubric import rubric_of
from judge.worker import CONCURRENCY, Pace
from neurons import settings
from neurons.commands.flags import DatabaseUrl, DataDir, Json
from neurons.host import existing_store
from neurons.judges import JudgeName, chosen_judge
from storage.database import Database
from storage.errors import StorageError
from storage.export import LICENCE_NOT_STATED, export
from storage.provenance import ExportManifest
from storage.tables import Race
from storage.traces import VERDICTS, TraceQuery

app = typer.Typer(help="The store of judged traces.", no_args_is_help=True)


class Format(StrEnum):
    """Formats of an export."""

    openai = "openai"
    atif = "atif"


class Verdict(StrEnum):
    """Verdicts to choose traces by."""

    solved = VERDICTS[0]
    failed = VERDICTS[1]
    unscored = VERDICTS[2]


class NoSuchRace(StorageError):
    """The race asked for is not in the store."""


@app.command("export")
def export_traces(
    out: Annotated[Path, typer.Option(help="The folder to write; it must not exist.")],
    format: Annotated[
        Format, typer.Option(help="OpenAI chat lines, or one ATIF document a trace.")
    ] = Format.openai,
    race: Annotated[int | None, typer.Option(help="Only traces of this race.")] = None,
    verdict: Annotated[list[Verdict] | None, typer.Option(help="Only traces with this verdict.")] = None,
    licence: Annotated[str, typer.Option(help="The licence to state.")] = LICENCE_NOT_STATED,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier export.")] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Export traces with a manifest and a data card."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})

    async def work() -> ExportManifest:
        async with existing_store(chosen) as database:
            return await export(
                database,
                TraceQuery(
                    race_id=None if race is None else await _race_id(database, race),
                    verdicts=tuple(verdict) if verdict else None,
                ),
                format=format.value,
                out=out,
                created_at=datetime.now(UTC),
                licence=licence,
                overwrite=overwrite,
            )

    manifest = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps(manifest.to_json(), indent=2))
    else:
        typer.echo(f"{manifest.traces} traces in {out}")


@app.command("rejudge")
def rejudge_traces(
    rubric: Annotated[str, typer.Option(help="The version of the rubric to judge by.")],
    judge: Annotated[
        JudgeName | None, typer.Option(help="Without it, the one that the settings choose.")
    ] = None,
    race: Annotated[int | None, typer.Option(help="Only traces of this race.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Judgements at a time.")] = CONCURRENCY,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Judge stored traces again, keep what was said before, and say how far the grades shift.

    Races stay decided by the judgements that counted in them. Stopped, it goes on where it was.
    """
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})
    wanted = rubric_of(rubric)

    async def work() -> Shift:
        async with (
            existing_store(chosen) as database,
            chosen_judge(chosen, database, name=judge, rubric=wanted) as by,
        ):
            race_id = None if race is None else await _race_id(database, race)
            return await rejudge(database, by, race_id=race_id, pace=Pace(concurrency=concurrency))

    found = asyncio.run(work())
    typer.echo(json.dumps(found.to_json(), indent=2) if as_json else _told(found))


def _told(shift: Shift) -> str:
    """A shift in words, and its moves one a line."""
    lines = [f"{shift.judged_now} traces judged now by {shift.judge} by rubric {shift.rubric}"]
    if shift.lacking:
        lines.append(f"{shift.lacking} without an answer; call again later to go on")
    if shift.nothing_before:
        lines.append(f"{shift.nothing_before} with no judgement that counts in their race to compare with")
    if shift.mean_change is None:
        lines.append("nothing to compare")
    else:
        lines.append(
            f"{shift.compared} compared: mean change {shift.mean_change:+.3f}, {shift.up} up, "
            f"{shift.down} down"
        )
        moved = [m for m in shift.moves if (m.gate, m.grade) != (m.new_gate, m.new_grade)]
        lines += [f"  {m.gate} ({m.grade}) -> {m.new_gate} ({m.new_grade}): {m.traces}" for m in moved]
    return "\n".join(lines)


async def _race_id(database: Database, number: int) -> UUID:
    async with database.session() as session:
        found = await session.scalar(select(Race.id).where(Race.number == number))
    if found is None:
        raise NoSuchRace(f"there is no race {number} in this store")
    return found
