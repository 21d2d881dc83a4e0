"""Payout: whatever the race looked like, the units add up and the right ones are paid."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arena.payout import TOTAL_UNITS, apportion, pay, tail_weights
from arena.rules import PayoutRules, exact
from neurons.weights import weights_by_uid

RULES = PayoutRules()
hotkeys = st.text("abcdefgh", min_size=1, max_size=3)
finishers = st.dictionaries(hotkeys, st.floats(0, 1), max_size=25)
credit_counts = st.dictionaries(hotkeys, st.integers(0, 500), max_size=25)


@st.composite
def shares(draw: st.DrawFn) -> PayoutRules:
    cuts = sorted(draw(st.lists(st.integers(0, 100), min_size=3, max_size=3)))
    parts = [b - a for a, b in zip([0, *cuts], [*cuts, 100], strict=True)]
    return PayoutRules(
        champion=parts[0] / 100, tail=parts[1] / 100, trace_credit=parts[2] / 100, burn=parts[3] / 100
    )


@given(finishers, st.one_of(st.none(), hotkeys), credit_counts, shares())
def test_units_always_add_up_and_never_go_below_zero(scores, champion, credit, rules) -> None:  # type: ignore[no-untyped-def]
    payout = pay(scores=scores, champion=champion, credits=credit, rules=rules)
    assert sum(payout.units.values()) + payout.burn == TOTAL_UNITS
    assert payout.burn >= 0
    assert all(units > 0 for units in payout.units.values())
    assert set(payout.units) <= {*scores, *credit, champion}


@given(finishers, st.one_of(st.none(), hotkeys), credit_counts, shares())
def test_no_bucket_pays_more_than_its_share_and_burn_gets_at_least_its_own(  # type: ignore[no-untyped-def]
    scores, champion, credit, rules
) -> None:
    payout = pay(scores=scores, champion=champion, credits=credit, rules=rules)
    for bucket, share in (
        ("champion", rules.champion),
        ("tail", rules.tail),
        ("trace_credit", rules.trace_credit),
    ):
        spent = sum(getattr(paid, bucket) for paid in payout.paid.values())
        assert spent < TOTAL_UNITS * exact(share) + 1
        assert spent in (0, *range(int(TOTAL_UNITS * exact(share)), int(TOTAL_UNITS * exact(share)) + 2)) or (
            bucket == "trace_credit"
        )
    assert payout.burn > TOTAL_UNITS * exact(rules.burn) - 1


@given(st.dictionaries(hotkeys, st.floats(0, 1), min_size=1, max_size=25), credit_counts)
def test_the_order_of_finishers_changes_nothing(scores, credit) -> None:  # type: ignore[no-untyped-def]
    champion = max(scores, key=lambda h: (scores[h], h))
    forwards = pay(scores=scores, champion=champion, credits=credit, rules=RULES)
    backwards = pay(
        scores=dict(reversed(scores.items())),
        champion=champion,
        credits=dict(reversed(credit.items())),
        rules=RULES,
    )
    assert forwards == backwards
    assert list(forwards.paid) == list(backwards.paid)


@given(finishers)
def test_a_better_score_never_earns_less_of_the_tail(scores: dict[str, float]) -> None:
    weights = tail_weights(scores)
    for a in scores:
        for b in scores:
            if scores[a] > scores[b] + 1e-9:
                assert weights.get(a, 0) >= weights.get(b, 0)
            elif scores[a] == scores[b]:
                assert weights.get(a, 0) == weights.get(b, 0)


@given(st.integers(0, 70_000), st.dictionaries(hotkeys, st.fractions(0, 10), max_size=12))
def test_every_part_is_within_one_unit_of_its_exact_share(units: int, weights: dict[str, Fraction]) -> None:
    parts = apportion(units, weights)
    total = sum(weights.values(), Fraction(0))
    assert sum(parts.values()) == (units if total else 0)
    assert all(abs(part - units * weights[name] / total) < 1 for name, part in parts.items())


@given(
    st.integers(1, 300),
    st.dictionaries(st.sampled_from([f"hk{i}" for i in range(300)]), st.integers(1, 9), min_size=3),
    shares(),
    st.sets(st.integers(0, 299)),
    st.integers(0, 299),
)
@settings(deadline=None)
def test_every_bucket_is_exact_to_one_unit_whoever_finishes_leaves_or_holds_the_burn_uid(
    finishers: int, credit: dict[str, int], rules: PayoutRules, gone: set[int], burn_uid: int
) -> None:
    """Without a cap on credit, nothing need burn but the burn, and the tail of a race without others."""
    rules = rules.model_copy(update={"credit_cap": 1.0})
    scores = {f"hk{i}": (i + 1) / finishers for i in range(finishers)}
    champion = f"hk{finishers - 1}"
    payout = pay(scores=scores, champion=champion, credits=credit, rules=rules)
    for bucket, share in (
        ("champion", rules.champion),
        ("tail", rules.tail if finishers > 1 else 0.0),
        ("trace_credit", rules.trace_credit),
    ):
        spent = sum(getattr(paid, bucket) for paid in payout.paid.values())
        assert abs(spent - TOTAL_UNITS * exact(share)) < 1, bucket
    assert payout.units.get(champion, 0) >= int(TOTAL_UNITS * exact(rules.champion))

    uids = {f"hk{i}": i for i in range(300) if i not in gone}
    sent = weights_by_uid(payout.units, burn=payout.burn, uids=uids, burn_uid=burn_uid).weights
    assert sum(sent.values()) == TOTAL_UNITS
    for hotkey, units in payout.units.items():
        if (uid := uids.get(hotkey)) is not None and uid != burn_uid:
            assert sent[uid] == units, "nobody gains or loses by another's absence"


def test_a_single_finisher_is_paid_as_champion() -> None:
    payout = pay(scores={"alone": 0.4}, champion="alone", credits={}, rules=RULES)
    assert payout.units == {"alone": round(TOTAL_UNITS * RULES.champion)}


def test_without_a_champion_its_bucket_burns() -> None:
    payout = pay(scores={}, champion=None, credits={}, rules=RULES)
    assert payout.units == {}
    assert payout.burn == TOTAL_UNITS


def test_trace_credit_is_capped_for_each_hotkey_and_the_rest_burns() -> None:
    rules = PayoutRules(champion=0, tail=0, trace_credit=1, burn=0, credit_cap=0.25)
    payout = pay(scores={}, champion=None, credits={"many": 90, "few": 10}, rules=rules)
    assert payout.units == {"few": 6554, "many": 16383}
    assert payout.burn == TOTAL_UNITS - 6554 - 16383


def test_the_tail_tapers_over_the_better_half_of_the_others() -> None:
    rules = PayoutRules(champion=0, tail=1, trace_credit=0, burn=0)
    payout = pay(
        scores={"top": 0.9, "b": 0.8, "c": 0.7, "d": 0.6, "e": 0.5}, champion="top", credits={}, rules=rules
    )
    assert payout.units == {"b": 43690, "c": 21845}


def test_shares_that_do_not_make_one_are_refused() -> None:
    with pytest.raises(ValueError, match="must add up to 1"):
        PayoutRules(champion=0.5, tail=0.1, trace_credit=0.1, burn=0.1)
