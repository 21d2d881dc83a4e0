"""What a demo is asked to do, and the folder it belongs to.

A data folder holds one demo: started again it goes on from where it was, and with other options it is
refused, because half of one race and half of another make neither.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from arena.rules import Rules, SandboxRules
from neurons.settings import ProblemSettings


class DemoMismatch(ValueError):
    """The data folder holds another demo."""


class DemoRunning(RuntimeError):
    """Another process runs the demo of this folder."""


class DemoOptions(BaseModel):
    """Everything that the result depends on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    environment: Literal["shopping", "ledger"] = "shopping"
    seed: int = 7
    problems: Path | None = None
    """A folder of ShoppingBench files, an ORO suite or a suite's folder; None: generated problems."""
    products: int = Field(default=3000, ge=200)
    """Size of the generated catalog."""
    public: int = Field(default=12, ge=3)
    """Problems of the public suite."""
    drawn: int = Field(default=24, ge=3)
    """Problems of the hidden draw."""
    netuid: int = Field(default=2, ge=1)

    @property
    def records(self) -> str:
        """What the problems are about, in words."""
        return {"shopping": "products", "ledger": "transactions"}[self.environment]

    def source(self) -> ProblemSettings:
        """What is played. The pool is several times the draw, so that the draw could not be known before."""
        return ProblemSettings(
            environment=self.environment,
            path=self.problems,
            seed=self.seed,
            products=self.products,
            pool=None if self.problems else 4 * self.drawn,
        )

    def rules(self) -> Rules:
        """The race's rules at the demo's size. Leases are short so that a killed demo goes on at once."""
        return Rules(
            public_size=self.public,
            drawn_size=self.drawn,
            lease_s=15.0,
            heartbeat_s=3.0,
            retry_backoff_s=2.0,
            entry_share=0.25,
            sandbox=SandboxRules(wall_s=60.0, cpu_s=30.0),
        )


@contextlib.contextmanager
def claimed(data_dir: Path, options: DemoOptions) -> Iterator[None]:
    """Hold the folder for this demo. Raises DemoRunning, DemoMismatch."""
    data_dir.mkdir(parents=True, exist_ok=True)
    lock = os.open(data_dir / "demo.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise DemoRunning(
                f"a demo runs in {data_dir} already; wait for it or choose another --data-dir"
            ) from None
        _settle_options(data_dir / "demo.json", options)
        yield
    finally:
        os.close(lock)


def _settle_options(file: Path, options: DemoOptions) -> None:
    if not file.exists():
        aside = file.with_suffix(".new")
        aside.write_text(options.model_dump_json(indent=1))
        aside.replace(file)
        return
    try:
        earlier = DemoOptions.model_validate_json(file.read_text())
    except ValidationError:
        raise DemoMismatch(f"{file} was written by another version; choose another --data-dir") from None
    if earlier != options:
        differing = [n for n in DemoOptions.model_fields if getattr(earlier, n) != getattr(options, n)]
        raise DemoMismatch(
            f"{file.parent} holds a demo with another {', '.join(differing)}: "
            "give the same options to go on with it, or choose another --data-dir"
        )
