"""Made to order: certified, at the difficulty asked for, and the same whoever makes them."""

from __future__ import annotations

import json
from collections import Counter
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from problems.leak_clusters import leak_clusters
from problems.problem import AnsweredProblem
from problems.shopping.answer import read_answer
from problems.shopping.catalog import Catalog
from problems.shopping.certificate import NotExact, cents, holds_words, prove
from problems.shopping.drawing import draw_voucher, needed_voucher
from problems.shopping.facts import Fact, KnowledgeError, read_facts
from problems.shopping.generation import Order, certified
from problems.shopping.generator import generate
from problems.shopping.levels import SHARES, SIZES, dealt
from problems.shopping.product import Product
from problems.shopping.reach import plain_search
from problems.shopping.scoring import intended_attempt, score
from problems.shopping.shelf import Shelf, fulfils
from problems.shopping.similarity import LexicalSimilarity
from problems.shopping.synthesis import Certified, SynthesisError
from problems.shopping.vouchers import money, total
from problems.shopping.web_rule import named

FACTS = (
    Fact(question="Which plant gives the fibre that most T-shirts are made of?", answer="Cotton"),
    Fact(question="What is hide called once it is tanned?", answer="leather", content="It is leather."),
    Fact(question="Which climbing palm is woven into furniture?", answer="Rattan"),
    Fact(question="Which thin transparent ware is blown?", answer="Glass"),
    Fact(question="Whose hoard is it that nobody sells?", answer="Fafnir"),
)
ORDER = Order({"product": 24, "shop": 12, "voucher": 18, "web": 9}, 5, ("easy", "medium", "hard"), FACTS)


@pytest.fixture(scope="module")
def made(catalog: Catalog) -> list[Certified]:
    return list(certified(catalog, ORDER, workers=1))


def problems(made: list[Certified], *categories: str) -> list[AnsweredProblem]:
    return [one.problem for one in made if one.problem.problem.category in categories]


def test_every_category_comes_in_every_difficulty_as_ordered(made: list[Certified]) -> None:
    counts = Counter((one.problem.problem.category, one.problem.problem.difficulty) for one in made)
    assert counts == ORDER.dealt()


def test_the_number_of_processes_changes_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    order = Order({"product": 30, "voucher": 9}, 6)
    alone = list(certified(catalog, order, workers=1))
    monkeypatch.setattr("problems.shopping.generation._ALONE", 1)
    assert list(certified(catalog, order, workers=2)) == alone
    assert list(certified(catalog, Order(order.counts, 7), workers=1)) != alone


def test_targets_have_all_that_is_asked_and_the_recorded_number_is_theirs(
    catalog: Catalog, made: list[Certified]
) -> None:
    shelf = Shelf(catalog)
    for problem in problems(made, "product", "voucher"):
        rewards = problem.answer["reward"]
        for reward, number in zip(
            rewards if isinstance(rewards, list) else [rewards], problem.answer["satisfying"], strict=True
        ):
            target = catalog.get(reward["product_id"])
            assert target is not None
            found = [p for p in shelf.kinds[target.category].products if fulfils(p, reward)]
            assert target in found
            assert len(found) == number


def test_a_hard_product_problem_has_one_answer_and_near_twins_that_are_none(
    catalog: Catalog, made: list[Certified]
) -> None:
    hard = [p for p in problems(made, "product") if p.problem.difficulty == "hard"]
    alike = LexicalSimilarity().similarity
    assert hard
    for problem in hard:
        assert problem.answer["satisfying"] == [1]
        title = problem.answer["reward"]["title"][0]
        assert sum(alike(product.title, title) >= 0.7 for product in catalog) > 1


def test_what_is_easy_is_shown_early_and_what_is_hard_is_not(catalog: Catalog, made: list[Certified]) -> None:
    for one in made:
        if one.problem.problem.category == "product" and one.problem.problem.difficulty != "medium":
            (target,) = read_answer(one.problem).reward
            words, filters = plain_search(target, one.nouns[0])
            shown = [
                p.product_id for n in range(1, 6) for p in catalog.search(words, page=n, filters=filters)
            ]
            rank = shown.index(target.product_id) + 1
            assert (rank <= 5) if one.problem.problem.difficulty == "easy" else (rank >= 3)


def test_what_a_small_catalog_does_not_give_is_made_easier_unless_it_was_asked_for(tmp_path: Path) -> None:
    small = Catalog.build(tmp_path / "small", generate(3, 120))
    made = list(certified(small, Order({"product": 30}, 2), workers=1))
    assert len(made) == 30
    assert Counter(one.problem.problem.difficulty for one in made)["hard"] < 9
    with pytest.raises(SynthesisError, match="of 30 hard product"):
        list(certified(small, Order({"product": 30}, 2, ("hard",)), workers=1))


def test_the_rules_solve_every_intended_answer(catalog: Catalog, made: list[Certified]) -> None:
    for one in made:
        assert score(one.problem, intended_attempt(one.problem), catalog.get, LexicalSimilarity()).solved


def test_vouchers_are_needed_and_enough_by_whole_centavos_and_by_the_rules(
    catalog: Catalog, made: list[Certified]
) -> None:
    for problem in problems(made, "voucher"):
        answer = read_answer(problem)
        products = [p for t in answer.reward if (p := catalog.get(t.product_id)) is not None]
        assert answer.voucher is not None
        proof = prove(answer.voucher, [p.price for p in products], len({p.shop_id for p in products}))
        assert proof.affordable
        assert proof.needed


