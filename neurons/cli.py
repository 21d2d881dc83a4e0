"""The `arena` command. Errors that a user can meet are one sentence and exit status 2, never a traceback."""

from __future__ import annotations

import logging
import os
import sys
from typing import Annotated, NoReturn

import typer
from bittensor_core import KeyfileError
from pydantic import ValidationError
from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text
from sqlalchemy.exc import SQLAlchemyError

from arena.sandbox.sandbox import SandboxUnavailable
from arena.scripted_shopper.child import ShopperNotStarted
from distill.backend import TrainingExtraMissing
from distill.corpus import CorpusChanged, CorpusTooSmall
from distill.pipeline import RunMismatch, TrainingFailed
from neurons.chain import ChainError, ChainUnavailable
from neurons.commands import demo, distill, doctor, miner, problems, traces, validator
from neurons.demo.loop import RaceVoid
from neurons.demo.options import DemoMismatch, DemoRunning
from neurons.localnet.launch import LocalNetFailed
from neurons.localnet.metadata import MetadataUnavailable
from neurons.miner import SubmissionRefused, ValidatorUnreachable
from neurons.serving import PortTaken
from neurons.settings import SettingsError, explained
from neurons.validator import NotSettled
from neurons.wallets import NotADemoChain, WalletMissing
from problems.golden import GoldenFileError
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
    GoldenFileError,
    ImportFailed,
    KeyfileError,
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

_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

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
    console = Console(stderr=True)
    shown: logging.Handler = logging.StreamHandler()
    form = "%(asctime)s %(levelname)s %(message)s"
    if console.is_terminal:
        shown, form = RichHandler(console=console, show_path=False), "%(message)s"
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=form, handlers=[shown])
    # What a validator did is told without being asked for; what libraries do is not.
    logging.getLogger("neurons").setLevel(logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)


def main() -> None:
    """Console entry point."""
    try:
        app()
    except ChainUnavailable as error:
        _fail(f"{error}; check --subtensor.network, or try again later")
    except USER_ERRORS as error:
        _fail(str(error))
    except ValidationError as error:
        _fail(explained(error))
    except SQLAlchemyError as error:
        # Only its first line: the others quote the statement and its parameters.
        _fail(f"the database did not do what was asked: {str(error).partition(chr(10))[0]}")
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}")
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            print("arena: stopped; start it again to go on", file=sys.stderr, flush=True)  # noqa: T201
            # The interpreter's own way out may wait for threads that wait for children.
            os._exit(_INTERRUPTED)
        raise


def _fail(message: str) -> NoReturn:
    # Text, because a path or a miner's name may hold what rich takes for markup.
    Console(stderr=True).print(Text.assemble(("arena: ", "red"), message), soft_wrap=True)
    sys.exit(2)


if __name__ == "__main__":
    main()
