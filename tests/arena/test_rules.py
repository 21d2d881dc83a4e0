"""Rules: what they refuse, and that their hash speaks for all of them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from arena.rules import Rules


def test_defaults_survive_a_round_trip_through_json() -> None:
    rules = Rules()
    again = Rules.load(rules.model_dump(mode="json"))
    assert again == rules
    assert again.rules_hash == rules.rules_hash


@pytest.mark.parametrize("mapping", [{"aplha": 0.1}, {"promotion": {"aplha": 0.1}}])
def test_an_unknown_key_is_an_error(mapping: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match="aplha"):
        Rules.load(mapping)


def test_any_changed_constant_changes_the_hash() -> None:
    assert Rules.load({"promotion": {"alpha": 0.04}}).rules_hash != Rules().rules_hash


def test_a_lease_that_one_late_heartbeat_would_lose_is_refused() -> None:
    with pytest.raises(ValidationError, match="at least twice heartbeat_s"):
        Rules.load({"lease_s": 10, "heartbeat_s": 9})
