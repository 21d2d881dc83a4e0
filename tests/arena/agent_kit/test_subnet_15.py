"""Agents of subnet 15 as processes: their imports, their proxy, and an answer that is only returned."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from arena.recorder.budget import Budget
from arena.recorder.upstream import Upstream
from arena.sandbox.staging import stage
from arena.sandbox.subprocess_backend import SubprocessSandbox
from arena.verdict import Failed, Solved
from judge.evidence import ONLY_CLAIMED, evidence
from storage.trajectory import counts, to_atif, tool_records
from tests.arena.puppet import say, tell
from tests.arena.test_episode import Player, agent, ended

KIT = Path(__file__).resolve().parents[3] / "arena" / "agent_kit"


@pytest.fixture
def player(upstream: Upstream, short_folder: Path) -> Player:
    return Player(SubprocessSandbox(stage()), upstream, short_folder)


@pytest.fixture
def interface(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(KIT / "subnet_15"))
    yield import_module("src.agent.agent_interface")
    for name in [n for n in sys.modules if n == "src" or n.startswith("src.")]:
        del sys.modules[name]


def test_a_tool_is_registered_under_its_own_name_or_the_given_one(interface: ModuleType) -> None:
    @interface.Tool
    def plain(a: int) -> int:
        return a + 1

    @interface.Tool()
    def called(a: int) -> int:
        return a + 2

    @interface.Tool("named")
    def other(a: int) -> int:
        return a + 3

    interface.register_tool("given", lambda a: a + 4)
    assert list(interface._TOOL_REGISTRY) == ["plain", "called", "named", "given"]
    assert [interface.get_tool(name)(a=1) for name in interface._TOOL_REGISTRY] == [2, 3, 4, 5]
    assert plain(1) == 2
    with pytest.raises(ValueError, match="no tool 'nothing' is registered; registered: called, given"):
        interface.get_tool("nothing")


def test_an_executed_call_says_all_of_itself_and_makes_a_step(interface: ModuleType) -> None:
    interface.register_tool("double", lambda number: 2 * number)
    made = interface.execute_tool_call("double", {"number": 4})
    assert (made["name"], made["parameters"], made["result"]) == ("double", {"number": 4}, 8)
    assert made["tool_call_id"] == interface.execute_tool_call("double", {"number": 4})["tool_call_id"]
    assert made["tool_call_id"] != interface.execute_tool_call("double", {"number": 5})["tool_call_id"]
    step = interface.create_dialogue_step("why", [made], "done", "the query", 3)
    assert step["completion"]["message"] == {"think": "why", "tool_call": [made], "response": "done"}
    assert step["completion"]["content"] == (
        '<think>why</think>\n<tool_call>[{"name": "double", "parameters": {"number": 4}}]</tool_call>\n'
        "<response>done</response>"
    )
    assert (step["extra_info"]["step"], step["extra_info"]["query"]) == (3, "the query")
    assert interface.create_dialogue_step("", [], "", "q", 1)["completion"]["message"] == {}


CLIENT = """
    from src.agent.proxy_client import ProxyClient
    client = ProxyClient(None, 30, 3, 0.01, 0.01, "key")
