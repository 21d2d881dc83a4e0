"""`arena distill`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console

from distill import pipeline
from distill.backend import require_training
from distill.config import DistillConfig, read_config
from distill.pipeline import DistillReport
from neurons import settings
from neurons.commands.flags import DatabaseUrl, DataDir, Json
from neurons.demo.screen import Screen
from neurons.host import existing_store
from neurons.settings import SettingsError, explained
from storage.traces import TraceQuery, stream

app = typer.Typer(help="From stored traces to a trained model.", no_args_is_help=True)


@app.command("run")
def run(
    config: Annotated[Path, typer.Argument(help="A YAML configuration.", exists=True, dir_okay=False)],
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; by default distill/NAME in the data folder.")
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Make the corpus, train every stage, and measure before and after. Killed, it goes on where it was."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})
    plan = _plan(config)
    folder = out or chosen.data_dir / "distill" / plan.name

    async def work(screen: Screen) -> DistillReport:
        async with existing_store(chosen) as database:
            with screen.part(plan.name) as part:

                def show(progress: pipeline.Progress) -> None:
                    part.say(f"{progress.what}: {progress.message}")
                    if progress.fraction is not None:
                        part.count(progress.fraction, 1.0)

                return await pipeline.run(plan, stream(database, TraceQuery()), folder, show)

    with Screen(Console(stderr=True)) as screen:
        report = asyncio.run(work(screen))
    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        kept = report.manifest.funnel
        typer.echo(
            f"{kept['kept']} of {kept['in']} traces kept; nats per completion token "
            f"{report.before.nll} before, {report.after.nll} after; report in {report.folder / 'report.json'}"
        )


def _plan(config: Path) -> DistillConfig:
    require_training("yaml")
    import yaml  # type: ignore[import-untyped, unused-ignore]

    try:
        return read_config(config)
    except ValidationError as error:
        raise SettingsError(f"{config} cannot be used: {explained(error)}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise SettingsError(f"{config} is not valid YAML: {error}") from None
