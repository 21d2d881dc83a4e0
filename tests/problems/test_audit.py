"""The audit finds each defect that is planted, and none in what we make ourselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from problems.importers import read_released
from problems.problem import AnsweredProblem
from problems.shopping.audit import WITH_CATALOG, WITHOUT_CATALOG, audit
from problems.shopping.catalog import Catalog
from problems.shopping.identity import answered
from problems.shopping.ordering import synthesise
from problems.shopping.product import Product

HAT = Product(
    product_id="11111",
    shop_id="1",
    title="Wide Summer Straw Hat Deluxe",
    price=100.0,
    service=("COD",),
    attributes={"color": ("red",)},
    category="Fashion > Hats",
)
MUG = Product(product_id="22222", shop_id="2", title="Blue Mug", price=50.0, category="Home > Mugs")
TWINS = tuple(
    HAT.model_copy(update={"product_id": f"3{n:04}", "shop_id": "3", "title": "Blue Hat", "price": 5.0})
    for n in range(60)
)

VOUCHER = {"voucher_type": "platform", "discount_type": "fixed", "threshold": 50, "face_value": 30}


def target(product: Product = HAT, **constraints: Any) -> dict[str, Any]:
    wanted = constraints or {"attributes": [{"color": ["red"]}]}
    return {"product_id": product.product_id, "title": [product.title], **wanted}


def problem(query: str, answer: dict[str, Any], category: str = "product") -> AnsweredProblem:
    rewards = answer["reward"] if isinstance(answer["reward"], list) else [answer["reward"]]
    return answered(category, query, answer, [reward["product_id"] for reward in rewards])


def one(query: str = "a red hat for the sun", *, category: str = "product", **answer: Any) -> AnsweredProblem:
    return problem(query, {"reward": target(), **answer}, category)


def voucher(budget: float, query: str = "a red hat for the sun") -> AnsweredProblem:
    return one(query, category="voucher", voucher=VOUCHER | {"budget": budget}, reward=[target()])


def web(query: str, answer: str, product: Product = HAT) -> AnsweredProblem:
    return problem(query, {"reward": target(product), "Knowledge_Attribute": answer}, "web")


PLANTED: dict[str, Callable[[], list[AnsweredProblem]]] = {
    "the title stands in the query": lambda: [one("a wide summer straw hat, deluxe")],
    "most of the title stands in the query": lambda: [one("a straw hat, wide, for the summer, red")],
    "an id stands in the query": lambda: [one("a red hat (11111)")],
    "the answer stands in the query": lambda: [web("Is straw dry? A red hat made of it.", "Straw")],
    "the answer is too short to be told from parts of words": lambda: [web("Which letters?", "Hat"[:2])],
    "the target's title does not name the answer": lambda: [web("Which metal?", "iron")],
    "nothing but a title is asked for": lambda: [one(reward={"product_id": "11111", "title": [HAT.title]})],
    "the query is another's but for case, punctuation and numbers": lambda: [
        one("A red hat, 10 cm!"),
        one("a red hat 12 cm"),
    ],
    "another task says otherwise of the same product": lambda: [
        one("one", reward=target(price=[{"less than": [None, 99]}])),
        one("two", reward=target(price=[{"greater than": [120, None]}])),
    ],
    "the voucher is not needed": lambda: [voucher(100)],
    "the voucher does not bring the basket within the budget": lambda: [voucher(60)],
    "the rules cannot score it": lambda: [one(category="poem")],
    "a target is not in the catalog": lambda: [one(reward=target(HAT) | {"product_id": "9"})],
    "a target lacks what is asked of it": lambda: [one(reward=target(service=["official"]))],
    "a plain search does not show a target": lambda: [
        one("some item", reward=target(MUG, attributes=[{"color": ["straw hat"]}]))
    ],
    "the basket is not of one shop": lambda: [
        one(category="shop", reward=[target(), target(MUG, price=[{"less than": [None, 60]}])])
    ],
}


@pytest.fixture(scope="module")
def hats(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    mug = MUG.model_copy(update={"category": "Home > Straw Hat"})
    return Catalog.build(tmp_path_factory.mktemp("hats") / "catalog", [HAT, *TWINS, mug])


def test_every_defect_is_planted_here() -> None:
    assert set(PLANTED) == {*WITHOUT_CATALOG, *WITH_CATALOG}


@pytest.mark.parametrize("defect", PLANTED)
def test_a_planted_defect_is_found(hats: Catalog, defect: str) -> None:
    problems = PLANTED[defect]()
    found = audit({str(n): p for n, p in enumerate(problems)}, hats)
    assert found.counts().get(defect, 0) == 1, found.findings
    assert all(p.problem.query not in str(found.findings) for p in problems)


def test_a_sound_problem_is_found_sound(hats: Catalog) -> None:
    found = audit({"a": one("a red straw hat"), "b": voucher(80, query="a summer hat, red")}, hats)
    assert found.findings == ()
    assert set(found.counts().values()) == {0}


def test_what_cannot_be_checked_is_named_and_not_counted_as_passed(hats: Catalog) -> None:
    found = audit({"a": one(reward=target() | {"product_id": "9"})})
    assert found.unchecked == WITH_CATALOG
    assert not set(found.counts()) & set(WITH_CATALOG)


def test_the_price_that_a_voucher_names_stands_in_for_a_catalog() -> None:
    given = VOUCHER | {"budget": 100, "price_after_voucher": 60}
    found = audit({"a": one(category="voucher", voucher=given, reward=[target()])})
    assert found.counts()["the voucher is not needed"] == 1


def test_clusters_shared_with_another_set_are_counted() -> None:
    ours = {"a": one("a red hat for the sun"), "b": web("Which stuff?", "straw", MUG)}
    found = audit(ours, against=[one("something else, and red")])
    assert (found.clusters, found.clusters_shared) == (2, 1)
    assert audit(ours).clusters_shared is None
    assert audit(ours, against=[web("Quite another question?", "iron", TWINS[0])]).clusters_shared == 0


def test_what_is_synthesised_has_no_defect(catalog: Catalog) -> None:
    made = synthesise(catalog, {"product": 12, "shop": 9, "voucher": 12}, seed=8)
    found = audit({one.problem.problem.problem_id: one.problem for one in made}, catalog)
    assert found.findings == ()


def test_the_public_tasks_have_the_defects_that_are_written_down(shared_data: Path) -> None:
    tasks = read_released(shared_data / "shoppingbench").tasks
    found = audit({task.name: task.problem for task in tasks}).counts()
    assert found["the voucher is not needed"] == 18
    assert found["the title stands in the query"] == 11
    assert found["the answer stands in the query"] == 13
