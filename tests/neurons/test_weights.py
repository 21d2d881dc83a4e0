from __future__ import annotations

import pytest
from bittensor.intents import normalize
from hypothesis import given
from hypothesis import strategies as st

from neurons.weights import U16_MAX, explains, max_upscaled, weights_by_uid

HOTKEYS = [f"hk{n}" for n in range(12)]
UIDS = st.permutations(range(12)).flatmap(
    lambda order: st.sets(st.sampled_from(HOTKEYS)).map(
        lambda present: {h: u for h, u in zip(HOTKEYS, order, strict=True) if h in present}
    )
)
PAYOUT = st.dictionaries(st.sampled_from(HOTKEYS), st.integers(0, 5000))


@given(payout=PAYOUT, burn=st.integers(1, 5000), uids=UIDS, burn_uid=st.integers(0, 11))
def test_no_unit_of_the_payout_is_lost(
    payout: dict[str, int], burn: int, uids: dict[str, int], burn_uid: int
) -> None:
    mapped = weights_by_uid(payout, burn=burn, uids=uids, burn_uid=burn_uid)
    assert sum(mapped.weights.values()) == burn + sum(payout.values())
    assert all(weight > 0 for weight in mapped.weights.values())


@given(payout=PAYOUT, burn=st.integers(1, 5000), uids=UIDS, burn_uid=st.integers(0, 11))
def test_a_registered_hotkey_gets_its_own_units_whoever_else_is_missing(
    payout: dict[str, int], burn: int, uids: dict[str, int], burn_uid: int
) -> None:
    mapped = weights_by_uid(payout, burn=burn, uids=uids, burn_uid=burn_uid)
    for hotkey, uid in uids.items():
        burned = mapped.burned if uid == burn_uid else 0
        assert mapped.weights.get(uid, 0) == payout.get(hotkey, 0) + burned


def test_the_share_of_an_unregistered_hotkey_is_burned_and_named() -> None:
    mapped = weights_by_uid({"a": 40_000, "gone": 20_000}, burn=5535, uids={"a": 3, "own": 0}, burn_uid=0)
    assert mapped.weights == {0: 25_535, 3: 40_000}
    assert mapped.missing == ("gone",)


def test_units_of_a_hotkey_on_the_burn_uid_are_added_to_the_burned_ones() -> None:
    assert weights_by_uid({"own": 100}, burn=50, uids={"own": 0}, burn_uid=0).weights == {0: 150}


@pytest.mark.parametrize(
    ("payout", "burn", "uids"),
    [
        ({"a": -1}, 5, {"a": 1}),
        ({"a": 1}, -5, {"a": 1}),
        ({}, 0, {}),
        ({"a": 60_000}, 6000, {"a": 1}),
        ({"a": 1}, 0, {"a": 1, "b": 1}),
    ],
)
def test_a_payout_that_cannot_be_weights_is_an_error(
    payout: dict[str, int], burn: int, uids: dict[str, int]
) -> None:
    with pytest.raises(ValueError):
        weights_by_uid(payout, burn=burn, uids=uids, burn_uid=0)


@given(
    st.dictionaries(st.integers(0, 255), st.integers(0, U16_MAX), min_size=1).filter(
        lambda w: any(w.values())
    )
)
def test_the_expected_row_is_what_the_sdk_sends(weights: dict[int, int]) -> None:
    ordered = sorted(weights)
    uids, values = normalize(ordered, [float(weights[uid]) for uid in ordered])
    assert max_upscaled(weights) == dict(zip(uids, values, strict=True))


@given(st.dictionaries(st.integers(0, 255), st.integers(1, U16_MAX), min_size=1))
def test_scaling_drops_no_positive_weight_and_is_stable(weights: dict[int, int]) -> None:
    once = max_upscaled(weights)
    assert once.keys() == weights.keys()
    assert max_upscaled(once) == once


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 4000), max_size=8),
    st.sets(st.sampled_from("abcdefgh")),
)
def test_the_row_of_a_payout_explains_itself_whoever_has_left(units: dict[str, int], gone: set[str]) -> None:
    burn = U16_MAX - sum(units.values())
    uids = {hotkey: uid for uid, hotkey in enumerate("abcdefgh", start=1) if hotkey not in gone}
    sent = max_upscaled(weights_by_uid(units, burn=burn, uids=uids, burn_uid=0).weights)
    assert explains(units, burn=burn, sent=sent.values())
    assert not explains(units, burn=burn, sent=[U16_MAX, 30_000, 20_001])
