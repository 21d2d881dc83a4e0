"""`arena miner run-local`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from neurons import settings
from neurons.commands.flags import DataDir, Json
from neurons.host import claimed_slots, ready_sandbox, socket_root
from neurons.practice import Practice, agent_source, practise
from neurons.practice_problems import PHASE, PracticeOptions
from neurons.practice_report import report, score, to_json
from neurons.settings import Settings


def run_local(
    agent: Annotated[Path, typer.Argument(help="The agent's source file.")],
    problems: Annotated[int, typer.Option("--problems", help="How many problems.")] = 9,
    category: Annotated[
        list[str] | None, typer.Option("--category", help="Only problems of this category; repeatable.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the problems that are made, and of the sampling.")] = 0,
    suite: Annotated[
        Path | None,
        typer.Option("--suite", help="A suite's folder, instead of made problems."),
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--environment", help="The world of made problems: shopping or ledger.")
    ] = None,
    model_url: Annotated[
        str | None,
        typer.Option(
            "--model.base-url",
            "--model.base_url",
            help="An OpenAI-compatible endpoint; without one, the scripted shopper answers. Its key: "
            "ARENA_MODEL__API_KEY.",
        ),
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option("--model.name", help="A model the agent may use; the first is the default."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where traces are written.")] = None,
    slots: Annotated[int | None, typer.Option("--slots", help="Episodes at a time.")] = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run the agent without a sandbox.")
    ] = False,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Play an agent here as a validator would, on public problems, and say what became of each.

    It is screened, sandboxed, recorded, scored and judged by the validator's own code. No chain, no database.
    """
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "model": {"base_url": model_url, "models": tuple(models) if models else None},
            "problems": {"environment": environment},
            "sandbox": {"slots": slots, "unsafe": unsafe_no_sandbox or None},
        }
    )
    own = chosen.data_dir / PHASE / "traces" / f"{agent.stem}-{datetime.now():%Y%m%d-%H%M%S}"
    options = PracticeOptions(
        agent=agent,
        out=(out or own).absolute(),
        problems=problems,
        categories=tuple(category or ()),
        seed=seed,
        suite=suite,
    )
    agent_source(agent)
    practice = asyncio.run(_run(options, chosen))
    if as_json:
        typer.echo(json.dumps(to_json(practice), indent=2, ensure_ascii=False))
    else:
        Console(highlight=False).print(report(practice), soft_wrap=True)
    if score(practice) is None:
        raise typer.Exit(1)


async def _run(options: PracticeOptions, chosen: Settings) -> Practice:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    async with contextlib.AsyncExitStack() as stack:
        console = Console(stderr=True)
        progress = stack.enter_context(
            Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        )
        shown = progress.add_task("preparing a sandbox", total=None)

        def say(what: str) -> None:
            progress.update(shown, description=what)

        def done(finished: int, of: int) -> None:
            progress.update(shown, description="playing", completed=finished, total=of)

        sandbox = await ready_sandbox(
            unsafe=chosen.sandbox.unsafe,
            backend=chosen.sandbox.backend,
            packages=chosen.sandbox.packages,
        )
        return await practise(
            options,
            chosen,
            sandbox,
            socket_root=stack.enter_context(socket_root()),
            first_slot=stack.enter_context(claimed_slots(chosen.sandbox.slots)),
            say=say,
            done=done,
        )
