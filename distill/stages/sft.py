"""Supervised fine-tuning on per-step rows, with TRL's SFTTrainer and loss on completions only.

The trainer is never trusted to keep the data: rows are counted and measured before it sees them, and the
number of rows and of trained tokens that it is about to use must be the ones that were counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from distill import templates
from distill.config import Lora
from distill.stages.base import Stage, StageFailed, StageInput
from distill.templates import END_OF_TURN
from distill.views import StepRow

OWN_ARGS = frozenset(
    {
        "output_dir",
        "seed",
        "data_seed",
        "packing",
        "eval_packing",
        "completion_only_loss",
        "assistant_only_loss",
        "dataset_kwargs",
        "dataset_text_field",
        "chat_template_path",
        "truncation_mode",
        "model_init_kwargs",
        "eos_token",
        "pad_token",
    }
)
"""What a configuration may not pass: the stage sets these, or its guarantees would not hold."""

_DEFAULTS: dict[str, Any] = {
    "report_to": "none",
    "save_strategy": "no",
    "logging_strategy": "epoch",
    "disable_tqdm": True,
    "max_length": 2048,
}


class UnknownArgument(ValueError):
    """A stage's `args` hold what its trainer does not know, or what the stage sets itself."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Rows that fit, with their prompt and completion lengths in tokens."""

    rows: tuple[StepRow, ...]
    prompt_tokens: int
    completion_tokens: int
    longest: int
    overlong: int


class SupervisedFineTuning(Stage):
    """`kind: sft`."""

    kind = "sft"

    def train(self, found: StageInput) -> dict[str, Any]:
        """See Stage. Raises UnknownArgument, StageFailed."""
        from transformers.trainer_utils import get_last_checkpoint

        trainer, measured = self.trainer(found)
        checkpoints = self.context.folder / "checkpoints"
        last = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
        result = trainer.train(resume_from_checkpoint=last)
        trainer.save_model(str(self.context.folder / "trained"))
        return {
            "rows": len(measured.rows),
            "overlong": measured.overlong,
            "prompt_tokens": measured.prompt_tokens,
            "completion_tokens": measured.completion_tokens,
            "longest_row_tokens": measured.longest,
            "steps": trainer.state.global_step,
            "train_loss": result.training_loss,
            "losses": [entry["loss"] for entry in trainer.state.log_history if "loss" in entry],
            "train_s": round(result.metrics["train_runtime"], 2),
            "processes": self.context.processes,
        }

    def trainer(self, found: StageInput) -> tuple[Any, Measured]:
        """The SFTTrainer, ready to train, and what it will train on. Raises UnknownArgument, StageFailed."""
        from datasets import Dataset
        from transformers import AutoTokenizer
        from trl import SFTConfig, SFTTrainer

        context = self.context
        args = check_args(context.config.args, {field.name for field in fields(SFTConfig)})
        tokenizer = AutoTokenizer.from_pretrained(context.parent)
        adopt_template(tokenizer, templates.load(found.manifest.config.template))
        measured = measure(found.rows, tokenizer, max_length=args["max_length"])
        if measured.overlong and context.config.on_overlong == "fail":
            raise StageFailed(f"{measured.overlong} rows are longer than max_length {args['max_length']}")
        if not measured.rows:
            raise StageFailed(f"no row fits max_length {args['max_length']}; raise it")
        trainer = SFTTrainer(
            model=context.parent,
            args=SFTConfig(
                output_dir=str(context.folder / "checkpoints"),
                seed=context.seed,
                packing=False,
                completion_only_loss=True,
                model_init_kwargs={"dtype": context.model.dtype},
                **args,
            ),
            train_dataset=Dataset.from_list(
                [{"prompt": row.prompt, "completion": row.completion} for row in measured.rows]
            ),
            processing_class=tokenizer,
            peft_config=_adapters(context.model.lora),
        )
        _refuse_silent_loss(trainer, measured, context.processes)
        return trainer, measured


def check_args(given: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """`given` over the stage's defaults. Raises UnknownArgument for what the trainer does not know."""
    if unknown := sorted(set(given) - known):
        raise UnknownArgument(f"SFTConfig has no {', '.join(unknown)}; see TRL's documentation of SFTConfig")
    if own := sorted(set(given) & OWN_ARGS):
        raise UnknownArgument(f"{', '.join(own)}: the stage sets this itself; leave it out of args")
    if given.get("max_length", 1) is None:
        raise UnknownArgument("max_length must be a number of tokens, so that over-long rows can be counted")
    return {**_DEFAULTS, **given}


def adopt_template(tokenizer: Any, template: templates.ChatTemplate) -> None:
    """Give a tokenizer our template. Raises StageFailed when it cannot write the template's turns."""
    if tokenizer.eos_token != END_OF_TURN:
        raise StageFailed(
            f"the tokenizer ends a turn with {tokenizer.eos_token!r}, the template with {END_OF_TURN!r}; "
            "use a Qwen3 tokenizer"
        )
    tokenizer.chat_template = template.source


def measure(rows: Sequence[StepRow], tokenizer: Any, *, max_length: int) -> Measured:
    """Count tokens and set aside the rows that are too long.

    Raises StageFailed when a prompt's tokens are not the first tokens of its row: the model would then be
    trained on a context it never sees when serving.
    """
    kept, prompts, completions, longest = [], 0, 0, 0
    prompt_ids = tokenizer([row.prompt for row in rows])["input_ids"] if rows else []
    whole_ids = tokenizer([row.prompt + row.completion for row in rows])["input_ids"] if rows else []
    for row, prompt, whole in zip(rows, prompt_ids, whole_ids, strict=True):
        if whole[: len(prompt)] != prompt:
            raise StageFailed(
                f"tokens merge across the end of the prompt (trace {row.trace_id}, step {row.step})"
            )
        if len(whole) > max_length:
            continue
        kept.append(row)
        prompts += len(prompt)
        completions += len(whole) - len(prompt)
        longest = max(longest, len(whole))
    return Measured(tuple(kept), prompts, completions, longest, len(rows) - len(kept))


def _adapters(lora: Lora | None) -> Any:
    if lora is None:
        return None
    from peft import LoraConfig

    return LoraConfig(
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=lora.targets if isinstance(lora.targets, str) else list(lora.targets),
        task_type="CAUSAL_LM",
    )


def _refuse_silent_loss(trainer: Any, measured: Measured, processes: int) -> None:
    """Raise StageFailed unless the trainer holds the counted rows and tokens, and runs in all processes."""
    labels = trainer.train_dataset["labels"]
    trained = sum(label != -100 for row in labels for label in row)
    if len(labels) != len(measured.rows) or trained != measured.completion_tokens:
        raise StageFailed(
            f"the trainer kept {len(labels)} rows and {trained} trained tokens of {len(measured.rows)} rows "
            f"and {measured.completion_tokens} tokens"
        )
    if trainer.accelerator.num_processes != processes:
        raise StageFailed(
            f"{trainer.accelerator.num_processes} processes train, {processes} were asked for; "
            "start them with torchrun"
        )
