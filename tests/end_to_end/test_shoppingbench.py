"""The demo on ShoppingBench's released tasks: all four files are read, and each task is played or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.end_to_end.demo_process import demo_in

LOADED = {
    "synthesize_product_test.jsonl": 250,
    "synthesize_shop_test.jsonl": 250,
    "synthesize_voucher_test.jsonl": 250,
    "synthesize_web_simpleqa_test.jsonl": 150,
}


@pytest.mark.slow
def test_the_demo_plays_the_released_tasks_and_says_how_many_and_which_not(
    shared_data: Path, disk_folder: Path
) -> None:
    tasks = shared_data / "shoppingbench"
    options = ("--problems", str(tasks), "--public", "3", "--drawn", "9")
    with demo_in(disk_folder, options) as demo:
        report = demo.run()
    problems = report["problems"]
    assert problems["source"] == str(tasks)
    assert problems["loaded"] == LOADED
    assert any("web_search" in reason and count for reason, count in problems["refused"].items())
    assert sum(problems["refused"].values()) >= LOADED["synthesize_web_simpleqa_test.jsonl"]
    offered = sum(problems["public"].values()) + sum(problems["pool"].values())
    assert offered + sum(problems["refused"].values()) == sum(LOADED.values())
    assert set(problems["public"]) == set(problems["drawn"]) == {"product", "shop", "voucher"}
    assert sum(problems["drawn"].values()) == 9
    assert report["episodes"]["verdicts"].get("solved", 0) > 0
    assert {row["n"] + row["left_out"] for row in report["race"]["rows"]} == {9}
