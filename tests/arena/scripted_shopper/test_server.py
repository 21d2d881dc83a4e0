"""The scripted shopper over real HTTP, in its own process."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from openai import OpenAI

from arena.scripted_shopper.child import ShopperNotStarted, ShopperServer
from arena.scripted_shopper.server import MODELS
from problems.shopping.tools import TOOLS

SPECS = [tool.openai() for tool in TOOLS]
REQUEST = "Show me black mugs made of ceramic, priced between 100 and 200 PHP."
MUGS = [
    {"product_id": "5113553158", "shop_id": "9", "title": "Hoshi Mug", "price": 149.5, "service": ["COD"]},
    {"product_id": "4797792514", "shop_id": "8", "title": "Morning Mug", "price": 185.0, "service": []},
]
DETAILS = [
    {
        "product_id": "5113553158",
        "sku_options": {"1": {"color": "white"}},
        "attributes": {"material": ["steel"]},
    },
    {
        "product_id": "4797792514",
        "sku_options": {"1": {"color": "black"}},
        "attributes": {"material": ["ceramic"]},
    },
]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    with ShopperServer() as server:
        yield server.base_url


def _ask(base_url: str, messages: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    body = {"model": "scripted-shopper-careful", "messages": messages, "tools": SPECS, "seed": 1, **more}
    answer = httpx.post(f"{base_url}/chat/completions", json=body, timeout=20)
    assert answer.status_code == 200, answer.text
    completion: dict[str, Any] = answer.json()
    return completion


def _play(base_url: str, model: str, seed: int = 1) -> list[dict[str, Any]]:
    """A conversation in which every search finds the two mugs."""
    results = {"find_product": MUGS, "view_product_information": DETAILS}
    messages: list[dict[str, Any]] = [{"role": "user", "content": REQUEST}]
    for _ in range(12):
        message = _ask(base_url, messages, model=model, seed=seed)["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", []):
            content = json.dumps(results.get(call["function"]["name"], "ok"))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        if "tool_calls" not in message:
            break
    return messages


def _calls(messages: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    functions = [call["function"] for message in messages for call in message.get("tool_calls", [])]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


def test_the_careful_shopper_searches_views_compares_and_ends(base_url: str) -> None:
    messages = _play(base_url, "scripted-shopper-careful")
    calls = _calls(messages)
    assert [name for name, _ in calls] == [
        "find_product",
        "view_product_information",
        "recommend_product",
        "terminate",
    ]
    assert calls[0][1] == {"q": "black mugs ceramic", "page": 1, "price": "100-200"}
    assert calls[2][1] == {"product_ids": "4797792514"}
    decision = next(m for m in messages if _calls([m]) == [calls[2]])["reasoning_content"]
    assert "4797792514 costs 185 PHP" in decision
    assert "5113553158" in decision
    assert "149.5 PHP" in decision


def test_the_hasty_shopper_takes_the_first_hit(base_url: str) -> None:
    calls = _calls(_play(base_url, "scripted-shopper-hasty"))
    assert [name for name, _ in calls] == ["find_product", "recommend_product", "terminate"]
    assert calls[1][1] == {"product_ids": "5113553158"}


def test_the_noisy_shopper_slips_differently_with_the_seed(base_url: str) -> None:
    played = {json.dumps(_play(base_url, "scripted-shopper-noisy", seed)) for seed in range(6)}
    assert len(played) > 1


@pytest.mark.parametrize("model", MODELS)
def test_equal_requests_get_equal_answers(base_url: str, model: str) -> None:
    messages = _play(base_url, model)[:1]
    assert _ask(base_url, messages, model=model) == _ask(base_url, messages, model=model)


def test_without_tools_it_picks_among_the_products_in_the_message(base_url: str) -> None:
    records = [mug | detail for mug, detail in zip(MUGS, DETAILS, strict=True)]
    asked = f"Pick one for this request: {REQUEST}\n\n{json.dumps(records)}"
    message = _ask(base_url, [{"role": "user", "content": asked}], tools=None)["choices"][0]["message"]
    assert message["content"].startswith("4797792514: ")
    assert "tool_calls" not in message


def test_without_tools_and_candidates_it_says_what_it_can_do(base_url: str) -> None:
    completion = _ask(base_url, [{"role": "user", "content": "Tell me a joke [1] {x}"}], tools=None)
    assert "shop" in completion["choices"][0]["message"]["content"]
    assert completion["choices"][0]["finish_reason"] == "stop"


def test_results_that_are_no_records_do_not_stop_it(base_url: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": REQUEST}]
    for _ in range(12):
        message = _ask(base_url, messages)["choices"][0]["message"]
        messages.append(message)
        for call in message.get("tool_calls", []):
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": "error: no such thing"})
        if "tool_calls" not in message:
            break
    assert _calls(messages)[-1] == ("terminate", {"status": "failure"})


def test_usage_is_counted_and_a_token_limit_cuts_the_answer(base_url: str) -> None:
    messages = [{"role": "user", "content": REQUEST}]
    whole = _ask(base_url, messages)
    assert whole["usage"]["completion_tokens"] >= 30
    assert (
        whole["usage"]["total_tokens"]
        == whole["usage"]["prompt_tokens"] + whole["usage"]["completion_tokens"]
    )
    cut = _ask(base_url, messages, max_tokens=10)
    assert cut["choices"][0]["finish_reason"] == "length"
    assert cut["usage"]["completion_tokens"] <= 10
    assert "tool_calls" not in cut["choices"][0]["message"]


def test_the_openai_package_understands_it(base_url: str) -> None:
    client = OpenAI(base_url=base_url, api_key="none", max_retries=0, timeout=20)
    assert {model.id for model in client.models.list()} == set(MODELS)
    completion = client.chat.completions.create(
        model="scripted-shopper-careful",
        messages=[{"role": "user", "content": REQUEST}],
        tools=SPECS,  # type: ignore[arg-type]
    )
    assert completion.choices[0].finish_reason == "tool_calls"


@pytest.mark.parametrize(("change", "status"), [({"model": "gpt"}, 404), ({"stream": True}, 400)])
def test_what_it_cannot_do_is_refused_by_name(base_url: str, change: dict[str, Any], status: int) -> None:
    body = {"model": "scripted-shopper-careful", "messages": [{"role": "user", "content": "x"}], **change}
    answer = httpx.post(f"{base_url}/chat/completions", json=body, timeout=20)
    assert answer.status_code == status
    assert answer.json()["error"]["message"]


def test_it_cannot_reach_catalog_or_answers() -> None:
    script = (
        "import sys, arena.scripted_shopper.server; "
        "print([m for m in sys.modules if m.split('.')[0] in ('problems', 'storage', 'judge')])"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert loaded.stdout.strip() == "[]"


def test_it_dies_with_its_parent() -> None:
    script = (
        "import os, signal; from arena.scripted_shopper.child import ShopperServer; "
        "server = ShopperServer().start(); print(server._process.pid, flush=True); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    parent = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert parent.returncode == -signal.SIGKILL
    try:
        child = os.pidfd_open(int(parent.stdout))
    except ProcessLookupError:
        return  # it is gone already
    try:
        assert select.select([child], [], [], 20)[0], "the shopper outlived its parent"
    finally:
        os.close(child)


def test_a_server_that_is_not_running_has_no_address() -> None:
    with pytest.raises(ShopperNotStarted, match="start"):
        _ = ShopperServer().base_url


def test_a_start_that_takes_too_long_is_given_up() -> None:
    with pytest.raises(ShopperNotStarted, match="not ready within 0 s"):
        ShopperServer(deadline_s=0).start()
