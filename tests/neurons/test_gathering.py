"""The report says what the database and the chain say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from arena.verdict import Verdict
from distill.corpus import CorpusConfig, CorpusFile, CorpusManifest
from distill.evaluate import Evaluation
from distill.pipeline import DistillReport
from neurons.chain import Metagraph, Neuron, WeightReceipt
from neurons.demo.gathering import gather
from neurons.demo.options import DemoOptions
from neurons.demo.report import DemoReport
from problems.shopping.world import World, prepare_generated
from storage.database import Database
from tests.arena.stores import Clock, failed, solved, suite, unscored
from tests.arena.test_races import Arena

RECEIPT = WeightReceipt({0: 3, 1: 65535}, {0: 3, 1: 65535}, confirmed=True, block_hash="0xb")
NO_ANSWERS: dict[str, Any] = {"share": None, "low": None, "high": None, "n": 0}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """The suites of the race below, and two tasks that could not be played."""
    made = prepare_generated(tmp_path_factory.mktemp("world"), seed=5, products=300, public=3, pool=3)
    refused = (("t1", "no product"), ("t2", "no product"), ("t3", "no query"))
    return replace(made, public=suite("public", 4), pool=suite("pool", 30), refused=refused)


@pytest.fixture
def arena(database: Database) -> Arena:
    return Arena(database, Clock())


def _trained(folder: Path) -> DistillReport:
    nothing = CorpusFile(rows=2, sha256="0")
    return DistillReport(
        name="n",
        folder=folder,
        corpus=folder / "corpus",
        manifest=CorpusManifest(
            config=CorpusConfig(),
            template_sha256="0",
            tools_hash="0",
            funnel={"in": 3, "kept": 2, "filters": []},
            rows={"overlong": 1},
            train_clusters=("a", "b"),
            heldout_clusters=("c",),
            files={"train": nothing, "heldout": nothing},
        ),
        before=Evaluation(
            model="m",
            rows=0,
            overlong=0,
            tokens=0,
            nll=None,
            nll_interval=None,
            by_cluster={"c": (1.0, 2)},
            generations=0,
            unfinished=0,
            valid_call=NO_ANSWERS,
            same_tool=NO_ANSWERS,
            same_call=NO_ANSWERS,
        ),
        stages=(),
    )


async def _gather(arena: Arena, race_id: UUID, world: World, folder: Path) -> DemoReport:
    neurons = tuple(
        Neuron(uid, hotkey, "cold", 0.0, False, 0.0, True, 0, 0)
        for uid, hotkey in enumerate(("owner", "better", "validator"))
    )
    return await gather(
        options=DemoOptions(),
        data_dir=folder,
        world=world,
        database=arena.database,
        sandbox="bubblewrap",
        model="m",
        race_id=race_id,
        metagraph=Metagraph(7, "owner", neurons),
        receipt=RECEIPT,
        trained=_trained(folder / "distill"),
        exported={"openai": folder / "traces"},
        wall_s=1.0,
    )


async def test_a_settled_race_is_reported_as_it_was(arena: Arena, world: World, tmp_path: Path) -> None:
    troubled: Counter[str] = Counter()

    def referee(hotkey: str, phase: str, position: int) -> Verdict:
        if (hotkey, phase, position) == ("better", "race", 0) and not troubled[hotkey]:
            troubled[hotkey] += 1
            return unscored()
        return solved() if hotkey == "better" or position % 2 else failed("no answer")

    race_id = await arena.open(("better",), champion="worse")
    assert (await arena.run(race_id, referee)).state == "settled"
    report = await _gather(arena, race_id, world, tmp_path)
    assert report.episodes.verdicts == {"failed": 7, "solved": 21}
    assert report.episodes.failed_for == {"no answer": 7}
    assert report.episodes.retried == 1
    assert report.problems.drawn == {"product": 10}
    assert report.problems.refused == {"no product": 2, "no query": 1}
    assert [row.name for row in report.race.rows] == ["better", "worse"]
    assert report.promotion["promoted"]
    assert report.weights.holders == {0: "subnet owner (burn)", 1: "better", 2: "validator"}
    assert report.training.rows == {"train": 2, "heldout": 2, "dropped": {"overlong": 1}}
    assert report.training.before == report.training.after
    assert "by_cluster" not in report.training.before
    assert report.artefacts["traces (openai)"] == tmp_path / "traces"
    assert DemoReport.model_validate_json(report.model_dump_json()) == report


async def test_a_race_that_has_not_settled_has_no_report(arena: Arena, world: World, tmp_path: Path) -> None:
    race_id = await arena.open(("better",))
    with pytest.raises(LookupError, match="not settled"):
        await _gather(arena, race_id, world, tmp_path)
