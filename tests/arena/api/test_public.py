"""What everybody may see, and that it is what is stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import select

from arena.rules import Rules
from storage.database import Database
from storage.tables import Race, Submission
from tests.arena.api.played import Played
from tests.arena.api.stage import MINER, OTHER, RULES, STRANGER, api, asking, assert_problem
from tests.arena.stores import NOW, Clock
from tests.arena.test_races import RULES as RACED


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + timedelta(minutes=1))


@pytest.fixture
def played(database: Database, clock: Clock) -> Played:
    return Played(database, clock, {"champ": OTHER, "good": MINER, "weak": STRANGER})


async def settle(played: Played) -> None:
    race_id = await played.open_first()
    for _ in range(4):
        await played.play_all()
        await played.advance(race_id)
    assert (await played.race(race_id)).state == "settled"


async def test_a_race_shows_the_rules_it_was_opened_with_and_their_hash(
    played: Played, clock: Clock, database: Database
) -> None:
    await played.open_first()
    async with asking(api(database, clock)) as client:
        shown = (await client.get("/v1/races/1/rules")).json()
        assert shown["rules_hash"] == Rules.load(shown["rules"]).rules_hash == RACED.rules_hash
        next_one = (await client.get("/v1/rules")).json()
        assert next_one["rules_hash"] == RULES.rules_hash != RACED.rules_hash
        assert_problem(await client.get("/v1/races/2/rules"), 404, "not_found")


async def test_a_pools_problems_are_published_once_their_race_has_settled_without_answers(
    played: Played, clock: Clock, database: Database
) -> None:
    race_id = await played.open_first()
    pool = (await played.race(race_id)).pool_suite_id
    async with asking(api(database, clock)) as client:
        suites = {s["role"]: s for s in (await client.get("/v1/suites")).json()["items"]}
        assert suites["pool"]["suite_id"] == pool
        manifest = (await client.get(f"/v1/suites/{pool}")).json()
        assert manifest["categories"] == {"product": 20, "shop": 20}
        assert manifest["root"] == (await client.get("/v1/races/1")).json()["pool_root"]
        for _ in range(4):
            assert (await client.get(f"/v1/suites/{pool}/problems")).json()["items"] == []
            await played.play_all()
            await played.advance(race_id)
        problems = (await client.get(f"/v1/suites/{pool}/problems?limit=100")).json()["items"]
        assert [p["problem"]["problem_id"] for p in problems] == sorted(
            (await played.race(race_id)).drawn or ()
        )
        assert {tuple(p["drawn_in"]) for p in problems} == {(1,)}
        assert set(problems[0]["problem"]) == {"problem_id", "environment", "category", "query", "difficulty"}
        assert_problem(await client.get("/v1/suites/nothing"), 404, "not_found")


async def test_results_are_the_settlements_and_say_in_one_word_what_was_left_out(
    played: Played, clock: Clock, database: Database
) -> None:
    await settle(played)
    async with asking(api(database, clock)) as client:
        assert_problem(await client.get("/v1/races/2/results"), 404, "not_found")
        results = (await client.get("/v1/races/1/results")).json()["items"]
        settlement = (await client.get("/v1/races/1")).json()["settlement"]
        clock.move(hours=RACED.embargo_h)
        whole = (await client.get("/v1/races/1")).json()["settlement"]
    by_agent = {agent["agent"]: agent["by_problem"] for agent in settlement["agents"]}
    assert [(r["left_out"], r["scores"]) for r in results if not r["counted"]] == [("unscored", {})]
    for result in results:
        if result["counted"]:
            assert result["scores"] == {
                agent: scores[result["problem_id"]] for agent, scores in by_agent.items()
            }
    (cut,) = settlement["problems"]["left_out"].values()
    (reason,) = whole["problems"]["left_out"].values()
    assert reason.startswith(f"{cut}:")


async def test_an_agents_source_is_embargoed_until_it_is_told(
    played: Played, clock: Clock, database: Database
) -> None:
    await settle(played)
    agent = played.submissions["weak"]  # it has only qualified, and was in the race all the same
    async with asking(api(database, clock)) as client:
        shown = (await client.get(f"/v1/agents/{agent}")).json()
        assert (shown["public"], shown["races"]) == (False, [1])
        refused = await client.get(f"/v1/agents/{agent}/source")
        assert_problem(refused, 403, "embargoed")
        assert refused.json()["until"].replace("+00:00", "Z") == shown["public_at"]
        clock.move(hours=RACED.embargo_h, microseconds=-1)
        assert_problem(await client.get(f"/v1/agents/{agent}/source"), 403, "embargoed")
        clock.move(microseconds=1)
        source = await client.get(f"/v1/agents/{agent}/source")
        assert source.headers["content-type"] == "text/x-python; charset=utf-8"
        assert (await client.get(f"/v1/agents/{agent}")).json()["public"]


async def test_a_submission_that_turned_out_a_copy_publishes_neither_source_nor_traces(
    played: Played, clock: Clock, database: Database
) -> None:
    await settle(played)
    clock.move(hours=RACED.embargo_h)
    copy = played.submissions["good"]
    async with asking(api(database, clock)) as client:
        before = (await client.get(f"/v1/traces?agent={copy}")).json()["items"]
        async with database.session() as session:
            (await session.get_one(Submission, copy)).state = "refused"
        assert before
        assert (await client.get(f"/v1/traces?agent={copy}")).json()["items"] == []
        trace = f"/v1/traces/{before[0]['trace_id']}"
        assert_problem(await client.get(trace), 403, "embargoed")
        assert_problem(await client.get(f"{trace}/atif"), 403, "embargoed")
        assert_problem(await client.get(f"/v1/agents/{copy}/source"), 404, "not_found")


async def test_traces_are_chosen_by_race_agent_and_verdict_and_come_whole_as_atif(
    played: Played, clock: Clock, database: Database
) -> None:
    await settle(played)
    clock.move(hours=RACED.embargo_h)
    good = played.submissions["good"]
    async with asking(api(database, clock)) as client:
        chosen = await client.get(f"/v1/traces?race=1&agent={good}&verdict=solved&limit=100")
        traces = chosen.json()["items"]
        assert len(traces) == 4 + 10
        assert {(t["agent"], t["verdict"], t["judge"], t["grade"]) for t in traces} == {
            (str(good), "solved", "j", 0.9)
        }
        assert (await client.get("/v1/traces?race=2")).json()["items"] == []
        one = f"/v1/traces/{traces[0]['trace_id']}"
        assert (await client.get(one)).json() == traces[0]
        atif = (await client.get(f"{one}/atif")).json()
        assert atif["schema_version"].startswith("ATIF")
        assert_problem(await client.get(f"/v1/traces/{good}"), 404, "not_found")


async def test_a_race_from_before_there_was_an_embargo_has_that_of_the_rules_now(
    played: Played, clock: Clock, database: Database
) -> None:
    await settle(played)
    async with database.session() as session:
        race = (await session.scalars(select(Race))).one()
        race.rules = {name: value for name, value in race.rules.items() if name != "embargo_h"}
    async with asking(api(database, clock)) as client:
        clock.move(hours=RULES.embargo_h - 1)
        assert (await client.get("/v1/traces")).json()["items"] == []
        clock.move(hours=1)
        assert (await client.get("/v1/traces")).json()["items"]
