from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.environment import Attempt, AttemptStep, ToolUse
from problems.leak_clusters import leak_clusters
from problems.ledger.ledger import CATEGORIES, LedgerError, ask, generate
from problems.ledger.ledger_environment import PAGE_SIZE, TOOLS, LedgerEnvironment
from problems.problem import AnsweredProblem
from problems.shopping.world import WorldError
from problems.worlds import prepared

LEDGER = generate(3, counterparties=30)
WORLD = LedgerEnvironment(LEDGER)
PROBLEMS = ask(LEDGER, each=8, seed=3)


def _answered(*answers: str) -> Attempt:
    return Attempt(tuple(AttemptStep((ToolUse("submit_answer", {"answer": a}),)) for a in answers))


def _intended(problem: AnsweredProblem) -> str:
    return ", ".join(problem.answer.values())


def test_a_seed_gives_one_ledger_and_one_set_of_problems() -> None:
    assert generate(3, counterparties=30) == LEDGER
    assert ask(LEDGER, each=8, seed=3) == PROBLEMS
    assert generate(4, counterparties=30) != LEDGER
    assert ask(LEDGER, each=8, seed=4) != PROBLEMS


def test_every_category_is_asked_and_no_query_holds_its_answer() -> None:
    assert [sum(p.problem.category == c for p in PROBLEMS) for c in CATEGORIES] == [8, 8, 8]
    for problem in PROBLEMS:
        for part, value in problem.answer.items():
            assert part == "counterparty" or value not in problem.problem.query


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.problem.problem_id)
def test_the_answer_is_found_through_the_tools_alone(problem: AnsweredProblem) -> None:
    words = problem.problem.query.split()
    start, end = (w.strip("?,") for w in words if w.startswith("202"))
    account = words[words.index("account") - 1]
    rows = _all_rows({"account": account, "from": start, "to": end, "max_amount": -0.01})
    named = {r["counterparty"] for r in rows if str(r["counterparty"]) in problem.problem.query}
    totals = {n: sum(round(-100 * r["amount"]) for r in rows if r["counterparty"] == n) for n in named}
    name = max(totals, key=lambda n: totals[n])
    if problem.problem.category == "largest":
        least = min((r for r in rows if r["counterparty"] == name), key=lambda r: float(r["amount"]))
        assert problem.answer == {"transaction_id": least["transaction_id"]}
    else:
        assert problem.answer["amount"] == f"{totals[name] / 100:.2f}"
        assert problem.answer.get("counterparty", name) == name


def _all_rows(filters: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for page in range(1, 100):
        found = WORLD.call("search_transactions", {**filters, "page": page}).content
        rows += found
        if len(found) < PAGE_SIZE:
            break
    return rows


def test_the_right_answer_solves_however_it_is_worded() -> None:
    for problem in PROBLEMS:
        said = _intended(problem)
        assert WORLD.score(problem, _answered(f"The answer is {said}.")).solved
        assert WORLD.score(problem, _answered("1.00", said)).solved
        assert not WORLD.score(problem, _answered(said, "1.00")).solved
        assert not WORLD.score(problem, _answered(f"{said} or t-00001 or 7.77, Northgrid Energy")).solved
        assert not WORLD.score(problem, Attempt(())).solved


def test_a_thousands_separator_and_one_decimal_are_the_same_amount() -> None:
    problem = next(p for p in PROBLEMS if p.problem.category == "total")
    wanted = problem.model_copy(update={"answer": {"amount": "1236.50"}})
    assert WORLD.score(wanted, _answered("1,236.5")).solved
    assert not WORLD.score(wanted, _answered("1,236.51")).solved


def test_problems_on_a_common_transaction_are_one_cluster() -> None:
    clusters = leak_clusters(PROBLEMS)
    for one in PROBLEMS:
        for other in PROBLEMS:
            if set(one.leak_keys) & set(other.leak_keys):
                assert clusters[one.problem.problem_id] == clusters[other.problem.problem_id]


@pytest.mark.parametrize(
    ("tool", "arguments", "hint"),
    [
        ("search_transactions", {"accuont": "savings"}, "accuont"),
        ("search_transactions", {"account": "giro"}, "checking"),
        ("search_transactions", {"from": "March"}, "from"),
        ("search_transactions", {"page": 0}, "page"),
        ("search_transactions", [], "object"),
        ("submit_answer", {}, "answer"),
        ("find_product", {}, "search_transactions"),
    ],
)
def test_a_call_that_cannot_be_executed_is_answered_with_what_to_do(
    tool: str, arguments: object, hint: str
) -> None:
    reply = WORLD.call(tool, arguments)
    assert reply.error is not None
    assert hint in reply.error
    assert reply.content == {"error": reply.error}
    assert WORLD.canonical(tool, arguments) is None


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=6,
)
_NAMES = st.sampled_from(["text", "account", "from", "to", "min_amount", "max_amount", "page", "answer"])


@given(st.sampled_from([tool.name for tool in TOOLS]), _JSON | st.dictionaries(_NAMES, _JSON, max_size=4))
def test_no_arguments_raise(tool: str, arguments: object) -> None:
    reply = WORLD.call(tool, arguments)
    assert (
        (reply.error is None)
        == (reply.arguments is not None)
        == (WORLD.canonical(tool, arguments) is not None)
    )


def test_arguments_as_models_write_them_are_the_same_call() -> None:
    written = {"text": "Northgrid", "page": 1.0}
    assert WORLD.canonical("search_transactions", json.dumps(written)) == {"text": "Northgrid", "page": 1}
    as_text = WORLD.call("search_transactions", json.dumps(written))
    assert as_text == WORLD.call("search_transactions", written)
    assert WORLD.call("search_transactions", "{broken").error is not None


def test_only_an_accepted_answer_ends_the_episode() -> None:
    assert WORLD.is_final(ToolUse("submit_answer", {"answer": "1"}))
    assert not WORLD.is_final(ToolUse("submit_answer", {}, ok=False))
    assert WORLD.answered(_answered("1"))
    assert not WORLD.answered(Attempt((AttemptStep((ToolUse("search_transactions", {}),)),)))


def test_a_ledger_that_is_too_small_is_refused() -> None:
    with pytest.raises(LedgerError):
        generate(1, counterparties=10_000)
    with pytest.raises(LedgerError, match="larger"):
        ask(LEDGER[:6], each=5, seed=1)


def test_the_world_is_prepared_by_the_name_of_its_environment(tmp_path: Path) -> None:
    world = prepared("ledger", tmp_path, seed=5, public=9, pool=15, products=300)
    assert (world.environment.name, len(world.public.problems), len(world.pool.problems)) == ("ledger", 9, 15)
    assert prepared("ledger", tmp_path, seed=5, public=9, pool=15, products=300).public == world.public
    keys = [{k for p in suite.problems for k in p.leak_keys} for suite in (world.public, world.pool)]
    assert not keys[0] & keys[1]
    with pytest.raises(WorldError, match="ledger"):
        prepared("bank", tmp_path, seed=5, public=9, pool=15, products=300)
