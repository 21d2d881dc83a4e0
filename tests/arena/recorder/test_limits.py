"""Every budget of an episode, as an agent meets it: an error that says which one is spent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from arena.recorder.budget import Budget, Price, Unpriced
from arena.recorder.server import Recorder
from arena.recorder.upstream import Upstream
from storage import events
from storage.trajectory import to_atif
from tests.arena.ledger import Ledger, ledger_problem
from tests.arena.puppet import KEY, Puppet, say, tell
from tests.arena.recorder.test_server import bodies, http_client, serving

PRICES = {"puppet-1": Price(prompt=100.0, completion=1_000.0)}


@pytest.fixture
async def priced(puppet: Puppet) -> AsyncIterator[Upstream]:
    made = Upstream(puppet.base_url, SecretStr(KEY), ("puppet-1",), pause_s=0.01, prices=PRICES)
    yield made
    await made.aclose()


def chat(**more: Any) -> dict[str, Any]:
    return {"messages": say("x"), **more}


async def spent(http: httpx.AsyncClient, path: str, body: Any) -> str | None:
    """Which budget is spent by an answer, if one is."""
    answer = await http.post(path, json=body)
    if answer.status_code != 429:
        return None
    error = answer.json()["error"]
    if isinstance(error, str):
        return error
    assert error["code"] == "budget_spent"
    assert "is spent" in error["message"]
    return str(error["param"])


@pytest.mark.parametrize(
    ("budget", "path", "body"),
    [
        ({"model_calls": 1}, "/v1/chat/completions", chat()),
        ({"prompt_tokens": 10}, "/v1/chat/completions", chat()),
        ({"completion_tokens": 5}, "/v1/chat/completions", chat()),
        ({"usd": 0.009}, "/v1/chat/completions", chat()),
        ({"total_bytes": 150}, "/v1/chat/completions", chat()),
    ],
)
async def test_a_spent_budget_is_an_error_that_names_it(
    short_folder: Path, priced: Upstream, budget: dict[str, Any], path: str, body: Any
) -> None:
    async with (
        serving(short_folder, priced, Budget(**budget)) as (recorder, socket),
        http_client(socket) as http,
    ):
        assert await spent(http, path, body) is None
        assert await spent(http, path, body) == next(iter(budget))
    assert recorder.exhausted == set(budget)
    recorder.close("exit", "")
    assert bodies(recorder, "ended")[0]["exhausted"] == list(budget)


async def test_money_is_counted_by_the_price_table_and_stands_in_the_trajectory(
    short_folder: Path, priced: Upstream
) -> None:
    async with serving(short_folder, priced, Budget(usd=1.0)) as (recorder, path), http_client(path) as http:
        await http.post("/v1/chat/completions", json=chat())
    recorder.close("exit", "")
    assert bodies(recorder, "ended")[0]["spent"]["usd"] == pytest.approx(0.006)
    trajectory = to_atif(recorder.log.events)
    assert [step.metrics.cost_usd for step in trajectory.steps if step.metrics] == [pytest.approx(0.006)]
    assert trajectory.final_metrics is not None
    assert trajectory.final_metrics.total_cost_usd == pytest.approx(0.006)


async def test_an_answer_is_no_longer_than_the_money_lasts(
    short_folder: Path, priced: Upstream, puppet: Puppet
) -> None:
    async with serving(short_folder, priced, Budget(usd=0.009)) as (_, path), http_client(path) as http:
        await http.post("/v1/chat/completions", json=chat(max_tokens=5_000))
    assert 0 < puppet.requests[0]["max_tokens"] < 9


async def test_a_budget_of_money_needs_prices_before_anything_is_played(upstream: Upstream) -> None:
    with pytest.raises(Unpriced, match="puppet-1, puppet-2"):
        Recorder("e", ledger_problem().problem, Ledger(), upstream, Budget(usd=1.0), 0)


async def test_after_its_time_an_episode_takes_no_more(short_folder: Path, upstream: Upstream) -> None:
    now = [100.0]
    recorder = Recorder(
        "e", ledger_problem().problem, Ledger(), upstream, Budget(wall_s=5.0), 0, tick=lambda: now[0]
    )
    async with recorder.serving(short_folder / "s"), http_client(str(short_folder / "s")) as http:
        now[0] += 50.0  # its time counts from when the agent runs
        await http.get("/problem")
        assert (await http.post("/tools/add", json={"amount": 1})).status_code == 200
        now[0] += 5.1
        assert await spent(http, "/tools/add", {"amount": 1}) == "wall_s"
    assert [call["canonical"] for call in bodies(recorder, "tool_call")] == [{"amount": 1}]


async def test_requests_beyond_those_at_once_wait_their_turn(
    short_folder: Path, upstream: Upstream, puppet: Puppet
) -> None:
    budget = Budget(concurrent_requests=2)
    async with serving(short_folder, upstream, budget) as (_, path), http_client(path) as http:
        hanging = [
            asyncio.create_task(http.post("/v1/chat/completions", json={"messages": tell(hang=True)}))
            for _ in range(2)
        ]
        await asyncio.to_thread(puppet.wait_for_requests, 2)
        third = asyncio.create_task(http.get("/v1/models"))
        _, waiting = await asyncio.wait({third}, timeout=0.2)
        assert waiting
        for task in (*hanging, third):
            task.cancel()
        await asyncio.gather(*hanging, third, return_exceptions=True)


@pytest.mark.parametrize(
    ("limits", "asked", "sent"),
    [
        ({"temperature_max": 0.5}, {"temperature": 1.5}, {"temperature": 0.5}),
        ({"temperature_max": 0.0}, {"temperature": 1.5}, {"temperature": 0.0}),
        ({"temperature_max": 0.0}, {}, {"temperature": 0.0}),
        ({"top_p_min": 0.9}, {"top_p": 0.1}, {"top_p": 0.9}),
        ({"penalty_max": 0.5}, {"presence_penalty": -2.0}, {"presence_penalty": -0.5}),
        ({"penalty_max": 0.5}, {"frequency_penalty": 2.0}, {"frequency_penalty": 0.5}),
        (
            {"top_logprobs_max": 2},
            {"logprobs": True, "top_logprobs": 9},
            {"logprobs": True, "top_logprobs": 2},
        ),
        ({"completion_tokens_per_call": 7}, {"max_tokens": 50}, {"max_tokens": 7}),
        ({}, {"seed": 12}, {"seed": 12}),
    ],
)
async def test_sampling_is_clamped_by_the_rules_sent_on_and_recorded(
    short_folder: Path,
    upstream: Upstream,
    puppet: Puppet,
    limits: dict[str, Any],
    asked: dict[str, Any],
    sent: dict[str, Any],
) -> None:
    async with (
        serving(short_folder, upstream, Budget(**limits)) as (recorder, path),
        http_client(path) as http,
    ):
        answer = await http.post("/v1/chat/completions", json=chat(**asked))
    assert answer.status_code == 200, answer.text
    (call,) = bodies(recorder, "model_call")
    for name, value in sent.items():
        assert puppet.requests[0][name] == call["params"][name] == value


async def test_nothing_of_a_call_is_dropped(short_folder: Path, upstream: Upstream, puppet: Puppet) -> None:
    token = {"token": "x", "logprob": -0.25, "bytes": [120], "top_logprobs": []}
    order = {
        "message": {"content": "x", "reasoning_content": "why"},
        "logprobs": {"content": [token]},
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "prompt_tokens_details": {"cached_tokens": 4},
            "cost": 0.5,
        },
    }
    own = {"type": "function", "function": {"name": "own", "parameters": {"type": "object"}}}
    body = {
        "messages": [{"role": "system", "content": "be brief"}, *tell(**order)],
        "tools": [own],
        "tool_choice": "auto",
        "stop": ["END"],
        "seed": 3,
        "logprobs": True,
        "max_tokens": 100,
    }
    async with serving(short_folder, upstream) as (recorder, path), http_client(path) as http:
        answer = (await http.post("/v1/chat/completions", json=body)).json()
    (call,) = bodies(recorder, "model_call")
    stored = events.blobs(recorder.log.events)
    assert [stored[name] for name in call["messages"]] == body["messages"]
    assert stored[call["tools"]] == [own]
    wanted = {"tool_choice": "auto", "stop": ["END"], "seed": 3, "logprobs": True, "max_tokens": 100}
    assert call["params"] == wanted
    assert puppet.requests[0] == {
        "model": "puppet-1",
        "messages": body["messages"],
        "tools": [own],
        "stream": False,
        **wanted,
    }
    response = call["response"]
    assert response["message"] == {"role": "assistant", **order["message"]}
    assert response["logprobs"] == order["logprobs"] == answer["choices"][0]["logprobs"]
    assert response["usage"] == {**order["usage"], "estimated": False}
    assert response["finish_reason"] == "stop"
    assert response["provider"] == {"id": "x", "model": "puppet-1-2026"}


async def test_thirty_two_recorders_in_one_process_keep_apart_what_they_see(
    short_folder: Path, upstream: Upstream
) -> None:
    async def one(number: int) -> Recorder:
        folder = short_folder / str(number)
        folder.mkdir()
        async with serving(folder, upstream) as (recorder, path), http_client(path) as http:
            for step in range(3):
                await http.post("/v1/chat/completions", json={"messages": say(f"{number}/{step}")})
                await http.post("/tools/add", json={"amount": number})
        return recorder

    recorders = await asyncio.gather(*(one(number) for number in range(32)))
    for number, recorder in enumerate(recorders):
        said = [call["response"]["message"]["content"] for call in bodies(recorder, "model_call")]
        assert said == [f"{number}/{step}" for step in range(3)]
        assert [call["canonical"] for call in bodies(recorder, "tool_call")] == [{"amount": number}] * 3
