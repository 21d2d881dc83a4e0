"""`arena judge`."""

from __future__ import annotations

import asyncio
import json
from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from sqlalchemy import select

from judge.agreement import Agreement, Estimate
from judge.calibration import Calibration, InjectionShares, calibrate
from judge.gold.loading import Half, load
from judge.grounded import GroundedJudge
from judge.judgement import Judge
from judge.opinions import ForgetfulOpinions
from judge.worker import CONCURRENCY, JudgeWorker, Pace
from neurons import settings
from neurons.commands.flags import DatabaseUrl, DataDir, Json
from neurons.judges import JudgeName, chosen_judge, named_judge
from neurons.settings import Settings, SettingsError
from neurons.stopping import until_stopped
from storage.database import Database
from storage.tables import Race

app = typer.Typer(help="Measure judges, and judge stored traces.", no_args_is_help=True)

JudgeFlag = Annotated[
    JudgeName | None,
    typer.Option("--judge", help="Which judge; without it, the one that the settings choose."),
]
Concurrency = Annotated[
    int | None, typer.Option(min=1, help="Judgements at a time; a panel waits more than it computes.")
]


PANEL_CONCURRENCY = 8
"""Of calibration. The grounded judge computes, and two at a time would only blur what each one takes."""


class Halves(StrEnum):
    """What a judge is measured on."""

    dev = "dev"
    unseen = "unseen"
    both = "both"


_EACH: dict[Halves, tuple[Half, ...]] = {
    Halves.dev: ("dev",),
    Halves.unseen: ("unseen",),
    Halves.both: ("dev", "unseen"),
}


@app.command("calibrate")
def run_calibration(
    half: Annotated[Halves, typer.Option(help="The half that judges are built on, the other, or both.")] = (
        Halves.both
    ),
    judge: JudgeFlag = None,
    concurrency: Concurrency = None,
    seed: Annotated[int, typer.Option(help="Of the intervals.")] = 0,
    show_cases: Annotated[
        bool, typer.Option("--show-cases", help="List the cases that the judge got wrong (dev only).")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a judge over the labelled set, and print how far it agrees and what texts aimed at it move."""
    if show_cases and half is not Halves.dev:
        raise SettingsError(
            "single cases are shown of the half that judges are built on alone, or the other would not stay "
            "unseen: give --half dev"
        )
    found = asyncio.run(_calibrated(settings.load(), half, judge, concurrency, seed))
    if as_json:
        shown = {name: one.to_json(with_mistakes=show_cases) for name, one in found.items()}
        typer.echo(json.dumps(shown, indent=2))
        return
    console = Console(width=None if Console().is_terminal else 120)
    for name, one in found.items():
        _print(console, name, one, show_cases=show_cases)


@app.command("worker")
def work(
    judge: JudgeFlag = None,
    concurrency: Concurrency = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Judge traces as they arrive, for a validator whose database this reaches. Start as many as you like."""
    chosen = settings.load({"data_dir": data_dir, "database_url": database_url})
    asyncio.run(until_stopped(_work(chosen, judge, concurrency)))


async def _calibrated(
    chosen: Settings, halves: Halves, name: JudgeName | None, concurrency: int | None, seed: int
) -> dict[str, Calibration]:
    opinions = ForgetfulOpinions(cap=chosen.judge.daily_cap)
    found: dict[str, Calibration] = {}
    async with named_judge(chosen, opinions, name=name) as judge:
        for half in _EACH[halves]:
            labelled = await asyncio.to_thread(load, half)
            found[half] = await calibrate(
                judge,
                labelled.cases,
                labelled.injections,
                seed=seed,
                concurrency=concurrency or (1 if isinstance(judge, GroundedJudge) else PANEL_CONCURRENCY),
                spent=opinions.spent,
            )
    return found


async def _work(chosen: Settings, name: JudgeName | None, concurrency: int | None) -> None:
    async with Database.open(chosen.url(), chosen.data_dir) as database:
        await database.migrate()
        async with chosen_judge(chosen, database, name=name) as judge:
            await _require_in_force(database, judge)
            pace = Pace(concurrency=concurrency or CONCURRENCY)
            typer.echo(f"judging as {judge.name} by rubric {judge.rubric}", err=True)
            await JudgeWorker(database, judge, pace=pace).run(asyncio.Event())


async def _require_in_force(database: Database, judge: Judge) -> None:
    """Refuse to wait for ever for traces that another judge is to judge."""
    async with database.session() as session:
        race = await session.scalar(
            select(Race).where(Race.state.not_in(("settled", "void"))).order_by(Race.number.desc()).limit(1)
        )
    if race is None or race.judge is None or (race.judge, race.rubric) == (judge.name, judge.rubric):
        return
    raise SettingsError(
        f"race {race.number} is judged by {race.judge} by rubric {race.rubric}, not by {judge.name} by "
        f"{judge.rubric}: give this worker the validator's judge.* settings and version"
    )


def _print(console: Console, half: str, found: Calibration, *, show_cases: bool) -> None:
    console.print(
        f"\n[bold]{escape(found.judge)}[/bold], rubric {found.rubric}, half {half}", highlight=False
    )
    figures = _table("cases", "n", "no answer", "exact", "kappa", "error", "abstained")
    for name, one in (("all", found.overall), *found.by_environment.items()):
        figures.add_row(name, *_figures(one))
    console.print(figures)
    gates = _table("gate", "passed by both", "by judge only", "by label only", "by neither")
    for gate in found.overall.gates:
        gates.add_row(gate.gate, *(str(count) for count in (gate.tp, gate.fp, gate.fn, gate.tn)))
    console.print(gates)
    injections = _table("injections", "n", "no answer", "moved", "raised", "off label")
    for shares in (found.injections, *found.by_family):
        injections.add_row(escape(shares.family), *_shares(shares))
    console.print(injections)
    console.print(
        f"{found.judged} judgements in {found.wall_s:.1f} s, {found.mean_s * 1000:.0f} ms each (slowest "
        f"{found.slowest_s * 1000:.0f} ms), {found.dollars:.4f} dollars",
        highlight=False,
    )
    if show_cases:
        mistakes = _table("case", "label", "judge", "why the label", "why the judge")
        for wrong in found.mistakes:
            row = (wrong.id, wrong.label, wrong.said or "no answer", wrong.label_why, wrong.judge_why)
            mistakes.add_row(*map(escape, row))
        console.print(mistakes)


def _table(first: str, *others: str) -> Table:
    table = Table(first)
    for name in others:
        table.add_column(name, justify="left" if name.startswith(("why", "label", "judge")) else "right")
    return table


def _figures(one: Agreement) -> list[str]:
    estimates = (one.exact, one.kappa, one.error, one.abstained)
    return [str(one.n), str(one.unanswered), *map(_estimate, estimates)]


def _shares(one: InjectionShares) -> list[str]:
    return [str(one.n), str(one.unanswered), *map(_estimate, (one.moved, one.raised, one.off_label))]


def _estimate(found: Estimate) -> str:
    if found.value is None:
        return "-"
    if found.low is None or found.high is None:
        return f"{found.value:.3f}"
    return escape(f"{found.value:.3f} [{found.low:.2f}, {found.high:.2f}]")
