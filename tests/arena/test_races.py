"""A race: every step once, whoever calls it and however often, and nobody pays for what we failed at."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from uuid import UUID

import pytest
from sqlalchemy import event, func, select
from sqlalchemy.orm import Session

from arena import queue
from arena.leaderboard import qualifying_board
from arena.race_records import race_inputs
from arena.races import EntryClosed, RaceEngine
from arena.rules import Rules
from arena.settlement import RaceInputs, Settlement, settle
from arena.suites import store_suite
from arena.verdict import Verdict
from problems.problem import canonical_json
from storage.database import Database
from storage.judgements import record_judgement
from storage.tables import Entrant, Episode, Exposure, Judged, Race, Reign, Submission, SuiteProblem, Trace
from storage.traces import StoredTrace
from tests.arena.stores import NOW, Clock, add_submission, failed, finish, solved, suite, unscored

RULES = Rules.load(
    {
        "public_size": 4,
        "drawn_size": 10,
        "retry_backoff_s": 0,
        "judge_pause_s": 0,
        "max_attempts": 2,
        "lease_s": 45,
        "heartbeat_s": 10,
    }
)
Referee = Callable[[str, str, int], Verdict]
"""The verdict of an agent (by hotkey) in a phase on a problem (by position)."""


class Chain:
    """Blocks every twelve seconds."""

    async def first_block_at_or_after(self, when: datetime) -> tuple[int, str]:
        number = -int(-when.timestamp() // 12)
        return number, f"0x{number:064x}"


class Arena:
    """A race engine on a real store, whose judge grades every scored trace 0.9 unless it is down."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self.database = database
        self.clock = clock
        self.judge_answers = True
        self.judge_rounds = 0
        self.judge_back_in_round: int | None = None
        self.engine = self.new_engine()

    def new_engine(self, rules: Rules = RULES, *, rubric: str = "r") -> RaceEngine:
        return RaceEngine(
            self.database,
            rules,
            clock=self.clock,
            blocks=Chain(),
            judge="j",
            rubric=rubric,
            judge_pending=lambda: self.judge(rubric=rubric),
            accepts_into_corpus=self.accepts,
        )

    @staticmethod
    def accepts(trace: StoredTrace) -> bool:
        grade = None if trace.judgement is None else trace.judgement.grade
        return trace.verdict == "solved" and trace.scripted == 0 and grade is not None and grade >= 0.7

    async def judge(self, *, rubric: str = "r", grade: float = 0.9) -> None:
        self.judge_rounds += 1
        if self.judge_rounds == self.judge_back_in_round:
            self.judge_answers = True
        async with self.database.session() as session:
            waiting = await session.scalars(
                select(Trace.id)
                .outerjoin(Judged, (Judged.trace_id == Trace.id) & (Judged.rubric == rubric))
                .where(Trace.final, Trace.verdict != "unscored", Judged.grade.is_(None))
            )
            for trace_id in waiting.all():
                await record_judgement(
                    session,
                    trace_id=trace_id,
                    judge="j",
                    rubric=rubric,
                    grade=grade if self.judge_answers else None,
                    gate=None,
                    rationale=None,
                    citations=[],
                    votes=[],
                    disagreement=0.0,
                    unjudged=None if self.judge_answers else "the judge is down",
                )

    async def open(self, hotkeys: tuple[str, ...], *, champion: str | None = None, pool: int = 30) -> UUID:
        public = await store_suite(self.database, suite("public", 4), "public")
        hidden = await store_suite(self.database, suite("pool", pool), "pool")
        async with self.database.session() as session:
            founding = None if champion is None else await add_submission(session, champion)
            entrants = [
                await add_submission(session, hotkey, at=NOW + timedelta(seconds=i))
                for i, hotkey in enumerate(hotkeys)
            ]
        race_id = await self.engine.open_race(public, hidden, founding_champion=founding)
        await self.engine.enter(race_id, entrants)
        return race_id

    async def play(self, referee: Referee, *, at_most: int = 10_000) -> int:
        """Play what waits, to the verdicts of the referee; returns how many attempts that took."""
        async with self.database.session() as session:
            hotkeys = dict((await session.execute(select(Submission.id, Submission.hotkey))).all())
        for played in range(at_most):
            async with self.database.session() as session:
                leased = await queue.lease(session, worker="w", now=self.clock(), lease_s=45)
                if leased is None:
                    return played
                position = (await session.get_one(Episode, leased.episode_id)).position
            verdict = referee(hotkeys[leased.submission_id], leased.phase, position)
            await finish(self.database, leased, verdict, now=self.clock(), rules=RULES)
        return at_most

    async def advance(self, race_id: UUID, *, times: int = 1) -> str:
        state = ""
        for _ in range(times):
            state = await self.engine.advance(race_id)
        return state

    async def run(self, race_id: UUID, referee: Referee) -> Race:
        for _ in range(8):
            await self.play(referee)
            if await self.engine.advance(race_id) in ("settled", "void"):
                break
        return await self.race(race_id)

    async def pause(self, race_id: UUID, *, paused: bool = True) -> None:
        async with self.database.session() as session:
            (await session.get_one(Race, race_id)).paused = paused

    async def race(self, race_id: UUID) -> Race:
        async with self.database.session() as session:
            return await session.get_one(Race, race_id)

    async def inputs(self, race_id: UUID) -> RaceInputs:
        credits = await self.engine.credits(race_id)
        async with self.database.session() as session:
            return await race_inputs(session, await session.get_one(Race, race_id), credits)

    async def count(self, table: type, *where: object) -> int:
        async with self.database.session() as session:
            return await session.scalar(select(func.count()).select_from(table).where(*where)) or 0  # type: ignore[arg-type]


