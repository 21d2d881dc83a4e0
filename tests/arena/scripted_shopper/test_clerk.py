"""The second world's policy: care answers every question, haste does not, and slips are slips."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arena.scripted_shopper.server import MODELS, ShopperRequest, complete
from problems.environment import Attempt, AttemptStep, ToolUse
from problems.problem import AnsweredProblem
from problems.worlds import prepared

WORLD = prepared("ledger", Path("/not-used"), seed=9, public=6, pool=24, products=0)
TURNS = 16


def solved(model: str, problem: AnsweredProblem, seed: int = 1) -> bool:
    messages: list[dict[str, Any]] = [{"role": "user", "content": problem.problem.query}]
    tools = [tool.openai() for tool in WORLD.environment.tools(problem.problem)]
    steps = []
    for _ in range(TURNS):
        request = ShopperRequest(model=model, messages=messages, tools=tools, seed=seed)
        message = complete(request, MODELS[model])["choices"][0]["message"]
        messages.append(message)
        uses = []
        for call in message.get("tool_calls", ()):
            name = call["function"]["name"]
            reply = WORLD.environment.call(name, call["function"]["arguments"])
            content = json.dumps(reply.content)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
            uses.append(ToolUse(name, reply.arguments or {}, reply.error is None))
        steps.append(AttemptStep(tuple(uses)))
        if not uses:
            break
    attempt = Attempt(tuple(steps))
    assert WORLD.environment.answered(attempt)
    return WORLD.environment.score(problem, attempt).solved


def share(model: str) -> float:
    problems = WORLD.pool.problems
    return sum(solved(model, problem, n) for n, problem in enumerate(problems)) / len(problems)


def test_the_three_qualities_differ_in_what_they_solve() -> None:
    careful, noisy, hasty = (share(f"scripted-shopper-{name}") for name in ("careful", "noisy", "hasty"))
    assert careful == 1
    assert 0.3 < noisy < 1
    assert hasty < 0.3


@pytest.mark.parametrize(
    "query", ["", "What is the capital of France?", "from my savings account from x to y"]
)
def test_a_question_of_another_kind_is_answered_honestly(query: str) -> None:
    problem = WORLD.pool.problems[0]
    asked = problem.model_copy(update={"problem": problem.problem.model_copy(update={"query": query})})
    assert not solved("scripted-shopper-careful", asked)
