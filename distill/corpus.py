"""From stored traces to a corpus folder: filter, split by leak cluster, write rows and say what was left out.

The folder holds `train.jsonl`, `heldout.jsonl`, `tools.json` and `manifest.json`. The manifest is written
last and names the hash of everything else: a folder without one is not a corpus. Memory does not grow with
the rows; they pass through a spool file, because a split needs to know all clusters first.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from distill import templates
from distill.filters import FilterConfig, Funnel, drop
from distill.split import Side, Split, refuse_overlap, split
from distill.views import StepRow, StepRows
from storage.events import digest

if TYPE_CHECKING:
    from storage.traces import StoredTrace

MANIFEST = "manifest.json"


class CorpusTooSmall(ValueError):
    """The filters left too little to train on and to measure with. `funnel` says what each dropped."""

    def __init__(self, message: str, funnel: dict[str, Any], rows: dict[str, Any]) -> None:
        super().__init__(message)
        self.funnel = funnel
        self.rows = rows


class CorpusChanged(ValueError):
    """A file of a corpus folder is not the one its manifest names."""


class CorpusConfig(BaseModel):
    """How a corpus is made."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    filters: FilterConfig = FilterConfig()
    heldout_fraction: float = Field(default=0.2, gt=0.0, lt=1.0)
    """Expected share of leak clusters held out."""
    split_seed: int = 0
    settled: dict[str, Side] = {}
    """Clusters whose side was decided by the corpus of a parent model."""
    template: str = "qwen3"
    max_bytes: int = Field(default=65536, gt=0)
    """Rows with more UTF-8 bytes of prompt and completion are left out and counted."""


class CorpusFile(BaseModel):
    """One file of a corpus."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: int
    sha256: str


class CorpusManifest(BaseModel):
    """What a corpus is made of."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: CorpusConfig
    template_sha256: str
    tools_hash: str
    """Hash over the hashes of all tool lists in `tools.json`."""
    funnel: dict[str, Any]
    rows: dict[str, Any]
    train_clusters: tuple[str, ...]
    heldout_clusters: tuple[str, ...]
    files: dict[str, CorpusFile]

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) of the manifest; it names every byte of the corpus."""
        return digest(self.model_dump(mode="json"))


async def write_corpus(
    traces: AsyncIterable[StoredTrace] | Iterable[StoredTrace], config: CorpusConfig, folder: Path
) -> CorpusManifest:
    """Make a corpus in `folder`.

    Raises CorpusTooSmall, and writes no manifest, unless both sides of the split have a row.
    """
    with CorpusWriter(config, folder) as writer:
        if isinstance(traces, AsyncIterable):
            async for trace in traces:
                writer.add(trace)
        else:
            for trace in traces:
                writer.add(trace)
        return writer.finish()


class CorpusWriter:
    """Takes traces one by one, then splits and writes their rows. A context manager."""

    def __init__(self, config: CorpusConfig, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.funnel = Funnel()
        self._config, self._folder = config, folder
        self._template = templates.load(config.template)
        self._rows = StepRows(self._template, max_bytes=config.max_bytes)
        self._clusters: set[str] = set()
        self._spool = folder / "rows.partial"
        self._out = self._spool.open("w", encoding="utf-8")

    def __enter__(self) -> CorpusWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self._out.close()
        self._spool.unlink(missing_ok=True)

    def add(self, trace: StoredTrace) -> None:
        """Filter one trace and keep its rows."""
        found = drop(trace, self._config.filters)
        self.funnel.count(found)
        if found is None:
            for row in self._rows.rows(trace):
                self._clusters.add(row.cluster_id)
                self._out.write(json.dumps(row.to_json(), ensure_ascii=False) + "\n")

    def finish(self) -> CorpusManifest:
        """Split, write both sides, then the manifest. Raises CorpusTooSmall."""
        self._out.close()
        sides = self._split()
        files: dict[str, CorpusFile] = {
            side: _write_side(self._spool, self._folder / f"{side}.jsonl", sides, side) for side in SIDES
        }
        tools = {name: list(self._rows.tools[name]) for name in sorted(self._rows.tools)}
        files["tools"] = _write(
            self._folder / "tools.json", json.dumps(tools, ensure_ascii=False, indent=1), len(tools)
        )
        manifest = CorpusManifest(
            config=self._config,
            template_sha256=self._template.sha256,
            tools_hash=digest(sorted(tools)),
            funnel=self.funnel.to_json(),
            rows=self._rows.report.to_json(),
            train_clusters=sides.train,
            heldout_clusters=sides.heldout,
            files=files,
        )
        partial = self._folder / f"{MANIFEST}.partial"
        partial.write_text(manifest.model_dump_json(indent=1), encoding="utf-8")
        partial.replace(self._folder / MANIFEST)
        return manifest

    def _split(self) -> Split:
        sides = split(
            self._clusters,
            heldout_fraction=self._config.heldout_fraction,
            seed=self._config.split_seed,
            settled=self._config.settled,
        )
        if not sides.train or not sides.heldout:
            raise CorpusTooSmall(
                f"{self.funnel.kept} of {self.funnel.seen} traces passed, with rows from "
                f"{len(self._clusters)} leak clusters; one cluster to train on and one to hold out are "
                "needed: record more episodes or lower min_grade",
                self.funnel.to_json(),
                self._rows.report.to_json(),
            )
        return sides


SIDES: tuple[Side, ...] = ("train", "heldout")


def read_manifest(folder: Path) -> CorpusManifest | None:
    """The manifest of a finished corpus, or None when there is none yet."""
    path = folder / MANIFEST
    return CorpusManifest.model_validate_json(path.read_bytes()) if path.exists() else None


def read_rows(folder: Path, side: Side, manifest: CorpusManifest) -> list[StepRow]:
    """The rows of one side.

    Raises CorpusChanged when the file is not the one in the manifest, SplitLeak when a row lies on the wrong
    side.
    """
    content = (folder / f"{side}.jsonl").read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest.files[side].sha256:
        raise CorpusChanged(f"{folder / side}.jsonl was changed after its manifest; make the corpus again")
    rows = [StepRow.from_json(json.loads(line)) for line in content.splitlines()]
    other = manifest.heldout_clusters if side == "train" else manifest.train_clusters
    refuse_overlap((row.cluster_id for row in rows), other, f"rows of {side}.jsonl")
    return rows


def read_tools(folder: Path, manifest: CorpusManifest) -> dict[str, list[dict[str, Any]]]:
    """Canonical tools by hash. Raises CorpusChanged when the file is not the one in the manifest."""
    content = (folder / "tools.json").read_bytes()
    if hashlib.sha256(content).hexdigest() != manifest.files["tools"].sha256:
        raise CorpusChanged(f"{folder}/tools.json was changed after its manifest; make the corpus again")
    found: dict[str, list[dict[str, Any]]] = json.loads(content)
    return found


def _write_side(spool: Path, path: Path, sides: Split, side: Side) -> CorpusFile:
    hasher, count = hashlib.sha256(), 0
    with path.open("wb") as out:
        for line in _lines(spool):
            if sides.side(json.loads(line)["cluster_id"]) == side:
                out.write(line)
                hasher.update(line)
                count += 1
    return CorpusFile(rows=count, sha256=hasher.hexdigest())


def _lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as lines:
        yield from lines


def _write(path: Path, text: str, rows: int) -> CorpusFile:
    path.write_text(text, encoding="utf-8")
    return CorpusFile(rows=rows, sha256=hashlib.sha256(text.encode()).hexdigest())
