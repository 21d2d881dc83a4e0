"""Generated catalogs and problems: the same for a seed, and provably solvable."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from problems.shopping.catalog import Catalog
from problems.shopping.generator import generate
from problems.shopping.ordering import synthesise
from problems.shopping.scoring import intended_attempt, match, read_answer
from problems.shopping.shopping_environment import ShoppingEnvironment
from problems.shopping.similarity import LexicalSimilarity
from problems.shopping.synthesis import Certified, SynthesisError
from problems.shopping.vouchers import money, total

COUNTS = {"product": 15, "shop": 10, "voucher": 15}


@pytest.fixture(scope="module")
def problems(catalog: Catalog) -> list[Certified]:
    return synthesise(catalog, COUNTS, seed=3)


def test_a_seed_gives_the_same_catalog_and_another_seed_another() -> None:
    assert list(generate(4, 200)) == list(generate(4, 200))
    assert list(generate(4, 200)) != list(generate(5, 200))


def test_a_catalog_is_full_of_near_twins() -> None:
    products = list(generate(4, 300))
    similarity = LexicalSimilarity()
    alike = sum(similarity.similarity(a.title, b.title) >= 0.7 for a, b in pairwise(products))
    assert alike > 100
    assert len({p.product_id for p in products}) == 300


def test_a_seed_gives_the_same_problems(catalog: Catalog, problems: list[Certified]) -> None:
    assert synthesise(catalog, COUNTS, seed=3) == problems
    assert synthesise(catalog, COUNTS, seed=4) != problems
    assert Counter(p.problem.problem.category for p in problems) == COUNTS


def test_the_intended_answer_of_every_problem_is_solved(
    environment: ShoppingEnvironment, problems: list[Certified]
) -> None:
    assert all(environment.score(p.problem, intended_attempt(p.problem)).solved for p in problems)


def test_every_target_has_all_that_is_asked(catalog: Catalog, problems: list[Certified]) -> None:
    for certified in problems:
        for target in read_answer(certified.problem).reward:
            product = catalog.get(target.product_id)
            assert product is not None
            other_name = target.model_copy(update={"product_id": "another"})
            assert match(product, other_name, LexicalSimilarity()).relevance == 1


def test_no_query_holds_a_title_or_an_id(catalog: Catalog, problems: list[Certified]) -> None:
    for certified in problems:
        said = certified.problem.problem.query.lower()
        for target in read_answer(certified.problem).reward:
            assert target.product_id not in said
            assert target.title[0].lower() not in said


def test_a_shop_basket_comes_from_one_shop(catalog: Catalog, problems: list[Certified]) -> None:
    for certified in problems:
        if certified.problem.problem.category == "shop":
            products = [catalog.get(t.product_id) for t in read_answer(certified.problem).reward]
            assert len({p.shop_id for p in products if p}) == 1


def test_a_voucher_brings_its_basket_to_the_price_it_names(
    catalog: Catalog, problems: list[Certified]
) -> None:
    for certified in problems:
        answer = read_answer(certified.problem)
        if answer.voucher is not None and answer.voucher.price_after_voucher is not None:
            products = [catalog.get(t.product_id) for t in answer.reward]
            price = total(p.price for p in products if p)
            assert answer.voucher.after(price) == money(answer.voucher.price_after_voucher)


def test_too_small_a_catalog_is_said_to_be_too_small(tmp_path: Path) -> None:
    small = Catalog.build(tmp_path / "small", generate(1, 40))
    with pytest.raises(SynthesisError, match="larger catalog"):
        synthesise(small, {"product": 100}, seed=1)
