"""Worlds are whole, the same everywhere, and keep what is public apart from what is hidden."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from problems.importers import ImportFailed, read_shoppingbench
from problems.leak_clusters import leak_clusters
from problems.shopping.scoring import intended_attempt
from problems.shopping.world import World, WorldError, prepare_generated, prepare_released
from problems.suite_files import SuiteTampered


def assert_sound(world: World) -> None:
    public = {p.problem.problem_id for p in world.public.problems}
    clusters = leak_clusters((*world.public.problems, *world.pool.problems))
    shown = {clusters[name] for name in public}
    assert not any(clusters[p.problem.problem_id] in shown for p in world.pool.problems)
    for suite in (world.public, world.pool):
        assert set(suite.categories()) == {"product", "shop", "voucher"}
        assert suite.catalog_id == world.environment.catalog.catalog_id
        assert suite.scorer == world.environment.scorer
        for problem in suite.problems:
            assert world.environment.score(problem, intended_attempt(problem)).solved


def test_a_generated_world_is_sound_and_the_same_when_made_again(tmp_path: Path) -> None:
    world = prepare_generated(tmp_path / "a", seed=5, products=800, public=9, pool=18)
    again = prepare_generated(tmp_path / "b", seed=5, products=800, public=9, pool=18)
    assert_sound(world)
    assert (len(world.public.problems), len(world.pool.problems)) == (9, 18)
    assert (world.public.suite_id, world.pool.suite_id) == (again.public.suite_id, again.pool.suite_id)


def test_preparing_again_opens_what_is_there_and_refuses_another_plan(tmp_path: Path) -> None:
    world = prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)
    written = (tmp_path / "w" / "public" / "problems.jsonl").stat().st_mtime_ns
    again = prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)
    assert again.public == world.public
    assert (tmp_path / "w" / "public" / "problems.jsonl").stat().st_mtime_ns == written
    with pytest.raises(WorldError, match="another folder"):
        prepare_generated(tmp_path / "w", seed=6, products=600, public=6, pool=9)


def test_a_folder_of_an_older_version_is_refused_with_what_to_do(tmp_path: Path) -> None:
    prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)
    manifest = json.loads((tmp_path / "w" / "world.json").read_text())
    del manifest["format"]
    (tmp_path / "w" / "world.json").write_text(json.dumps(manifest))
    with pytest.raises(WorldError, match=r"another version of this program.*use another folder"):
        prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)


def test_a_changed_pool_is_never_played(tmp_path: Path) -> None:
    prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)
    answers = tmp_path / "w" / "pool" / "answers.jsonl"
    answers.write_bytes(answers.read_bytes().replace(b'"product_id"', b'"product-id"', 1))
    with pytest.raises(SuiteTampered, match=r"answers\.jsonl"):
        prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)


def test_preparing_that_was_killed_midway_is_completed(tmp_path: Path) -> None:
    world = prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9)
    (tmp_path / "w" / "world.json").unlink()
    (tmp_path / "w" / "pool" / "manifest.json").unlink()
    assert prepare_generated(tmp_path / "w", seed=5, products=600, public=6, pool=9).pool == world.pool


def test_all_released_tasks_load_and_all_but_web_can_be_played(shared_data: Path, tmp_path: Path) -> None:
    world = prepare_released(tmp_path, shared_data / "shoppingbench", seed=2)
    assert sum(world.loaded.values()) == 900
    assert len(world.public.problems) + len(world.pool.problems) == 750
    assert len(world.refused) == 150
    assert all(name.startswith("web:") and "web_search" in reason for name, reason in world.refused)
    assert_sound(world)


def test_the_records_that_web_tasks_carry_are_in_the_catalog(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "shoppingbench"
    world = prepare_released(tmp_path, folder, seed=2)
    tasks = read_shoppingbench(folder)
    assert len(tasks.of("web")) == 150
    for record in tasks.records:
        found = world.environment.catalog.get(record.product_id)
        assert found is not None
        assert (found.title, found.price, found.shop_id) == (record.title, record.price, record.shop_id)


def test_a_task_that_cannot_be_used_is_refused_by_name_and_stops_no_other(tmp_path: Path) -> None:
    def task(query: str, low: int, high: int) -> str:
        reward = {"product_id": "1", "title": ["a red hat"], "price": [{"between": [low, high]}]}
        return json.dumps({"query": query, "reward": reward})

    good, other = (
        task("a hat", 10, 20),
        json.dumps({"query": "b", "reward": {"product_id": "2", "title": ["x"]}}),
    )
    lines = [
        good,
        "{broken",
        task("another hat", 30, 40),
        good,
        other,
        json.dumps({"query": "c", "reward": {}}),
    ]
    source = tmp_path / "source"
    source.mkdir()
    (source / "synthesize_product_test.jsonl").write_text("\n".join(lines))
    world = prepare_released(tmp_path / "w", source, seed=1, public=1)
    assert len(world.public.problems) + len(world.pool.problems) == 2
    reasons = dict(world.refused)
    assert set(reasons) == {"product:2", "product:3", "product:4", "product:6"}
    assert "malformed" in reasons["product:2"]
    assert "price" in reasons["product:3"]
    assert "product:1" in reasons["product:4"]


def test_a_folder_without_tasks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="synthesize_product_test"):
        read_shoppingbench(tmp_path)
