from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena.recorder.emitted import MAX_EMITTED, emitted_calls
from tests.arena.ledger import Ledger
from tests.arena.puppet import native_call


def _calls(**message: object) -> list[tuple[str, object]]:
    return [(call["name"], call["arguments"]) for call in emitted_calls(message, Ledger(), "m1")]


def test_a_native_call_is_brought_to_canonical_form() -> None:
    assert _calls(tool_calls=[native_call("add", '{"amount": "40"}')]) == [("add", {"amount": 40})]


@pytest.mark.parametrize("arguments", ["{", "[]", '{"amount": 1, "amount": 2}', '{"sum": 1}', "null", ""])
def test_malformed_arguments_have_no_canonical_form(arguments: str) -> None:
    assert _calls(tool_calls=[native_call("add", arguments)]) == [("add", None)]


@pytest.mark.parametrize(
    ("content", "found"),
    [
        ('<tool_call>[{"name": "add", "parameters": {"amount": 1}}]</tool_call>', [("add", {"amount": 1})]),
        ('<tool_call>\n{"name": "add", "arguments": {"amount": 1}}\n</tool_call>', [("add", {"amount": 1})]),
        (
            '<tool_call>{"name": "add", "arguments": "{\\"amount\\": 1}"}</tool_call>',
            [("add", {"amount": 1})],
        ),
        (
            '<tool_call>\n```json\n[{"name": "add", "parameters": {"amount": 1}}]\n```\n</tool_call>',
            [("add", {"amount": 1})],
        ),
        ('<tool_call>```{"name": "finish", "parameters": {}}```</tool_call>', [("finish", {})]),
        (
            '```\n<tool_call>[{"name": "finish", "parameters": {}}]</tool_call>\n```',
            [("finish", {})],
        ),
        (
            'Inside <tool_call> I write: <tool_call>[{"name": "finish", "parameters": {}}]</tool_call>',
            [("finish", {})],
        ),
        (
            '<think>a <tool_call></think><tool_call>[{"name": "finish", "parameters": {}}]</tool_call>',
            [("finish", {})],
        ),
        (
            '<tool_call>[{"name": "add", "parameters": {"amount": 1}}, {"name": "finish", "arguments": {}}]'
            "</tool_call><response>done</response>",
            [("add", {"amount": 1}), ("finish", {})],
        ),
        (
            '<tool_call>[{"name": "add", "parameters": {"amount": 1}},]</tool_call>'
            '<tool_call>[{"name": "finish", "parameters": {}}]</tool_call>',
            [("finish", {})],
        ),
        ('<tool_call>{"name": "add"}</tool_call>', [("add", None)]),
        ('<tool_call>{"name": 3}</tool_call>', []),
        ('<tool_call>{"name": "add", "arguments"', []),
        ('<think><tool_call>{"name": "finish", "arguments": {}}</tool_call></think>no', []),
        ('<tool_call>{"name": "finish", "arguments": {}}</tool_call></think>no', []),
        ('yes<think><tool_call>{"name": "finish", "arguments": {}}</tool_call>', []),
        (
            '<think>a</think><tool_call>{"name": "add", "arguments": {"amount": 1}}</tool_call>'
            '<think>b</think><tool_call>{"name": "finish", "arguments": {}}</tool_call>',
            [("add", {"amount": 1}), ("finish", {})],
        ),
    ],
)
def test_tagged_blocks_count_outside_thinking(content: str, found: list[tuple[str, object]]) -> None:
    assert _calls(content=content) == found


def test_tagged_blocks_do_not_double_native_calls() -> None:
    content = '<tool_call>{"name": "finish", "arguments": {}}</tool_call>'
    assert _calls(content=content, tool_calls=[native_call("finish", "{}")]) == [("finish", {})]


def test_a_list_of_every_possible_call_counts_only_so_far() -> None:
    calls = [native_call("add", f'{{"amount": {i}}}') for i in range(200)]
    assert len(_calls(tool_calls=calls)) == MAX_EMITTED


@given(
    st.lists(
        st.sampled_from(["<tool_call>", "</tool_call>", "<think>", "</think>", "{}", "[", "x", "```", "\n"])
    )
)
def test_no_text_makes_it_raise(pieces: list[str]) -> None:
    assert _calls(content="".join(pieces)) == []
