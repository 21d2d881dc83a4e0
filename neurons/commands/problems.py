"""`arena problems`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from neurons.commands.flags import Json
from neurons.problem_suites import (
    GenerateOptions,
    Made,
    VerbaliserOptions,
    audited,
    generate_suite,
    import_suite,
)
from problems.golden import score_file
from problems.shopping.audit import Audit
from problems.shopping.levels import CATEGORIES, DIFFICULTIES

app = typer.Typer(help="Make, import and check problems, and score by their rules.", no_args_is_help=True)

Out = Annotated[Path, typer.Option("--out", help="Where the suite goes: a folder that is not there yet.")]
CatalogFolder = Annotated[
    Path | None, typer.Option("--catalog", help="A catalog's folder.", exists=True, file_okay=False)
]
Seed = Annotated[int, typer.Option(help="The same seed gives the same problems.")]

_SHOWN = 20
"""Findings that are listed unless all are asked for."""


@app.command("generate")
def generate(
    out: Out,
    catalog: CatalogFolder = None,
    products: Annotated[
        int | None, typer.Option(min=50, help="Generate a catalog of so many products, kept in the suite.")
    ] = None,
    seed: Seed = 1,
    count: Annotated[int, typer.Option(min=1, help="Problems in all, dealt evenly over categories.")] = 100,
    categories: Annotated[
        str, typer.Option(help=f"Of {', '.join(CATEGORIES)}; web needs --knowledge.")
    ] = "product,shop,voucher",
    difficulty: Annotated[
        str, typer.Option(help=f"Of {', '.join(DIFFICULTIES)}; without it, in ShoppingBench's shares.")
    ] = "",
    knowledge: Annotated[
        Path | None,
        typer.Option(help='Facts for web problems: JSON Lines of {"question", "answer", "content"}.'),
    ] = None,
    exhaustive_sort: Annotated[
        bool, typer.Option("--exhaustive-sort", help="Searches sort all matches, not the 50 best alone.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes; without it, one a CPU.")] = None,
    llm_base_url: Annotated[
        str | None,
        typer.Option("--llm.base-url", help="Write queries by this OpenAI-compatible endpoint."),
    ] = None,
    llm_model: Annotated[str | None, typer.Option("--llm.model", help="The model that writes.")] = None,
    llm_reader: Annotated[
        str | None, typer.Option("--llm.reader", help="The model that reads back; else the same.")
    ] = None,
    llm_tries: Annotated[int, typer.Option("--llm.tries", min=1, help="Tries a problem.")] = 3,
    llm_refuse: Annotated[
        bool,
        typer.Option("--llm.refuse", help="Leave out what cannot be read back; else it keeps its template."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make certified problems from a catalog, and write them as a suite."""
    llm = None
    if llm_base_url is not None:
        llm = VerbaliserOptions(llm_base_url, llm_model, llm_reader, llm_tries, llm_refuse)
    options = GenerateOptions(
        out=out,
        catalog=catalog,
        products=products,
        seed=seed,
        count=count,
        categories=_listed(categories),
        difficulties=_listed(difficulty),
        knowledge=knowledge,
        exhaustive_sort=exhaustive_sort,
        workers=workers,
        llm=llm,
    )
    with _progress("problems", count) as progress:
        made = asyncio.run(generate_suite(options, lambda done: progress.update(_FIRST, completed=done)))
    _tell(made, as_json)


@app.command("import")
def import_released(
    path: Annotated[
        Path, typer.Argument(help="A folder of ShoppingBench's files, or an ORO suite.", exists=True)
    ],
    out: Out,
    catalog: CatalogFolder = None,
    snippets: Annotated[
        Path | None,
        typer.Option(help="What web_search finds: JSON Lines of {url, title, content}.", dir_okay=False),
    ] = None,
    seed: Seed = 1,
    as_json: Json = False,
) -> None:
    """Bring released tasks into a suite, over a catalog rebuilt around them or a given one."""
    _tell(import_suite(path, out, catalog=catalog, snippets=snippets, seed=seed), as_json)


