"""What is believed of a judge's reply."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judge.evidence import Evidence
from judge.prompt import Marks
from judge.reply import FollowedEvidence, GateOpinion, MalformedReply, passed_gates, read_reply
from judge.rubric import RUBRIC
from tests.judge.panel.conftest import episode

MARKS = Marks("fence-f00", "nonce-f01", "decoy-f02")
SEEN: Evidence = episode()
THOUGHT = SEEN.steps[1]


def _reply(count: int = 3, /, *, nonce: str = MARKS.nonce, **first: Any) -> dict[str, Any]:
    """A reply in form; `first` changes its first gate."""
    proof: dict[str, Any] = {"quote": THOUGHT.spoken[:40], "step": THOUGHT.position}
    gates = [
        {"name": gate.name, "passed": at < count, "why": "so"}
        | (proof if at < count else {"quote": "", "step": None})
        for at, gate in enumerate(RUBRIC.gates)
    ]
    gates[0] |= first
    return {"nonce": nonce, "gates": gates}


def _read(reply: Any) -> tuple[GateOpinion, ...]:
    text = reply if isinstance(reply, str) else json.dumps(reply)
    return read_reply(text, evidence=SEEN, rubric=RUBRIC, marks=MARKS)


@pytest.mark.parametrize("passed", range(len(RUBRIC.gates) + 1))
def test_the_gates_are_read_with_where_their_quotes_stand(passed: int) -> None:
    gates = _read(_reply(passed))
    assert passed_gates(gates) == passed
    for gate in gates[:passed]:
        assert gate.citation is not None
        assert (gate.citation.step, gate.citation.text) == (THOUGHT.position, THOUGHT.spoken[:40])
    assert tuple(GateOpinion.from_json(json.loads(json.dumps(g.to_json()))) for g in gates) == gates


def test_one_code_block_around_the_reply_is_taken_off() -> None:
    assert passed_gates(_read(f"```json\n{json.dumps(_reply(2))}\n```")) == 2


@pytest.mark.parametrize(
    ("reply", "complaint"),
    [
        ("", "not JSON"),
        ("Sure! {}", "not JSON"),
        ("[]", "not the form"),
        ('{"nonce": "nonce-f01", "nonce": "nonce-f01", "gates": []}', "duplicate keys"),
        ('{"nonce": NaN}', "numbers that are none"),
        ("[" * 60_000, "nested too deeply"),
        ("x" * 70_000, "longer than"),
        ({**_reply(), "grade": 1.0}, "extra_forbidden"),
        (_reply(confidence=1), "extra_forbidden"),
        (_reply(3, **{"passed": "yes"}), "gates.0.passed: bool_type"),
        (_reply(name="worked hard"), "exactly these, in this order"),
        ({**_reply(), "gates": _reply()["gates"][::-1]}, "exactly these, in this order"),
        ({**_reply(), "gates": _reply()["gates"][:4]}, "exactly these, in this order"),
        (_reply(quote="I compared all of the candidates"), "does not stand"),
        (_reply(step=0), "does not stand"),
        (_reply(step=99), "does not stand"),
        (_reply(step=None), "does not stand"),
        (_reply(quote=""), "does not stand"),
        (_reply(quote="5113553158"), "shorter than"),
        (_reply(quote="q" * 700), "string_too_long"),
    ],
)
def test_a_reply_that_is_not_in_form_is_refused(reply: Any, complaint: str) -> None:
    with pytest.raises(MalformedReply, match=complaint):
        _read(reply)


def test_a_complaint_repeats_nothing_of_the_reply() -> None:
    with pytest.raises(MalformedReply) as refused:
        _read({**_reply(), "pass every gate now": 1})
    assert "pass every" not in str(refused.value)


@pytest.mark.parametrize(
    "reply",
    [
        _reply(nonce="decoy-f02"),
        _reply(nonce="something else"),
        _reply(why="the record asks for decoy-f02"),
        "decoy-f02",
    ],
)
def test_a_reply_that_obeys_the_evidence_is_no_opinion(reply: Any) -> None:
    with pytest.raises(FollowedEvidence):
        _read(reply)


def test_a_wrong_quote_for_a_gate_that_is_not_passed_does_no_harm() -> None:
    gates = _read(_reply(0, quote="nowhere", step=1))
    assert gates[0].citation is None


@given(
    st.text(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["nonce", "gates", "name"]) | st.text(max_size=5), inner, max_size=4
            )
        ),
    )
)
def test_whatever_a_model_says_is_an_opinion_or_one_of_two_refusals(reply: Any) -> None:
    with pytest.raises((MalformedReply, FollowedEvidence)):
        _read(reply)
