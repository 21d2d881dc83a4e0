"""What a person sees of the demo while it runs: one line for each part of the loop.

On a terminal the lines move; elsewhere (a log, a pipe) each is printed when its part is done.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)


class Part:
    """One part of the loop, being done."""

    def __init__(self, screen: Screen, name: str) -> None:
        self._screen = screen
        self._name = name
        self._note = ""
        self._began = time.monotonic()
        self._task = screen.progress.add_task(escape(name), total=None, note="")

    def say(self, note: str) -> None:
        """Say what is going on."""
        self._note = note
        self._screen.progress.update(self._task, note=escape(note))

    def count(self, done: float, total: float) -> None:
        """Say how far it is."""
        self._screen.progress.update(self._task, completed=done, total=total)

    def end(self, mark: str) -> None:
        """Fold the line."""
        self._screen.progress.remove_task(self._task)
        seconds = time.monotonic() - self._began
        self._screen.console.print(
            f"{mark} [bold]{escape(self._name)}[/bold] {escape(self._note)} [dim]{seconds:.1f} s[/dim]",
            soft_wrap=True,
        )


class Screen:
    """A context manager; use `part` for each part of the loop."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.progress = Progress(
            SpinnerColumn(),
            TextColumn("[bold]{task.description}[/bold]"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}[/dim]"),
            console=console,
            disable=not console.is_terminal,
        )

    def __enter__(self) -> Self:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.progress.stop()

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[Part]:
        """One part; its last note stays on the screen, with a cross when it failed."""
        part = Part(self, name)
        try:
            yield part
        except BaseException:
            part.end("[red]✗[/red]")
            raise
        part.end("[green]✓[/green]")
