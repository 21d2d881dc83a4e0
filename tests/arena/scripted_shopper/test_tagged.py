"""Asked in tags, the scripted shopper decides as it does when it is asked natively."""

from __future__ import annotations

import json
from typing import Any

import pytest

from arena.scripted_shopper import tagged
from arena.scripted_shopper.server import ShopperRequest, complete
from problems.shopping.tools import TOOLS
from tests.arena.scripted_shopper.test_server import DETAILS, MUGS, REQUEST

SYSTEM = {
    "role": "system",
    "content": "Tools: find_product, view_product_information, recommend_product, terminate. Call them "
    "inside <tool_call></tool_call>.",
}
RESULTS: dict[str, Any] = {"find_product": MUGS, "view_product_information": DETAILS}


def native() -> list[tuple[str, Any, str]]:
    """(name, arguments, reasoning) of each turn, asked natively."""
    specs = [tool.openai() for tool in TOOLS]
    messages: list[dict[str, Any]] = [{"role": "user", "content": REQUEST}]
    turns = []
    while True:
        request = ShopperRequest(model="scripted-shopper-careful", messages=messages, tools=specs)
        message = complete(request, "careful")["choices"][0]["message"]
        if "tool_calls" not in message:
            return turns
        (call,) = message["tool_calls"]
        name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
        turns.append((name, arguments, message["reasoning_content"]))
        content = json.dumps(RESULTS.get(name, "ok"))
        messages += [message, {"role": "tool", "tool_call_id": call["id"], "content": content}]


def in_tags(*, one_message: bool) -> list[tuple[str, Any, str]]:
    """The same, asked in tags: the history in one user message, or in messages of its own."""
    history = [f"<user>{REQUEST}</user>" if one_message else REQUEST]
    turns = []
    while True:
        spoken = ["\n\n".join(history)] if one_message else history
        roles = ("user", "assistant")
        messages = [SYSTEM, *({"role": roles[i % 2], "content": text} for i, text in enumerate(spoken))]
        request = ShopperRequest(model="scripted-shopper-careful", messages=messages)
        choice = complete(request, "careful")["choices"][0]
        content = choice["message"]["content"]
        assert choice["finish_reason"] == "stop"
        if "<tool_call>" not in content:
            assert content.endswith("<response>Done.</response>")
            return turns
        (call,) = json.loads(content.partition("<tool_call>")[2].partition("</tool_call>")[0])
        thought = content.partition("<think>")[2].partition("</think>")[0]
        turns.append((call["name"], call["parameters"], thought))
        seen = [{"tool_call_id": "x", "results": RESULTS.get(call["name"], "ok")}]
        history += [content, f"<obs>{json.dumps(seen)}</obs>"]


@pytest.mark.parametrize("one_message", [True, False])
def test_it_acts_and_reasons_alike_in_both_forms(one_message: bool) -> None:
    turns = native()
    assert [name for name, _, _ in turns][-2:] == ["recommend_product", "terminate"]
    assert in_tags(one_message=one_message) == turns


def test_tags_are_written_only_where_they_are_asked_for() -> None:
    assert tagged.tools_named([{"role": "system", "content": "Use find_product."}]) == []
    assert tagged.tools_named([{"role": "user", "content": SYSTEM["content"]}]) == []
    assert "find_product" in tagged.tools_named([SYSTEM])


@pytest.mark.parametrize("text", ["", "no json", "[1, null]", '{"parameters": {}}'])
def test_a_call_that_cannot_be_read_is_none(text: str) -> None:
    read = tagged.with_native_calls(
        [{"role": "user", "content": f"<user>hi</user><tool_call>{text}</tool_call>"}]
    )
    assert [m.get("tool_calls", []) for m in read] == [[], []]
