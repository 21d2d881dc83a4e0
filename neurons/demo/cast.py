"""Who takes part in the demo: sample agents, each submitted by a miner of its own.

The cast is chosen to show every kind of trace and of fault: a model that drives, in three qualities; a script
that asks a model only to pick; a script without a model; one that crashes and one that cheats.
"""

from __future__ import annotations

from dataclasses import dataclass

from arena import samples


@dataclass(frozen=True, slots=True)
class Miner:
    """A miner: its wallet's name, its agent's name, the sample it submits, and the model it asks."""

    wallet: str
    agent: str
    sample: str
    model: str | None = None

    def source(self) -> bytes:
        """The file it submits."""
        return samples.source(self.sample, model=self.model)


FOUNDING_CHAMPION = Miner("miner-baseline", "baseline sub-task", "subtask")
"""Holds the top when the race begins; a race without a champion would have no test to show."""

CHALLENGERS = (
    Miner("miner-careful", "model-driven careful", "model_driven"),
    Miner("miner-openai", "openai package, noisy", "openai_package", "scripted-shopper-noisy"),
    Miner("miner-hasty", "model-driven hasty", "model_driven_hasty"),
    Miner("miner-script", "no model", "no_model"),
    Miner("miner-crash", "crashing", "crashing"),
    Miner("miner-cheat", "cheating", "cheating"),
)

MINERS = (FOUNDING_CHAMPION, *CHALLENGERS)
