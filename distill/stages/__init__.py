"""The training stages, by kind."""

from __future__ import annotations

from distill.stages.base import Stage
from distill.stages.sft import SupervisedFineTuning

STAGES: dict[str, type[Stage]] = {"sft": SupervisedFineTuning}
"""The stage of each kind that a configuration may name."""
