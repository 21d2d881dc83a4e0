"""The API: who may say what, once, and that no answer holds what must stay hidden."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from datetime import timedelta

import bittensor as bt
import httpx
import pytest
import pytest_asyncio
from sqlalchemy import func, select

from arena.api.signed import PRUNE_EVERY_S, RETENTION_S
from arena.rules import Rules
from storage.database import Database
from storage.tables import RequestNonce
from tests.arena.api.stage import (
    MINER,
    OTHER,
    RULES,
    SOURCE,
    STRANGER,
    VALIDATOR,
    Signed,
    Subnet,
    api,
    asking,
    assert_problem,
)
from tests.arena.stores import NOW, Clock
from tests.arena.test_races import Arena, better_wins


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def subnet() -> Subnet:
    return Subnet()


@pytest_asyncio.fixture
async def client(database: Database, clock: Clock, subnet: Subnet) -> AsyncIterator[httpx.AsyncClient]:
    async with asking(api(database, clock, subnet=subnet)) as opened:
        yield opened


async def submit(
    client: httpx.AsyncClient,
    auth: httpx.Auth | None,
    source: bytes = SOURCE,
    headers: dict[str, str] | None = None,
) -> httpx.Response:
    return await client.post(
        "/v1/submissions", content=source, auth=auth, headers={"X-Agent-Name": "shopper", **(headers or {})}
    )


async def test_a_signed_submission_is_taken_and_its_hotkey_can_ask_for_it(
    client: httpx.AsyncClient, clock: Clock
) -> None:
    taken = await submit(client, Signed(MINER, clock))
    assert taken.status_code == 201
    assert taken.json()["source_sha256"] == hashlib.sha256(SOURCE).hexdigest()
    address = f"/v1/submissions/{taken.json()['submission_id']}"
    status = await client.get(address, auth=Signed(MINER, clock))
    assert status.json()["state"] == "accepted"
    assert status.json()["name"] == "shopper"
    assert_problem(await client.get(address, auth=Signed(OTHER, clock)), 404, "not_found")
    assert_problem(await client.get(address), 401, "bad_signature")


async def test_the_same_submission_again_answers_with_the_first(
    client: httpx.AsyncClient, clock: Clock
) -> None:
    first, again = [await submit(client, Signed(MINER, clock)) for _ in range(2)]
    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json() | {"new": False}


async def test_a_replayed_request_is_refused_by_every_process(
    client: httpx.AsyncClient, clock: Clock, database: Database, subnet: Subnet
) -> None:
    taken = await submit(client, Signed(MINER, clock))
    headers = dict(taken.request.headers)
    assert_problem(await submit(client, None, headers=headers), 401, "replayed")
    async with asking(api(database, clock, subnet=subnet)) as second:
        assert_problem(await submit(second, None, headers=headers), 401, "replayed")


async def test_an_altered_body_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    taken = await submit(client, Signed(MINER, clock))
    headers = {k: v for k, v in taken.request.headers.items() if k != "content-length"}
    assert_problem(await submit(client, None, SOURCE + b"#", headers), 401, "bad_signature")


async def test_a_request_for_another_receiver_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    stray = Signed(MINER, clock, receiver=OTHER.ss58_address)
    assert_problem(await submit(client, stray), 401, "bad_signature")


async def test_a_late_request_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    late = Signed(MINER, Clock(NOW - timedelta(seconds=11)))
    assert_problem(await submit(client, late), 401, "bad_signature")


async def test_a_request_that_names_a_scheme_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    named = await submit(client, Signed(MINER, clock), headers={bt.http_auth.HEADER_CRYPTO: "ed25519"})
    assert_problem(named, 401, "bad_signature")
    assert "sr25519" in named.json()["detail"]


async def test_nonces_are_forgotten_once_a_replay_would_be_too_late_anyway(
    client: httpx.AsyncClient, clock: Clock, database: Database
) -> None:
    for _ in range(5):
        await client.get("/v1/submissions", auth=Signed(MINER, clock))
    clock.move(seconds=RETENTION_S + PRUNE_EVERY_S + 1)
    await client.get("/v1/submissions", auth=Signed(OTHER, clock))
    async with database.session() as session:
        assert await session.scalar(select(func.count()).select_from(RequestNonce)) == 1


async def test_a_target_with_a_query_is_covered_by_the_signature(
    client: httpx.AsyncClient, clock: Clock
) -> None:
    taken = await submit(client, Signed(MINER, clock))
    address = f"/v1/submissions/{taken.json()['submission_id']}?note=a%20b"
    assert (await client.get(address, auth=Signed(MINER, clock))).status_code == 200


async def test_an_unregistered_hotkey_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    assert_problem(await submit(client, Signed(STRANGER, clock)), 403, "unregistered")


async def test_a_chain_that_does_not_answer_decides_nothing(
    client: httpx.AsyncClient, clock: Clock, subnet: Subnet
) -> None:
    subnet.down = True
    assert_problem(await submit(client, Signed(MINER, clock)), 503, "unavailable")
    subnet.down = False
    assert (await submit(client, Signed(MINER, clock))).status_code == 201


@pytest.mark.parametrize(
    ("source", "status", "code"),
    [
        (b"x" * (RULES.source_bytes + 1), 413, "too_large"),
        (b"\xff", 422, "not_utf8"),
        (b"def (", 422, "does_not_parse"),
        (b"x = 1\neval('x')", 422, "prohibited"),
    ],
    ids=["too_large", "not_utf8", "does_not_parse", "prohibited"],
)
async def test_a_bad_source_is_refused_with_its_code(
    client: httpx.AsyncClient, clock: Clock, source: bytes, status: int, code: str
) -> None:
    refused = await submit(client, Signed(MINER, clock), source)
    assert_problem(refused, status, code)
    if code == "prohibited":
        assert (refused.json()["line"], refused.json()["rule"]) == (2, "dynamic-code")


async def test_a_second_source_is_told_until_when_it_must_wait(
    client: httpx.AsyncClient, clock: Clock
) -> None:
    await submit(client, Signed(MINER, clock))
    refused = await submit(client, Signed(MINER, clock), SOURCE + b"#")
    assert_problem(refused, 429, "cooling_down")
    assert refused.json()["until"].startswith("2026-03-02T00:00:00")
    assert 0 < int(refused.headers["retry-after"]) <= 12 * 3600


async def test_another_hotkeys_source_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    await submit(client, Signed(MINER, clock))
    assert_problem(await submit(client, Signed(OTHER, clock)), 409, "duplicate")


async def test_only_a_commitment_to_this_very_source_gives_its_block(
    client: httpx.AsyncClient, clock: Clock, subnet: Subnet
) -> None:
    subnet.committed[MINER.ss58_address] = (77, hashlib.sha256(SOURCE).hexdigest())
    subnet.committed[OTHER.ss58_address] = (78, "0" * 64)
    assert (await submit(client, Signed(MINER, clock))).json()["commitment_block"] == 77
    assert (await submit(client, Signed(OTHER, clock), SOURCE + b"#")).json()["commitment_block"] is None


async def test_a_source_that_was_not_committed_to_is_refused_where_the_rules_ask_for_it(
    database: Database, clock: Clock, subnet: Subnet
) -> None:
    async with asking(api(database, clock, subnet=subnet, rules=Rules())) as client:
        assert_problem(await submit(client, Signed(MINER, clock)), 409, "commitment_missing")
        subnet.commit(MINER, SOURCE, 77)
        assert (await submit(client, Signed(MINER, clock))).status_code == 201


async def test_a_nameless_agent_is_refused(client: httpx.AsyncClient, clock: Clock) -> None:
    assert_problem(
        await client.post("/v1/submissions", content=SOURCE, auth=Signed(MINER, clock)), 422, "bad_request"
    )
    assert_problem(
        await submit(client, Signed(MINER, clock), headers={"X-Agent-Name": "x" * 49}), 422, "bad_name"
    )


async def test_an_unknown_address_is_a_problem_too(client: httpx.AsyncClient) -> None:
    assert_problem(await client.get("/v1/nothing"), 404, "not_found")
    assert_problem(await client.get("/v1/races/99"), 404, "not_found")
    assert_problem(await client.get("/v1/races/99999999999999999999"), 404, "not_found")
    assert_problem(await client.get("/v1/races/-99999999999999999999"), 404, "not_found")
    assert_problem(await client.get("/v1/leaderboard"), 404, "not_found")


async def test_rules_are_served_with_their_hash_and_health_answers(client: httpx.AsyncClient) -> None:
    served = (await client.get("/v1/rules")).json()
    assert served["rules_hash"] == Rules.load(served["rules"]).rules_hash == RULES.rules_hash
    health = (await client.get("/healthz")).json()
    assert health == {"status": "ok", "hotkey": VALIDATOR.ss58_address}


async def test_a_race_shows_neither_its_draw_nor_its_scores_before_it_has_settled(
    client: httpx.AsyncClient, database: Database
) -> None:
    arena = Arena(database, Clock(NOW + timedelta(minutes=1)))
    race_id = await arena.open(("good", "weak"), champion="champ")
    await arena.play(better_wins)
    await arena.advance(race_id, times=2)
    await arena.play(better_wins)
    drawn = (await arena.race(race_id)).drawn or []
    assert len(drawn) == 10
    shown = (await client.get("/v1/races/1")).json()
    assert (shown["state"], shown["drawn"], shown["settlement"]) == ("racing", None, None)
    assert_problem(await client.get("/v1/leaderboard"), 404, "not_found")
    for address in ("/v1/races", "/v1/races/1", "/v1/leaderboard?phase=qualifying", "/openapi.json"):
        text = (await client.get(address)).text
        assert not any(problem in text for problem in drawn)
        assert "# good" not in text


async def test_a_settled_race_shows_its_standings_and_how_it_was_decided(
    client: httpx.AsyncClient, database: Database
) -> None:
    arena = Arena(database, Clock(NOW + timedelta(minutes=1)))
    await arena.run(await arena.open(("good", "weak"), champion="champ"), better_wins)
    board = (await client.get("/v1/leaderboard")).json()
    assert [(r["rank"], r["hotkey"], r["champion"]) for r in board["rows"]] == [
        (1, "good", False),
        (2, "champ", True),
    ]
    assert [(r["solved"], r["judge"], r["n"], r["left_out"]) for r in board["rows"]] == [
        (1.0, 0.9, 10, 0),
        (0.5, 0.9, 10, 0),
    ]
    qualifying = (await client.get("/v1/leaderboard?phase=qualifying&race=1")).json()
    assert [r["hotkey"] for r in qualifying["rows"]] == ["good", "champ", "weak"]
    shown = (await client.get("/v1/races/1")).json()
    assert shown["settlement"]["promotion"]["promoted"]
    assert len(shown["drawn"]) == 10
    listed = (await client.get("/v1/races")).json()
    assert ([race["number"] for race in listed["items"]], listed["next"]) == ([1], None)
