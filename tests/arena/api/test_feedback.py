"""Feedback: a miner learns how its agent did, and nothing that helps to answer."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from storage.database import Database
from tests.arena.api.played import Played
from tests.arena.api.stage import MINER, OTHER, STRANGER, Signed, api, asking, assert_problem, listed
from tests.arena.stores import NOW, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW + timedelta(minutes=1))


@pytest.fixture
def played(database: Database, clock: Clock) -> Played:
    return Played(database, clock, {"champ": OTHER, "good": MINER, "weak": STRANGER})


async def test_feedback_comes_when_the_phase_is_over_and_names_drawn_problems_when_the_race_has_settled(
    played: Played, clock: Clock, database: Database
) -> None:
    race_id = await played.open_first()
    auth = Signed(OTHER, clock)
    async with asking(api(database, clock, tick=lambda: clock().timestamp() * 1000)) as client:
        address = f"/v1/submissions/{played.submissions['champ']}/feedback"
        await played.play_all()
        assert await listed(client, address, auth) == []
        assert await played.advance(race_id) == "drawing"
        qualifying = await listed(client, address, auth)
        assert sorted(f["problem_id"] for f in qualifying) == [f"public-{i:03}" for i in range(4)]
        await played.advance(race_id)
        await played.play_all()
        assert len(await listed(client, address, auth)) == 4
        assert await played.advance(race_id) == "judging"
        raced = await listed(client, f"{address}?phase=race", auth)
        assert [f["problem_id"] for f in raced] == [None] * 10
        assert await played.advance(race_id) == "settled"
        known = await listed(client, f"{address}?phase=race", auth)
        assert sorted(f["problem_id"] for f in known) == sorted((await played.race(race_id)).drawn or ())


async def test_feedback_says_which_classes_of_rules_failed_and_what_it_cost(
    played: Played, clock: Clock, database: Database
) -> None:
    race_id = await played.open_first()
    for _ in range(4):
        await played.play_all()
        await played.advance(race_id)
    async with asking(api(database, clock)) as client:
        address = f"/v1/submissions/{played.submissions['champ']}/feedback?phase=race&limit=100"
        told = (await client.get(address, auth=Signed(OTHER, clock))).json()["items"]
    # Of the odd positions 1 is unscored, 3 and 9 crashed, 5 and 7 broke rules; the even ones are solved.
    assert Counter((f["verdict"], tuple(f["failed_rules"]), f["reason"]) for f in told) == {
        ("solved", (), None): 5,
        ("unscored", (), "the agent was never started"): 1,
        ("failed", (), "crashed"): 2,
        ("failed", ("price", "sku & attrs"), None): 2,
    }
    assert {(f["gate"], f["grade"]) for f in told if f["verdict"] != "unscored"} == {("grounded", 0.9)}
    assert {(f["prompt_tokens"], f["completion_tokens"], f["model_emitted"]) for f in told} == {(10, 5, 1)}


async def test_another_hotkeys_feedback_does_not_exist(
    played: Played, clock: Clock, database: Database
) -> None:
    await played.open_first()
    address = f"/v1/submissions/{played.submissions['champ']}/feedback"
    async with asking(api(database, clock)) as client:
        assert_problem(await client.get(address, auth=Signed(MINER, clock)), 404, "not_found")
        assert_problem(await client.get(address), 401, "bad_signature")
