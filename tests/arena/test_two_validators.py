"""Two validators that were fed the same race, each in its own way, settle it to the same bytes."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from arena.rules import Rules

ROOT = Path(__file__).resolve().parents[2]


def a_race() -> dict[str, Any]:
    """Thirty agents on fifty problems twice, some of it unscored or unjudged, with equal scores among it."""
    chance = random.Random(3)
    agents = [f"agent-{i:02}" for i in range(30)]
    return {
        "number": 4,
        "rules": Rules.load({"repeats": 2}).model_dump(mode="json"),
        "seed": "0xblock",
        "entrants": [
            {"agent": agent, "hotkey": f"hk{i % 28}", "name": agent, "champion": i == 0}
            for i, agent in enumerate(agents)
        ],
        "champion_age_h": 72.0,
        "results": [
            an_episode(
                chance,
                agent,
                problem,
                repeat,
                ours=problem == 7 and i % 9 == 0,
                judged=(i, problem) != (4, 9),
            )
            for i, agent in enumerate(agents)
            for problem in range(50)
            for repeat in range(2)
        ],
        "credits": {f"hk{i}": chance.randrange(40) for i in range(28)},
    }


def an_episode(
    chance: random.Random, agent: str, problem: int, repeat: int, *, ours: bool, judged: bool
) -> dict[str, Any]:
    return {
        "agent": agent,
        "problem_id": f"p{problem:02}",
        "repeat": repeat,
        "verdict": "unscored" if ours else chance.choice(["solved", "failed"]),
        "reason": "provider: 503" if ours else None,
        "grade": chance.choice([0.1, 0.5, 0.9]) if judged and not ours else None,
        "model_emitted": chance.randrange(9),
        "scripted": chance.randrange(3),
        "prompt_tokens": chance.randrange(9999),
        "completion_tokens": chance.randrange(1, 999),
    }


def settled_by(race: dict[str, Any], *, hash_seed: str) -> bytes:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.arena.settling_process"],
        input=json.dumps(race).encode(),
        stdout=subprocess.PIPE,
        env=environment,
        timeout=60,
        check=True,
    )
    return done.stdout


def test_two_processes_settle_the_same_inputs_to_the_same_bytes() -> None:
    race = a_race()
    otherwise = json.loads(json.dumps(race))
    random.Random(9).shuffle(otherwise["results"])  # rows come from a database in any order
    otherwise["credits"] = dict(reversed(otherwise["credits"].items()))
    first = settled_by(race, hash_seed="1")
    second = settled_by(otherwise, hash_seed="424242")
    assert first == second
    settlement = json.loads(first)
    assert set(settlement["problems"]["left_out"]) == {"p07", "p09"}
    assert sum(settlement["payout"]["units"].values()) + settlement["payout"]["burn"] == 65535
