"""The demo's own parts: the folder it claims, who takes part, and what it shows."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError
from rich.console import Console

from arena.leaderboard import Board, Row
from arena.promotion import decide
from arena.rules import PromotionRules, Rules
from neurons.demo.cast import CASTS
from neurons.demo.options import DemoMismatch, DemoOptions, DemoRunning, claimed
from neurons.demo.printing import show
from neurons.demo.report import DemoReport, Episodes, Problems, Trained, Weights
from neurons.demo.screen import Screen
from tests.neurons.commands import ROOT

OTHER = {
    "environment": "ledger",
    "seed": 8,
    "problems": Path("/tasks"),
    "products": 4000,
    "public": 6,
    "drawn": 9,
    "netuid": 3,
}
HOSTILE = "[red]we[/bold]ird"


def test_a_folder_takes_one_demo_at_a_time(tmp_path: Path) -> None:
    with (
        claimed(tmp_path, DemoOptions()),
        pytest.raises(DemoRunning, match=f"{tmp_path}.*--data-dir"),
        claimed(tmp_path, DemoOptions()),
    ):
        pass
    with claimed(tmp_path, DemoOptions()):
        pass


def test_a_demo_that_was_killed_leaves_its_folder_free(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from neurons.demo.options import *\n"
        "with claimed(pathlib.Path(sys.argv[1]), DemoOptions()):\n"
        "    print('in', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"in\n"
        with pytest.raises(DemoRunning), claimed(tmp_path, DemoOptions()):
            pass
        holder.kill()
        holder.wait(10)
    with claimed(tmp_path, DemoOptions()):
        pass


@pytest.mark.parametrize("name", DemoOptions.model_fields)
def test_other_options_are_refused_by_name(name: str, tmp_path: Path) -> None:
    with claimed(tmp_path, DemoOptions()):
        pass
    other = DemoOptions.model_validate({name: OTHER[name]})
    with pytest.raises(DemoMismatch, match=f"another {name}: "), claimed(tmp_path, other):
        pass
    with claimed(tmp_path, DemoOptions()):
        pass


@pytest.mark.parametrize("text", ["", "{}x", '{"colour": 1}', "\\xff"])
def test_a_folder_of_another_version_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "demo.json").write_text(text)
    with pytest.raises(DemoMismatch, match="another version"), claimed(tmp_path, DemoOptions()):
        pass


@pytest.mark.parametrize("options", [{"products": 1}, {"public": 0}, {"drawn": 2}, {"netuid": 0}, {"sed": 1}])
def test_options_that_make_no_demo_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        DemoOptions.model_validate(options)


def test_the_draw_comes_from_a_pool_several_times_its_size() -> None:
    options = DemoOptions(drawn=10)
    assert options.rules().drawn_size == 10
    assert (options.source().pool or 0) >= 3 * options.rules().drawn_size
    assert DemoOptions(problems=Path("/tasks")).source().pool is None


@pytest.mark.parametrize("environment", CASTS)
def test_every_miner_has_a_wallet_a_name_and_a_source_of_its_own(environment: str) -> None:
    cast = CASTS[environment]
    miners = cast.miners
    assert cast.founding_champion not in cast.challengers
    for own in ({m.wallet for m in miners}, {m.agent for m in miners}, {m.source() for m in miners}):
        assert len(own) == len(miners)
    for miner in miners:
        assert miner.agent.isascii()
        assert len(miner.agent) <= Rules().name_chars


def test_each_part_leaves_one_line_with_its_last_note() -> None:
    shown = io.StringIO()
    with Screen(Console(file=shown)) as screen:
        with screen.part("chain") as part:
            part.say("starting")
            part.count(1, 2)
            part.say(f"block 7 of {HOSTILE} " + "long " * 40)
        with suppress(KeyError), screen.part("race") as part:
            part.say("half done")
            raise KeyError
    chain, race = shown.getvalue().splitlines()
    assert re.fullmatch(
        r"✓ chain block 7 of \[red\]we\[/bold\]ird (long )*\d+\.\d s", re.sub(" +", " ", chain)
    )
    assert re.fullmatch(r"✗ race half done \d+\.\d s", race)


def test_a_terminal_is_shown_the_same_notes() -> None:
    shown = io.StringIO()
    with Screen(Console(file=shown, force_terminal=True, width=200)) as screen, screen.part(HOSTILE) as part:
        part.say(HOSTILE)
    assert HOSTILE in shown.getvalue()


@pytest.fixture
def report() -> DemoReport:
    rows = tuple(_row(rank, agent, agent == "a") for rank, agent in enumerate("ab", start=1))
    promotion = decide(
        scores={"a": {"p": 0.1, "q": 0.2}, "b": {"p": 1.0, "q": 1.0}},
        champion="a",
        challengers=["b"],
        champion_age_h=0.0,
        rules=PromotionRules(),
        seed="s",
    )
    share = {"share": 0.5, "low": 0.25, "high": 0.75, "n": 8}
    nothing = {"share": None, "low": None, "high": None, "n": 0}
    figures = {
        "nll": 1.5,
        "valid_call": share,
        "same_tool": share,
        "same_call": share,
        "rows": 8,
        "generations": 8,
        "overlong": 1,
    }
    return DemoReport(
        seed=7,
        sandbox="bubblewrap",
        model="scripted",
        problems=Problems(
            source="generated",
            catalog_products=300,
            records="products",
            public={"product": 3},
            pool={"shop": 6},
            drawn={},
            loaded={HOSTILE: 3},
            refused={HOSTILE: 1},
        ),
        episodes=Episodes(
            verdicts={"failed": 2, "solved": 1},
            retried=1,
            model_emitted_calls=5,
            scripted_calls=4,
            failed_for={},
        ),
        qualifying=Board(race=1, phase="qualifying", rows=rows, withdrawn={}),
        race=Board(race=1, phase="race", rows=rows, withdrawn={}),
        promotion=asdict(promotion)
        | {"challenges": [asdict(c) | {"passes": c.passes} for c in promotion.challenges]},
        payout={},
        weights=Weights(
            netuid=2,
            sent={0: 3, 1: 65535},
            read_back={1: 65535, 4: 2},
            confirmed=False,
            block_hash=None,
            holders={0: "subnet owner (burn)", 1: HOSTILE},
        ),
        training=Trained(
            funnel={
                "in": 9,
                "kept": 4,
                "filters": [{"filter": "f", "in": 9, "dropped": 5, "reasons": {"r": 5}}],
            },
            rows={"train": 4, "heldout": 2, "dropped": {}},
            clusters={"train": 2, "heldout": 1},
            before=figures,
            after=figures | {"nll": None, "same_call": nothing},
            change={},
        ),
        artefacts={"model": Path(f"/kept/{HOSTILE}")},
        settled_at=datetime(2026, 5, 4, tzinfo=UTC),
        wall_s=12.3,
    )


def _row(rank: int, agent: str, champion: bool) -> Row:
    return Row(
        rank=rank,
        agent=agent,
        name=f"{HOSTILE} {agent}",
        hotkey=f"hk-{agent}",
        champion=champion,
        solved=0.5,
        judge=0.25,
        agency=1.0,
        score=0.125,
        n=24,
        left_out=3,
        prompt_tokens=1200,
        completion_tokens=34,
    )


def test_the_report_shows_names_as_they_are_and_says_what_is_not_so(report: DemoReport) -> None:
    shown = io.StringIO()
    show(report, Console(file=shown, width=250))
    text = shown.getvalue()
    for words in (
        f"Loaded 3 tasks from {HOSTILE}",
        f"Refused 1: {HOSTILE}",
        f"{HOSTILE} a (champion)",
        f"/kept/{HOSTILE}",
        "NOT confirmed",
        "1k",
        "2 failed, 1 solved; 1 attempts retried",
        "none drawn",
        "4 of 9 traces kept",
        "0.50 [0.25, 0.75]",
    ):
        assert words in text, text
    assert "Champion: [red]we[/bold]ird" in text


def test_the_report_survives_its_json(report: DemoReport) -> None:
    assert DemoReport.model_validate_json(report.model_dump_json()) == report