def test_a_web_problem_names_its_product_by_the_answer_and_never_says_it(made: list[Certified]) -> None:
    web = problems(made, "web")
    questions = {fact.answer: fact.question for fact in FACTS}
    for problem in web:
        answer = read_answer(problem)
        assert answer.knowledge is not None
        assert problem.problem.query.startswith(questions[answer.knowledge])
        assert not holds_words(problem.problem.query, answer.knowledge)
        assert named(answer.knowledge, answer.reward[0].title[0])
    assert "Fafnir" not in {read_answer(p).knowledge for p in web}


def test_web_problems_on_one_fact_are_variants(made: list[Certified]) -> None:
    web = problems(made, "web")
    clusters = leak_clusters(web)
    by_fact: dict[str | None, set[str]] = {}
    for problem in web:
        by_fact.setdefault(read_answer(problem).knowledge, set()).add(clusters[problem.problem.problem_id])
    assert all(len(found) == 1 for found in by_fact.values())


@pytest.mark.parametrize("category", ["shop", "voucher"])
def test_baskets_have_shoppingbenchs_sizes_over_the_default_difficulties(category: str) -> None:
    sizes: Counter[int] = Counter()
    for difficulty, number in dealt(250, SHARES[category]).items():
        weights = SIZES[category][difficulty]
        for size, share in dealt(number, weights).items():
            sizes[size] += share
    assert sizes == {"shop": {2: 89, 3: 86, 4: 75}, "voucher": {1: 22, 2: 70, 3: 80, 4: 78}}[category]


def test_vouchers_follow_shoppingbenchs_distributions() -> None:
    rng = Random(3)
    drawn = [draw_voucher(rng, "platform", 1000.0) for _ in range(2000)]
    assert all(100 <= v.threshold <= 900 for v in drawn)
    assert abs(sum(v.threshold for v in drawn) / len(drawn) - 500) < 25
    fixed = [v for v in drawn if v.discount_type == "fixed"]
    assert abs(len(fixed) / len(drawn) - 113 / 250) < 0.05
    for voucher in drawn:
        assert voucher.affordable(money(1000.0), 1)
        if voucher.face_value is not None:
            assert 0.1 * voucher.threshold <= voucher.face_value <= max(0.5 * voucher.threshold, 11)
        else:
            assert voucher.discount is not None
            assert voucher.cap is not None
            assert 0.1 <= voucher.discount <= 0.5
            assert voucher.cap <= voucher.threshold


_PRICES = st.lists(st.integers(1, 400_000).map(lambda c: c / 100), min_size=1, max_size=4)


@settings(deadline=None)
@given(_PRICES, st.integers(0, 2**32), st.sampled_from(["platform", "shop"]), st.integers(1, 4))
def test_whole_centavos_and_decimals_always_agree(
    prices: list[float], seed: int, kind: str, shops: int
) -> None:
    price = total(prices)
    assume(price >= 10)
    voucher = draw_voucher(Random(seed), kind, float(price))
    proof = prove(voucher, prices, shops)
    assert Fraction(proof.before, 100 * proof.scale) == Fraction(price)
    assert Fraction(proof.after, 100 * proof.scale) == Fraction(voucher.after(price))
    assert proof.usable == voucher.usable(price, shops)
    assert proof.affordable == voucher.affordable(price, shops)


@settings(deadline=None, max_examples=60)
@given(_PRICES, st.integers(0, 2**32))
def test_a_voucher_that_is_kept_is_needed_and_enough(prices: list[float], seed: int) -> None:
    basket = [Product(product_id=str(n), shop_id="1", price=price) for n, price in enumerate(prices)]
    voucher = needed_voucher(Random(seed), "shop", basket)
    if voucher is not None:
        assert voucher.affordable(total(prices), 1)
        assert total(prices) > money(voucher.budget)


def test_a_fraction_of_a_centavo_cannot_be_proven() -> None:
    assert cents(0.29) == 29
    with pytest.raises(NotExact, match="no whole number of centavos"):
        cents(0.125)


def test_an_order_that_cannot_be_is_refused(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="knowledge file"):
        Order({"web": 1}, 1)
    with pytest.raises(ValueError, match=r"'poem'.*product, shop, voucher, web"):
        Order({"poem": 1}, 1)
    with pytest.raises(ValueError, match=r"'brutal'.*easy, medium, hard"):
        Order({"product": 1}, 1, ("brutal",))
    unknown = Order({"web": 4}, 1, (), FACTS[-1:])
    with pytest.raises(SynthesisError, match=r"web problems could be certified.*more facts"):
        list(certified(catalog, unknown, workers=1))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2"),
        ('{"question": "q"}', "answer"),
        ('{"question": "q", "answer": " "}', "answer"),
        ('{"question": "q", "answer": "a", "anwser": 1}', "anwser"),
    ],
)
def test_a_bad_line_of_a_knowledge_file_is_named(tmp_path: Path, line: str, why: str) -> None:
    file = tmp_path / "facts.jsonl"
    file.write_text(json.dumps({"question": "a", "answer": "b"}) + "\n" + line + "\n")
    with pytest.raises(KnowledgeError, match=f"line 2.*{why}|{why}"):
        read_facts(file)
    file.write_text("\n")
    with pytest.raises(KnowledgeError, match="no fact"):
        read_facts(file)
    with pytest.raises(KnowledgeError, match="cannot be read"):
        read_facts(tmp_path / "missing")


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=9), st.integers(0, 1000))
def test_what_is_dealt_adds_up_and_is_nearly_in_proportion(weights: list[int], count: int) -> None:
    assume(sum(weights) > 0)
    shares = {str(n): weight for n, weight in enumerate(weights)}
    parts = dealt(count, shares)
    assert sum(parts.values()) == count
    for name, weight in shares.items():
        assert abs(parts[name] - count * weight / sum(weights)) <= 1
