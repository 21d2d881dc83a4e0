"""`arena catalog`."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from neurons.commands.flags import Json
from problems.shopping import documents
from problems.shopping.catalog import Catalog
from problems.shopping.generator import GENERATOR, generate

app = typer.Typer(help="The products that problems are about.", no_args_is_help=True)

Out = Annotated[
    Path, typer.Option("--out", help="The folder to write; there must be no other catalog in it.")
]


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(help="ShoppingBench's documents.jsonl or .jsonl.gz.", exists=True, dir_okay=False),
    ],
    out: Out = Path("catalog"),
    max_bad_share: Annotated[
        float, typer.Option(help="The share of lines that may be no product.", min=0, max=1)
    ] = documents.MAX_BAD_SHARE,
    as_json: Json = False,
) -> None:
    """Make a catalog of FILE. An import that was stopped goes on where it was when it is started again."""
    began = time.monotonic()
    with _bar() as bar:
        task = bar.add_task("opening", total=None)

        def show(at: documents.Progress) -> None:
            said = f"{at.stage}, {at.products:,} products" if at.products else at.stage
            bar.update(task, description=said, completed=at.done, total=at.total or None)

        imported = documents.import_documents(file, out, max_bad_share=max_bad_share, progress=show)
    _tell(
        _facts(imported.catalog) | {"lines": imported.lines, "first_bad": imported.first_bad} | _cost(began),
        as_json,
    )


@app.command("build")
def build(
    products: Annotated[int, typer.Option(help="How many products.", min=1)] = 3_000,
    seed: Annotated[int, typer.Option(help="What to make them from.")] = 1,
    out: Out = Path("catalog"),
    as_json: Json = False,
) -> None:
    """Generate a catalog. The same seed and size give the same catalog on every machine."""
    began = time.monotonic()
    with _bar() as bar:
        made = bar.track(generate(seed, products), total=products, description="making products")
        catalog = Catalog.build(out, made)
    _tell(_facts(catalog) | {"generator": GENERATOR, "seed": seed} | _cost(began), as_json)


@app.command("show")
def show(
    directory: Annotated[Path, typer.Argument(help="The catalog.")] = Path("catalog"),
    find: Annotated[str | None, typer.Option(help="Also search for these words.")] = None,
    as_json: Json = False,
) -> None:
    """What a catalog holds, and what a search in it finds."""
    catalog = Catalog.open(directory)
    facts = _facts(catalog)
    if find is not None:
        facts["found"] = [listing._asdict() for listing in catalog.search(find)]
    _tell(facts, as_json)


@contextmanager
def _bar() -> Iterator[Progress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        yield bar


def _facts(catalog: Catalog) -> dict[str, Any]:
    return {
        "catalog": str(catalog.directory),
        "catalog_id": catalog.catalog_id,
        "products": catalog.size,
        "left_out": catalog.left_out,
        "index_bytes": _bytes_of(catalog.directory / "index"),
        "total_bytes": _bytes_of(catalog.directory),
    }


def _cost(began: float) -> dict[str, Any]:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "seconds": round(time.monotonic() - began, 2),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 2),
        "peak_memory_bytes": used.ru_maxrss * 1024,
    }


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _tell(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(facts, indent=2))
        return
    for name, value in facts.items():
        match value:
            case int() if name.endswith("_bytes"):
                typer.echo(f"{name.removesuffix('_bytes').replace('_', ' ')}: {value / 1e6:,.1f} MB")
            case int() if name in ("products", "lines"):
                typer.echo(f"{name}: {value:,}")
            case int() if name == "left_out" and value:
                typer.echo(f"left out: {value:,} lines; {facts['catalog']}/{documents.BAD_LINES} names them")
            case tuple():
                for line in value:
                    typer.echo(f"  {line}")
            case list():
                for product in value:
                    typer.echo(f"  {product['product_id']}  {product['price']:>10,.2f}  {product['title']}")
            case _:
                typer.echo(f"{name.replace('_', ' ')}: {value}")