@pytest.fixture
def arena(database: Database) -> Arena:
    return Arena(database, Clock(NOW + timedelta(minutes=1)))


def better_wins(hotkey: str, phase: str, position: int) -> Verdict:
    """The challenger solves everything, the champion half, the weak one nothing."""
    return solved() if hotkey == "good" or (hotkey == "champ" and position % 2 == 0) else failed()


async def test_a_race_runs_from_opening_to_a_promotion(arena: Arena) -> None:
    race_id = await arena.open(("good", "weak"), champion="champ")
    assert await arena.play(better_wins) == 3 * 4
    assert await arena.advance(race_id) == "drawing"
    assert await arena.advance(race_id) == "racing"
    assert await arena.play(better_wins) == 2 * 10  # the weak one did not qualify
    assert await arena.advance(race_id) == "judging"
    assert await arena.advance(race_id) == "settled"
    race = await arena.race(race_id)
    assert race.settlement is not None
    by_hotkey = {agent["hotkey"]: agent for agent in race.settlement["agents"]}
    assert by_hotkey["good"]["score"] == 1.0
    assert by_hotkey["champ"]["solved"] == 0.5
    assert race.settlement["promotion"]["champion"] == by_hotkey["good"]["agent"]
    assert sum(race.settlement["payout"]["units"].values()) + race.settlement["payout"]["burn"] == 65535
    assert race.settlement["payout"]["by_bucket"]["good"]["trace_credit"] > 0
    assert race.rules_hash == RULES.rules_hash
    assert await arena.count(Reign) == 1


async def test_the_promoted_agent_is_champion_of_the_next_race(arena: Arena) -> None:
    first = await arena.run(await arena.open(("good",), champion="champ"), better_wins)
    arena.clock.move(hours=24)
    second_id = await arena.engine.open_race(first.public_suite_id, first.pool_suite_id)
    second = await arena.race(second_id)
    assert second.number == 2
    assert first.settlement is not None
    assert str(second.champion_id) == first.settlement["promotion"]["champion"]


async def test_opening_while_a_race_runs_gives_that_race(arena: Arena) -> None:
    race_id = await arena.open(("good",))
    race = await arena.race(race_id)
    again = await asyncio.gather(
        *(arena.new_engine().open_race(race.public_suite_id, race.pool_suite_id) for _ in range(3))
    )
    assert set(again) == {race_id}


async def test_advancing_twice_at_once_at_every_step_does_each_thing_once(arena: Arena) -> None:
    race_id = await arena.open(("good", "weak"), champion="champ")
    for _ in range(8):
        await arena.play(better_wins)
        await asyncio.gather(*(arena.new_engine().advance(race_id) for _ in range(3)))
    race = await arena.race(race_id)
    assert race.state == "settled"
    assert await arena.count(Episode, Episode.phase == "qualifying") == 3 * 4
    assert await arena.count(Episode, Episode.phase == "race") == 2 * 10
    assert await arena.count(Trace) == 3 * 4 + 2 * 10
    assert await arena.count(Reign) == 1
    before = race.settlement
    assert await arena.advance(race_id, times=3) == "settled"
    assert (await arena.race(race_id)).settlement == before


