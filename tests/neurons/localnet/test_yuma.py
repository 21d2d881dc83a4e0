from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from neurons.localnet.yuma import U16_MAX, Outcome, Parameters, Standing, epoch
from tests.neurons.localnet import yuma_reference as reference

PARAMETERS = Parameters(
    block=1000,
    previous_epoch=900,
    tempo=100,
    activity_cutoff=500,
    stake_threshold=0,
    max_validators=64,
    emission=10**9,
)


def _standing(
    stake: int = 0, weights: dict[int, int] | None = None, bonds: dict[int, int] | None = None, **changes: Any
) -> Standing:
    usual = {"permit": stake > 0, "last_update": 950, "registered_at": 1}
    return Standing(stake=stake, weights=weights or {}, bonds=bonds or {}, **usual | changes)


def _row(row: list[int]) -> dict[int, int]:
    return {j: w for j, w in enumerate(row) if w}


@st.composite
def _subnets(draw: st.DrawFn) -> tuple[list[Standing], Parameters]:
    count = draw(st.integers(2, 7))
    row = st.lists(st.one_of(st.just(0), st.integers(0, U16_MAX)), min_size=count, max_size=count)
    standings = [
        _standing(draw(st.integers(0, 10**15)), _row(draw(row)), _row(draw(row)), permit=draw(st.booleans()))
        for _ in range(count)
    ]
    parameters = replace(
        PARAMETERS,
        kappa=draw(st.integers(1, U16_MAX - 1)),
        bonds_moving_average=draw(st.sampled_from((0, 500_000, 900_000, 1_000_000))),
        bonds_penalty=draw(st.sampled_from((0, 30_000, U16_MAX))),
    )
    return standings, parameters


def _expected(standings: list[Standing], parameters: Parameters) -> reference.Expected:
    count = len(standings)
    return reference.expected(
        stake=[s.stake for s in standings],
        voting=[s.permit for s in standings],
        weights=[[s.weights.get(j, 0) for j in range(count)] for s in standings],
        bonds=[[s.bonds.get(j, 0) for j in range(count)] for s in standings],
        kappa=Fraction(parameters.kappa, U16_MAX),
        moving_average=Fraction(parameters.bonds_moving_average, 1_000_000),
        penalty=Fraction(parameters.bonds_penalty, U16_MAX),
    )


def _ties(standings: list[Standing], parameters: Parameters) -> bool:
    """Whether a median hangs on the last bits, where fractions and fixed point may differ by right."""
    support = reference.shares([Fraction(s.stake if s.permit else 0) for s in standings])
    for target in range(len(standings)):
        offers = [
            reference.shares(
                [Fraction(s.weights.get(j, 0) if j != uid else 0) for j in range(len(standings))]
            )[target]
            for uid, s in enumerate(standings)
        ]
        if reference.margin(offers, support, Fraction(parameters.kappa, U16_MAX)) < Fraction(1, 10**6):
            return True
    return False


def _shares(outcome: Outcome, column: str) -> list[float]:
    return [value / U16_MAX for value in getattr(outcome, column)]


@given(_subnets())
def test_an_epoch_agrees_with_a_second_implementation(case: tuple[list[Standing], Parameters]) -> None:
    standings, parameters = case
    # Stakes far below a share of 2^-20 lose digits in 32 fractional bits, on the chain as here.
    total = sum(s.stake for s in standings if s.permit)
    assume(all(s.stake == 0 or not s.permit or s.stake * 2**12 > total for s in standings))
    everyone = sum(s.stake for s in standings)
    assume(all(s.stake == 0 or s.stake * 2**12 > everyone for s in standings))
    assume(all(w == 0 or w > 64 for s in standings for w in (*s.weights.values(), *s.bonds.values())))
    assume(not _ties(standings, parameters))
    outcome, wanted = epoch(standings, parameters), _expected(standings, parameters)
    for column in ("consensus", "incentive", "dividends", "validator_trust"):
        assert _shares(outcome, column) == pytest.approx(
            [float(v) for v in getattr(wanted, column)], abs=2e-4
        ), column
    for uid, row in enumerate(outcome.bonds):
        if outcome.permits[uid]:
            found = [row.get(j, 0) / U16_MAX for j in range(len(standings))]
            assert found == pytest.approx([float(b) for b in wanted.bonds[uid]], abs=1e-3)


@given(_subnets())
def test_everything_given_is_a_share(case: tuple[list[Standing], Parameters]) -> None:
    standings, parameters = case
    outcome = epoch(standings, parameters)
    for column in (outcome.incentive, outcome.dividends, outcome.stake_weight):
        assert all(0 <= value <= U16_MAX for value in column)
        assert sum(column) <= U16_MAX
    assert sum(outcome.emission) <= parameters.emission
    assert all(0 <= trust <= U16_MAX for trust in outcome.validator_trust)
    assert epoch(standings, parameters) == outcome