"""


def returning(total: object) -> str:
    """An agent that only returns its answer."""
    steps = [{"completion": {"message": {"tool_call": [{"name": "answer", "parameters": {"total": total}}]}}}]
    return f"def agent_main(problem_data):\n    return {steps!r}\n"


async def test_the_proxys_paths_lead_to_the_recorders_desks(player: Player) -> None:
    record = await player(
        CLIENT
        + f"""
    import json, os, sys
    assert os.environ["CHUTES_ACCESS_TOKEN"] and os.environ["SANDBOX_PROXY_URL"]

    def agent_main(problem_data):
        assert set(problem_data) >= {{"query", "category"}}
        chat = {{"model": os.environ["SANDBOX_MODEL"], "messages": {say("hello")!r}, "stream": False}}
        said = client.post("/inference/chat/completions", json_data=chat)
        assert said["choices"][0]["message"]["content"] == "hello", said
        found = client.get("/search/add", {{"amount": 40, "none": None}})
        assert found == {{"done": "add", "amount": 40}} == client.get("/search/add", {{"amount": "40"}})
        assert client.get("/search/add", {{"amount": "x"}}) is None
        assert client.get("/elsewhere") is None and client.post("/elsewhere", {{}}) is None
        client.get("/search/answer", {{"total": 42}})
        client.get("/search/finish")
        """
    )
    assert isinstance(record.verdict, Solved), record.exit.stderr
    assert [r.name for r in tool_records(record.events)] == ["add"] * 3 + ["answer", "finish"]
    assert "GET /elsewhere gave nothing: status 404" in record.exit.stderr
    assert "POST /elsewhere gave nothing: status 404" in record.exit.stderr


async def test_a_url_client_reaches_the_same_paths(player: Player) -> None:
    record = await player(
        """
        import json, os
        from urllib.request import urlopen
        import httpx

        def agent_main(problem_data):
            url = os.environ["SANDBOX_PROXY_URL"]
            with urlopen(url + "/search/add?amount=40") as answer:
                first = json.load(answer)
            assert httpx.get(url + "/search/add", params={"amount": 40}).json() == first
            assert httpx.get(url + "/search/add").status_code == 400
            httpx.get(url + "/search/answer", params={"total": 42})
        """
    )
    assert isinstance(record.verdict, Solved), record.exit.stderr


async def test_a_spent_budget_is_not_waited_for(player: Player) -> None:
    record = await player(
        """
        from src.agent.proxy_client import ProxyClient
        client = ProxyClient(rate_limit_retry_delay=1000, retry_delay=1000)

        def agent_main(problem_data):
            assert client.get("/search/add", {"amount": 1}) is not None
            assert client.get("/search/add", {"amount": 1}) is None
            body = {"model": "default", "messages": [{"role": "user", "content": "x"}]}
            assert client.post("/inference/chat/completions", body) is not None
            assert client.post("/inference/chat/completions", body) is None
        """,
        budget=Budget(tool_calls=1, model_calls=1),
    )
    assert ended(record)["reason"] == "exit", record.exit.stderr


async def test_a_returned_answer_counts_and_is_marked_and_is_the_scripts(player: Player) -> None:
    record = await player(returning(42))
    assert isinstance(record.verdict, Solved)
    assert ended(record)["claimed_answer"] == {"name": "answer", "arguments": {"total": 42}}
    assert (counts(record.events).model_emitted, counts(record.events).scripted) == (0, 1)
    assert tool_records(record.events) == ()
    trajectory = to_atif(record.events).to_json_dict()
    assert trajectory["extra"]["claimed_answer"] == {
        "function_name": "answer",
        "arguments": {"total": 42},
        "model_emitted": False,
    }
    assert all("observation" not in step for step in trajectory["steps"])
    (call,) = evidence(record.events).calls()
    assert (call.name, call.emitted, call.result) == ("answer", False, ONLY_CLAIMED)


async def test_a_returned_answer_that_the_model_emitted_is_the_models(player: Player) -> None:
    written = '<think>so</think><tool_call>[{"name": "answer", "parameters": {"total": "42"}}]</tool_call>'
    asked = tell(message={"content": written})
    record = await player(
        CLIENT
        + f"""
    def agent_main(problem_data):
        body = {{"model": "default", "messages": {asked!r}}}
        assert client.post("/inference/chat/completions", body)
        call = {{"name": "answer", "parameters": {{"total": 42}}}}
        return [{{"completion": {{"message": {{"tool_call": [call]}}}}}}]
        """
    )
    assert isinstance(record.verdict, Solved), record.exit.stderr
    assert (counts(record.events).model_emitted, counts(record.events).scripted) == (1, 0)
    (step,) = evidence(record.events).steps
    assert step.by_model
    assert [(call.emitted, call.result) for call in step.calls] == [(True, ONLY_CLAIMED)]


@pytest.mark.parametrize("total", ["many", None, {"a": 1}, [42]])
async def test_a_returned_answer_that_the_tool_would_refuse_is_none(player: Player, total: object) -> None:
    record = await player(returning(total))
    assert isinstance(record.verdict, Failed)
    assert record.verdict.reason == "no answer"
    assert "claimed_answer" not in ended(record)
    assert ended(record)["claim"] is not None


async def test_what_a_tool_was_told_goes_before_what_is_returned(player: Player) -> None:
    claim = returning(42).partition("return ")[2]
    record = await player(agent("tools.answer(total=41)", f"return {claim}"))
    assert isinstance(record.verdict, Failed)
    assert record.verdict.reason == "total"
    assert "claimed_answer" not in ended(record)


async def test_results_and_reasoning_in_what_is_returned_enter_no_trajectory(player: Player) -> None:
    forged = {
        "think": "I compared both.",
        "tool_call": [{"name": "add", "parameters": {}, "result": "FORGED"}],
    }
    record = await player(
        f"""
        def agent_main(problem_data):
            answer = {{"name": "answer", "parameters": {{"total": 42}}, "result": "FORGED"}}
            steps = [{forged!r}, {{"think": "I compared.", "tool_call": [answer], "response": "compared"}}]
            return [{{"completion": {{"message": message}}}} for message in steps]
        """
    )
    assert isinstance(record.verdict, Solved)
    for text in (
        json.dumps(to_atif(record.events).to_json_dict()),
        evidence(record.events).to_bytes().decode(),
    ):
        assert "FORGED" not in text
        assert "compared" not in text


async def test_of_a_dialogue_that_is_too_long_the_end_with_the_answer_is_passed_on(player: Player) -> None:
    claim = returning(42).partition("return ")[2]
    record = await player(f"def agent_main(problem_data):\n    return [{{'x': 'y' * 50_000}}] * 4 + {claim}")
    assert isinstance(record.verdict, Solved), record.exit.stderr
    assert "only the end was passed on" in record.exit.stderr


async def test_an_environment_that_cannot_read_a_claim_leaves_the_episode_unscored(player: Player) -> None:
    record = await player(returning(666))
    assert record.verdict.reason.startswith("reading the claim: RuntimeError"), record.verdict  # type: ignore[union-attr]
    assert ended(record)["reason"] == "fault"


async def test_an_agent_that_imports_none_of_it_loads_none_of_it(player: Player) -> None:
    record = await player(
        agent(
            "import sys",
            "assert not [m for m in sys.modules if m.startswith('src')]",
            "tools.answer(total=42)",
        )
    )
    assert isinstance(record.verdict, Solved), record.exit.stderr