class Killed(BaseException):
    """The process dies."""


@contextmanager
def dying_at_commit(number: int) -> Iterator[None]:
    """Die when the `number`-th transaction from here has done its work and is about to commit."""
    commits = itertools.count()

    def die(session: Session) -> None:
        if next(commits) == number:
            raise Killed

    event.listen(Session, "before_commit", die)
    try:
        yield
    finally:
        event.remove(Session, "before_commit", die)


async def test_a_race_killed_in_every_transaction_settles_to_the_bytes_of_one_that_was_not(
    arena: Arena,
) -> None:
    race_id = await arena.open(("good", "weak"), champion="champ")
    deaths = 0
    while (await arena.race(race_id)).state != "settled":
        await arena.play(better_wins)
        for number in itertools.count():
            try:
                with dying_at_commit(number):
                    await arena.new_engine().advance(race_id)
                break
            except Killed:
                deaths += 1
    assert deaths >= 4 * 2
    race = await arena.race(race_id)
    credits = await arena.engine.credits(race_id)
    async with arena.database.session() as session:
        undisturbed = settle(await race_inputs(session, race, credits))
    assert isinstance(undisturbed, Settlement)
    assert canonical_json(race.settlement) == undisturbed.to_bytes()
    assert undisturbed.scores.agents.keys() == {a["agent"] for a in (race.settlement or {})["agents"]}
    assert await arena.count(Trace) == 3 * 4 + 2 * 10
    assert await arena.count(Reign) == 1


async def test_a_problem_unscored_for_one_is_left_out_for_all_and_never_a_zero(arena: Arena) -> None:
    def referee(hotkey: str, phase: str, position: int) -> Verdict:
        return (
            unscored()
            if (hotkey, phase, position) == ("good", "race", 0)
            else better_wins(hotkey, phase, position)
        )

    race = await arena.run(await arena.open(("good",), champion="champ"), referee)
    assert race.settlement is not None
    agents = {a["hotkey"]: a for a in race.settlement["agents"]}
    assert agents["good"]["score"] == 1.0
    assert agents["champ"]["solved"] == pytest.approx(4 / 9)
    assert {(a["n"], a["left_out"]) for a in agents.values()} == {(9, 1)}
    assert list(race.settlement["problems"]["left_out"].values()) == ["unscored: provider: 503"]
    assert await arena.count(Trace, ~Trace.final) == 1


async def test_a_saboteur_voids_no_qualifying_and_does_not_qualify(arena: Arena) -> None:
    def referee(hotkey: str, phase: str, position: int) -> Verdict:
        return unscored() if hotkey == "saboteur" else better_wins(hotkey, phase, position)

    race = await arena.run(await arena.open(("good", "saboteur"), champion="champ"), referee)
    assert race.settlement is not None
    assert {agent["hotkey"] for agent in race.settlement["agents"]} == {"good", "champ"}
    async with arena.database.session() as session:
        board = await qualifying_board(session, race.number)
    assert board is not None
    assert [row.hotkey for row in board.rows] == ["good", "champ"]
    assert len(board.withdrawn) == 1


async def test_a_race_that_we_could_not_score_is_void_and_promotes_nobody(arena: Arena) -> None:
    def referee(hotkey: str, phase: str, position: int) -> Verdict:
        return unscored() if phase == "race" and position < 2 else better_wins(hotkey, phase, position)

    race = await arena.run(await arena.open(("good",), champion="champ"), referee)
    assert race.state == "void"
    assert race.void_reason is not None
    assert "2 of 10 problems" in race.void_reason
    assert race.settlement is None
    assert await arena.count(Reign) == 0


async def test_a_judge_that_is_down_makes_nobody_zero(arena: Arena) -> None:
    race_id = await arena.open(("good",), champion="champ")
    await arena.play(better_wins)
    await arena.advance(race_id, times=2)
    await arena.play(better_wins)
    arena.judge_answers = False
    assert await arena.advance(race_id, times=2) == "void"


