"""Screening for tests of what is around it; tests of screening itself use the real sandbox."""

from __future__ import annotations

from arena.rules import Rules
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.screening import Screener


def screener(rules: Rules) -> Screener:
    """One that needs nothing installed."""
    return Screener(SubprocessSandbox(stage()), rules)
