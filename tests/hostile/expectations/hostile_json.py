"""JSON that one parser takes and another does not, or that costs more to read than to send."""

from __future__ import annotations

from tests.hostile.seen import Breaches, NotShown, Seen, expect


def _all_refused(seen: Seen) -> Breaches:
    """Refused on every route, and an honest call afterwards is served."""
    statuses = [status for route in seen.get("statuses").values() for status in route]
    if len(statuses) < 6:
        raise NotShown(f"only {statuses} were sent")
    accepted = [status for status in statuses if not 400 <= status < 500]
    if accepted:
        yield f"answered with {accepted}"
    calls = [body["canonical"] for body in seen.bodies("tool_call")]
    if calls != [{"amount": 1}]:
        yield f"the record has the calls {calls}"


@expect()
def json_infinite_number(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_not_a_number(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_duplicate_keys(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_half_characters(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_nul(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_huge_integers(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_not_even_text(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_deep_nesting(seen: Seen) -> Breaches:
    yield from _all_refused(seen)


@expect()
def json_many_items(seen: Seen) -> Breaches:
    yield from _all_refused(seen)
