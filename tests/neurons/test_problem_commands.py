"""`arena problems`: suites are made, brought in and checked from the command line, and can then be played."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from neurons import cli
from problems.shopping.world import prepare_suite
from problems.suite_files import read_suite
from problems.worlds import prepared
from tests.problems.scripted_endpoint import KEY, Model, served

FACTS = [
    {"question": "What is tanned hide called?", "answer": "leather", "content": "Tanned hide is leather."},
    {"question": "Which plant gives most shirts their fibre?", "answer": "cotton"},
    {"question": "What do pandas eat?", "answer": "bamboo"},
    {"question": "Which polymer did Carothers invent for DuPont?", "answer": "nylon"},
    {"question": "Of what are windows made?", "answer": "glass"},
    {"question": "What do carpenters work with above all?", "answer": "wood"},
    {"question": "What is a net's fabric called?", "answer": "mesh"},
    {"question": "What is the opposite of glossy?", "answer": "matte"},
]


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


Arena = Callable[..., Ended]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Arena:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Ended:
        monkeypatch.setattr(sys, "argv", ["arena", "problems", *arguments])
        try:
            cli.main()
            status = 0
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capfd.readouterr()
        return Ended(status, said.out, said.err)

    return run


def generated(run: Arena, *more: str) -> dict[str, object]:
    ended = run("generate", "--products=600", "--count=20", "--seed=3", "--out=suite", "--json", *more)
    assert ended.status == 0, ended.err
    made: dict[str, object] = json.loads(ended.out)
    return made


def test_a_suite_is_made_checked_and_played(run: Arena, tmp_path: Path) -> None:
    (tmp_path / "facts.jsonl").write_text("".join(json.dumps(fact) + "\n" for fact in FACTS))
    made = generated(
        run, "--categories=product,shop,voucher,web", "--difficulty=easy,medium", "--knowledge=facts.jsonl"
    )
    assert made["categories"] == {"product": 5, "shop": 5, "voucher": 5, "web": 5}
    assert set(made["difficulties"]) == {"easy", "medium"}  # type: ignore[call-overload]
    assert read_suite(tmp_path / "suite").suite_id == made["suite_id"]

    audit = run("audit", "suite", "--json")
    assert audit.status == 0, audit.out
    found = json.loads(audit.out)
    assert (found["problems"], found["defective"], found["unchecked"]) == (20, 0, [])

    world = prepared(
        "shopping", tmp_path / "world", seed=1, public=4, pool=None, products=0, path=tmp_path / "suite"
    )
    web = [p for p in (*world.pool.problems, *world.public.problems) if p.problem.category == "web"]
    assert len(web) == 5
    assert "web_search" in {tool.name for tool in world.environment.tools(web[0].problem)}
    assert "leather" in json.dumps(world.environment.call("web_search", {"q": "tanned hide"}).content)
    again = prepare_suite(tmp_path / "world", tmp_path / "suite", seed=1, public=4)
    assert again.pool.suite_id == world.pool.suite_id


def test_the_same_order_gives_the_same_suite_from_a_catalog_that_is_kept(run: Arena) -> None:
    made = generated(run)
    ended = run("generate", "--catalog=suite/catalog", "--count=20", "--seed=3", "--out=suite2", "--json")
    again = json.loads(ended.out)
    for field in ("problems_sha256", "answers_sha256", "catalog_id"):
        assert again[field] == made[field]


def test_what_is_made_is_told_in_words(run: Arena) -> None:
    ended = run("generate", "--products=300", "--count=6", "--out=s", "--categories=product")
    assert (ended.status, ended.err) == (0, "")
    assert "6 problems in s" in ended.out
    assert "product 6" in ended.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["generate", "--out=s"], "--catalog FOLDER, or --products N"),
        (["generate", "--out=s", "--products=300", "--catalog=."], "--catalog FOLDER, or --products N"),
        (["generate", "--out=s", "--products=300", "--categories=poem"], "poem"),
        (["generate", "--out=s", "--products=300", "--categories=,"], "--categories"),
        (["generate", "--out=s", "--products=300", "--categories=web"], "knowledge file"),
        (["generate", "--out=s", "--products=300", "--difficulty=brutal"], "brutal"),
        (["generate", "--out=s", "--products=300", "--knowledge=missing"], "missing"),
        (["generate", "--out=s", "--products=60", "--count=90"], "larger catalog"),
        (["generate", "--out=full", "--products=300"], "choose another --out"),
        (["generate", "--out=s", "--catalog=full"], "no catalog in full"),
        (["import", "full", "--out=s"], "synthesize_product_test"),
        (["import", "full/x", "--out=s"], "ORO suite"),
        (["audit", "full"], "synthesize_product_test"),
        (
            ["generate", "--out=s", "--products=300", "--count=3", "--llm.base-url=http://127.0.0.1:9/v1"],
            "--llm.model",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(
    run: Arena, tmp_path: Path, arguments: list[str], words: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("x")
    ended = run(*arguments)
    assert ended.status == 2, ended
    assert words in ended.err
    assert "Traceback" not in ended.err
    assert not (tmp_path / "s").exists(), "what failed leaves nothing in the way of the next try"


def test_a_suite_that_was_tampered_with_is_named_and_not_audited(run: Arena, tmp_path: Path) -> None:
    generated(run, "--categories=product")
    problems = tmp_path / "suite" / "problems.jsonl"
    problems.write_text(problems.read_text().replace("product-", "product_", 1))
    ended = run("audit", "suite")
    assert ended.status == 2
    assert "suite/problems.jsonl was changed" in ended.err


def test_findings_end_with_status_1_and_tell_no_text_of_the_tasks(run: Arena, tmp_path: Path) -> None:
    task = {
        "query": "a Wide Summer Straw Hat",
        "reward": {"product_id": "1", "title": ["Wide Summer Straw Hat"]},
    }
    (tmp_path / "synthesize_product_test.jsonl").write_text(json.dumps(task))
    ended = run("audit", ".")
    assert ended.status == 1
    assert "product:1: the title stands in the query (target 1)" in ended.out
    assert "not checked without a catalog: a target is not in the catalog" in ended.out
    assert "Straw" not in ended.out


def test_a_release_is_brought_in_with_what_is_refused_by_name(run: Arena, tmp_path: Path) -> None:
    (tmp_path / "release").mkdir()
    tasks = [
        {"query": f"hat {n}", "reward": {"product_id": str(n), "title": [f"hat {n}"]}, "category": "Product"}
        for n in range(3)
    ]
    (tmp_path / "oro.json").write_text(json.dumps([*tasks, {"query": "x"}]))
    ended = run("import", "oro.json", "--out=s")
    assert (ended.status, ended.err) == (0, "")
    assert "3 problems in s" in ended.out
    assert "refused oro.json:4: it is malformed at reward" in ended.out
    assert len(read_suite(tmp_path / "s").problems) == 3


def test_a_model_words_the_queries_and_what_it_cannot_is_counted(
    run: Arena, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    model = Model(misread=lambda read: "hm", faults=6)
    with served(model) as url:
        arguments = ("--products=300", "--count=4", "--categories=product", f"--llm.base-url={url}")
        made = run("generate", *arguments, "--llm.model=m", "--llm.tries=1", "--out=a")
        refusing = run("generate", *arguments, "--llm.model=m", "--llm.refuse", "--out=b", "--json")
        model.status, model.asked = 401, []
        refused = run("generate", *arguments, "--llm.model=m", "--out=c")
    assert made.status == refusing.status == 0
    assert "times: written by the model and read back" in made.out
    assert "times: kept its template: the reading is not the JSON that was asked for" in made.out
    queries = [p.problem.query for p in read_suite(tmp_path / "a").problems]
    assert 0 < sum(query.startswith("I wish for ") for query in queries) < 4
    assert json.loads(refusing.out)["problems"] == 4
    assert refused.status == 2
    assert "OPENAI_API_KEY" in refused.err
    assert KEY not in refused.err + made.out
