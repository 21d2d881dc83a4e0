"""Submissions: who may send what and when, and which of two like ones stands."""

from __future__ import annotations

import asyncio
import hashlib
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import func, select

from arena import samples
from arena.entries import candidates
from arena.race_records import reigning
from arena.rules import Rules
from arena.screening import (
    BadName,
    CommitmentMismatch,
    CommitmentMissing,
    CoolingDown,
    DoesNotParse,
    Duplicate,
    Prohibited,
    Refused,
    ScreeningUnavailable,
    TooSimilar,
)
from arena.submissions import Accepted, Submissions
from arena.verified_inputs import champion as verified_champion
from storage.database import Database
from storage.tables import Entrant, Fingerprint, Race, Reign, Submission
from tests.arena.screeners import screener
from tests.arena.stores import NOW, Clock, add_episodes, add_submission

RULES = Rules()
GOOD = b"import re\nPATTERN = re.compile('a')\n\ndef agent(problem):\n    return PATTERN.search(problem)\n"

AGENT = b'''
class Shopper:
    """Searches, sorts by price, and takes the first that fits."""

    def __init__(self, tools, limit=5):
        self.tools = tools
        self.limit = limit
        self.seen = {}

    def words(self, query):
        kept = [w for w in query.lower().split() if len(w) > 2 and w not in ("the", "and", "for")]
        return kept[: self.limit] or [query]

    def look(self, query):
        for size in range(len(self.words(query)), 0, -1):
            found = self.tools.find_product(q=" ".join(self.words(query)[:size]), page=1)
            for product in found.get("products", []):
                self.seen.setdefault(product["product_id"], product)
            if len(self.seen) >= self.limit:
                break
        return sorted(self.seen.values(), key=lambda p: (p["price"], -p.get("rating", 0)))

    def fits(self, product, budget):
        details = self.tools.view_product_information(product_ids=product["product_id"])
        return details and float(product["price"]) <= budget and not details.get("error")

def solve(problem, tools, llm):
    shopper = Shopper(tools)
    budget = problem.get("budget") or 1e9
    for product in shopper.look(problem["query"]):
        if shopper.fits(product, budget):
            tools.recommend_product(product_ids=product["product_id"])
            break
    tools.terminate(status="success")
'''
COPY = (
    AGENT.replace(b"shopper", b"buyer")
    .replace(b"Shopper", b"Buyer")
    .replace(b"1e9", b"5e5")
    .replace(b'"the", "and", "for"', b'"with", "from", "into"')
    + b"# mine\n"
)


def desk(database: Database, clock: Clock, rules: Rules = RULES) -> Submissions:
    return Submissions(database, rules, clock, screener(rules))


async def send(
    submissions: Submissions, source: bytes, hotkey: str, *, block: int | None = 100, name: str = "agent"
) -> Accepted:
    committed = None if block is None else (block, hashlib.sha256(source).hexdigest())
    return await submissions.accept(source=source, hotkey=hotkey, name=name, committed=committed)


async def stored(database: Database, submission_id: UUID) -> Submission:
    async with database.session() as session:
        return await session.get_one(Submission, submission_id)


async def settle_race_of(database: Database, submission_id: UUID, state: str = "settled") -> None:
    race_id = await add_episodes(database)
    async with database.session() as session:
        race = await session.get_one(Race, race_id)
        race.state, race.settled_at = state, NOW
        session.add(Entrant(race_id=race_id, submission_id=submission_id))


async def test_the_same_source_again_is_the_same_submission_even_while_cooling_down(
    database: Database,
) -> None:
    submissions = desk(database, Clock())
    both = await asyncio.gather(*(send(submissions, GOOD, "a") for _ in range(2)))
    again = await send(submissions, GOOD, "a", block=None)
    assert sorted(accepted.new for accepted in (*both, again)) == [False, False, True]
    assert len({accepted.submission_id for accepted in (*both, again)}) == 1
    async with database.session() as session:
        assert await session.scalar(select(func.count()).select_from(Submission)) == 1


async def test_a_source_without_a_commitment_is_told_what_to_commit_to(database: Database) -> None:
    submissions = desk(database, Clock())
    with pytest.raises(CommitmentMissing, match=hashlib.sha256(GOOD).hexdigest()):
        await send(submissions, GOOD, "a", block=None)
    assert (await send(submissions, GOOD, "a")).new, "who forgot it may send again at once"


