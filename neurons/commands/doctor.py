"""`arena doctor`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from itertools import groupby

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from neurons import settings
from neurons.commands import flags
from neurons.commands.flags import (
    ChainEndpoint,
    DatabaseUrl,
    DataDir,
    Json,
    Netuid,
    Network,
    WalletHotkey,
    WalletName,
    WalletPath,
)
from neurons.commands.validator import Models, ModelUrl
from neurons.doctor import Finding, examine
from neurons.settings import Settings

_SHOWN = {"fine": "[green]fine[/green]", "problem": "[red]PROBLEM[/red]", "left out": "left out"}


def run(
    netuid: Netuid = None,
    network: Network = None,
    chain_endpoint: ChainEndpoint = None,
    wallet_name: WalletName = None,
    wallet_hotkey: WalletHotkey = None,
    wallet_path: WalletPath = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    model_url: ModelUrl = None,
    models: Models = None,
    as_json: Json = False,
) -> None:
    """Check machine, wallet, chain and endpoints, and say what to do. Status 1 when there is a problem."""
    chosen = settings.load(
        {
            "data_dir": data_dir,
            "database_url": database_url,
            "chain": flags.chain(netuid, network, chain_endpoint),
            "wallet": {"name": wallet_name, "hotkey": wallet_hotkey, "path": wallet_path},
            "model": {"base_url": model_url, "models": tuple(models) if models else None},
        }
    )
    findings = asyncio.run(_findings(chosen))
    problems = sum(finding.state == "problem" for finding in findings)
    if as_json:
        checks = [asdict(finding) for finding in findings]
        typer.echo(json.dumps({"ok": not problems, "checks": checks}, indent=2))
    else:
        _show(findings)
    if problems:
        raise typer.Exit(1)


async def _findings(chosen: Settings) -> list[Finding]:
    found: list[Finding] = []
    with Console(stderr=True).status("looking") as status:
        async for finding in examine(chosen):
            found.append(finding)
            status.update(f"looking ({finding.check}: {finding.state})")
    return found


def _show(findings: list[Finding]) -> None:
    table = Table(show_lines=False)
    table.add_column("check", no_wrap=True)
    table.add_column("state", no_wrap=True)
    table.add_column("what was found, and what to do")
    for (state, detail, remedy), alike in groupby(findings, key=lambda f: (f.state, f.detail, f.remedy)):
        said = escape(detail)
        if remedy:
            said += f"\n[bold]{escape(remedy)}[/bold]"
        table.add_row("\n".join(finding.check for finding in alike), _SHOWN[state], said)
    Console().print(table)