@given(_subnets(), st.data())
def test_a_validator_below_half_the_stake_cannot_lift_a_miner(
    case: tuple[list[Standing], Parameters], data: st.DataObject
) -> None:
    """Whatever it says, a miner whom the others give nothing gets nothing."""
    standings, parameters = case
    parameters = replace(parameters, kappa=32767)
    liar = data.draw(st.integers(0, len(standings) - 1))
    favourite = data.draw(st.integers(0, len(standings) - 1).filter(lambda uid: uid != liar))
    others = sum(s.stake for uid, s in enumerate(standings) if uid != liar and s.permit)
    assume(others > 0)
    honest = [replace(s, weights={j: w for j, w in s.weights.items() if j != favourite}) for s in standings]
    honest[liar] = replace(honest[liar], permit=True, stake=others // 2, weights={favourite: U16_MAX})
    outcome = epoch(honest, parameters)
    assert outcome.incentive[favourite] == outcome.consensus[favourite] == 0


def test_two_that_agree_outvote_one_that_lies() -> None:
    standings = [
        _standing(400, {3: 3, 4: 1}),
        _standing(400, {3: 3, 4: 1}),
        _standing(390, {5: 1}),
        *(_standing() for _ in range(3)),
    ]
    outcome = epoch(standings, PARAMETERS)
    assert _shares(outcome, "incentive") == pytest.approx([0, 0, 0, 0.75, 0.25, 0], abs=1e-4)
    assert _shares(outcome, "validator_trust")[:3] == pytest.approx([1, 1, 0], abs=1e-4)
    assert outcome.dividends[2] == 0
    assert outcome.emission[2] == 0


def test_a_weight_above_what_the_majority_gives_is_cut_to_it() -> None:
    standings = [_standing(600, {2: 1, 3: 1}), _standing(400, {2: 4, 3: 1}), _standing(), _standing()]
    outcome = epoch(standings, PARAMETERS)
    assert _shares(outcome, "consensus") == pytest.approx([0, 0, 0.5, 0.5], abs=1e-4)
    assert _shares(outcome, "validator_trust")[:2] == pytest.approx([1.0, 0.7], abs=1e-4)


def test_bonds_keep_what_an_early_validator_earned() -> None:
    """After an equal vote, the one that held the miner's bonds before is still paid nine tenths more."""
    standings = [_standing(500, {2: 1}, {2: U16_MAX}), _standing(500, {2: 1}), _standing()]
    outcome = epoch(standings, PARAMETERS)
    assert _shares(outcome, "dividends")[:2] == pytest.approx([0.95, 0.05], abs=1e-4)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"permit": False}, "no permit"),
        ({"last_update": 499}, "inactive"),
        ({"last_update": 1, "registered_at": 1}, "set before the miner was registered"),
        ({"committed_at": 0}, "sealed before the miner was registered"),
    ],
)
def test_a_vote_that_does_not_count_moves_nothing(change: dict[str, Any], why: str) -> None:
    standings = [_standing(500, {2: 1}, **change), _standing(100, {3: 1}), _standing(), _standing()]
    outcome = epoch(standings, PARAMETERS)
    assert outcome.incentive[2] == 0, why


def test_a_stake_below_the_threshold_neither_votes_nor_gets_a_permit() -> None:
    standings = [_standing(99, {2: 1}), _standing(100, {3: 1}), _standing(), _standing()]
    outcome = epoch(standings, replace(PARAMETERS, stake_threshold=100))
    assert outcome.permits == (False, True, False, False)
    assert outcome.incentive[2] == 0


def test_permits_go_to_the_largest_stakes_and_to_the_owner() -> None:
    standings = [_standing(stake) for stake in (5, 5, 9, 7, 0)]
    limited = replace(PARAMETERS, max_validators=2, owner_uid=4)
    assert epoch(standings, limited).permits == (False, False, True, True, True)


def test_only_the_owner_may_weigh_itself() -> None:
    standings = [_standing(500, {0: 1}), _standing(500, {1: 1}), _standing()]
    outcome = epoch(standings, replace(PARAMETERS, owner_uid=0, kappa=20_000))
    assert outcome.incentive[0] > 0
    assert outcome.incentive[1] == 0


def test_bonds_in_a_miner_that_was_replaced_are_lost() -> None:
    newcomer = _standing(registered_at=920)
    standings = [_standing(500, {2: 1}, {2: U16_MAX}), _standing(500, {2: 1}), newcomer]
    assert _shares(epoch(standings, PARAMETERS), "dividends")[:2] == pytest.approx([0.5, 0.5], abs=1e-4)


def test_without_votes_emission_follows_stake() -> None:
    outcome = epoch([_standing(300), _standing(100)], PARAMETERS)
    assert outcome.emission == pytest.approx((750_000_000, 250_000_000), abs=1)
    assert outcome.incentive == (0, 0)


def test_a_subnet_without_anybody_has_an_epoch_too() -> None:
    assert epoch([], PARAMETERS).incentive == ()
