"""Variants end up in one cluster, whatever the order, and draws never hold two of one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.leak_clusters import NEAR, leak_clusters, near_pairs, query_key
from problems.problem import AnsweredProblem, Problem
from problems.rotation import Candidate, PoolTooSmall, draw, even_shares


def asked(name: str, query: str, *keys: str) -> AnsweredProblem:
    problem = Problem(problem_id=name, environment="e", category="c", query=query)
    return AnsweredProblem(problem=problem, answer={}, leak_keys=keys)


def test_shared_keys_link_problems_through_others() -> None:
    clusters = leak_clusters(
        [asked("a", "x", "1"), asked("b", "y", "1", "2"), asked("c", "z", "2"), asked("d", "w", "3")]
    )
    assert clusters["a"] == clusters["b"] == clusters["c"] != clusters["d"]


def test_nearly_equal_queries_are_variants() -> None:
    words = [f"word{i}" for i in range(40)]
    near = [*words[:-1], "changed"]
    clusters = leak_clusters([asked("a", " ".join(words)), asked("b", " ".join(near)), asked("c", "else")])
    assert clusters["a"] == clusters["b"] != clusters["c"]


def test_a_query_key_ignores_case_punctuation_and_numbers() -> None:
    assert query_key("Budget of `425`!") == query_key("budget of 31")
    assert query_key("red hat") != query_key("red cap")


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.sets(st.sampled_from("123456"))), max_size=12),
    st.randoms(),
)
def test_clusters_do_not_depend_on_order(rows: list[tuple[str, set[str]]], rng: random.Random) -> None:
    problems = [asked(f"p{i}", query, *sorted(keys)) for i, (query, keys) in enumerate(rows)]
    shuffled = problems[:]
    rng.shuffle(shuffled)
    assert leak_clusters(problems) == leak_clusters(shuffled)


@given(st.lists(st.frozensets(st.sampled_from("abcdefghij"), min_size=1), max_size=15))
def test_near_pairs_are_exactly_the_near_ones(sets: list[frozenset[str]]) -> None:
    expected = {
        (i, j)
        for j in range(len(sets))
        for i in range(j)
        if len(sets[i] & sets[j]) >= NEAR * len(sets[i] | sets[j])
    }
    assert set(near_pairs(sets)) == expected


def test_a_repeated_problem_id_is_refused() -> None:
    with pytest.raises(ValueError, match="unique"):
        leak_clusters([asked("a", "x"), asked("a", "y")])


POOL = [Candidate(f"p{i}", "abc"[i % 3], f"k{i // 2}") for i in range(60)]
ARGUMENTS: dict[str, Any] = {"root": "r", "race_number": 1, "block_hash": "0xab"}


@given(st.randoms(), st.integers(1, 24))
def test_a_draw_is_a_pure_function_of_its_arguments(rng: random.Random, size: int) -> None:
    shuffled = POOL[:]
    rng.shuffle(shuffled)
    drawn = draw(POOL, size=size, **ARGUMENTS)
    assert draw(shuffled, size=size, **ARGUMENTS) == drawn
    assert len(set(drawn)) == size


@given(st.integers(1, 24), st.text())
def test_a_draw_holds_no_two_problems_of_one_cluster(size: int, block_hash: str) -> None:
    cluster_of = {c.problem_id: c.cluster_id for c in POOL}
    drawn = draw(POOL, root="r", race_number=2, block_hash=block_hash, size=size)
    assert len({cluster_of[name] for name in drawn}) == size


def test_another_block_race_or_root_draws_others() -> None:
    first = draw(POOL, size=9, **ARGUMENTS)
    assert all(
        draw(POOL, size=9, **(ARGUMENTS | change)) != first
        for change in ({"block_hash": "0xac"}, {"race_number": 2}, {"root": "s"})
    )


def test_exposed_clusters_come_only_when_others_run_out() -> None:
    pool = [Candidate(f"p{i}", "a", f"k{i}") for i in range(6)]
    exposed = {"k0", "k1", "k2"}
    assert set(draw(pool, size=3, exposed=exposed, **ARGUMENTS)) == {"p3", "p4", "p5"}
    assert len(draw(pool, size=5, exposed=exposed, **ARGUMENTS)) == 5


def test_a_quota_is_kept_and_must_fit_the_size() -> None:
    drawn = draw(POOL, size=6, quota={"a": 1, "b": 5}, **ARGUMENTS)
    category_of = {c.problem_id: c.category for c in POOL}
    assert sorted(category_of[name] for name in drawn) == ["a", "b", "b", "b", "b", "b"]
    with pytest.raises(ValueError, match="adds up"):
        draw(POOL, size=6, quota={"a": 1}, **ARGUMENTS)


@pytest.mark.parametrize("quota", [None, {"a": 61}])
def test_too_small_a_pool_is_an_error(quota: dict[str, int] | None) -> None:
    with pytest.raises(PoolTooSmall, match="clusters"):
        draw(POOL, size=61, quota=quota, **ARGUMENTS)


def test_shares_are_even_until_a_category_runs_out() -> None:
    assert even_shares({"a": 9, "b": 1, "c": 9}, 8) == {"a": 4, "b": 1, "c": 3}
