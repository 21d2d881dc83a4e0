from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from distill.corpus import (
    CorpusChanged,
    CorpusConfig,
    CorpusTooSmall,
    read_manifest,
    read_rows,
    read_tools,
    write_corpus,
)
from storage.traces import StoredTrace
from tests.distill.shop import Shopper, traces

ROOT = Path(__file__).resolve().parents[2]


async def test_the_two_sides_share_no_cluster_and_hold_every_row(tmp_path: Path) -> None:
    manifest = await write_corpus(traces(12), CorpusConfig(heldout_fraction=0.3), tmp_path)
    assert read_manifest(tmp_path) == manifest
    train, heldout = (read_rows(tmp_path, side, manifest) for side in ("train", "heldout"))
    assert {row.cluster_id for row in train} == set(manifest.train_clusters)
    assert {row.cluster_id for row in heldout} == set(manifest.heldout_clusters)
    assert len(train) + len(heldout) == manifest.rows["rows"] == 48
    assert {row.tools_hash for row in train + heldout} == set(read_tools(tmp_path, manifest))
    assert not list(tmp_path.glob("*.partial"))  # noqa: ASYNC240


async def test_the_same_traces_give_the_same_corpus(tmp_path: Path) -> None:
    async def stream() -> AsyncIterator[StoredTrace]:
        for trace in traces(6):
            yield trace

    one = await write_corpus(traces(6), CorpusConfig(), tmp_path / "one")
    other = await write_corpus(stream(), CorpusConfig(), tmp_path / "other")
    assert one.sha256 == other.sha256


async def test_a_corpus_without_two_clusters_is_refused_with_its_funnel(tmp_path: Path) -> None:
    poor = Shopper(9).shop().trace(grade=0.1)
    with pytest.raises(CorpusTooSmall, match="one to hold out") as caught:
        await write_corpus([*traces(2), poor], CorpusConfig(), tmp_path)
    assert caught.value.funnel["filters"][-1]["reasons"] == {"grade too low": 1}
    assert read_manifest(tmp_path) is None


async def test_a_file_that_was_changed_after_its_manifest_is_refused(tmp_path: Path) -> None:
    manifest = await write_corpus(traces(6), CorpusConfig(), tmp_path)
    with (tmp_path / "train.jsonl").open("ab") as out:
        out.write((tmp_path / "heldout.jsonl").read_bytes())
    with pytest.raises(CorpusChanged, match="make the corpus again"):
        read_rows(tmp_path, "train", manifest)


def test_corpus_and_pipeline_import_without_the_training_packages() -> None:
    program = (
        "import sys\n"
        "import distill.corpus, distill.pipeline, distill.stages, distill.evaluate\n"
        "loaded = {'torch', 'transformers', 'trl', 'datasets', 'yaml'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT, timeout=60)
