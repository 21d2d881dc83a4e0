"""The whole loop, once, and what its report promises: then once more, to see that nothing is done twice."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from neurons.demo.cast import CASTS
from storage.provenance import check_files
from tests.end_to_end.demo_process import demo_in
from tests.end_to_end.ledger import Books, read_books

PUBLIC, DRAWN = 3, 9
SIZE = ("--products", "400", "--public", str(PUBLIC), "--drawn", str(DRAWN))

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Ran:
    """A demo after its end, and after it was started a second time."""

    report: dict[str, Any]
    books: Books
    report_again: dict[str, Any]
    books_again: Books
    survivors: list[str]


@pytest.fixture(scope="module")
def ran() -> Iterator[Ran]:
    with tempfile.TemporaryDirectory(prefix="arena-test-") as name, demo_in(Path(name), SIZE) as demo:
        Path(name).chmod(0o755)  # the database's user passes through
        report = demo.run()
        books = asyncio.run(read_books(demo.data_dir))
        again = demo.run()
        books_again = asyncio.run(read_books(demo.data_dir))
        yield Ran(report, books, again, books_again, demo.survivors(database_may_live=False))


def test_the_chain_confirms_the_weights_that_were_sent(ran: Ran) -> None:
    weights = ran.report["weights"]
    assert weights["confirmed"]
    assert weights["read_back"] == weights["sent"]
    assert max(weights["sent"].values()) == 65535
    paid = {weights["holders"][uid] for uid in weights["sent"]}
    assert "crashing" not in paid
    assert "cheating" not in paid


def test_every_episode_is_played_once_and_every_trace_proves_itself(ran: Ran) -> None:
    ran.books.check_every_episode_once()
    ran.books.check_every_trace_proves_itself()
    ran.books.check_the_settlement_follows_from_the_store()
    assert ran.books.leases_lost == 0
    assert sum(ran.report["episodes"]["verdicts"].values()) == len(ran.books.episodes)


def test_the_boards_tell_outcome_judge_and_what_was_left_out(ran: Ran) -> None:
    assert len(ran.report["qualifying"]["rows"]) == len(CASTS["shopping"].miners)
    for board, problems in (("qualifying", PUBLIC), ("race", DRAWN)):
        rows = ran.report[board]["rows"]
        for row in rows:
            assert row["n"] + row["left_out"] == problems
            assert 0 <= row["score"] <= row["solved"] <= 1
            assert 0 <= row["judge"] <= 1
        assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)
        scores = {row["name"]: row["score"] for row in rows}
        assert scores.get("crashing", 0) == scores.get("cheating", 0) == 0
    assert ran.report["race"]["rows"][0]["agency"] == 1.0, "the best is one whose model acts itself"


def test_the_promotion_comes_with_its_statistics(ran: Ran) -> None:
    promotion = ran.report["promotion"]
    assert not promotion["uncontested"], "a champion held the top"
    assert promotion["reason"]
    assert promotion["challenges"]
    for challenge in promotion["challenges"]:
        assert challenge["problems"] == DRAWN
        assert challenge["wins"] + challenge["losses"] == challenge["differing"]
        assert 0 < challenge["p_value"] <= challenge["p_adjusted"] <= 1
        assert challenge["passes"] == (challenge["reaches_margin"] and challenge["significant"])
    best = [c["challenger"] for c in promotion["challenges"] if c["passes"]]
    assert promotion["promoted"] == bool(best)
    assert promotion["champion"] in (best or [promotion["champion_before"]])


def test_the_corpus_funnel_adds_up(ran: Ran) -> None:
    funnel = ran.report["training"]["funnel"]
    assert funnel["in"] == len(ran.books.episodes)
    left = funnel["in"]
    for step in funnel["filters"]:
        assert step["in"] == left
        assert sum(step["reasons"].values()) == step["dropped"]
        left -= step["dropped"]
    assert funnel["kept"] == left > 0


def test_training_lowers_the_held_out_loss(ran: Ran) -> None:
    training = ran.report["training"]
    assert training["rows"]["train"] > 0
    assert training["rows"]["heldout"] > 0
    assert training["after"]["nll"] < training["before"]["nll"]
    interval = training["change"]["interval"]
    assert interval is None or interval[1] < 0, "the whole confidence interval, where there is one"


def test_every_artefact_lies_where_the_report_says(ran: Ran) -> None:
    for name, path in ran.report["artefacts"].items():
        assert Path(path).exists(), name
    for format in ("openai", "atif"):
        assert check_files(Path(ran.report["artefacts"][f"traces ({format})"])) == []


def test_started_again_it_reports_the_same_and_does_nothing_twice(ran: Ran) -> None:
    before, after = dict(ran.report), dict(ran.report_again)
    assert before.pop("wall_s") > after.pop("wall_s")
    assert after == before
    assert [t.trace_id for t in ran.books_again.traces] == [t.trace_id for t in ran.books.traces]
    assert len(ran.books_again.episodes) == len(ran.books.episodes)
    assert ran.books_again.submissions == ran.books.submissions == len(CASTS["shopping"].miners)
    assert ran.books_again.weight_settings == ran.books.weight_settings == 1


def test_nothing_keeps_running_after_its_end(ran: Ran) -> None:
    assert ran.survivors == []
