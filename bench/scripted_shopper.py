"""How well the scripted shopper shops, and what it costs: share solved, model calls, length of the talk.

Played in process: the model's answers and the tools of generated worlds, with the prompt of the model-driven
sample, but without sandbox and recorder. The baseline is the hasty shopper on the same problems.
"""

from __future__ import annotations

import ast
import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena import samples
from arena.scripted_shopper.server import MODELS, ShopperRequest, complete
from bench.figures import Figure, main
from problems.environment import Attempt, AttemptStep, Environment, ToolUse
from problems.problem import AnsweredProblem
from problems.shopping.world import prepare_generated

TURNS = 32
BASELINE = "scripted-shopper-hasty"
CAREFUL = "scripted-shopper-careful"
SOLVED_GOALS = {"product": 0.75, "shop": 0.45, "voucher": 0.45}
CALLS_GOAL = 8
CHARACTERS_GOALS = {"product": 5_000, "shop": 13_000, "voucher": 13_000}


@dataclass(frozen=True, slots=True)
class Game:
    """One problem played: whether it was solved, its model calls, and the characters of all messages."""

    solved: bool
    calls: int
    characters: int


def measure(quick: bool) -> Sequence[Figure]:
    """Shares, calls and characters, per model and category."""
    seeds, each = ((7, 8), 20) if quick else ((7, 8, 9), 40)
    played: dict[tuple[str, str], list[Game]] = defaultdict(list)
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            world = prepare_generated(Path(folder) / "world", seed=seed, public=30, pool=3 * each)
            counts: dict[str, int] = defaultdict(int)
            for problem in (*world.pool.problems, *world.public.problems):
                category = problem.problem.category
                counts[category] += 1
                for model in MODELS if counts[category] <= each else ():
                    played[model, category].append(play(world.environment, problem, model, counts[category]))
    return [
        figure
        for category in SOLVED_GOALS
        for model in MODELS
        for figure in _figures(model, category, played[model, category], played[BASELINE, category])
    ]


def play(environment: Environment, answered: AnsweredProblem, model: str, seed: int) -> Game:
    """Play one problem to its end, or for TURNS turns."""
    specs = [tool.openai() for tool in environment.tools(answered.problem)]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": _prompt()},
        {"role": "user", "content": answered.problem.query},
    ]
    steps: list[AttemptStep] = []
    while len(steps) < TURNS:
        request = ShopperRequest(model=model, messages=messages, tools=specs, seed=seed)
        message = complete(request, MODELS[model])["choices"][0]["message"]
        messages.append(message)
        uses = tuple(_carried_out(environment, message, messages))
        steps.append(AttemptStep(uses, message.get("reasoning_content") or "", message["content"] or ""))
        if not uses or any(environment.is_final(use) for use in uses):
            break
    outcome = environment.score(answered, Attempt(tuple(steps)))
    return Game(outcome.solved, len(steps), sum(map(_characters, messages)))


def _carried_out(
    environment: Environment, message: dict[str, Any], messages: list[dict[str, Any]]
) -> Iterator[ToolUse]:
    for call in message.get("tool_calls", ()):
        name = call["function"]["name"]
        reply = environment.call(name, call["function"]["arguments"])
        content = json.dumps(reply.content, ensure_ascii=False)
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        yield ToolUse(name, reply.arguments or {}, reply.error is None)


def _characters(message: dict[str, Any]) -> int:
    calls = "".join(c["function"]["name"] + c["function"]["arguments"] for c in message.get("tool_calls", ()))
    return len(message.get("reasoning_content") or "") + len(message["content"] or "") + len(calls)


def _prompt() -> str:
    """The system prompt of the model-driven sample."""
    for node in ast.parse(samples.source("model_driven")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SYSTEM":
            return str(ast.literal_eval(node.value))
    raise LookupError("the sample model_driven has no SYSTEM prompt")


def _figures(model: str, category: str, games: list[Game], baseline: list[Game]) -> Iterator[Figure]:
    name = f"{model.removeprefix('scripted-shopper-')} {category} n={len(games)}"
    careful = model == CAREFUL
    yield Figure(
        f"{name} solved",
        sum(game.solved for game in games) / len(games),
        "1",
        baseline=sum(game.solved for game in baseline) / len(baseline),
        goal=SOLVED_GOALS[category] if careful else 0.2 if model == BASELINE else None,
        at_most=not careful,
    )
    yield Figure(
        f"{name} calls (p50)",
        statistics.median(game.calls for game in games),
        "1",
        baseline=statistics.median(game.calls for game in baseline),
        goal=CALLS_GOAL if careful else None,
    )
    yield Figure(
        f"{name} length (p50)",
        statistics.median(game.characters for game in games),
        "chars",
        baseline=statistics.median(game.characters for game in baseline),
        goal=CHARACTERS_GOALS[category] if careful else None,
    )


if __name__ == "__main__":
    main(measure)