async def test_a_judge_that_comes_back_in_time_costs_nothing(arena: Arena) -> None:
    race_id = await arena.open(("good",), champion="champ")
    await arena.play(better_wins)
    await arena.advance(race_id, times=2)
    await arena.play(better_wins)
    arena.judge_answers = False
    arena.judge_back_in_round = arena.judge_rounds + 3
    assert await arena.advance(race_id, times=2) == "settled"
    race = await arena.race(race_id)
    assert race.settlement is not None
    assert race.settlement["problems"]["left_out"] == {}


async def test_an_unjudged_phase_waits(arena: Arena) -> None:
    async def later() -> None:
        """A judge that has not got to it yet."""

    race_id = await arena.open(("good",))
    await arena.play(better_wins)
    engine = RaceEngine(
        arena.database,
        RULES,
        clock=arena.clock,
        blocks=Chain(),
        judge="j",
        rubric="r",
        judge_pending=later,
        accepts_into_corpus=arena.accepts,
    )
    assert await engine.advance(race_id) == "qualifying"
    assert await arena.advance(race_id) == "drawing"


async def test_judging_a_settled_race_again_changes_nothing_in_what_it_was_settled_from(
    arena: Arena,
) -> None:
    race_id = await arena.open(("good", "weak"), champion="champ")
    race = await arena.run(race_id, better_wins)
    assert race.state == "settled"
    before = await arena.inputs(race_id)
    assert before.credits
    await arena.judge(rubric="stricter", grade=0.1)
    assert await arena.count(Judged, Judged.rubric == "stricter") == 3 * 4 + 2 * 10
    assert await arena.inputs(race_id) == before
    assert await arena.new_engine(rubric="stricter").advance(race_id) == "settled"
    assert await arena.inputs(race_id) == before
    settled = settle(before)
    assert isinstance(settled, Settlement)
    assert settled.to_bytes() == canonical_json(race.settlement)


async def test_a_race_whose_judge_is_replaced_is_decided_by_the_new_one_alone(arena: Arena) -> None:
    race_id = await arena.open(("good",), champion="champ")
    await arena.play(better_wins)
    await arena.advance(race_id, times=2)
    await arena.play(better_wins)
    await arena.judge(grade=0.1)
    arena.engine = arena.new_engine(rubric="newer")
    race = await arena.run(race_id, better_wins)
    assert (race.state, race.judge, race.rubric) == ("settled", "j", "newer")
    assert {result.grade for result in (await arena.inputs(race_id)).results} == {0.9}
    assert await arena.count(Judged, Judged.rubric == "r") == 2 * 4 + 2 * 10


async def test_all_entrants_play_the_same_problems_with_the_same_seeds(arena: Arena) -> None:
    race_id = await arena.open(("good",), champion="champ")
    await arena.play(better_wins)
    await arena.advance(race_id, times=2)
    async with arena.database.session() as session:
        rows = (await session.scalars(select(Episode).where(Episode.phase == "race"))).all()
    by_agent: dict[UUID, set[tuple[str, int, int, int]]] = {}
    for row in rows:
        by_agent.setdefault(row.submission_id, set()).add(
            (row.problem_id, row.repeat, row.seed, row.position)
        )
    first, second = by_agent.values()
    assert first == second
    assert len({seed for _, _, seed, _ in first}) == 10
    race = await arena.race(race_id)
    assert race.drawn == [problem for problem, _, _, position in sorted(first, key=lambda r: r[3])]


async def test_the_next_race_draws_clusters_that_were_not_shown_before(arena: Arena) -> None:
    first = await arena.run(await arena.open(("good",), champion="champ"), better_wins)
    assert await arena.count(Exposure) == 4 + 10
    arena.clock.move(hours=24)
    second_id = await arena.engine.open_race(first.public_suite_id, first.pool_suite_id)
    await arena.engine.enter(second_id)
    second = await arena.run(second_id, better_wins)
    assert first.drawn is not None
    assert second.drawn is not None
    assert not set(first.drawn) & set(second.drawn)


async def test_a_pool_that_is_too_small_voids_the_race(arena: Arena) -> None:
    race = await arena.run(await arena.open(("good",), pool=5), better_wins)
    assert race.state == "void"
    assert race.void_reason is not None
    assert "needs 10 clusters" in race.void_reason


