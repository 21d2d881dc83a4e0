"""The `arena` command. Errors that a user can meet are one sentence and exit status 2, never a traceback."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.console import Console
from rich.logging import RichHandler

from arena.sandbox.sandbox import SandboxUnavailable
from arena.scripted_shopper.child import ShopperNotStarted
from distill.backend import TrainingExtraMissing
from distill.corpus import CorpusChanged, CorpusTooSmall
from distill.pipeline import RunMismatch, TrainingFailed
from neurons.chain import ChainError
from neurons.commands import demo, distill, doctor, miner, problems, traces, validator
from neurons.demo.loop import RaceVoid
from neurons.demo.options import DemoMismatch, DemoRunning
from neurons.localnet.launch import LocalNetFailed
from neurons.localnet.metadata import MetadataUnavailable
from neurons.miner import SubmissionRefused, ValidatorUnreachable
from neurons.serving import PortTaken
from neurons.settings import SettingsError
from neurons.validator import NotSettled
from neurons.wallets import NotADemoChain, WalletMissing
from problems.importers import ImportFailed
from problems.shopping.synthesis import SynthesisError
from problems.shopping.world import WorldError
from storage.errors import StorageError

USER_ERRORS: tuple[type[Exception], ...] = (
    ChainError,
    CorpusChanged,
    CorpusTooSmall,
    DemoMismatch,
    DemoRunning,
    ImportFailed,
    LocalNetFailed,
    MetadataUnavailable,
    NotADemoChain,
    NotSettled,
    PortTaken,
    RaceVoid,
    RunMismatch,
    SandboxUnavailable,
    SettingsError,
    ShopperNotStarted,
    StorageError,
    SubmissionRefused,
    SynthesisError,
    TrainingExtraMissing,
    TrainingFailed,
    ValidatorUnreachable,
    WalletMissing,
    WorldError,
)
"""What may reach a user: each says what is wrong and what to do."""

app = typer.Typer(
    name="arena",
    help="Run a Bittensor agent arena and train a model from its judged traces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for module, name in (
    (validator, "validator"),
    (miner, "miner"),
    (problems, "problems"),
    (traces, "traces"),
    (distill, "distill"),
):
    app.add_typer(module.app, name=name)
app.command("demo")(demo.run)
app.command("doctor")(doctor.run)
app.command("worker")(validator.work)


@app.callback()
def configure(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what is being done.")] = False,
) -> None:
    """Options of every command come before its name."""
    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING,
        format="%(message)s",
        handlers=[RichHandler(console=Console(stderr=True), show_path=False)],
    )
    logging.getLogger("httpx").setLevel(logging.WARNING)


def main() -> None:
    """Console entry point."""
    console = Console(stderr=True)
    try:
        app(standalone_mode=True)
    except USER_ERRORS as error:
        console.print(f"[red]arena:[/red] {error}", markup=True, highlight=False)
        sys.exit(2)
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
        console.print("[red]arena:[/red] " + "; ".join(lines), highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("arena: stopped; start it again to go on")
        # The interpreter's own way out may wait for threads that wait for children.
        os._exit(130)


if __name__ == "__main__":
    main()
