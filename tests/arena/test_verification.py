"""Verifying a race: what was decided follows from the record, and whoever changes either is found out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from arena.findings import Step, differences
from arena.suites import store_suite
from arena.verification import Means, NothingToVerify, verify_race
from distill.filters import FilterConfig, accepts
from problems.problem import AnsweredProblem, ProblemSuite
from storage.database import Database
from tests.arena.sums import JUDGE, LEDGER, RUBRIC, RULES, Sums, grade, sums


def better_wins(hotkey: str, number: int) -> bool:
    return "good" in hotkey or (hotkey == "champ" and number % 2 == 0)


async def verified(
    database: Database, number: int = 1, *, rules_at_hand: bool = True, pool: int = 30
) -> dict[str, Step]:
    suites = [sums("public", 4).suite_id, sums("pool", pool).suite_id] if rules_at_hand else []
    means = Means(
        accepts_into_corpus=lambda trace: accepts(trace, FilterConfig()),
        environments=dict.fromkeys(suites, LEDGER),
        regrade=lambda judge, rubric: grade if (judge, rubric) == (JUDGE, RUBRIC) else None,
    )
    return {step.name: step for step in await verify_race(database, number, means)}


def wrong(steps: dict[str, Step]) -> set[str]:
    return {name for name, step in steps.items() if step.status == "differs"}


async def test_races_that_nobody_touched_are_the_same_in_every_step(database: Database) -> None:
    arena = Sums(database)
    first = await arena.run(["good", "scripted-good", "weak"], better_wins, champion="champ")
    assert first.state == "settled"
    arena.clock.move(hours=24)
    second = await arena.run(["weak", "champ"], better_wins)
    assert second.state == "settled"
    for number in (1, 2):
        steps = await verified(database, number)
        assert {name: step.status for name, step in steps.items()} == dict.fromkeys(steps, "same"), steps
    assert {"draw", "exposure", "scores", "promotion", "payout", "settlement"} <= steps.keys()


async def test_a_suite_that_is_stored_later_and_joins_clusters_changes_no_draw_that_was_made(
    database: Database,
) -> None:
    arena = Sums(database)
    await arena.run(["good"], better_wins, champion="champ")
    joining = ProblemSuite(
        name="later",
        environment="ledger",
        catalog_id="none",
        scorer="ledger-1",
        problems=tuple(
            AnsweredProblem(
                problem=p.problem.model_copy(update={"problem_id": f"later-{i}", "query": f"again {i}"}),
                answer=p.answer,
                leak_keys=(*p.leak_keys, f"pool:{i + 15}"),
            )
            for i, p in enumerate(sums("pool", 15).problems)
        ),
    )
    await store_suite(database, joining, "pool")
    assert wrong(await verified(database)) == set()


async def test_an_answer_that_comes_after_the_race_changes_nothing_of_it(database: Database) -> None:
    arena = Sums(database)
    arena.unjudged = {f"pool-{i:03}" for i in (3, 11, 17, 25)}
    arena.rules = arena.rules.model_copy(update={"void_share": 0.5})
    arena.__post_init__()
    race = await arena.run(["good"], better_wins, champion="champ")
    assert race.settlement is not None
    left_out = race.settlement["problems"]["left_out"]
    assert set(left_out) == arena.unjudged & set(race.drawn or ())
    assert left_out, "the draw has none of those that cannot be judged"
    arena.unjudged.clear()
    await arena.judge()
    assert wrong(await verified(database)) == set()


async def test_a_repeat_that_we_failed_leaves_its_problem_out_for_everyone(database: Database) -> None:
    rules = RULES.model_copy(update={"repeats": 2})
    lost, failures = 9, 0

    def once_ours(hotkey: str, number: int) -> bool | None:
        """One of the two episodes of a problem cannot be scored, as often as it is tried."""
        nonlocal failures
        if (hotkey, number) == ("good", lost) and failures < rules.max_attempts:
            failures += 1
            return None
        return better_wins(hotkey, number)

    race = await Sums(database, rules).run(["good"], once_ours, champion="champ", pool=10)
    assert race.settlement is not None, race.void_reason
    async with database.session() as session:
        played = await session.scalar(text("SELECT count(*) FROM episode WHERE phase = 'race'"))
        retried = await session.scalar(text("SELECT count(*) FROM trace WHERE NOT final"))
    assert played == 2 * 10 * rules.repeats
    assert retried == rules.max_attempts - 1
    assert race.settlement["problems"]["left_out"] == {f"pool-{lost:03}": "unscored: sandbox: no room"}
    assert {(agent["n"], agent["left_out"]) for agent in race.settlement["agents"]} == {(9, 1)}
    assert wrong(await verified(database, pool=10)) == set()


async def test_without_the_catalog_outcomes_are_said_to_be_taken_as_stored(database: Database) -> None:
    await Sums(database).run(["good"], better_wins, champion="champ")
    step = (await verified(database, rules_at_hand=False))["outcomes"]
    assert step.status == "not checked"
    assert "catalog" in step.notes[0]


async def test_a_void_race_is_void_for_the_stored_reason(database: Database) -> None:
    race = await Sums(database).run(
        ["good"], lambda h, n: None if n in (1, 2, 3) else better_wins(h, n), champion="champ"
    )
    assert race.state == "void"
    assert wrong(await verified(database)) == set()
    async with database.session() as session:
        await session.execute(text("UPDATE race SET void_reason = 'qualifying: they felt like it'"))
    assert wrong(await verified(database)) == {"void"}


async def test_a_race_that_is_not_over_or_not_there_is_refused(database: Database) -> None:
    with pytest.raises(NothingToVerify, match="no race 7"):
        await verified(database, 7)


SOLVED_BY_GOOD = """(SELECT trace.id FROM trace JOIN episode ON episode.id = trace.episode_id
    JOIN submission ON submission.id = episode.submission_id
    WHERE hotkey = 'good' AND phase = 'race' AND verdict = 'solved' ORDER BY position LIMIT 1)"""

TAMPERING: dict[str, tuple[str, set[str]]] = {
    "the rules": ("UPDATE race SET rules = jsonb_set(rules, '{agency_floor}', '0.4')", {"rules"}),
    "a source": ("UPDATE submission SET source = 'other' WHERE hotkey = 'good'", {"sources"}),
    "an answer of the suite": (
        "UPDATE suite_problem SET answer = '{\"total\": 7}' WHERE problem_id = (SELECT drawn->>0 FROM race)",
        {"suites", "outcomes"},
    ),
    "a cluster": (
        "UPDATE suite_problem SET cluster_id = 'mine' WHERE problem_id = (SELECT drawn->>0 FROM race)",
        {"leak clusters"},
    ),
    "the root of the pool": ("UPDATE suite SET root = repeat('0', 64) WHERE role = 'pool'", {"suites"}),
    "the block's hash": ("UPDATE race SET draw_block_hash = '0xother'", {"draw"}),
    "the drawn problems": (
        "UPDATE race SET drawn = drawn - 0 || jsonb_build_array(drawn->0)",
        {"draw"},
    ),
    "what was exposed": (
        "DELETE FROM exposure WHERE cluster_id IN (SELECT cluster_id FROM exposure LIMIT 1)",
        {"exposure"},
    ),
    "who reigned": ("UPDATE race SET champion_id = NULL", {"qualifying"}),
    "when a reign began": ("UPDATE reign SET began_at = began_at + interval '1 day'", {"champion"}),
    "a qualifying score": (
        "UPDATE entrant SET qualifying_score = 1 WHERE role IS NULL OR role = 'champion'",
        {"qualifying"},
    ),
    "who qualified": ("UPDATE entrant SET role = 'challenger' WHERE role IS NULL", {"qualifying"}),
    "a seed": (
        "UPDATE episode SET seed = seed + 1 WHERE id = (SELECT episode_id FROM trace LIMIT 1)",
        {"episodes", "records"},
    ),
    "an event": (
        "UPDATE trace SET events = replace(events::text, 'I add them', 'I guess')::json "
        f"WHERE id = {SOLVED_BY_GOOD}",
        {"records"},
    ),
    "a chain head": (
        f"UPDATE trace SET chain_head = repeat('a', 64) WHERE id = {SOLVED_BY_GOOD}",
        {"records"},
    ),
    "a trajectory": (
        "UPDATE trace SET trajectory = replace(trajectory::text, 'I add them', 'I see')::json "
        f"WHERE id = {SOLVED_BY_GOOD}",
        {"records"},
    ),
    "who acted": (
        f"UPDATE trace SET model_emitted = 0, scripted = 2 WHERE id = {SOLVED_BY_GOOD}",
        {"records", "scores"},
    ),
    "tokens": (f"UPDATE trace SET completion_tokens = 0 WHERE id = {SOLVED_BY_GOOD}", {"records", "scores"}),
    "a verdict": (
        f"UPDATE trace SET verdict = 'failed', reason = 'budget' WHERE id = {SOLVED_BY_GOOD}",
        {"outcomes", "scores"},
    ),
    "a verdict made ours": (
        f"UPDATE trace SET verdict = 'unscored', reason = 'provider: 503' WHERE id = {SOLVED_BY_GOOD}",
        {"outcomes", "problems"},
    ),
    "an outcome": (
        f"UPDATE trace SET outcome = replace(outcome::text, '1.0', '0.5')::json WHERE id = {SOLVED_BY_GOOD}",
        {"outcomes"},
    ),
    "a grade": (
        f"UPDATE judged SET grade = 0.1 WHERE trace_id = {SOLVED_BY_GOOD}",
        {"judgements", "scores"},
    ),
    "a lost judgement": (
        f"UPDATE judged SET grade = NULL, unjudged = 'down' WHERE trace_id = {SOLVED_BY_GOOD}",
        {"problems"},
    ),
    "a lost trace": (
        f"UPDATE trace SET final = false WHERE id = {SOLVED_BY_GOOD}",
        {"episodes", "settlement"},
    ),
    "a score": ("UPDATE race SET settlement = jsonb_set(settlement, '{agents,0,score}', '0.99')", {"scores"}),
    "the promotion": (
        "UPDATE race SET settlement = jsonb_set(settlement, '{promotion,challenges,0,p_value}', '0.5')",
        {"promotion"},
    ),
    "the payout": ("UPDATE race SET settlement = jsonb_set(settlement, '{payout,burn}', '0')", {"payout"}),
}


class Tampered(Database):
    """The store inside one transaction of one connection, which is rolled back in the end."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A session that sees what was changed."""
        async with AsyncSession(self._connection, join_transaction_mode="create_savepoint") as session:
            yield session


async def test_tampering_with_any_stored_input_is_found_and_named(database: Database) -> None:
    await Sums(database).run(["good", "weak"], better_wins, champion="champ")
    for what, (statement, named) in TAMPERING.items():
        async with database.engine.connect() as connection, connection.begin() as unchanged:
            changed = await connection.execute(text(statement))
            assert changed.rowcount > 0, f"{what}: nothing was changed"
            steps = await verified(Tampered(connection))
            assert named <= wrong(steps), (what, [s for s in steps.values() if s.status != "same"])
            assert all(steps[name].notes for name in named), what
            await unchanged.rollback()
    assert wrong(await verified(database)) == set()


def test_differences_are_named_by_their_path() -> None:
    stored = {"a": [{"b": 1}, {"b": 2}], "c": 1}
    assert differences(stored, {"a": [{"b": 1}, {"b": 3}], "c": 1}) == ["a[1].b: stored 2, computed 3"]
    assert differences(stored, stored) == []
    assert differences({"c": 1}, {"c": True}) == ["c: stored 1, computed True"]
    assert differences({}, {"c": None}) == ["c: stored nothing, computed nothing"]
