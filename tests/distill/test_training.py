"""Stages and the pipeline, with the real trainer on a model small enough for a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

import distill
from distill import backend, templates
from distill.config import (
    DistillConfig,
    EvaluationConfig,
    Lora,
    ModelConfig,
    StageConfig,
    TinyModel,
    read_config,
)
from distill.corpus import CorpusConfig, CorpusManifest, read_rows, write_corpus
from distill.pipeline import Progress, RunMismatch, run
from distill.split import SplitLeak
from distill.stages.base import RECORD, StageContext, StageFailed, StageMismatch, StageRecord
from distill.stages.sft import SupervisedFineTuning, UnknownArgument, check_args
from tests.distill.shop import TOOLS, traces

ARGS = {
    "num_train_epochs": 6,
    "per_device_train_batch_size": 4,
    "learning_rate": 4e-3,
    "use_cpu": True,
    "bf16": False,
    "gradient_checkpointing": False,
}
CONFIG = DistillConfig(
    name="test",
    corpus=CorpusConfig(heldout_fraction=0.3),
    model=ModelConfig(tiny=TinyModel(vocabulary=768, hidden=32, positions=2048)),
    stages=(StageConfig(args=ARGS),),
    evaluation=EvaluationConfig(rows=20, generations=4, max_new_tokens=24),
)


def _record(manifest: CorpusManifest, **changes: object) -> StageRecord:
    record = StageRecord(
        kind="sft",
        parent="base",
        parent_sha256="",
        corpus_sha256=manifest.sha256,
        template_sha256=manifest.template_sha256,
        tools_hash=manifest.tools_hash,
        trained_clusters=manifest.train_clusters,
        config={},
        versions={},
        metrics={},
        weights_sha256="",
    )
    return record.model_copy(update=changes)


async def _stage(folder: Path, **changes: object) -> SupervisedFineTuning:
    """A stage whose parent carries a record with `changes`."""
    manifest = await write_corpus(traces(8), CONFIG.corpus, folder / "corpus")
    parent = folder / "parent"
    parent.mkdir()
    (parent / RECORD).write_text(_record(manifest, **changes).model_dump_json())
    return SupervisedFineTuning(
        StageContext(
            folder=folder / "stage",
            parent=str(parent),
            corpus=folder / "corpus",
            config=CONFIG.stages[0],
            model=CONFIG.model,
            seed=0,
        )
    )


async def test_a_parent_of_the_same_template_and_tools_is_accepted(tmp_path: Path) -> None:
    found = (await _stage(tmp_path)).prepare()
    assert {row.cluster_id for row in found.rows} == set(found.manifest.train_clusters)


@pytest.mark.parametrize("field", ["template_sha256", "tools_hash"])
async def test_a_parent_of_another_template_or_tools_is_refused(tmp_path: Path, field: str) -> None:
    stage = await _stage(tmp_path, **{field: "0" * 64})
    with pytest.raises(StageMismatch, match="make the corpus with the parent's"):
        stage.prepare()


async def test_a_parent_that_was_trained_on_what_is_held_out_is_refused(tmp_path: Path) -> None:
    stage = await _stage(tmp_path, trained_clusters=tuple(f"cluster-{n}" for n in range(4)))
    with pytest.raises(SplitLeak, match="the parent's training"):
        stage.prepare()


async def test_a_finished_folder_of_another_configuration_is_refused(tmp_path: Path) -> None:
    stage = await _stage(tmp_path)
    assert stage.finished() is None
    stage.context.model_folder.mkdir(parents=True)
    (stage.context.model_folder / RECORD).write_bytes((Path(stage.context.parent) / RECORD).read_bytes())
    with pytest.raises(StageMismatch, match="choose another output folder"):
        stage.finished()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"learning_rte": 1}, "has no learning_rte"),
        ({"packing": True}, "the stage sets this itself"),
        ({"max_length": None}, "a number of tokens"),
    ],
)
def test_an_argument_that_the_trainer_does_not_know_or_the_stage_owns_is_refused(
    args: dict[str, object], message: str
) -> None:
    with pytest.raises(UnknownArgument, match=message):
        check_args(args, {"learning_rate", "packing", "max_length"})


@pytest.mark.parametrize("name", ["tiny_cpu", "qwen3_4b"])
def test_a_shipped_configuration_is_valid_down_to_the_trainers_arguments(name: str) -> None:
    backend.quiet(offline=True)
    from dataclasses import fields

    from trl import SFTConfig

    config = read_config(Path(distill.__file__).parent / "configs" / f"{name}.yaml")
    assert all(check_args(stage.args, {f.name for f in fields(SFTConfig)}) for stage in config.stages)


def test_an_unknown_key_of_a_configuration_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("name: x\nmodel: {tiny: {}}\nstagess: []\n")
    with pytest.raises(ValidationError, match="stagess"):
        read_config(path)


def test_missing_training_packages_are_named_with_the_extra_to_install() -> None:
    with pytest.raises(backend.TrainingExtraMissing, match=r"bittensor-agent-arena\[distill\]"):
        backend.require_training("no_such_package")


async def _with_base(folder: Path) -> StageContext:
    """A corpus and a tiny base, ready for a stage."""
    backend.quiet(offline=True)
    from distill import tiny

    manifest = await write_corpus(traces(6), CONFIG.corpus, folder / "corpus")
    assert CONFIG.model.tiny is not None
    tiny.build(
        folder / "base",
        texts=[row.prompt + row.completion for row in read_rows(folder / "corpus", "train", manifest)],
        config=CONFIG.model.tiny,
        template=templates.load("qwen3"),
        seed=0,
    )
    return StageContext(
        folder=folder / "stage",
        parent=str(folder / "base"),
        corpus=folder / "corpus",
        config=CONFIG.stages[0],
        model=CONFIG.model,
        seed=0,
    )


async def test_the_trainer_trains_the_completions_and_nothing_else(tmp_path: Path) -> None:
    context, template = await _with_base(tmp_path), templates.load("qwen3")
    from transformers import AutoTokenizer

    stage = SupervisedFineTuning(context)
    rows = stage.prepare().rows
    trainer, measured = stage.trainer(stage.prepare())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "base")
    assert len(trainer.train_dataset) == len(rows)
    for entry, row in zip(trainer.train_dataset, rows, strict=True):
        assert tokenizer.decode([label for label in entry["labels"] if label != -100]) == row.completion
        assert tokenizer.decode(entry["input_ids"]) == row.prompt + row.completion

    chat = [{"role": "system", "content": "é"}, {"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(
        chat, tools=TOOLS, tokenize=False, add_generation_prompt=True
    ) == template.render(chat, TOOLS, add_generation_prompt=True)

    short = {**ARGS, "max_length": measured.longest - 1}
    kept = SupervisedFineTuning(replace(context, config=StageConfig(args=short))).trainer(stage.prepare())[1]
    assert kept.overlong > 0
    assert kept.overlong + len(kept.rows) == len(rows)
    strict = SupervisedFineTuning(replace(context, config=StageConfig(args=short, on_overlong="fail")))
    with pytest.raises(StageFailed, match="longer than max_length"):
        strict.trainer(stage.prepare())
    with pytest.raises(StageFailed, match="start them with torchrun"):
        SupervisedFineTuning(replace(context, processes=2)).trainer(stage.prepare())


async def test_adapters_are_merged_into_a_whole_model(tmp_path: Path) -> None:
    context = await _with_base(tmp_path)
    model = CONFIG.model.model_copy(update={"lora": Lora(r=4, alpha=8)})
    args = StageConfig(args={**ARGS, "num_train_epochs": 1, "max_steps": 2})
    stage = SupervisedFineTuning(replace(context, model=model, config=args))
    found = stage.prepare()
    record = stage.finalize(found, stage.train(found))
    assert stage.finished() == record
    assert record.weights_sha256 not in ("", record.parent_sha256)
    assert not list(context.model_folder.glob("adapter*"))
    assert (context.model_folder / "model.safetensors").stat().st_size == (
        tmp_path / "base" / "model.safetensors"
    ).stat().st_size


async def test_training_lowers_the_heldout_likelihood_and_a_finished_run_is_not_redone(
    tmp_path: Path,
) -> None:
    told: list[Progress] = []
    report = await run(CONFIG, traces(12), tmp_path, told.append)
    assert report.before.nll is not None
    assert report.after.nll is not None
    assert report.after.nll < report.before.nll - 1.0
    assert report.stages[0].change.interval is not None
    assert report.stages[0].change.interval[1] < 0
    assert report.stages[0].change.nll == pytest.approx(report.after.nll - report.before.nll)
    record = report.stages[0].record
    assert set(record.trained_clusters) == set(report.manifest.train_clusters)
    assert record.template_sha256 == templates.load("qwen3").sha256
    assert record.metrics["rows"] == report.manifest.files["train"].rows
    assert (report.stages[0].model / "chat_template.jinja").read_text() == templates.load("qwen3").source
    assert {progress.what for progress in told} == {
        "corpus",
        "base",
        "evaluation of base",
        "0-sft",
        "evaluation of 0-sft",
    }

    told.clear()
    assert await run(CONFIG, [], tmp_path, told.append) == report
    assert told == []
    with pytest.raises(RunMismatch, match="another output folder"):
        await run(CONFIG.model_copy(update={"seed": 1}), [], tmp_path)