@app.command("audit")
def run_audit(
    path: Annotated[
        Path,
        typer.Argument(help="A suite's folder, ShoppingBench's files, or an ORO suite.", exists=True),
    ],
    catalog: CatalogFolder = None,
    against: Annotated[
        Path | None, typer.Option(help="Count leak clusters shared with these problems.", exists=True)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="List every finding.")] = False,
    as_json: Json = False,
) -> None:
    """Check every problem of a suite again, and report what is wrong; exit status 1 when something is."""
    found = audited(path, catalog=catalog, against=against)
    if as_json:
        typer.echo(json.dumps(_audit_json(found), indent=2))
    else:
        _print_audit(found, every=every)
    if found.findings:
        raise typer.Exit(1)


@app.command("score")
def score(
    file: Annotated[
        Path, typer.Argument(help="Scored answers, one JSON object a line.", exists=True, dir_okay=False)
    ],
    as_json: Json = False,
) -> None:
    """Score every answer in FILE by the rules, and say how many match the expected scores."""
    report = score_file(file)
    if as_json:
        typer.echo(json.dumps(asdict(report), indent=2))
    else:
        for mismatch in report.mismatches:
            typer.echo(
                f"{mismatch.case_id}: {mismatch.component} should be {mismatch.expected}, is {mismatch.got}"
            )
        typer.echo(f"{report.matched} of {report.total} match")
    if report.matched != report.total:
        raise typer.Exit(1)


_FIRST: Any = 0
"""The one task of a progress bar."""


def _progress(what: str, total: int) -> Progress:
    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
    bar.add_task(what, total=total)
    return bar


def _listed(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def _tell(made: Made, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(made.to_json(), indent=2))
        return
    manifest = made.manifest
    typer.echo(f"{manifest.problems} problems in {made.folder}, suite {made.suite_id[:12]}")
    typer.echo("categories:   " + _counts(manifest.categories))
    if manifest.difficulties:
        typer.echo("difficulties: " + _counts(manifest.difficulties))
    typer.echo(f"catalog:      {made.catalog_size} products, {manifest.catalog_id[:12]}")
    typer.echo(f"scorer:       {manifest.scorer}, environment {manifest.environment_version}")
    if made.per_minute is not None:
        typer.echo(f"made:         {made.per_minute:,.0f} a minute")
    for what, number in made.notes.items():
        typer.echo(f"{number} times: {what}")
    for name, reason in made.refused[:_SHOWN]:
        typer.echo(f"refused {name}: {reason}")
    if len(made.refused) > _SHOWN:
        typer.echo(f"and {len(made.refused) - _SHOWN} more refused; --json names them all")


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in counts.items())


def _audit_json(found: Audit) -> dict[str, Any]:
    return {"counts": found.counts(), "defective": found.defective, **asdict(found)}


def _print_audit(found: Audit, *, every: bool) -> None:
    console = Console(width=None if Console().is_terminal else 120)
    grid = Table(title=f"{found.problems} problems: {_counts(found.categories)}", title_justify="left")
    grid.add_column("defect")
    grid.add_column("problems", justify="right")
    for defect, number in found.counts().items():
        grid.add_row(defect, str(number))
    grid.add_section()
    grid.add_row("any of these", str(found.defective))
    console.print(grid)
    for defect in found.unchecked:
        console.print(f"not checked without a catalog: {defect}", highlight=False)
    shared = "" if found.clusters_shared is None else f"; {found.clusters_shared} shared with the other set"
    console.print(
        f"{found.clusters} leak clusters; {found.clustered} problems share one with another, the largest "
        f"holds {found.largest_cluster}, {found.clusters_across_categories} span categories{shared}",
        highlight=False,
    )
    listed = found.findings if every else found.findings[:_SHOWN]
    for finding in listed:
        detail = f" ({finding.detail})" if finding.detail else ""
        console.print(escape(f"{finding.problem}: {finding.defect}{detail}"), highlight=False)
    if len(listed) < len(found.findings):
        console.print(f"and {len(found.findings) - len(listed)} more; --all lists them", highlight=False)
