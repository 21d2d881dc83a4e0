"""The `arena` command. Errors that a user can meet are one sentence, never a traceback. Status 2 means that
somebody must change something, 75 that a supervisor should start the command anew.

A command's module is imported when that command is given: whoever asks for help, or exports traces, does not
wait for what only a validator needs.
"""

from __future__ import annotations

import logging
import os
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.logging import RichHandler
from rich.text import Text
from typer.core import TyperGroup

COMMANDS = {
    "validator": ("validator", None, "Run a validator."),
    "miner": ("miner", None, "Register, try out and submit an agent."),
    "problems": ("problems", None, "Make, import and check problems, and score by their rules."),
    "catalog": ("catalog", None, "The products that problems are about."),
    "traces": ("traces", None, "The store of judged traces."),
    "race": ("race", None, "Races: what became of them, and whether it follows from the record."),
    "episode": ("episode", None, "One episode: what happened in it, and whether it happens again."),
    "submissions": ("submissions", None, "What becomes of what miners send."),
    "judge": ("judge", None, "Measure judges, and judge stored traces."),
    "distill": ("distill", None, "From stored traces to a trained model."),
    "localnet": ("localnet", None, "A local chain that the Bittensor SDK and btcli talk to."),
    "demo": ("demo", "run", "The whole loop on this machine."),
    "sandbox": ("sandbox", None, "What agents run in: make it, try it, show it."),
    "doctor": ("doctor", "run", "Check machine, wallet, chain and endpoints, and say what to do."),
    "worker": ("validator", "work", "Play episodes for a validator whose database this reaches."),
}
"""By name: the module in `neurons.commands`, the function in it (None: all of its `app`), and a summary."""

_INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""


class _OnDemand(TyperGroup):
    """Lists commands by their summaries, and puts the real one in place of the one that was given."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, stub, rest = super().resolve_command(ctx, args)
        return name, stub if name is None else command(name), rest


app = typer.Typer(
    cls=_OnDemand,
    name="arena",
    help="Run a Bittensor agent arena and train a model from its judged traces.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


def command(name: str) -> Any:
    """A command of `COMMANDS`, imported."""
    module, function, _ = COMMANDS[name]
    found = import_module(f"neurons.commands.{module}")
    if function is None:
        return typer.main.get_group(found.app)
    alone = typer.Typer(add_completion=False)
    alone.command(name)(getattr(found, function))
    return typer.main.get_command(alone)


def _summary() -> None:
    raise AssertionError("a summary stands for a command and is never called")


for _name, _command in COMMANDS.items():
    app.command(_name, help=_command[2])(_summary)


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
    except SystemExit as ended:
        if ended.code == _INTERRUPTED:
            print("arena: stopped; start it again to go on", file=sys.stderr, flush=True)  # noqa: T201
            # The interpreter's own way out may wait for threads that wait for children.
            os._exit(_INTERRUPTED)
        raise
    except Exception as error:  # the boundary to the user
        from neurons.user_errors import explanation, status

        told = explanation(error)
        if told is None:
            raise
        _fail(told, status(error))


def _fail(message: str, status: int) -> NoReturn:
    # Text, because a path or a miner's name may hold what rich takes for markup.
    Console(stderr=True).print(Text.assemble(("arena: ", "red"), message), soft_wrap=True)
    sys.exit(status)


if __name__ == "__main__":
    main()
