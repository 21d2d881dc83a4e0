"""The parts of a process that live and die together.

A part that fails is started again, after a pause that grows, a bounded number of times; then the whole
program ends and says which part it was, for a supervisor to start it anew. What no restart can mend ends it
at once. So it never runs half alive: taking submissions, say, that nobody will race.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

_log = logging.getLogger(__name__)


class PartFailed(RuntimeError):
    """A part of the program failed again and again; the message names it and its last failure."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How often a part may fail, and how long to wait before it is started again (seconds)."""

    failures: int = 5
    within_s: float = 900.0
    first_pause_s: float = 1.0
    most_pause_s: float = 60.0


@dataclass(slots=True)
class Part:
    """Something that runs for as long as the program does. `failures` counts those so far."""

    name: str
    run: Callable[[], Awaitable[None]]
    failures: int = field(default=0, init=False)


async def together(
    parts: Sequence[Part],
    *,
    fatal: Callable[[Exception], bool] = lambda _: False,
    patience: Patience = Patience(),  # frozen
) -> None:
    """Run all parts until cancelled, or until one cannot go on.

    Raises PartFailed when a part failed too often, and what `fatal` holds for such, as it is.
    """
    with single_failure():
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(_kept_running(part, fatal, patience), name=part.name)


@contextmanager
def single_failure() -> Iterator[None]:
    """Let the one error of a task group escape as it is; several stay a group."""
    try:
        yield
    except BaseExceptionGroup as broken:
        if len(broken.exceptions) > 1:
            raise
        raise broken.exceptions[0] from None


async def _kept_running(part: Part, fatal: Callable[[Exception], bool], patience: Patience) -> None:
    loop = asyncio.get_running_loop()
    recent: deque[float] = deque()
    while True:
        try:
            await part.run()
            raise RuntimeError("it ended, and should not have")
        except Exception as error:  # the boundary of a part
            if fatal(error):
                raise
            part.failures += 1
            recent.append(loop.time())
            while recent[0] < loop.time() - patience.within_s:
                recent.popleft()
            said = f"{type(error).__name__}: {error}"
            if len(recent) > patience.failures:
                raise PartFailed(
                    f"{part.name} failed {len(recent)} times within {patience.within_s:.0f} s, at last with "
                    f"{said}; the program ends, so that it can be started anew"
                ) from error
            pause = min(patience.most_pause_s, patience.first_pause_s * 2.0 ** (len(recent) - 1))
            _log.exception("%s failed (%s); starting it again in %.0f s", part.name, said, pause)
            await asyncio.sleep(pause)
