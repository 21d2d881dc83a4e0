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


@dataclass(frozen=True, slots=True)
class Cast:
    """Everybody of one world. The founding champion holds the top when the race begins: a race without one
    would have no test to show."""

    founding_champion: Miner
    challengers: tuple[Miner, ...]

    @property
    def miners(self) -> tuple[Miner, ...]:
        """All of them, the champion first."""
        return (self.founding_champion, *self.challengers)


_FAULTY = (Miner("miner-crash", "crashing", "crashing"), Miner("miner-cheat", "cheating", "cheating"))

CASTS = {
    "shopping": Cast(
        Miner("miner-baseline", "baseline sub-task", "subtask"),
        (
            Miner("miner-careful", "model-driven careful", "model_driven"),
            Miner("miner-openai", "openai package, noisy", "openai_package", "scripted-shopper-noisy"),
            Miner("miner-hasty", "model-driven hasty", "model_driven_hasty"),
            Miner("miner-script", "no model", "no_model"),
            *_FAULTY,
        ),
    ),
    "ledger": Cast(
        Miner("miner-baseline", "no model", "ledger_script"),
        (
            Miner("miner-careful", "clerk careful", "ledger_clerk", "scripted-shopper-careful"),
            Miner("miner-noisy", "clerk noisy", "ledger_clerk", "scripted-shopper-noisy"),
            Miner("miner-hasty", "clerk hasty", "ledger_clerk", "scripted-shopper-hasty"),
            *_FAULTY,
        ),
    ),
}
"""By environment."""
