"""The demo's report for a person."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from arena.leaderboard import Board
from neurons.demo.report import DemoReport, NotTrained


def show(report: DemoReport, console: Console) -> None:
    """Print the report."""
    _show_problems(report, console)
    console.print(_board(report.qualifying, "Qualifying, on the public suite"))
    console.print(_board(report.race, "Race, on the hidden draw"))
    _show_promotion(report, console)
    console.print(_weights(report))
    _show_training(report, console)
    artefacts = _table("Where it all lies", "what", "path")
    for name, path in report.artefacts.items():
        artefacts.add_row(name, escape(str(path)))
    console.print(artefacts)
    console.print(f"Finished in {report.wall_s:.0f} s.")


def _show_problems(report: DemoReport, console: Console) -> None:
    problems, episodes = report.problems, report.episodes
    console.rule("[bold]The arena's report[/bold]")
    for name, count in problems.loaded.items():
        console.print(f"Loaded {count} tasks from {escape(name)}")
    for reason, count in problems.refused.items():
        console.print(f"Refused {count}: {escape(reason)}")
    console.print(
        f"Problems: {_counts(problems.public)} public; {_counts(problems.pool)} in the pool; "
        f"{_counts(problems.drawn)} drawn; {problems.catalog_products} {problems.records} to ask about"
    )
    console.print(
        f"Episodes: {_counts(episodes.verdicts)}; {episodes.retried} attempts retried; sandbox "
        f"{report.sandbox}; tool calls: {episodes.model_emitted_calls} model-emitted, "
        f"{episodes.scripted_calls} scripted"
    )
    console.print(f"Model: {report.model} (rules that stand in for a language model)")


def _board(board: Board, title: str) -> Table:
    table = _table(
        f"{title}; out: problems left out",
        "#",
        "agent",
        "outcome",
        "judge",
        "agency",
        "score",
        "n",
        "out",
        "tokens",
    )
    for row in board.rows:
        table.add_row(
            str(row.rank),
            escape(row.name) + (" (champion)" if row.champion else ""),
            *(f"{value:.3f}" for value in (row.solved, row.judge, row.agency, row.score)),
            str(row.n),
            str(row.left_out),
            f"{(row.prompt_tokens + row.completion_tokens) / 1000:,.0f}k",
        )
    return table


def _show_promotion(report: DemoReport, console: Console) -> None:
    promotion = report.promotion
    names = {row.agent: escape(row.name) for row in report.race.rows}
    table = _table(
        f"Promotion: margin {promotion['margin']:.3f}, alpha {promotion['alpha']:g} after Holm's correction",
        "challenger",
        "gain",
        "wins",
        "losses",
        "p",
        "adjusted",
        "test",
        "passes",
    )
    for challenge in promotion["challenges"]:
        table.add_row(
            names.get(challenge["challenger"], challenge["challenger"]),
            f"{challenge['mean_gain']:+.3f}",
            str(challenge["wins"]),
            str(challenge["losses"]),
            _p(challenge["p_value"]),
            _p(challenge["p_adjusted"]),
            "exact" if challenge["exact"] else "drawn",
            "yes" if challenge["passes"] else "no",
        )
    console.print(table)
    champion = names.get(promotion["champion"], "nobody")
    console.print(f"Champion: [bold]{champion}[/bold]. {escape(promotion['reason'])}")


def _weights(report: DemoReport) -> Table:
    weights = report.weights
    state = "confirmed" if weights.confirmed else "[red]NOT confirmed[/red]"
    table = _table(
        f"Weights on subnet {weights.netuid}, read back: {state}",
        "uid",
        "who",
        "sent",
        "read back",
    )
    for uid in sorted(weights.sent.keys() | weights.read_back.keys()):
        table.add_row(
            str(uid),
            escape(weights.holders.get(uid, "?")),
            str(weights.sent.get(uid, 0)),
            str(weights.read_back.get(uid, 0)),
        )
    return table


def _show_training(report: DemoReport, console: Console) -> None:
    training = report.training
    funnel = _table("Corpus funnel", "filter", "in", "dropped", "why")
    for stage in training.funnel["filters"]:
        why = ", ".join(f"{reason} {count}" for reason, count in stage["reasons"].items())
        funnel.add_row(stage["filter"], str(stage["in"]), str(stage["dropped"]), why)
    console.print(funnel)
    if isinstance(training, NotTrained):
        console.print(f"Not trained: {escape(training.reason)}")
        return
    rows, clusters = training.rows, training.clusters
    console.print(
        f"{training.funnel['kept']} of {training.funnel['in']} traces kept; "
        f"{rows['train']} training rows in {clusters['train']} leak clusters, "
        f"{rows['heldout']} held-out rows in {clusters['heldout']}"
    )
    model = _table("Tiny Qwen3 on the held-out side", "figure", "before", "after")
    before, after = training.before, training.after
    model.add_row("nats per completion token", _number(before["nll"]), _number(after["nll"]))
    for name, label in (
        ("valid_call", "answers: a valid call"),
        ("same_tool", "answers: the recorded tool"),
        ("same_call", "answers: the recorded call"),
    ):
        model.add_row(label, _share(before[name]), _share(after[name]))
    model.add_row("prompts answered", *(str(side["generations"]) for side in (before, after)))
    model.add_row(
        "rows scored / too long", *(f"{side['rows']} / {side['overlong']}" for side in (before, after))
    )
    console.print(model)


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left")
    for column in columns:
        wraps = column in ("why", "path", "agent", "challenger", "who")
        table.add_column(column, overflow="fold", no_wrap=not wraps, min_width=14 if wraps else None)
    return table


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items()) or "none"


def _p(value: float) -> str:
    return f"{value:.4f}" if value >= 1e-4 else f"{value:.0e}"


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.3f}"


def _share(share: dict[str, Any]) -> str:
    if share["share"] is None:
        return "none"
    return f"{share['share']:.2f} [{share['low']:.2f}, {share['high']:.2f}]"
