"""`arena sandbox`: make, try and show what agents run in."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from arena.sandbox.bubblewrap import bubblewrap_sandbox
from arena.sandbox.docker import docker_sandbox
from arena.sandbox.packages import differences, locked
from arena.sandbox.probe import Probe
from arena.sandbox.sandbox import BACKENDS, BackendName, Sandbox, SandboxUnavailable
from arena.sandbox.slots import quarantined_here
from arena.sandbox.staging import StagedPython, stage
from arena.sandbox.terms import terms
from neurons import settings
from neurons.commands.flags import Json

app = typer.Typer(no_args_is_help=True, help="What agents run in: make it, try it, show it.")
Backend = Annotated[
    BackendName, typer.Option("--backend", help="bubblewrap, docker, or auto: all that are here.")
]
_MIB = 1 << 20


@app.command()
def build(
    backend: Backend = "auto",
    any_version: Annotated[
        bool, typer.Option("--any-version", help="Stage packages in other versions than the locked ones.")
    ] = False,
) -> None:
    """Stage the agents' Python and packages; for Docker import the image too, and say its digest."""
    console = Console(stderr=True)
    began = time.monotonic()
    with console.status("staging a Python for agents"):
        staged = stage(packages=settings.load().sandbox.packages)
    differ = differences(staged.packages)
    if differ and not any_version:
        raise SandboxUnavailable(
            "The packages installed here are not those that agents are promised: "
            f"{'; '.join(differ)}. Install those, or pass --any-version on a machine of your own."
        )
    typer.echo(f"Python {staged.python_version}, {len(staged.packages)} packages: {staged.packages_folder}")
    if backend == "docker" or (backend == "auto" and _docker_is_here()):
        with console.status("importing an image into Docker"):
            image = asyncio.run(docker_sandbox(staged)).image
        typer.echo(f"Docker image {image}")
    console.print(f"done in {time.monotonic() - began:.1f} s")


@app.command()
def probe(backend: Backend = "auto", as_json: Json = False) -> None:
    """Run a canary that tries what agents must not do, in each backend. Status 1 where none holds."""
    found = asyncio.run(_probes(backend, show=not as_json))
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    if not any(isinstance(each, dict) and each.get("ok") for each in found.values()):
        raise typer.Exit(1)


@app.command()
def show(as_json: Json = False) -> None:
    """Show what agents have: Python, packages and their versions, limits, slots out of use.

    With --json each limit says also what binds it, and how it is known that it was hit.
    """
    chosen = settings.load()
    staged = stage(packages=chosen.sandbox.packages)
    limits = list(terms(chosen.rules))
    quarantined = quarantined_here()
    if as_json:
        shown: dict[str, Any] = {
            "python": staged.python_version,
            "packages": staged.packages,
            "locked": locked(),
            "differences": differences(staged.packages),
            "limits": [asdict(limit) for limit in limits],
            "quarantined": [asdict(each) for each in quarantined],
        }
        typer.echo(json.dumps(shown, indent=2))
        return
    console = Console()
    packages = ", ".join(f"{name} {version}" for name, version in sorted(staged.packages.items()))
    console.print(f"Python {staged.python_version} with {escape(packages)}")
    for difference in differences(staged.packages):
        console.print(f"[red]{escape(difference)}[/red]")
    table = Table(title="limits of an episode", title_justify="left")
    table.add_column("limit", no_wrap=True)
    table.add_column("value", no_wrap=True)
    for column in ("counts", "ends the agent"):
        table.add_column(column)
    for limit in limits:
        value = f"{limit.value / _MIB:g} MiB" if _is_mib(limit.value, limit.unit) else f"{limit.value:g}"
        unit = "" if value.endswith("MiB") else f" {limit.unit}"
        ends = "yes" if limit.ends else "if it then fails"
        table.add_row(limit.name, value + unit, limit.counts, ends)
    console.print(table)
    for each in quarantined:
        console.print(f"[red]uid {each.uid} is quarantined: {escape(each.why)}[/red]")


def _is_mib(value: float, unit: str) -> bool:
    return unit == "bytes" and value >= _MIB and value % _MIB == 0


def _docker_is_here() -> bool:
    from arena.sandbox.engine import engine_socket

    return engine_socket() is not None


async def _probes(backend: BackendName, *, show: bool) -> dict[str, Any]:
    staged = await asyncio.to_thread(stage, packages=settings.load().sandbox.packages)
    found: dict[str, Any] = {}
    for name in BACKENDS if backend == "auto" else (backend,):
        try:
            held = await (await _backend(name, staged)).probe()
        except SandboxUnavailable as error:
            found[name] = {"ok": False, "unavailable": str(error)}
            if show:
                Console(stderr=True).print(f"{name}: {escape(str(error))}")
            continue
        found[name] = asdict(held)
        if show:
            Console().print(probe_table(name, held))
    return found


async def _backend(name: Literal["bubblewrap", "docker"], staged: StagedPython) -> Sandbox:
    return await (bubblewrap_sandbox(staged) if name == "bubblewrap" else docker_sandbox(staged))


def probe_table(name: str, probe: Probe) -> Table:
    """A probe as `arena sandbox probe` prints it."""
    table = Table(title=f"{name}: {'holds' if probe.ok else 'DOES NOT HOLD'}", title_justify="left")
    for column in ("check", "holds", "detail"):
        table.add_column(column)
    for check in probe.checks:
        table.add_row(check.name, "yes" if check.ok else "[red]NO[/red]", escape(check.detail))
    return table
