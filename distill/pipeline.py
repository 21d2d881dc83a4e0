"""A distillation run: traces in, a trained model and an honest report out. Resumable at every step.

What is finished in the run folder is never done again: a corpus that has its manifest is not read from the
store a second time, a stage that has its record is not trained twice. A run folder belongs to one
configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict

from distill import backend
from distill.config import DistillConfig
from distill.corpus import CorpusManifest, read_manifest, write_corpus
from distill.evaluate import Change, Evaluation, change
from distill.stages.base import StageRecord, read_record
from distill.worker import RUN

if TYPE_CHECKING:
    from storage.traces import StoredTrace

LOG = "worker.log"
_LOG_TAIL = 2000


@dataclass(frozen=True, slots=True)
class Progress:
    """What is being done; `fraction` is 0 to 1 where it is known."""

    what: str
    message: str
    fraction: float | None = None


class RunMismatch(ValueError):
    """The run folder belongs to another configuration."""


class TrainingFailed(RuntimeError):
    """The training process ended with an error, or ran out of time."""


class StageReport(BaseModel):
    """One stage: its record, how the model then did, and where it lies."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    model: Path
    record: StageRecord
    evaluation: Evaluation
    change: Change
    """From the base model to this one."""


class DistillReport(BaseModel):
    """What a run did. `before` is the base model on the held-out side; each stage holds its own after."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    folder: Path
    corpus: Path
    manifest: CorpusManifest
    before: Evaluation
    stages: tuple[StageReport, ...]

    @property
    def after(self) -> Evaluation:
        """The held-out figures of the last stage's model; of the base when there was no stage."""
        return self.stages[-1].evaluation if self.stages else self.before


async def run(
    config: DistillConfig,
    traces: AsyncIterable[StoredTrace] | Iterable[StoredTrace],
    out_dir: Path,
    progress: Callable[[Progress], None] = lambda progress: None,
) -> DistillReport:
    """Make the corpus, train every stage, and measure before and after.

    Raises CorpusTooSmall (with the funnel), TrainingExtraMissing, TrainingFailed, and RunMismatch when
    `out_dir` belongs to another configuration. `traces` is not touched when the corpus is finished.
    """
    _claim(config, out_dir)
    corpus = out_dir / "corpus"
    if read_manifest(corpus) is None:
        progress(Progress("corpus", "filtering traces"))
        made = await write_corpus(traces, config.corpus, corpus)
        progress(Progress("corpus", f"{made.funnel['kept']} of {made.funnel['in']} traces kept", 1.0))
    backend.require_training()
    if not _finished(config, out_dir):
        await _work(config, out_dir, progress)
    report = read_report(config, out_dir)
    _write(out_dir / "report.json", report.model_dump_json(indent=1))
    return report


def read_report(config: DistillConfig, out_dir: Path) -> DistillReport:
    """The report of a finished run. Raises TrainingFailed when a part of it is missing."""
    manifest = read_manifest(out_dir / "corpus")
    if manifest is None or not _finished(config, out_dir):
        raise TrainingFailed(f"{out_dir} holds no finished run; run it again to go on from where it was")
    before = _evaluation(out_dir, "base")
    stages = []
    for name in _stage_names(config):
        model = out_dir / "stages" / name / "model"
        record, after = read_record(model), _evaluation(out_dir, name)
        assert record is not None  # _finished looked
        stages.append(
            StageReport(name=name, model=model, record=record, evaluation=after, change=change(before, after))
        )
    return DistillReport(
        name=config.name,
        folder=out_dir,
        corpus=out_dir / "corpus",
        manifest=manifest,
        before=before,
        stages=tuple(stages),
    )


def _claim(config: DistillConfig, out_dir: Path) -> None:
    """Write the configuration into the run folder, or check that it is the one there."""
    out_dir.mkdir(parents=True, exist_ok=True)
    path, wanted = out_dir / RUN, config.model_dump_json(indent=1)
    if path.exists() and DistillConfig.model_validate_json(path.read_bytes()) != config:
        raise RunMismatch(f"{out_dir} belongs to another configuration; choose another output folder")
    _write(path, wanted)


def _finished(config: DistillConfig, out_dir: Path) -> bool:
    names = _stage_names(config)
    return all((out_dir / "evaluation" / f"{name}.json").exists() for name in ("base", *names)) and all(
        read_record(out_dir / "stages" / name / "model") for name in names
    )


def _stage_names(config: DistillConfig) -> list[str]:
    return [f"{index}-{stage.kind}" for index, stage in enumerate(config.stages)]


def _evaluation(out_dir: Path, name: str) -> Evaluation:
    return Evaluation.model_validate_json((out_dir / "evaluation" / f"{name}.json").read_bytes())


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)


async def _work(config: DistillConfig, out_dir: Path, progress: Callable[[Progress], None]) -> None:
    """Run the training process to its end. It dies with us, and with the deadline."""
    with (out_dir / LOG).open("wb") as log:
        worker = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "distill.worker",
            str(out_dir),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=log,
            start_new_session=True,
            env=_environment(),
        )
        try:
            async with asyncio.timeout(config.timeout_s):
                await _follow(worker, progress)
                status = await worker.wait()
        except TimeoutError:
            raise TrainingFailed(
                f"training took longer than timeout_s = {config.timeout_s:g} s; raise it and run again: "
                "finished stages are kept"
            ) from None
        finally:
            await _end(worker)
    if status != 0:
        raise TrainingFailed(f"training ended with status {status}; {out_dir / LOG} says:\n{_tail(out_dir)}")


async def _follow(worker: asyncio.subprocess.Process, progress: Callable[[Progress], None]) -> None:
    assert worker.stdout is not None  # a pipe was asked for
    async for line in worker.stdout:
        told: dict[str, Any] = json.loads(line)
        progress(Progress(told["what"], told["message"], told["fraction"]))


async def _end(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(worker.pid, signal.SIGKILL)
        await asyncio.wait_for(worker.wait(), timeout=10)
    if worker.stdin is not None:
        worker.stdin.close()


def _environment() -> dict[str, str]:
    """Ours, with the place this package was imported from, so that the worker imports the same one."""
    here = str(Path(__file__).resolve().parent.parent)
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    # Threads that spin while they wait take a shared CPU from the ones they wait for.
    return {"OMP_WAIT_POLICY": "PASSIVE", **os.environ, "PYTHONPATH": path}


def _tail(out_dir: Path) -> str:
    return (out_dir / LOG).read_text(encoding="utf-8", errors="replace")[-_LOG_TAIL:]
