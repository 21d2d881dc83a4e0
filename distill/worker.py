"""The process that trains: `python -m distill.worker RUN_DIR`, started by `pipeline.run`.

It is a process of its own so that a run can be given a deadline and stopped, and so that torch never lives
in the process that records races. It reads `RUN_DIR/run.json`, does what is not done yet, and tells of it in
JSON lines on standard output. When its standard input closes, whoever started it is gone, and it ends too.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, TextIO

from distill import backend, templates
from distill.config import DistillConfig
from distill.corpus import CorpusManifest, read_manifest, read_rows, read_tools
from distill.evaluate import evaluate
from distill.stages import STAGES
from distill.stages.base import Stage, StageContext, StageMismatch, read_record

RUN = "run.json"
TRAINED_METRICS = "trained.json"
ORPHANED = 3
"""Exit status when the starting process went away."""


class Run:
    """One run folder: `run.json`, `corpus/`, `base/`, `stages/N-kind/`, `evaluation/`."""

    def __init__(self, folder: Path, out: TextIO) -> None:
        self.folder = folder
        self.config = DistillConfig.model_validate_json((folder / RUN).read_bytes())
        self._out = out

    def everything(self) -> None:
        """Base model, evaluation, then each stage and its evaluation; what is finished is not done again."""
        manifest = read_manifest(self.folder / "corpus")
        if manifest is None:
            raise StageMismatch(f"{self.folder}/corpus holds no finished corpus; make one first")
        self._base(manifest)
        self._evaluate("base", self.base_path, manifest)
        for index in range(len(self.config.stages)):
            stage = self.stage(index)
            name = stage.context.folder.name
            if stage.finished() is None:
                found = stage.prepare()
                self.tell(name, f"training on {len(found.rows)} rows", 0.0)
                metrics = self._train(index, stage)
                stage.finalize(found, metrics)
            self._evaluate(name, str(stage.context.model_folder), manifest)

    @property
    def base_path(self) -> str:
        """Where the base model lies."""
        return self.config.model.path or str(self.folder / "base")

    def stage(self, index: int) -> Stage:
        """Stage number `index`, whose parent is the stage before it, or the base."""
        config = self.config.stages[index]
        parent = self.base_path if index == 0 else str(self.stage(index - 1).context.model_folder)
        context = StageContext(
            folder=self.folder / "stages" / f"{index}-{config.kind}",
            parent=parent,
            corpus=self.folder / "corpus",
            config=config,
            model=self.config.model,
            seed=self.config.seed,
            processes=self.config.processes,
        )
        return STAGES[config.kind](context)

    def train_here(self, index: int) -> dict[str, Any]:
        """Train one stage in this process, and leave its metrics beside the weights."""
        stage = self.stage(index)
        metrics = stage.train(stage.prepare())
        if os.environ.get("RANK", "0") == "0":
            (stage.context.folder / TRAINED_METRICS).write_text(json.dumps(metrics), encoding="utf-8")
        return metrics

    def tell(self, what: str, message: str, fraction: float | None) -> None:
        """One line of progress."""
        print(
            json.dumps({"what": what, "message": message, "fraction": fraction}), file=self._out, flush=True
        )

    def _train(self, index: int, stage: Stage) -> dict[str, Any]:
        if self.config.processes == 1:
            return self.train_here(index)
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
        command += ["--nproc_per_node", str(self.config.processes)]
        command += ["-m", "distill.worker", str(self.folder), "--train", str(index)]
        subprocess.run(command, check=True, stdout=sys.stderr, timeout=self.config.timeout_s)
        metrics: dict[str, Any] = json.loads((stage.context.folder / TRAINED_METRICS).read_bytes())
        return metrics

    def _base(self, manifest: CorpusManifest) -> None:
        tiny, folder = self.config.model.tiny, self.folder / "base"
        if tiny is None or (folder / "config.json").exists():
            return
        from distill import tiny as tiny_model

        rows = read_rows(self.folder / "corpus", "train", manifest)
        self.tell("base", f"making a tiny Qwen3 and its tokenizer from {len(rows)} rows", None)
        partial = self.folder / "base.partial"
        tiny_model.build(
            partial,
            texts=(row.prompt + row.completion for row in rows),
            config=tiny,
            template=templates.load(self.config.corpus.template),
            seed=self.config.seed,
        )
        partial.rename(folder)

    def _evaluate(self, name: str, model: str, manifest: CorpusManifest) -> None:
        path = self.folder / "evaluation" / f"{name}.json"
        if path.exists():
            return
        record = read_record(Path(model))
        if record is not None and set(record.trained_clusters) & set(manifest.heldout_clusters):
            raise StageMismatch(f"{model} was trained on what is held out; its evaluation would mean nothing")
        found = evaluate(
            model,
            read_rows(self.folder / "corpus", "heldout", manifest),
            read_tools(self.folder / "corpus", manifest),
            self.config.evaluation,
            template=templates.load(self.config.corpus.template),
            dtype=self.config.model.dtype,
            report=lambda message, fraction: self.tell(f"evaluation of {name}", message, fraction),
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(found.model_dump_json(indent=1), encoding="utf-8")
        partial.replace(path)


def main(arguments: list[str]) -> None:
    """`RUN_DIR` does everything; `RUN_DIR --train N` trains stage N alone, under torchrun."""
    out = sys.stdout
    sys.stdout = sys.stderr  # what libraries print is log, not progress
    run = Run(Path(arguments[0]), out)
    if len(arguments) == 1:
        threading.Thread(target=_end_with_parent, daemon=True).start()
    backend.quiet(offline=not run.config.model.allow_download)
    if len(arguments) == 3 and arguments[1] == "--train":
        run.train_here(int(arguments[2]))
    else:
        run.everything()


def _end_with_parent() -> None:
    while os.read(0, 4096):  # not sys.stdin: its lock would be held when the interpreter shuts down
        pass
    os._exit(ORPHANED)


if __name__ == "__main__":
    main(sys.argv[1:])
