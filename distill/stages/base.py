"""What every training stage is: prepare without torch, train, finalize into a merged model folder.

A stage reads a parent model and a corpus, and leaves a model folder that holds `stage.json`: the hashes of
all that went in. A stage is finished when that file is there; the folder appears in one rename. It refuses a
parent that was trained with another template or other tools, and one trained on what is now held out.
"""

from __future__ import annotations

import hashlib
import shutil
from abc import ABC, abstractmethod
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from distill.config import ModelConfig, StageConfig
from distill.corpus import CorpusManifest, read_manifest, read_rows
from distill.split import refuse_overlap
from distill.views import StepRow

RECORD = "stage.json"
_PACKAGES = ("torch", "transformers", "trl", "peft", "datasets", "accelerate", "tokenizers")


class StageMismatch(ValueError):
    """A stage's parent, template, tools or finished folder do not belong together."""


class StageFailed(RuntimeError):
    """Training did not do what was asked: rows went missing, or processes did."""


class StageRecord(BaseModel):
    """What went into a model folder, and what came of it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    parent: str
    parent_sha256: str
    """Hash of the parent's weights; of nothing for a base that was made here."""
    corpus_sha256: str
    template_sha256: str
    tools_hash: str
    trained_clusters: tuple[str, ...]
    """All leak clusters that this model or a parent of it was trained on."""
    config: dict[str, Any]
    versions: dict[str, str]
    metrics: dict[str, Any]
    weights_sha256: str


@dataclass(frozen=True, slots=True)
class StageContext:
    """Where a stage works. `parent` is a model folder, or a name on the hub when downloads are allowed."""

    folder: Path
    parent: str
    corpus: Path
    config: StageConfig
    model: ModelConfig
    seed: int
    processes: int = 1

    @property
    def model_folder(self) -> Path:
        """The finished, merged model."""
        return self.folder / "model"


@dataclass(frozen=True, slots=True)
class StageInput:
    """What `prepare` found: the corpus, the rows to train on, and the parent's record if it has one."""

    manifest: CorpusManifest
    rows: tuple[StepRow, ...]
    parent: StageRecord | None


class Stage(ABC):
    """One training stage."""

    kind: str

    def __init__(self, context: StageContext) -> None:
        self.context = context

    def prepare(self) -> StageInput:
        """Check that everything belongs together. Needs no torch.

        Raises StageMismatch, SplitLeak or CorpusChanged.
        """
        manifest = read_manifest(self.context.corpus)
        if manifest is None:
            raise StageMismatch(f"{self.context.corpus} holds no finished corpus; make one first")
        rows = tuple(read_rows(self.context.corpus, "train", manifest))
        parent = read_record(Path(self.context.parent))
        if parent is not None:
            for what, theirs, ours in (
                ("template", parent.template_sha256, manifest.template_sha256),
                ("tools", parent.tools_hash, manifest.tools_hash),
            ):
                if theirs != ours:
                    raise StageMismatch(
                        f"the parent {self.context.parent} was trained with {what} {theirs}, the corpus has "
                        f"{ours}; make the corpus with the parent's, or start from an untrained base"
                    )
            refuse_overlap(parent.trained_clusters, manifest.heldout_clusters, "the parent's training")
        return StageInput(manifest, rows, parent)

    def finished(self) -> StageRecord | None:
        """The record of this stage if it is done, else None.

        Raises StageMismatch when the folder holds a stage that was made from something else.
        """
        record = read_record(self.context.model_folder)
        if record is None:
            return None
        manifest = read_manifest(self.context.corpus)
        wanted = (self.kind, self._config(), manifest.sha256 if manifest else None)
        if (record.kind, record.config, record.corpus_sha256) != wanted:
            raise StageMismatch(
                f"{self.context.folder} holds a {record.kind} stage of another configuration or corpus; "
                "choose another output folder"
            )
        return record

    @abstractmethod
    def train(self, found: StageInput) -> dict[str, Any]:
        """Train, going on from a checkpoint if there is one; leave weights in `folder/trained`.

        Returns metrics. With several processes, runs in each of them. Raises StageFailed.
        """

    def finalize(self, found: StageInput, metrics: dict[str, Any]) -> StageRecord:
        """Merge what was trained into a model folder with its record. Runs in one process."""
        partial = self.context.folder / "model.partial"
        shutil.rmtree(partial, ignore_errors=True)
        self.merge(partial)
        before = found.parent.trained_clusters if found.parent else ()
        record = StageRecord(
            kind=self.kind,
            parent=self.context.parent,
            parent_sha256=weights_sha256(Path(self.context.parent)),
            corpus_sha256=found.manifest.sha256,
            template_sha256=found.manifest.template_sha256,
            tools_hash=found.manifest.tools_hash,
            trained_clusters=tuple(sorted({*before, *(row.cluster_id for row in found.rows)})),
            config=self._config(),
            versions={name: version(name) for name in _PACKAGES},
            metrics=metrics,
            weights_sha256=weights_sha256(partial),
        )
        (partial / RECORD).write_text(record.model_dump_json(indent=1), encoding="utf-8")
        partial.replace(self.context.model_folder)
        shutil.rmtree(self.context.folder / "trained", ignore_errors=True)
        return record

    def merge(self, into: Path) -> None:
        """Write the whole model to `into`: what was trained, with adapters merged into the parent."""
        trained = self.context.folder / "trained"
        if self.context.model.lora is None:
            shutil.copytree(trained, into)
            return
        import torch
        from peft import PeftModel
        from transformers import AutoModelForCausalLM, AutoTokenizer

        dtype = getattr(torch, self.context.model.dtype)
        parent = AutoModelForCausalLM.from_pretrained(self.context.parent, dtype=dtype)
        PeftModel.from_pretrained(parent, trained).merge_and_unload().save_pretrained(into)
        AutoTokenizer.from_pretrained(trained).save_pretrained(into)

    def _config(self) -> dict[str, Any]:
        return {
            "stage": self.context.config.model_dump(mode="json"),
            "model": self.context.model.model_dump(mode="json"),
            "seed": self.context.seed,
        }


def read_record(model_folder: Path) -> StageRecord | None:
    """The record of a model folder, or None when it has none: a base that was not trained here."""
    path = model_folder / RECORD
    return StageRecord.model_validate_json(path.read_bytes()) if path.is_file() else None


def weights_sha256(model_folder: Path) -> str:
    """SHA-256 (hex) over configuration and weights, file by file; empty for what is no local folder."""
    if not model_folder.is_dir():
        return ""
    whole = hashlib.sha256()
    for path in sorted([*model_folder.glob("config.json"), *model_folder.glob("*.safetensors")]):
        with path.open("rb") as content:
            whole.update(f"{path.name}:{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    return whole.hexdigest()
