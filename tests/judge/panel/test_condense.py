"""Long episodes made short, without taking away what a gate can be passed or failed by."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from judge.condense import LEFT_OUT, WHOLE_BYTES, condensed
from judge.evidence import Evidence, evidence
from judge.gold.loading import load
from judge.grounded import judge
from tests.judge.episodes import CLOSING, COMPARISON, MUG_DETAILS, MUGS, Episode

WORDS = ("ceramic", "stoneware", "mug", "black", "matte", "glaze", "handle", "studio", "morning", "wide")
FILLER = "a description that goes on about nothing in particular and that no reasoning ever speaks of " * 6


def _product(number: int, title: str, price: float) -> dict[str, Any]:
    return {
        "product_id": str(5_000_000_000 + number),
        "shop_id": str(number % 7),
        "title": title,
        "price": price,
        "service": ["COD", "freeShipping"][: number % 3],
        "attributes": {"material": ["bone china of the east" if number % 4 else "ceramic"]},
        "description": FILLER,
    }


def _long(said: str, products: list[dict[str, Any]]) -> Evidence:
    log = Episode().search(found=MUGS).search(found=products).think(said)
    return evidence(log.recommend(CLOSING).events)


def _many() -> list[dict[str, Any]]:
    return [_product(n, f"Kettle number{n} of cast iron", 300.0 + n) for n in range(60)]


def _records(seen: Evidence) -> list[dict[str, Any]]:
    return seen.calls()[1].result  # type: ignore[no-any-return]


def test_a_short_episode_is_shown_whole() -> None:
    seen = evidence(Episode().search().think(COMPARISON).recommend(CLOSING).events)
    assert len(seen.to_bytes()) <= WHOLE_BYTES
    assert condensed(seen) is seen


def test_what_the_reasoning_refers_to_stays_whole_with_its_neighbours() -> None:
    named = [_many()[20]["product_id"], "number30", "only 340 pesos"]
    for said, at in zip(named, (20, 30, 40), strict=True):
        records = _records(condensed(_long(f"I look at {said}, which seems right to me here.", _many())))
        whole = [n for n, record in enumerate(records) if LEFT_OUT not in record]
        assert whole == [0, 1, at - 1, at, at + 1]


def test_what_a_call_asks_for_stays_whole() -> None:
    log = Episode().search(found=_many()).recommend("done", ids=_many()[9]["product_id"])
    records = condensed(evidence(log.events)).calls()[0].result
    assert records[9] == _many()[9]


def test_of_the_rest_ids_prices_services_and_short_values_stay_and_what_is_missing_is_named() -> None:
    record = _records(condensed(_long("Nothing.", _many())))[44]
    original = _many()[44]
    assert record[LEFT_OUT] == ["title", "description"]
    for key in ("product_id", "shop_id", "price", "service", "attributes"):
        assert record[key] == original[key]
    other = _records(condensed(_long("Nothing.", _many())))[45]
    assert other["attributes"] == {"material": []}
    assert other[LEFT_OUT] == ["title", "attributes", "description"]


def test_reasoning_query_and_arguments_are_never_shortened() -> None:
    said = "I think about every single one of them at length. " * 2000
    seen = _long(said, _many())
    short = condensed(seen)
    assert short.query == seen.query
    assert [s.spoken for s in short.steps] == [s.spoken for s in seen.steps]
    assert [c.arguments for c in short.calls()] == [c.arguments for c in seen.calls()]
    assert len(short.to_bytes()) < len(seen.to_bytes())


def test_condensing_twice_changes_nothing() -> None:
    seen = condensed(_long(COMPARISON, _many()))
    assert [c.result for c in condensed(seen).calls()][1][5] == _records(seen)[5]


_TITLE = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
_PRICE = st.integers(1, 40).map(lambda n: n * 12.5)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_grounded_judge_finds_the_same_in_condensed_evidence(data: st.DataObject) -> None:
    """Whatever a sentence claims, rightly or wrongly, it can be checked as well as before."""
    titles = data.draw(st.lists(_TITLE, min_size=40, max_size=50))
    prices = data.draw(st.lists(_PRICE, min_size=len(titles), max_size=len(titles)))
    products = [_product(n, t, p) for n, (t, p) in enumerate(zip(titles, prices, strict=True))]
    one, two = (data.draw(st.sampled_from(products)) for _ in range(2))
    claimed = data.draw(_PRICE)
    said = (
        f"{one['product_id']} costs {claimed} PHP and is of {one['attributes']['material'][0]}, while "
        f"the {two['title']} at {two['price']} PHP is cheaper than {one['product_id']} and supports "
        f"{two['service'] or 'nothing'}. There is also 6123456789. None of the others is below {claimed} PHP."
    )
    log = Episode().search(found=products).think(said).view(COMPARISON)
    seen = evidence(log.recommend(CLOSING, ids=one["product_id"]).events)
    short = condensed(seen)
    assert len(seen.to_bytes()) > WHOLE_BYTES
    assert judge(short) == judge(seen)


def test_the_grounded_judge_finds_the_same_in_every_labelled_case() -> None:
    for case in load("dev").cases:
        seen = case.evidence()
        assert judge(condensed(seen, whole_bytes=0)) == judge(seen), case.id


def test_details_of_what_was_viewed_are_not_touched() -> None:
    seen = evidence(Episode().search(found=_many()).view(COMPARISON).recommend(CLOSING).events)
    assert json.dumps(condensed(seen).calls()[1].result) == json.dumps(MUG_DETAILS)
