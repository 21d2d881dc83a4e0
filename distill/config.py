"""The configuration of a distillation run, as a YAML file holds it. Unknown keys are errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from distill.corpus import CorpusConfig


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TinyModel(_Section):
    """A Qwen3 small enough for a CPU, with a tokenizer made from the training rows."""

    vocabulary: int = Field(default=2048, ge=320)
    """Upper bound of the vocabulary."""
    hidden: int = Field(default=64, ge=16)
    layers: int = Field(default=2, ge=1)
    heads: int = Field(default=4, ge=2)
    positions: int = Field(default=4096, ge=128)
    """Longest sequence, in tokens."""


class Lora(_Section):
    """Low-rank adapters (Hu et al. 2021, arXiv 2106.09685), merged into the model after each stage."""

    r: int = Field(default=16, ge=1)
    alpha: int = Field(default=32, ge=1)
    dropout: float = Field(default=0.0, ge=0.0, lt=1.0)
    targets: str | tuple[str, ...] = "all-linear"


class ModelConfig(_Section):
    """The base model: a folder, a name on the Hugging Face hub, or a tiny one to be made."""

    path: str | None = None
    allow_download: bool = False
    """Whether `path` may name a model on the hub. Without it nothing touches the network."""
    tiny: TinyModel | None = None
    dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    lora: Lora | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.path is None) == (self.tiny is None):
            raise ValueError("give exactly one of model.path and model.tiny")
        return self


class StageConfig(_Section):
    """One training stage. `args` go to the trainer's configuration; an unknown one is refused."""

    kind: Literal["sft"] = "sft"
    on_overlong: Literal["drop", "fail"] = "drop"
    """What to do with rows of more than `args.max_length` tokens; dropped ones are counted."""
    args: dict[str, Any] = {}


class EvaluationConfig(_Section):
    """How the held-out side is measured."""

    rows: int = Field(default=200, ge=1)
    """At most so many held-out rows are scored."""
    generations: int = Field(default=64, ge=0)
    """At most so many held-out prompts are answered, greedily."""
    max_new_tokens: int = Field(default=256, ge=1)
    max_length: int = Field(default=2048, ge=16)
    """Longer rows, in tokens, are left out and counted."""
    batch_size: int = Field(default=16, ge=1)


class DistillConfig(_Section):
    """A whole run: corpus, base model, stages in order, evaluation before the first and after each."""

    name: str
    seed: int = 0
    corpus: CorpusConfig = CorpusConfig()
    model: ModelConfig
    stages: tuple[StageConfig, ...] = (StageConfig(),)
    evaluation: EvaluationConfig = EvaluationConfig()
    processes: int = Field(default=1, ge=1)
    """Training processes on this host, one an accelerator. More than one are started with torchrun."""
    timeout_s: float = Field(default=3600.0, gt=0)
    """Longest time for all of training and evaluation, in seconds."""


def read_config(path: Path) -> DistillConfig:
    """Read a YAML configuration.

    Raises pydantic.ValidationError, which names each bad key, or TrainingExtraMissing without PyYAML.
    """
    from distill.backend import require_training

    require_training("yaml")
    import yaml  # type: ignore[import-untyped, unused-ignore]

    return DistillConfig.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")))
