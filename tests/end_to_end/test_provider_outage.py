"""The model endpoint is down: nobody's fault, nobody's zero. Episodes are tried again, then left out."""

from __future__ import annotations

from collections import Counter

import pytest

from arena.entries import qualifying_scores
from arena.race_records import phase_results, standings
from arena.sandbox.bubblewrap import BubblewrapSandbox
from problems.shopping.world import World
from storage.database import Database
from storage.events import verify
from storage.traces import StoredTrace
from tests.end_to_end.floor import RULES, floor
from tests.end_to_end.provider import Conversation, Provider, asked_for

NOBODY = "http://127.0.0.1:9/v1"
"""An endpoint that refuses connections."""


def attempts(traces: list[StoredTrace], agent: str) -> dict[str, list[tuple[int, str, bool]]]:
    """What became of each attempt at each problem: its number, its verdict, whether it was the last."""
    found: dict[str, list[tuple[int, str, bool]]] = {}
    for trace in sorted(traces, key=lambda t: t.attempt):
        if trace.agent_name == agent:
            found.setdefault(trace.problem_id, []).append((trace.attempt, trace.verdict, trace.final))
    return found


async def test_with_the_endpoint_down_episodes_are_tried_again_and_end_unscored(
    database: Database, world: World, sandbox: BubblewrapSandbox
) -> None:
    """Those of the crashing agent too: its fault lies behind a model call that we could not answer."""
    async with floor(database, world, sandbox, NOBODY) as arena:
        race_id = await arena.open_race(["model_driven", "crashing"], champion="no_model")
        await arena.play(race_id, "qualifying")
        traces = await arena.traces(race_id)
        for agent in ("model_driven", "crashing"):
            assert (
                list(attempts(traces, agent).values())
                == [[(1, "unscored", False), (2, "unscored", True)]] * RULES.public_size
            ), agent
        assert all(
            [verdict for _, verdict, _ in tried] in (["solved"], ["failed"])
            for tried in attempts(traces, "no_model").values()
        )
        unscored = [trace for trace in traces if trace.verdict == "unscored"]
        assert all((trace.reason or "").startswith("provider") for trace in unscored)
        assert all(trace.outcome is None and trace.judgement is None for trace in unscored)
        assert all(verify(trace.events) == trace.chain_head for trace in unscored)

        assert await arena.advance(race_id, times=2) == "void"
        assert (await arena.race(race_id)).void_reason == (
            "qualifying: 2 of 2 problems could not be scored for everyone, more than 10%"
        )
        ours = {trace.trace_id for trace in unscored}
        assert all(t.judgement is None for t in await arena.traces(race_id) if t.trace_id in ours)
        async with database.session() as session:
            found = await phase_results(session, race_id, "qualifying")
            scores = qualifying_scores(found, await standings(session, race_id), RULES)
        assert scores.agents == {}, "with no problem that counts there is no mean, not one of zero"


async def test_an_endpoint_that_comes_back_before_attempts_run_out_costs_nobody_anything(
    database: Database, world: World, sandbox: BubblewrapSandbox, provider: Provider
) -> None:
    failed: Counter[str] = Counter()

    def first_attempt(conversation: Conversation) -> bool:
        """Down at the first request of each agent for each problem."""
        asked = conversation[0]["content"] + asked_for(conversation)
        failed[asked] += 1
        return failed[asked] == 1

    provider.fails = first_attempt
    async with floor(database, world, sandbox, provider.base_url) as arena:
        race_id = await arena.open_race(["model_driven", "crashing"])
        await arena.play(race_id, "qualifying")
        traces = await arena.traces(race_id)
        for tried in attempts(traces, "crashing").values():
            assert tried == [(1, "unscored", False), (2, "failed", True)]
        for tried in attempts(traces, "model_driven").values():
            assert tried[0] == (1, "unscored", False)
            assert tried[1] in ((2, "solved", True), (2, "failed", True))
        reasons = {t.reason for t in traces if t.agent_name == "crashing" and t.final}
        assert all((reason or "").startswith("crashed") for reason in reasons)

        assert await arena.advance(race_id, times=1) == "drawing"
        async with database.session() as session:
            found = await phase_results(session, race_id, "qualifying")
            scores = qualifying_scores(found, await standings(session, race_id), RULES)
        assert scores.left_out == {}


async def test_a_problem_whose_endpoint_was_down_is_left_out_of_every_mean(
    database: Database, world: World, sandbox: BubblewrapSandbox, provider: Provider
) -> None:
    """One drawn problem cannot be scored for the one agent that needs the model; it counts for neither."""
    lenient = RULES.model_copy(update={"void_share": 0.5})
    provider.fails = lambda _: False
    async with floor(database, world, sandbox, provider.base_url, rules=lenient) as arena:
        race_id = await arena.open_race(["model_driven"], champion="no_model")
        await arena.play(race_id, "qualifying")
        assert await arena.advance(race_id, times=2) == "racing"
        drawn = (await arena.race(race_id)).drawn or []
        queries = {p.problem.problem_id: p.problem.query for p in world.pool.problems}
        provider.fails = lambda conversation: asked_for(conversation) == queries[drawn[0]]
        await arena.play(race_id, "race")
        assert await arena.advance(race_id, times=2) == "settled"

        settlement = (await arena.race(race_id)).settlement or {}
        assert list(settlement["problems"]["left_out"]) == [drawn[0]]
        assert settlement["problems"]["left_out"][drawn[0]].startswith("unscored: provider")
        assert sorted(settlement["problems"]["counted"]) == sorted(drawn[1:])
        for agent in settlement["agents"]:
            assert (agent["n"], agent["left_out"]) == (2, 1)
            assert sorted(agent["by_problem"]) == sorted(drawn[1:])
            assert agent["score"] == pytest.approx(sum(agent["by_problem"].values()) / 2)
        (challenge,) = settlement["promotion"]["challenges"]
        assert challenge["problems"] == 2
