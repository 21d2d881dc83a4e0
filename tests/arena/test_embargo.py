"""The embargo and the cooldown as functions of values."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from arena.cooldown import Cause, cooldown
from arena.embargo import is_public, public_at
from arena.rules import Rules
from tests.arena.stores import NOW

RULES = Rules()
DAY = timedelta(hours=24)


@dataclass(frozen=True)
class Sent:
    state: str = "accepted"


@dataclass(frozen=True)
class Held:
    state: str = "settled"
    settled_at: datetime | None = NOW
    rules: dict[str, Any] = field(default_factory=lambda: RULES.model_dump(mode="json"))


def test_a_source_is_public_a_day_after_its_first_race_has_settled_and_not_a_moment_earlier() -> None:
    races = [Held("racing", None), Held(settled_at=NOW + DAY), Held()]
    assert public_at(Sent(), races, RULES) == NOW + DAY
    assert not is_public(Sent(), races, RULES, NOW + DAY - timedelta(microseconds=1))
    assert is_public(Sent(), races, RULES, NOW + DAY)


def test_nothing_is_known_of_a_source_without_a_settled_race() -> None:
    assert public_at(Sent(), [], RULES) is None
    assert public_at(Sent(), [Held("void"), Held("judging", None)], RULES) is None


def test_a_superseded_copy_never_becomes_public() -> None:
    assert public_at(Sent("refused"), [Held()], RULES) is None


def test_a_race_keeps_the_embargo_that_it_was_opened_with() -> None:
    longer = RULES.model_copy(update={"embargo_h": 48.0})
    assert public_at(Sent(), [Held()], longer) == NOW + DAY
    assert public_at(Sent(), [Held(rules={})], longer) == NOW + 2 * DAY, "it was opened before there was one"


STATES = ("qualifying", "drawing", "racing", "judging", "settled", "void")
RACES = st.lists(
    st.builds(Held, st.sampled_from(STATES), st.none() | st.datetimes(min_value=datetime(2026, 1, 1)))
)


@given(RACES, RACES)
def test_further_races_never_hide_a_source_for_longer(before: list[Held], more: list[Held]) -> None:
    first = public_at(Sent(), before, RULES)
    if first is not None:
        again = public_at(Sent(), before + more, RULES)
        assert again is not None
        assert again <= first


KINDS = st.sampled_from(("submission", "security", "integrity"))
CAUSES = st.lists(st.builds(Cause, KINDS, st.datetimes(), st.just("why")), max_size=5)


@given(CAUSES, st.datetimes())
def test_a_cooldown_ends_with_its_longest_cause_and_is_none_from_then_on(
    causes: list[Cause], now: datetime
) -> None:
    causes = [c for c in causes if c.at.year < 9998]
    found = cooldown(causes, RULES, now)
    ends = [c.at + timedelta(hours=1 if c.kind == "security" else 12) for c in causes]
    if found is None:
        assert all(end <= now for end in ends)
    else:
        assert found.until == max(ends) > now
        assert cooldown(causes, RULES, found.until) is None
