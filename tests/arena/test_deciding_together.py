"""A race decided with other validators: who lies below half of the stake changes nothing, who is down is not
waited for without end, and everything can be decided again from the store.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from bittensor.keyfiles import Keypair
from sqlalchemy import select

from arena.races import RaceEngine
from arena.rules import Rules
from arena.settlement import Settlement, settle
from arena.signed_results import Heard, signed_text
from problems.problem import canonical_json
from storage.database import Database
from storage.tables import Race, Reign, SignedResult, Submission
from tests.arena.stores import NOW, Clock, solved
from tests.arena.test_races import RULES, Arena, Chain, better_wins

OWN = Keypair.create_from_uri("//Alice")
TRUE = Keypair.create_from_uri("//Bob")
LIAR = Keypair.create_from_uri("//Mallory")
TOGETHER = Rules.load(
    RULES.model_dump()
    | {
        "consensus": "median",
        "consensus_deadline_s": 60,
        "entry_share": 0.0,
        "promotion": {"alpha": 0.1},
    }
)
ALONE = TOGETHER.model_copy(update={"consensus": "own"})
Says = Callable[[dict[str, Any]], dict[str, Any] | None]
"""What a validator makes of the result that we have; None while it is down."""


def the_same(result: dict[str, Any]) -> dict[str, Any]:
    return result


def nothing(_: dict[str, Any]) -> None:
    return None


def weak_is_best(result: dict[str, Any]) -> dict[str, Any]:
    """A forged result: the worst agent is best, gets all credit and all pay, and is crowned."""
    weak = next(a for a in result["agents"] if a["hotkey"] == "weak")
    for agent in result["agents"]:
        agent["score"] = 1.0 if agent is weak else 0.0
    return result | {
        "champion": {"hotkey": "weak", "source_sha256": weak["source_sha256"]},
        "promoted": True,
        "credits": {"weak": 10**9},
        "units": {"weak": 65535},
        "burn": 0,
    }


class Others:
    """Validators that answer at once, each with its own key, stake and way with the truth."""

    def __init__(self, stake: int, peers: Mapping[Keypair, tuple[int, Says]]) -> None:
        self.hotkey = OWN.ss58_address
        self.stake = stake
        self.peers = {keypair.ss58_address: (keypair, *said) for keypair, said in peers.items()}
        self.signs_wrong: set[str] = set()
        self._ours: dict[str, Any] = {}

    def sign(self, body: bytes) -> str:
        self._ours = json.loads(body)
        return bytes(OWN.sign(signed_text(body))).hex()

    async def ask(self, race: int, *, known: Mapping[str, Heard]) -> tuple[int, list[Heard]]:
        return self.stake, [known.get(hotkey) or self._heard(hotkey) for hotkey in self.peers]

    def _heard(self, hotkey: str) -> Heard:
        keypair, stake, says = self.peers[hotkey]
        said = says(json.loads(json.dumps(self._ours)) | {"validator": hotkey})
        if said is None:
            return Heard(hotkey, stake, None, None, "unreachable: nobody is there")
        body = canonical_json(said)
        signer = OWN if hotkey in self.signs_wrong else keypair
        return Heard(hotkey, stake, body, signer.sign(signed_text(body)).hex())


class Deciding(Arena):
    """An arena whose engine decides with others."""

    def __init__(self, database: Database, others: Others, rules: Rules = TOGETHER) -> None:
        self.others = others
        self.together = rules
        super().__init__(database, Clock(NOW + timedelta(minutes=1)))

    def new_engine(self, rules: Rules = RULES, *, rubric: str = "r") -> RaceEngine:
        return RaceEngine(
            self.database,
            self.together,
            clock=self.clock,
            blocks=Chain(),
            judge="j",
            rubric=rubric,
            judge_pending=lambda: self.judge(rubric=rubric),
            accepts_into_corpus=self.accepts,
            others=self.others,
        )

    async def decided(self) -> dict[str, Any]:
        race = await self.run(await self.open(("good", "weak"), champion="champ"), better_wins)
        assert race.settlement is not None, race.state
        settled = settle(await self.inputs(race.id))
        assert isinstance(settled, Settlement)
        assert settled.to_bytes() == canonical_json(race.settlement), "it cannot be decided again"
        return race.settlement

    async def crowned(self) -> str | None:
        async with self.database.session() as session:
            return await session.scalar(
                select(Submission.hotkey).join(Reign, Reign.submission_id == Submission.id)
            )

    async def left_out(self) -> dict[str, str | None]:
        async with self.database.session() as session:
            rows = await session.scalars(select(SignedResult))
            return {row.hotkey: row.left_out for row in rows}


async def test_those_who_agree_decide_as_each_alone(database: Database) -> None:
    arena = Deciding(database, Others(10, {TRUE: (10, the_same)}))
    settlement = await arena.decided()
    consensus = settlement["consensus"]
    assert consensus["decided"]
    assert consensus["own"] == {"champion": consensus["champion"], "promoted": True}
    assert consensus["champion"]["hotkey"] == await arena.crowned() == "good"
    assert settlement["payout"]["units"]["good"] > settlement["payout"]["units"].get("weak", 0)


async def test_a_liar_below_half_of_the_stake_moves_nothing(database: Database) -> None:
    arena = Deciding(database, Others(10, {TRUE: (10, the_same), LIAR: (19, weak_is_best)}))
    lied_to = await arena.decided()
    assert lied_to["consensus"]["taken"][LIAR.ss58_address] == 19
    assert await arena.crowned() == "good"
    assert "weak" not in lied_to["payout"]["units"]
    scores = {s["hotkey"]: s["score"] for s in lied_to["consensus"]["scores"]}
    assert scores == {a["hotkey"]: a["score"] for a in lied_to["agents"]}


async def test_we_follow_the_others_when_they_hold_more_than_half(database: Database) -> None:
    arena = Deciding(database, Others(10, {LIAR: (11, weak_is_best)}))
    settlement = await arena.decided()
    assert settlement["consensus"]["own"]["champion"]["hotkey"] == "good"
    assert await arena.crowned() == "weak"
    assert settlement["payout"]["units"]["weak"] > 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rules_hash": "0" * 64}, "of another rules"),
        ({"pool_root": "0" * 64}, "of another pool root"),
        ({"draw_block_hash": "0xother"}, "of another draw block"),
        ({"drawn": ["pool-000"]}, "of another draw"),
        ({"race": 99}, "of another race"),
        ({"validator": OWN.ss58_address}, "it is another validator's"),
        ({"agents": "many"}, "it has another form: 1 errors"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
async def test_a_result_of_something_else_is_left_out_and_said(
    change: dict[str, Any], reason: str, database: Database
) -> None:
    arena = Deciding(database, Others(10, {LIAR: (1000, lambda r: weak_is_best(r) | change)}))
    arena.others.peers[TRUE.ss58_address] = (TRUE, 1000, the_same)
    settlement = await arena.decided()
    assert settlement["consensus"]["left_out"] == {LIAR.ss58_address: reason}
    assert await arena.crowned() == "good"


async def test_a_result_that_its_validator_did_not_sign_is_left_out(database: Database) -> None:
    others = Others(10, {LIAR: (9, weak_is_best)})
    others.signs_wrong.add(LIAR.ss58_address)
    arena = Deciding(database, others)
    settlement = await arena.decided()
    assert settlement["consensus"]["left_out"] == {LIAR.ss58_address: "its signature does not hold"}


async def _waiting(arena: Deciding) -> UUID:
    race_id = await arena.open(("good", "weak"), champion="champ")
    race = await arena.run(race_id, better_wins)
    assert race.state == "judging"
    return race_id


async def test_who_is_down_is_waited_for_until_the_deadline_and_then_not(database: Database) -> None:
    arena = Deciding(database, Others(10, {TRUE: (5, nothing)}))
    race_id = await _waiting(arena)
    arena.clock.move(seconds=30)
    assert await arena.advance(race_id) == "judging"
    arena.clock.move(seconds=31)
    assert await arena.advance(race_id) == "settled"
    settlement = (await arena.race(race_id)).settlement
    assert settlement is not None
    assert settlement["consensus"]["quorum"]
    assert settlement["consensus"]["left_out"] == {TRUE.ss58_address: "unreachable: nobody is there"}


async def test_who_comes_back_in_time_is_heard(database: Database) -> None:
    arena = Deciding(database, Others(10, {TRUE: (5, nothing)}))
    race_id = await _waiting(arena)
    arena.others.peers[TRUE.ss58_address] = (TRUE, 5, the_same)
    arena.clock.move(seconds=3)
    assert await arena.advance(race_id) == "settled"
    assert await arena.left_out() == {OWN.ss58_address: None, TRUE.ss58_address: None}


async def test_without_a_quorum_we_decide_by_ourselves(database: Database) -> None:
    arena = Deciding(database, Others(10, {TRUE: (11, nothing)}))
    race_id = await _waiting(arena)
    arena.clock.move(seconds=61)
    assert await arena.advance(race_id) == "settled"
    settlement = (await arena.race(race_id)).settlement
    assert settlement is not None
    assert not settlement["consensus"]["quorum"]
    assert await arena.crowned() == "good"


async def test_a_validator_without_stake_decides_by_itself(database: Database) -> None:
    arena = Deciding(database, Others(0, {LIAR: (10, weak_is_best)}))
    settlement = await arena.decided()
    assert "consensus" not in settlement
    assert await arena.crowned() == "good"


async def test_our_own_result_is_signed_once_whatever_happens_to_the_process(database: Database) -> None:
    arena = Deciding(database, Others(10, {TRUE: (5, nothing)}))
    race_id = await _waiting(arena)
    async with database.session() as session:
        before = await session.get_one(SignedResult, (race_id, OWN.ss58_address))
    arena.engine = arena.new_engine()
    arena.clock.move(seconds=61)
    assert await arena.advance(race_id) == "settled"
    async with database.session() as session:
        after = await session.get_one(SignedResult, (race_id, OWN.ss58_address))
    assert (after.body, after.signature, after.at) == (before.body, before.signature, before.at)


async def test_by_our_own_rules_nobody_is_asked_and_our_result_is_published_all_the_same(
    database: Database,
) -> None:
    arena = Deciding(database, Others(10, {LIAR: (1000, weak_is_best)}), ALONE)
    settlement = await arena.decided()
    assert "consensus" not in settlement
    assert await arena.left_out() == {OWN.ss58_address: None}


async def test_races_that_validators_number_by_their_boundaries_keep_those_numbers(
    database: Database,
) -> None:
    arena = Deciding(database, Others(10, {TRUE: (5, the_same)}))
    first = await arena.open(("good",), champion="champ")
    race = await arena.run(first, lambda *_: solved())
    numbers = [race.number]
    for asked in (500, 499):
        race_id = await arena.engine.open_race(
            race.public_suite_id, race.pool_suite_id, number=asked, boundary_at=None
        )
        async with database.session() as session:
            found = await session.get_one(Race, race_id)
            numbers.append(found.number)
            found.state = "void"
    assert numbers == [1, 500, 501]