async def test_a_commitment_to_something_else_costs_the_whole_cooldown(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    with pytest.raises(CommitmentMismatch, match=hashlib.sha256(GOOD).hexdigest()):
        await submissions.accept(source=GOOD, hotkey="a", name="agent", committed=(7, "0x" + "ab" * 32))
    clock.move(hours=11.9)
    with pytest.raises(CoolingDown, match="commitment_mismatch"):
        await send(submissions, GOOD, "a")
    clock.move(hours=0.1)
    assert (await send(submissions, GOOD, "a")).new


async def test_a_chain_that_still_shows_the_commitment_before_costs_nothing(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    await send(submissions, GOOD, "a")
    clock.move(hours=12)
    behind = (100, hashlib.sha256(GOOD).hexdigest())
    with pytest.raises(CommitmentMissing):
        await submissions.accept(source=GOOD + b"# 2", hotkey="a", name="agent", committed=behind)
    assert (await send(submissions, GOOD + b"# 2", "a")).new


async def test_rules_may_do_without_commitments_and_an_uncommitted_source_comes_last(
    database: Database,
) -> None:
    submissions = desk(database, Clock(), RULES.model_copy(update={"require_commitment": False}))
    uncommitted = await send(submissions, AGENT, "a", block=None)
    with pytest.raises(TooSimilar):
        await send(submissions, COPY, "b", block=None)
    assert (await send(submissions, COPY, "c", block=9)).new
    assert (await stored(database, uncommitted.submission_id)).state == "refused"


async def test_an_uncommitted_source_that_is_public_gives_way_to_nobody(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock, RULES.model_copy(update={"require_commitment": False}))
    uncommitted = await send(submissions, AGENT, "a", block=None)
    await settle_race_of(database, uncommitted.submission_id)
    clock.move(hours=24)
    with pytest.raises(TooSimilar):
        await send(submissions, COPY, "b", block=9)


async def test_another_source_must_wait_for_the_cooldown_and_is_told_until_when(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    await send(submissions, GOOD, "a")
    clock.move(hours=11)
    with pytest.raises(CoolingDown, match="submitted at") as refused:
        await send(submissions, GOOD + b"# 2", "a")
    assert refused.value.until == NOW + timedelta(hours=12)
    clock.move(hours=1)
    assert (await send(submissions, GOOD + b"# 2", "a")).new


async def test_a_mistake_does_not_start_a_cooldown(database: Database) -> None:
    submissions = desk(database, Clock())
    with pytest.raises(DoesNotParse):
        await send(submissions, b"def agent(:", "a")
    assert (await send(submissions, GOOD, "a")).new


async def test_a_prohibited_construct_costs_an_hour_and_says_so(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    with pytest.raises(Prohibited):
        await send(submissions, b"eval('1')", "a")
    with pytest.raises(CoolingDown, match="line 1: eval") as refused:
        await send(submissions, GOOD, "a")
    assert refused.value.until == NOW + timedelta(hours=1)
    clock.move(hours=1)
    assert (await send(submissions, GOOD, "a")).new


async def test_a_screening_that_we_could_not_do_costs_nothing(database: Database) -> None:
    starved = RULES.model_copy(update={"screening_wall_s": 1e-4})
    with pytest.raises(ScreeningUnavailable):
        await send(desk(database, Clock(), starved), GOOD, "a")
    assert (await send(desk(database, Clock()), GOOD, "a")).new


async def test_another_hotkeys_source_is_refused(database: Database) -> None:
    submissions = desk(database, Clock())
    await send(submissions, GOOD, "a")
    with pytest.raises(Duplicate):
        await send(submissions, GOOD, "b", block=101)
    with pytest.raises(CoolingDown, match="duplicate"):
        await send(submissions, AGENT, "b")


async def test_within_one_block_what_was_sent_first_stands(database: Database) -> None:
    submissions = desk(database, Clock())
    await send(submissions, AGENT, "a", block=100)
    with pytest.raises(TooSimilar):
        await send(submissions, COPY, "b", block=100)


@pytest.mark.parametrize(("first", "second"), [(AGENT, COPY), (COPY, AGENT), (AGENT, AGENT)])
async def test_the_earlier_commitment_wins_whatever_was_sent_first(
    database: Database, first: bytes, second: bytes
) -> None:
    submissions = desk(database, Clock())
    late = await send(submissions, first, "late", block=101)
    early = await send(submissions, second, "early", block=100)
    assert (await stored(database, early.submission_id)).state == "accepted"
    beaten = await stored(database, late.submission_id)
    assert (beaten.state, beaten.superseded_by) == ("refused", early.submission_id)
    assert "older" in str(beaten.refusal)
    with pytest.raises(Refused):
        await send(submissions, first + b"# again", "later", block=102)


async def test_a_superseded_copy_enters_no_further_race_but_stays_in_the_one_it_is_in(
    database: Database,
) -> None:
    submissions = desk(database, Clock())
    late = await send(submissions, COPY, "late", block=101)
    race_id = await add_episodes(database)
    async with database.session() as session:
        session.add(Entrant(race_id=race_id, submission_id=late.submission_id))
    early = await send(submissions, AGENT, "early", block=100)
    async with database.session() as session:
        allowed = [s.id for s in await candidates(session, [late.submission_id, early.submission_id])]
        assert allowed == [early.submission_id]
        assert await session.get(Entrant, (race_id, late.submission_id)) is not None


async def test_a_champion_that_is_superseded_holds_the_top_of_no_further_race(database: Database) -> None:
    submissions = desk(database, Clock())
    before = await send(submissions, GOOD, "before")
    copy = await send(submissions, COPY, "late", block=101)
    first_id = await add_episodes(database)
    async with database.session() as session:
        first = await session.get_one(Race, first_id)
        first.state, first.boundary_at, first.settled_at = "settled", NOW, NOW
        kept = {
            c.name: getattr(first, c.name) for c in Race.__table__.columns if c.name not in ("id", "number")
        }
        second, third = Race(number=2, **kept), Race(number=3, **kept)
        session.add_all([second, third])
        await session.flush()
        for race, crowned in ((first, before), (second, copy)):
            race.settlement = {"promotion": {"promoted": True, "champion": str(crowned.submission_id)}}
            session.add(Reign(race_id=race.id, submission_id=crowned.submission_id, began_at=NOW))
        assert await reigning(session) == copy.submission_id
    await send(submissions, AGENT, "early", block=100)
    async with database.session() as session:
        third = await session.get_one(Race, third.id)
        third.champion_id = await reigning(session)
        assert third.champion_id == before.submission_id
        assert (await verified_champion(session, third)).status == "same"


async def test_a_superseded_copy_waits_its_cooldown_out_even_if_its_race_was_void(
    database: Database,
) -> None:
    submissions = desk(database, Clock())
    late = await send(submissions, COPY, "late", block=101)
    await settle_race_of(database, late.submission_id, "void")
    await send(submissions, AGENT, "early", block=100)
    with pytest.raises(CoolingDown):
        await send(submissions, GOOD, "late")


async def test_a_digest_copied_from_the_chain_wins_nothing_once_the_source_is_public(
    database: Database,
) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    honest = await send(submissions, AGENT, "honest", block=100)
    await settle_race_of(database, honest.submission_id)
    clock.move(hours=24)
    with pytest.raises(Duplicate):
        await send(submissions, AGENT, "front-runner", block=99)
    assert (await stored(database, honest.submission_id)).state == "accepted"
    # A commitment to another source could not be copied: who made it had that source by then.
    assert (await send(submissions, COPY, "first", block=99)).new
    assert (await stored(database, honest.submission_id)).state == "refused"


async def test_a_copy_of_a_hidden_source_is_not_told_of_what_nor_how_much(database: Database) -> None:
    submissions = desk(database, Clock())
    original = await send(submissions, AGENT, "a", block=100, name="the original")
    with pytest.raises(TooSimilar) as refused:
        await send(submissions, COPY, "b", block=101)
    assert (refused.value.share, refused.value.sources) == (None, ())
    told = str(refused.value)
    assert "%" not in told
    assert "the original" not in told
    assert str(original.submission_id) not in told


async def test_a_copy_of_a_public_source_is_told_to_what_share_and_of_which(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    original = await send(submissions, AGENT, "a", block=100, name="the original")
    await settle_race_of(database, original.submission_id)
    clock.move(hours=24)
    with pytest.raises(TooSimilar, match="the original") as refused:
        await send(submissions, COPY, "b", block=101)
    assert refused.value.share == 1.0
    assert refused.value.sources == (str(original.submission_id),)


async def test_ones_own_earlier_submission_is_not_copied(database: Database) -> None:
    clock = Clock()
    submissions = desk(database, clock)
    first = await send(submissions, AGENT, "a", block=100)
    clock.move(hours=12)
    assert (await send(submissions, COPY, "a", block=99)).new
    assert (await stored(database, first.submission_id)).state == "accepted"


async def test_forks_of_a_public_baseline_are_nobodys_copies(database: Database) -> None:
    submissions = desk(database, Clock())
    for number, hotkey in enumerate("abc"):
        fork = samples.source("model_driven") + f"\nLIMIT = {number}\nprint(LIMIT)\n".encode()
        assert (await send(submissions, fork, hotkey)).new


async def test_sources_from_before_a_change_of_rules_are_compared_too(database: Database) -> None:
    async with database.session() as session:
        old = await session.get_one(Submission, await add_submission(session, "old", source=AGENT))
        old.commitment_block = 100
    other = RULES.model_copy(update={"similarity": RULES.similarity.model_copy(update={"k": 10})})
    for rules, hotkey in ((RULES, "b"), (other, "c")):
        with pytest.raises(TooSimilar):
            await send(desk(database, Clock(), rules), COPY, hotkey, block=101)
    async with database.session() as session:
        schemes = await session.scalar(select(func.count(Fingerprint.submission_id.distinct())))
        assert schemes == 1, "fingerprints of the earlier rules are replaced"


async def test_a_void_race_gives_the_cooldown_back(database: Database) -> None:
    submissions = desk(database, Clock())
    accepted = await send(submissions, GOOD, "a")
    await settle_race_of(database, accepted.submission_id, "void")
    assert (await send(submissions, GOOD + b"# 2", "a")).new


@pytest.mark.parametrize("name", ["", " a", "x" * 49, "two\nlines", "\u202egnp"])
async def test_a_name_that_could_mislead_a_reader_is_refused(database: Database, name: str) -> None:
    with pytest.raises(BadName):
        await send(desk(database, Clock()), GOOD, "a", name=name)
