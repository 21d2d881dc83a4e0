"""`arena episode`."""

from __future__ import annotations

import asyncio
import contextlib
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from rich.text import Text

from arena import embargo
from arena.replay import Divergence, Replay, playable
from arena.replay import replay as play_again
from arena.rules import Rules
from judge.neutral import visible
from neurons import settings
from neurons.commands.flags import DatabaseUrl, DataDir, Json
from neurons.host import claimed_slots, existing_store, prices, ready_sandbox, socket_root
from neurons.trace_files import read_trace
from neurons.transcript import transcript
from neurons.verifying import environment_of
from storage.database import Database
from storage.tables import Submission
from storage.traces import StoredTrace, find

app = typer.Typer(
    help="One episode: what happened in it, and whether it happens again.", no_args_is_help=True
)

Id = Annotated[UUID, typer.Argument(help="The id of an episode or of a trace.")]
Attempt = Annotated[int | None, typer.Option(help="Which attempt; without it, the one that counts.")]
_MOST_LINES = 12


@app.command("show")
def show(
    id: Annotated[str, typer.Argument(help="The id of an episode or of a trace, or a file with a trace.")],
    attempt: Attempt = None,
    full: Annotated[bool, typer.Option("--full", help="Shorten nothing.")] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Print an episode of this store, or one in a file, step by step, as the recorder saw it.

    It is a validator's own way to look at it: what is under embargo is shown, and marked.
    """
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})

    async def stored(wanted: UUID) -> tuple[StoredTrace, str | None]:
        async with existing_store(chosen) as database:
            trace = await find(database, wanted, attempt=attempt)
            return trace, await _hidden(database, trace, chosen.rules)

    if Path(id).is_file():
        trace, hidden = read_trace(Path(id)), None
    else:
        trace, hidden = asyncio.run(stored(_uuid(id)))
    if as_json:
        typer.echo(json.dumps(_json(trace, hidden), indent=2))
    else:
        Console(highlight=False).print(transcript(trace, hidden=hidden, full=full), soft_wrap=True)


@app.command("replay")
def replay(
    id: Id,
    attempt: Attempt = None,
    unsafe_no_sandbox: Annotated[
        bool, typer.Option("--unsafe-no-sandbox", help="Run the agent without a sandbox.")
    ] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    as_json: Json = False,
) -> None:
    """Play an episode again: the model's answers from its record, the tools live.

    Nothing of it is stored. Exit status 1 when it differs.
    """
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "database_url": database_url,
            "sandbox": {"unsafe": unsafe_no_sandbox or None},
        }
    )
    console = Console(stderr=True)

    async def work() -> Replay:
        async with contextlib.AsyncExitStack() as stack:
            database = await stack.enter_async_context(existing_store(chosen))
            recorded = await playable(database, id, attempt=attempt)
            with console.status("preparing a sandbox"):
                environment = await environment_of(database, chosen, recorded.trace.suite_id)
                sandbox = await ready_sandbox(unsafe=chosen.sandbox.unsafe)
            with console.status("playing it again"):
                return await play_again(
                    recorded,
                    environment,
                    sandbox,
                    slot=stack.enter_context(claimed_slots(1)),
                    socket_root=stack.enter_context(socket_root()),
                    prices=prices(chosen.model),
                )

    found = asyncio.run(work())
    if as_json:
        typer.echo(json.dumps(_replayed(found), indent=2))
    else:
        _tell(found)
    if not found.identical or found.divergence is not None:
        raise typer.Exit(1)


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is neither an id nor a file") from None


async def _hidden(database: Database, trace: StoredTrace, rules: Rules) -> str | None:
    """Until when the episode must stay here; None when it is public."""
    async with database.session() as session:
        submission = await session.get_one(Submission, trace.submission_id)
        races = await embargo.races_of(session, [submission.id])
    public_at = embargo.public_at(submission, races[submission.id], rules)
    if public_at is not None and public_at <= datetime.now(UTC):
        return None
    until = "its race has settled" if public_at is None else f"{public_at:%Y-%m-%d %H:%M} UTC"
    return f"hidden at least until {until}: not to be passed on"


def _json(trace: StoredTrace, hidden: str | None) -> dict[str, Any]:
    judgement = trace.judgement
    return {
        "episode_id": str(trace.episode_id),
        "trace_id": str(trace.trace_id),
        "attempt": trace.attempt,
        "final": trace.final,
        "race": trace.race_number,
        "phase": trace.phase,
        "agent": {
            "submission_id": str(trace.submission_id),
            "name": trace.agent_name,
            "hotkey": trace.hotkey,
        },
        "problem": trace.problem,
        "verdict": trace.verdict,
        "reason": trace.reason,
        "outcome": trace.outcome,
        "judgement": judgement
        and {"judge": judgement.judge, "gate": judgement.gate, "grade": judgement.grade},
        "embargo": hidden,
        "chain_head": trace.chain_head,
        "events": [event.to_json() for event in trace.events],
        "trajectory": trace.trajectory,
    }


def _replayed(found: Replay) -> dict[str, Any]:
    return {
        "identical": found.identical,
        "steps": found.steps,
        "verdict": {"then": found.then, "now": type(found.now).__name__.lower()},
        "divergence": None if found.divergence is None else found.divergence.to_json(),
    }


def _tell(found: Replay) -> None:
    console = Console(highlight=False)
    now = type(found.now).__name__.lower()
    if found.divergence is None and found.identical:
        console.print(
            Text.assemble(
                ("same  ", "bold green"), f"{found.steps} steps, {now}: the same bytes but for times"
            )
        )
        return
    console.print(Text.assemble(("differs  ", "bold red"), f"verdict then {found.then}, now {now}"))
    if found.divergence is not None:
        _tell_where(console, found.divergence, found.steps)


def _tell_where(console: Console, found: Divergence, steps: int) -> None:
    kind = (found.then or found.now or {}).get("kind", "")
    console.print(Text(f"first at step {found.step} of {steps}, {kind}"), soft_wrap=True)
    lines = found.where()
    for line in lines[:_MOST_LINES]:
        console.print(Text(f"    {visible(line)}"), soft_wrap=True)
    if len(lines) > _MOST_LINES:
        console.print(Text(f"    and {len(lines) - _MOST_LINES} more (--json has all)"))
