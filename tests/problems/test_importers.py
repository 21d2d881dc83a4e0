"""Released tasks: what can be used is used, what cannot is named, and a broken release is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from problems.importers import ImportFailed, read_oro, read_released, read_shoppingbench
from problems.shopping.world import World, WorldError, prepare_released, prepare_suite


def task(n: int, **more: Any) -> dict[str, Any]:
    return {"query": f"hat number {n}", "reward": {"product_id": str(n), "title": [f"hat {n}"]}, **more}


def oro(path: Path, entries: list[Any]) -> Path:
    path.write_text(json.dumps(entries))
    return path


def test_bad_entries_are_named_and_stop_nothing_while_they_are_few(tmp_path: Path) -> None:
    entries = [task(n, category="Product", difficulty="easy", title=f"Product {n}") for n in range(40)]
    broken = [{"query": ""}, 7, task(1, category="Product"), task(77, category="Poem")]
    read = read_oro(oro(tmp_path / "suite.json", entries + broken))
    assert len(read.tasks) == 40
    assert [r.name for r in read.refused] == [f"suite.json:{n}" for n in (41, 42, 43, 44)]
    assert "malformed" in read.refused[0].reason
    assert "suite.json:2" in read.refused[2].reason
    assert "Poem" in read.refused[3].reason or "poem" in read.refused[3].reason
    assert {t.problem.problem.category for t in read.tasks} == {"product"}
    assert {t.problem.problem.difficulty for t in read.tasks} == {"easy"}
    assert all("title" not in t.problem.answer for t in read.tasks)


def test_a_release_that_is_mostly_broken_is_refused_with_the_first_reasons(tmp_path: Path) -> None:
    lines = [json.dumps(task(n)) for n in range(20)] + ["{broken"] * 6
    (tmp_path / "synthesize_product_test.jsonl").write_text("\n".join(lines))
    with pytest.raises(ImportFailed, match=r"6 of 26 entries.*product:21: it is malformed.*and 3 more"):
        read_shoppingbench(tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '"x"', "{}"])
def test_a_file_that_is_no_suite_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(ImportFailed, match="ORO suite"):
        read_released(tmp_path / "x.json")
    with pytest.raises(ImportFailed, match="cannot be read"):
        read_released(tmp_path / "missing.json")


def test_the_suite_of_subnet_15_loads_whole_and_can_be_played(shared_data: Path, tmp_path: Path) -> None:
    world = prepare_released(tmp_path / "w", shared_data / "oro" / "problem_suite_v3.json", seed=1, public=6)
    assert not world.refused
    assert len(world.public.problems) + len(world.pool.problems) == 30
    assert {p.problem.difficulty for p in world.pool.problems} == {"easy", "medium"}


def snippets(tmp_path: Path) -> Path:
    file = tmp_path / "snippets.jsonl"
    file.write_text(json.dumps({"url": "u", "title": "t", "content": "Aitken played the violin"}) + "\n")
    return file


def test_web_tasks_are_played_where_there_is_something_to_search(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "shoppingbench"
    world = prepare_released(tmp_path / "w", source, seed=1, snippets=snippets(tmp_path))
    kinds = world.public.categories().get("web", 0) + world.pool.categories()["web"]
    assert kinds == 150
    assert not world.refused
    web = next(p.problem for p in world.pool.problems if p.problem.category == "web")
    assert "web_search" in {tool.name for tool in world.environment.tools(web)}
    found = world.environment.call("web_search", {"q": "what did Aitken play"})
    assert "violin" in json.dumps(found.content)


def prepared(directory: Path, path: Path) -> World:
    return prepare_suite(directory, path, seed=1, public=1)


def test_a_suite_folder_without_its_catalog_cannot_be_played(tmp_path: Path, catalog: Any) -> None:
    from problems.shopping.generation import suite_of
    from problems.shopping.options import ShoppingOptions
    from problems.suite_files import write_suite

    write_suite(suite_of((), catalog, name="s", options=ShoppingOptions()), tmp_path / "s")
    with pytest.raises(WorldError, match="arena problems generate"):
        prepared(tmp_path / "w", tmp_path / "s")
