"""Who takes part in the demo: sample agents, each submitted by a miner of its own.

The cast is chosen to show every kind of trace and of fault: a model that drives, a script that asks a model
only to pick, a script without a model, one that crashes and one that cheats.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources


@dataclass(frozen=True, slots=True)
class Miner:
    """A miner of the demo: its wallet's name, its agent's name, and the sample it submits."""

    wallet: str
    agent: str
    sample: str

    def source(self) -> bytes:
        """The file it submits."""
        return resources.files("arena.samples").joinpath(self.sample).read_bytes()


FOUNDING_CHAMPION = Miner("miner-baseline", "baseline sub-task", "subtask.py")
"""Holds the top when the race begins; a race without a champion would have no test to show."""

CHALLENGERS = (
    Miner("miner-careful", "model-driven careful", "model_driven.py"),
    Miner("miner-openai", "openai package", "openai_package.py"),
    Miner("miner-hasty", "model-driven hasty", "model_driven_hasty.py"),
    Miner("miner-script", "no model", "no_model.py"),
    Miner("miner-crash", "crashing", "crashing.py"),
    Miner("miner-cheat", "cheating", "cheating.py"),
)

MINERS = (FOUNDING_CHAMPION, *CHALLENGERS)