async def test_entry_closes_at_the_boundary_and_the_draw_waits_for_it(arena: Arena) -> None:
    public = await store_suite(arena.database, suite("public", 4), "public")
    hidden = await store_suite(arena.database, suite("pool", 30), "pool")
    boundary = arena.clock() + timedelta(hours=1)
    race_id = await arena.engine.open_race(public, hidden, boundary_at=boundary)
    async with arena.database.session() as session:
        early = await add_submission(session, "good")
        late = await add_submission(session, "late")
    assert await arena.engine.enter(race_id, [early]) == [early]
    await arena.play(better_wins)
    assert await arena.advance(race_id) == "qualifying"
    arena.clock.move(hours=1)
    with pytest.raises(EntryClosed):
        await arena.engine.enter(race_id, [late])
    assert await arena.advance(race_id, times=2) == "racing"
    assert (await arena.race(race_id)).draw_block == -int(-boundary.timestamp() // 12)


async def test_a_hotkey_has_one_challenger_in_a_race_its_latest(arena: Arena) -> None:
    race_id = await arena.open(())
    async with arena.database.session() as session:
        await add_submission(session, "a", at=NOW)
        newer = await add_submission(session, "a", at=NOW + timedelta(seconds=5))
    assert await arena.engine.enter(race_id) == [newer]
    assert await arena.engine.enter(race_id) == []


async def test_the_champion_is_paid_when_nobody_qualifies(arena: Arena) -> None:
    race = await arena.run(await arena.open(("weak",), champion="champ"), better_wins)
    assert race.settlement is not None
    assert race.settlement["payout"]["by_bucket"]["champ"]["champion"] > 0


async def test_without_a_champion_the_best_is_crowned_uncontested(arena: Arena) -> None:
    race = await arena.run(await arena.open(("good", "weak")), better_wins)
    assert race.settlement is not None
    assert race.settlement["promotion"]["uncontested"]
    assert await arena.count(Entrant, Entrant.role == "challenger") == 2


async def test_a_variant_of_a_public_problem_in_the_pool_shares_its_cluster(database: Database) -> None:
    public, pool = suite("public", 2), suite("pool", 3)
    variant = pool.problems[0].model_copy(update={"leak_keys": public.problems[1].leak_keys})
    pool = pool.model_copy(update={"problems": (variant, *pool.problems[1:])})
    await store_suite(database, public, "public")
    pool_id = await store_suite(database, pool, "pool")
    assert await store_suite(database, pool, "pool") == pool_id
    async with database.session() as session:
        clusters = dict(
            (await session.execute(select(SuiteProblem.problem_id, SuiteProblem.cluster_id))).all()
        )
    assert clusters["pool-000"] == clusters["public-001"]
    assert len(set(clusters.values())) == 4


async def test_a_problem_that_joins_two_clusters_takes_their_exposure_along(database: Database) -> None:
    first = suite("first", 2)
    first_id = await store_suite(database, first, "pool")
    async with database.session() as session:
        race = Race(
            number=1,
            rules={},
            rules_hash="h",
            public_suite_id=first_id,
            pool_suite_id=first_id,
            opened_at=NOW,
        )
        session.add(race)
        await session.flush()
        shown = await session.scalar(
            select(SuiteProblem.cluster_id).where(SuiteProblem.problem_id == "first-001")
        )
        session.add(Exposure(race_id=race.id, cluster_id=shown))
    bridge = suite("bridge", 1)
    keys = tuple(sorted(k for p in first.problems for k in p.leak_keys))
    bridge = bridge.model_copy(
        update={"problems": (bridge.problems[0].model_copy(update={"leak_keys": keys}),)}
    )
    await store_suite(database, bridge, "pool")
    async with database.session() as session:
        joined = set(await session.scalars(select(SuiteProblem.cluster_id)))
        exposed = set(await session.scalars(select(Exposure.cluster_id)))
    assert len(joined) == 1
    assert joined <= exposed


async def test_a_paused_race_stays_in_its_state_and_goes_on_from_there(arena: Arena) -> None:
    race_id = await arena.open(("good", "weak"), champion="champ")
    await arena.play(better_wins)
    for state in ("qualifying", "drawing", "racing", "judging"):
        await arena.pause(race_id)
        assert await arena.advance(race_id, times=2) == state
        assert await arena.play(better_wins) == 0
        await arena.pause(race_id, paused=False)
        await arena.play(better_wins)
        await arena.advance(race_id)
    assert (await arena.race(race_id)).state == "settled"
