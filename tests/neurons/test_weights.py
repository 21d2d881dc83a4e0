from __future__ import annotations

import pytest
from bittensor.intents import normalize
from hypothesis import given
from hypothesis import strategies as st

from neurons.chain_types import Epoch, Metagraph, Neuron, SealedWeights, Standing
from neurons.weights import (
    U16_MAX,
    KeepLast,
    UidWeights,
    due,
    explains,
    max_upscaled,
    next_look,
    overdue,
    stands,
    weights_by_uid,
    what_to_say,
)

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


OWN, OWNER = "own", "owner"
ROW = {1: U16_MAX}


def _graph(*hotkeys: str, block: int = 1) -> Metagraph:
    neurons = tuple(
        Neuron(uid, hotkey, "c", 0.0, False, 0.0, True, 0, 0) for uid, hotkey in enumerate(hotkeys)
    )
    return Metagraph(block, OWNER, neurons)


def _standing(
    block: int = 1000,
    *,
    last_update: int = 900,
    rate_limit: int = 100,
    row: dict[int, int] | None = None,
    sealed: tuple[SealedWeights, ...] = (),
    tempo: int = 360,
    last_epoch: int = 720,
) -> Standing:
    epoch = Epoch(tempo, last_epoch, last_epoch + tempo if tempo else None)
    return Standing(block, 3, last_update, rate_limit, 5000, epoch, bool(sealed), row or {}, sealed)


@pytest.mark.parametrize(
    ("settlement", "graph", "why"),
    [
        (None, _graph(OWNER, OWN), "no race has settled"),
        ({}, _graph(OWNER, OWN), "pays nobody"),
        ({"payout": {"units": {"a": 0}, "burn": 0}}, _graph(OWNER, OWN, "a"), "pays nobody"),
        ({"payout": {"units": {"a": 5}, "burn": 5}}, _graph(OWNER, "a"), "does not hold our own hotkey"),
        ({"payout": {"units": {"a": 5}, "burn": 5}}, _graph(), "does not hold our own hotkey"),
    ],
)
def test_nothing_to_say_leaves_the_last_weights_and_burns_nothing(
    settlement: dict[str, object] | None, graph: Metagraph, why: str
) -> None:
    said = what_to_say(settlement, graph, own=OWN)
    assert isinstance(said, KeepLast)
    assert why in said.reason


def test_a_burn_that_the_rules_ask_for_is_said() -> None:
    said = what_to_say({"payout": {"units": {}, "burn": 65535}}, _graph(OWNER, OWN), own=OWN)
    assert said == UidWeights({0: 65535}, (), 65535)


def test_a_uid_that_changed_hands_between_race_and_payment_pays_neither_its_old_holder_nor_its_new_one() -> (
    None
):
    settlement = {"payout": {"units": {"champion": 40_000, "second": 20_000}, "burn": 5535}}
    before = what_to_say(settlement, _graph(OWNER, OWN, "champion", "second"), own=OWN)
    after = what_to_say(settlement, _graph(OWNER, OWN, "newcomer", "second", "champion"), own=OWN)
    gone = what_to_say(settlement, _graph(OWNER, OWN, "newcomer", "second"), own=OWN)
    assert isinstance(before, UidWeights)
    assert isinstance(after, UidWeights)
    assert isinstance(gone, UidWeights)
    assert before.weights == {0: 5535, 2: 40_000, 3: 20_000}
    assert after.weights == {0: 5535, 3: 20_000, 4: 40_000}
    assert gone.weights == {0: 45_535, 3: 20_000}
    assert gone.missing == ("champion",)


def test_weights_that_differ_are_due_as_soon_as_the_rate_limit_allows() -> None:
    assert due(_standing(950), ROW, last_sent=None).block == 1000
    assert due(_standing(1300), ROW, last_sent=None).block == 1300
    assert due(_standing(950), ROW, last_sent=None).why == "changed"


def test_weights_that_stand_are_due_again_halfway_to_the_activity_cutoff_late_in_an_epoch() -> None:
    again = due(_standing(row=ROW), ROW, last_sent=ROW)
    assert again.why == "refresh"
    assert again.block == 720 + 360 * 8 - 90  # 900 + 2500 lies in the epoch that ends at block 3600
    assert 900 + 2500 <= again.block < 900 + 5000


def test_sealed_weights_stand_while_they_are_those_that_were_sent() -> None:
    sealed = (SealedWeights(950, 7),)
    assert stands(_standing(row={2: U16_MAX}, sealed=sealed), ROW, last_sent=ROW)
    assert not stands(_standing(row=ROW, sealed=sealed), ROW, last_sent={2: U16_MAX})
    assert not stands(_standing(row=ROW, sealed=sealed), ROW, last_sent=None)


def test_sealed_weights_that_were_never_opened_are_sent_again() -> None:
    assert due(_standing(1200, row={}), ROW, last_sent=ROW).why == "changed"


@given(
    block=st.integers(0, 10**6),
    ago=st.integers(0, 10**5),
    rate_limit=st.integers(0, 1000),
    tempo=st.integers(0, 1000),
    into=st.integers(0, 1000),
    changed=st.booleans(),
)
def test_weights_are_never_due_within_the_rate_limit_nor_in_the_past(
    block: int, ago: int, rate_limit: int, tempo: int, into: int, changed: bool
) -> None:
    standing = _standing(
        block,
        last_update=max(0, block - ago),
        rate_limit=rate_limit,
        tempo=tempo,
        last_epoch=max(0, block - into % max(1, tempo)),
        row=ROW,
    )
    when = due(standing, {2: U16_MAX} if changed else ROW, last_sent=ROW).block
    assert when >= standing.block
    assert when - standing.last_update >= rate_limit
    if not changed:
        assert when <= max(block, standing.last_update + max(rate_limit, 2500)) + tempo


@given(block=st.integers(1, 10**6), tempo=st.integers(4, 1000), into=st.integers(0, 1000))
def test_the_metagraph_is_looked_at_once_an_epoch_before_it_ends(block: int, tempo: int, into: int) -> None:
    standing = _standing(block, tempo=tempo, last_epoch=max(0, block - into % tempo))
    look = next_look(standing)
    assert block < look <= block + 2 * tempo
    assert (look - standing.epoch.last_block) % tempo >= tempo - max(1, tempo // 4)


def test_an_alarm_rings_before_the_chain_takes_us_for_inactive() -> None:
    assert not overdue(_standing(900 + 3749))
    assert overdue(_standing(900 + 3750))
