"""Fingerprints: what a copyist can change without being missed, and what honest work shares."""

from __future__ import annotations

import ast
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena import baselines, samples
from arena.calibration.copies import KINDS
from arena.calibration.measure import Tally, measure
from arena.rules import SimilarityRules
from arena.similarity import Like, Thresholds, copied, fingerprints, hashes, likes, pair_share, tokens, winnow

RULES = SimilarityRules()
AT = baselines.thresholds(RULES)
HASHES = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=60)


def read(source: str) -> list[str]:
    return tokens(ast.parse(source))


@given(HASHES, HASHES, HASHES, HASHES, st.integers(1, 12))
def test_what_is_shared_for_a_window_is_always_found(
    before: list[int], after: list[int], shared: list[int], other: list[int], window: int
) -> None:
    if len(shared) >= window:
        assert winnow(before + shared + after, window) & winnow(other + shared, window)


@given(HASHES, st.integers(1, 12))
def test_every_window_keeps_its_smallest_hash(values: list[int], window: int) -> None:
    expected = (
        {min(values[i : i + window]) for i in range(max(1, len(values) - window + 1))} if values else set()
    )
    assert winnow(values, window) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("f(x, 1, 'a')", "g(y, 22, b'bc')  # comment"),
        ("def f(a: int) -> str:\n    'doc'\n    return g(a)", "def h(b):\n    return i(b)"),
        ("import os\nf(os.path)", "f(p)"),
        ("a: int = 3\nprint(a)", "b = 4\nprint(b)"),
        ("f(x)\npass\n'text'\nif 0: g()", "f(x)"),
        ("def f():\n    return 1\n    g()", "def f():\n    return 1"),
        ("unread = 5\nf()", "f()"),
        ("self.x.y(z)", "y(z)"),
        ("f(f'{a} of {b!r}')", "f('text')"),
    ],
)
def test_what_changes_nothing_when_it_runs_changes_no_token(one: str, other: str) -> None:
    assert read(one) == read(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a + b", "a - b"), ("f(a)", "f(a, b)"), ("f(True)", "f(None)"), ("if a: f()", "while a: f()")],
)
def test_what_a_program_does_is_in_its_tokens(one: str, other: str) -> None:
    assert read(one) != read(other)


def test_fingerprints_are_the_same_in_every_process() -> None:
    assert hashes(["if", "N", ":", "N"], 4) == [-1663990727181949400]


@given(st.text(alphabet="abN=+-()[]:\n 0", max_size=80))
@settings(max_examples=60)
def test_taking_fingerprints_of_anything_that_parses_ends_in_fingerprints(text: str) -> None:
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return
    assert all(-(2**63) <= f < 2**63 for f in fingerprints(text, k=4, window=4))


@pytest.mark.parametrize("name", samples.NAMES)
def test_a_public_baseline_has_nothing_of_its_own(name: str) -> None:
    found = fingerprints(samples.source(name).decode(), k=RULES.k, window=RULES.window)
    assert found
    assert not baselines.own(found, RULES)


SETS = st.frozensets(st.integers(0, 40), max_size=41)


@given(SETS, SETS)
def test_containment_is_the_same_either_way_and_a_share(one: frozenset[int], other: frozenset[int]) -> None:
    there = pair_share(len(one), Like("x", len(other), one & other), AT)
    back = pair_share(len(other), Like("x", len(one), one & other), AT)
    assert there == back
    assert 0.0 <= there <= 1.0


@given(SETS, st.dictionaries(st.integers(0, 5), SETS, max_size=5))
def test_a_copy_is_named_with_a_share_that_it_really_has(
    own: frozenset[int], others: dict[int, frozenset[int]]
) -> None:
    found = copied(len(own), likes(own, others), AT)
    if found is None:
        assert all(pair_share(len(own), like, AT) < AT.threshold for like in likes(own, others))
    elif len(found.of) > 1:
        together = frozenset().union(*(others[id] for id in found.of))
        assert found.share == len(own & together) / len(own) >= AT.threshold
    else:
        assert AT.threshold <= found.share <= 1.0


def test_sources_that_say_too_little_are_nobodys_copies() -> None:
    few = frozenset(range(RULES.own_fingerprints - 1))
    assert copied(len(few), likes(few, {"same": few}), AT) is None


def test_a_little_of_many_is_no_copy_but_much_of_two_is() -> None:
    own = frozenset(range(100))
    many = {n: frozenset(range(10 * n, 10 * n + 10)) for n in range(10)}
    assert copied(100, likes(own, many), AT) is None
    halves = {"a": frozenset(range(50)) | frozenset(range(1000, 1900)), "b": frozenset(range(40, 95))}
    halves["b"] |= frozenset(range(2000, 2900))
    found = copied(100, likes(own, halves), AT)
    assert found is not None
    assert set(found.of) == {"a", "b"}
    assert copied(100, likes(own, halves), Thresholds(AT.threshold, 16, 1, AT.merged_share)) is None


@pytest.fixture(scope="module")
def tallies() -> list[Tally]:
    return measure(RULES, rounds=1)


def test_copies_are_found_however_they_are_disguised(tallies: list[Tally]) -> None:
    recall = {t.kind: t.rate for t in tallies if t.copies}
    assert set(recall) == {*KINDS, "halves of two merged"}
    hardest = recall.pop("live statements between")
    assert min(recall.values()) >= 0.95, recall
    assert hardest >= 0.75


def test_honest_work_is_not_called_a_copy_nor_comes_near(tallies: list[Tally]) -> None:
    honest = [t for t in tallies if not t.copies]
    assert sum(t.sources for t in honest) >= 60
    assert sum(t.called for t in honest) == 0
    assert max(t.nearest for t in honest) <= RULES.threshold / 2


def test_the_same_seed_makes_the_same_copies() -> None:
    source = samples.source("subtask").decode()
    for make in KINDS.values():
        assert make(source, Random(1)) == make(source, Random(1))
        ast.parse(make(source, Random(2)))
