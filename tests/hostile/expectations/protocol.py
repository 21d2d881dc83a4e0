"""Forged, replayed, cut, slow, oversized and smuggled words to the recorder, and claims beside them."""

from __future__ import annotations

import dataclasses

from arena.verdict import Solved
from storage.trajectory import counts
from tests.hostile.seen import BUDGET, LIMITS, Breaches, NotShown, Seen, expect


def _refused(statuses: list[int]) -> Breaches:
    """Every status must be a refusal."""
    if not statuses:
        raise NotShown("nothing was sent")
    accepted = [status for status in statuses if not 400 <= status < 500]
    if accepted:
        yield f"accepted with {accepted}"


def _add_calls(seen: Seen, expected: int) -> Breaches:
    """So many calls of `add`, and no more, must stand in the record."""
    found = len(seen.bodies("tool_call", name="add"))
    if found != expected:
        yield f"{found} calls were recorded, {expected} were made"


@expect()
def forged_events(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.no_calls("answer")
    if len(seen.bodies("model_call")):
        yield "a model call was recorded that was never made"


@expect()
def forged_trajectory_claimed(seen: Seen) -> Breaches:
    seen.get("attempt")
    if counts(seen.record.events).model_emitted or seen.bodies("tool_call"):
        yield "a claim was taken for what happened"


@expect()
def forged_ids(seen: Seen) -> Breaches:
    yield from _refused(seen.get("statuses")[1:])
    yield from _add_calls(seen, 1)
    if seen.record.events[0].body["episode_id"].startswith("e999"):
        yield "the episode took another's name"


@expect()
def forged_model_turns(seen: Seen) -> Breaches:
    seen.get("attempt")
    if counts(seen.record.events).model_emitted:
        yield "a script's call counts as the model's"


@expect()
def dictated_answers(seen: Seen) -> Breaches:
    if seen.get("refused") != 9:
        yield f"{9 - seen.get('refused')} ways to dictate an answer were accepted"
    if seen.bodies("model_call"):
        yield "the model was asked"


@expect()
def replayed_requests(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from _add_calls(seen, 10)
    if counts(seen.record.events).model_emitted != 1:
        yield f"{counts(seen.record.events).model_emitted} calls count as the model's, which emitted one"


@expect()
def interleaved_requests(seen: Seen) -> Breaches:
    if set(seen.get("statuses")) != {"200"}:
        raise NotShown(f"answers {seen.get('statuses')}")
    amounts = sorted(body["canonical"]["amount"] for body in seen.bodies("tool_call"))
    if amounts != list(range(12)):
        yield f"the record mixed calls up: {amounts}"


@expect()
def pipelined_requests(seen: Seen) -> Breaches:
    yield from _add_calls(seen, 20)
    yield from seen.no_calls("answer")
    if len(seen.bodies("tool_call", name="finish")) != 1:
        raise NotShown("the final call was not made")


def _timed_out(seen: Seen) -> Breaches:
    seen.get("attempt")
    yield from seen.was_told("did not arrive in time")
    yield from _add_calls(seen, 1)
    if not all("408" in answer for answer in seen.get("answers")):
        yield f"unfinished requests were not ended: {seen.get('answers')}"


@expect()
def half_a_head(seen: Seen) -> Breaches:
    yield from _timed_out(seen)


@expect()
def half_a_body(seen: Seen) -> Breaches:
    yield from _timed_out(seen)


@expect()
def slow_request(seen: Seen) -> Breaches:
    yield from seen.no_calls("answer")
    yield from seen.was_told("did not arrive in time")
    yield from seen.at_most("sent", seen.get("all") - 1)


@expect()
def slow_reader(seen: Seen) -> Breaches:
    seen.get("attempt")
    if len(seen.bodies("tool_call")) > seen.budget.tool_calls:
        yield "calls went on past the budget"


@expect()
def sixty_one_connections(seen: Seen) -> Breaches:
    yield from seen.at_most("served", seen.budget.connections)
    yield from seen.was_told("connections at once")
    yield from _add_calls(seen, 1)


@expect()
def request_smuggling(seen: Seen) -> Breaches:
    if len(seen.get("statuses")) != 10:
        raise NotShown("not all forms were sent")
    yield from seen.no_calls("answer")


@expect()
def oversized_head(seen: Seen) -> Breaches:
    # What the kernel buffers between the two of us counts too.
    yield from seen.at_most("sent", 2 << 20)
    yield from _add_calls(seen, 1)


@expect()
def oversized_body(seen: Seen) -> Breaches:
    yield from seen.at_most("sent", seen.budget.body_bytes + (2 << 20))
    yield from seen.no_calls("answer")
    yield from seen.was_told("larger than")
    yield from _add_calls(seen, 1)


@expect(budget=dataclasses.replace(BUDGET, total_bytes=4 << 20))
def log_flood(seen: Seen) -> Breaches:
    if 429 not in seen.get("statuses"):
        raise NotShown(f"the budget was not reached: {seen.get('statuses')}")
    size = sum(len(str(event.to_json())) for event in seen.record.events)
    if size > 3 * seen.budget.total_bytes:
        yield f"the record grew to {size >> 20} MiB"
    if len(seen.bodies("refused")) > seen.budget.logged_refusals:
        yield "refusals were logged without end"


@expect()
def strange_routes(seen: Seen) -> Breaches:
    seen.get("attempt")
    # One of these names is a tool's, with a space: to the environment that is a tool that does not exist.
    called = {body["name"] for body in seen.bodies("tool_call") if body["error"] is None}
    if called:
        yield f"executed {called}"
    if seen.record.events[-1].body["claim"] == {"total": 42}:
        yield "a claim was made by a detour"


@expect()
def upgraded_connections(seen: Seen) -> Breaches:
    if any(status.startswith("1") and status != "100" for status in seen.get("statuses")):
        yield f"another protocol was agreed on: {seen.get('statuses')}"


@expect(limits=dataclasses.replace(LIMITS, wall_s=6.0))
def calls_after_the_end(seen: Seen) -> Breaches:
    seen.get("attempt")
    if len(seen.bodies("tool_call", name="answer")) != 1 or seen.bodies("model_call"):
        yield "calls counted after the end"
    if seen.record.events[-1].body["claim"] is not None:
        yield "a claim was taken after the end"


@expect()
def key_of_the_provider(seen: Seen) -> None:
    if "choices" not in seen.get("heard") and "error" not in seen.get("heard"):
        raise NotShown("nobody answered")


@expect()
def model_not_allowed(seen: Seen) -> Breaches:
    if seen.get("refused") != 7:
        yield f"{7 - seen.get('refused')} ways to another model were accepted"


@expect()
def our_fault_provoked(seen: Seen) -> Breaches:
    if any(status >= 500 for status in seen.get("statuses")):
        yield f"we failed: {seen.get('statuses')}"


@expect(verdict=Solved)
def abandoned_requests(seen: Seen) -> Breaches:
    seen.get("attempt")
    if len(seen.bodies("tool_call", name="add")) > 15:
        yield "more calls were recorded than were made"


@expect(budget=dataclasses.replace(BUDGET, model_calls=6, completion_tokens=40))
def budget_overdrawn(seen: Seen) -> Breaches:
    if not seen.get("refused"):
        raise NotShown("nothing was refused, so the budget was not reached")
    answered = [body for body in seen.bodies("model_call") if "response" in body]
    if len(answered) > 6:
        yield f"{len(answered)} calls were answered, the budget 6"
