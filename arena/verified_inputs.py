"""The steps of verifying a race up to its episodes: everything that was settled before anybody played.

Each recomputes one input from others that were stored apart from it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from arena.draws import draw_among
from arena.entries import QUALIFYING, RACE, qualified, qualifying_scores
from arena.findings import Step, compared, differences, unchecked
from arena.race_records import Standing, episode_seed, phase_results, standings
from arena.rules import Rules
from arena.scoring import IncompleteResults
from arena.suites import answered, suite_root
from problems.leak_clusters import leak_clusters
from problems.problem import AnsweredProblem, ProblemSuite, content_id
from problems.rotation import RotationError
from storage.tables import Entrant, Episode, Exposure, Race, Reign, Submission, Suite, SuiteProblem, Trace

Problems = Mapping[str, Mapping[str, AnsweredProblem]]
"""All stored problems by suite and problem id, in the suite's order."""


async def stored_problems(session: AsyncSession) -> Problems:
    rows = await session.scalars(select(SuiteProblem).order_by(SuiteProblem.suite_id, SuiteProblem.position))
    found: dict[str, dict[str, AnsweredProblem]] = {}
    for row in rows:
        found.setdefault(row.suite_id, {})[row.problem_id] = answered(row)
    return found


def _clusters(problems: Problems, suite_ids: Iterable[str]) -> dict[str, str]:
    """Clusters over all problems of these suites, by problem id."""
    by_id = {name: p for suite in suite_ids for name, p in problems.get(suite, {}).items()}
    return leak_clusters(by_id.values())


def rules_hash(race: Race) -> Step:
    wrong = [] if content_id(race.rules) == race.rules_hash else ["the stored rules have another hash"]
    return compared("rules", wrong)


async def sources(session: AsyncSession, race: Race) -> Step:
    rows = await session.execute(
        select(Submission.name, Submission.source, Submission.source_sha256)
        .join(Entrant, Entrant.submission_id == Submission.id)
        .where(Entrant.race_id == race.id)
    )
    wrong = [
        f"the source of {name!r} has another hash than the one submitted"
        for name, source, stored in rows
        if hashlib.sha256(source).hexdigest() != stored
    ]
    return compared("sources", wrong)


async def suites(session: AsyncSession, race: Race, problems: Problems) -> list[Step]:
    wrong: list[str] = []
    for suite_id in sorted({race.public_suite_id, race.pool_suite_id}):
        row = await session.get_one(Suite, suite_id)
        suite = ProblemSuite(
            name=row.name,
            environment=row.environment,
            environment_version=row.environment_version,
            catalog_id=row.catalog_id,
            scorer=row.scorer,
            options=row.options,
            problems=tuple(problems.get(suite_id, {}).values()),
        )
        if suite.suite_id != suite_id:
            wrong.append(f"suite {row.name!r} is not what its id says: a problem or an answer was changed")
        if suite_root(suite.problems) != row.root:
            wrong.append(f"suite {row.name!r} has another root than was published")
    stored = await session.execute(select(SuiteProblem.problem_id, SuiteProblem.cluster_id))
    clusters = _clusters(problems, problems)
    moved = sorted({name for name, cluster in stored if clusters[name] != cluster})
    return [
        compared("suites", wrong),
        compared("leak clusters", [f"problem {name} is stored in another cluster" for name in moved]),
    ]


async def champion(session: AsyncSession, race: Race) -> Step:
    """Who held the top follows from the races before, and each crowning from its race."""
    wrong: list[str] = []
    reigns = {r.race_id: r for r in await session.scalars(select(Reign))}
    before = await session.scalars(select(Race).where(Race.number <= race.number).order_by(Race.number))
    superseded = await _superseded_by(session, race.opened_at)
    champion: UUID | None = None
    for earlier in before:
        if earlier.number == race.number and champion is not None and race.champion_id != champion:
            wrong.append(f"the champion is stored as {race.champion_id}, the races before crowned {champion}")
        promotion = (earlier.settlement or {}).get("promotion", {})
        crowned = UUID(promotion["champion"]) if promotion.get("promoted") else None
        reign = reigns.get(earlier.id)
        if (None if reign is None else reign.submission_id) != crowned:
            wrong.append(f"race {earlier.number} crowned {crowned}, and stored is another reign")
        if reign is not None and reign.began_at != earlier.boundary_at:
            wrong.append(f"the reign of race {earlier.number} is not stored as begun at its boundary")
        champion = champion if crowned is None or crowned in superseded else crowned
    return compared("champion", wrong)


async def _superseded_by(session: AsyncSession, when: datetime) -> set[UUID]:
    """The submissions that an older claim to the like source had put out by then."""
    original = aliased(Submission)
    found = await session.scalars(
        select(Submission.id)
        .join(original, original.id == Submission.superseded_by)
        .where(original.submitted_at <= when)
    )
    return set(found)


async def exposure(session: AsyncSession, race: Race, problems: Problems) -> Step:
    """What each race up to this one showed to agents, by the clusters of now."""
    rows = await session.execute(select(SuiteProblem.problem_id, SuiteProblem.cluster_id))
    now = {row.problem_id: row.cluster_id for row in rows}
    wrong: list[str] = []
    for earlier in await session.scalars(
        select(Race).where(Race.number <= race.number).order_by(Race.number)
    ):
        shown = {now[p] for p in await _shown(session, earlier, problems) if p in now}
        stored = set(await session.scalars(select(Exposure.cluster_id).where(Exposure.race_id == earlier.id)))
        alive = stored & set(now.values())  # a cluster that was joined to another keeps its old row
        wrong += [f"race {earlier.number}: exposure of cluster {c} is missing" for c in sorted(shown - alive)]
        wrong += [f"race {earlier.number}: cluster {c} was never shown" for c in sorted(alive - shown)]
    return compared("exposure", wrong)


async def _shown(session: AsyncSession, race: Race, problems: Problems) -> list[str]:
    """The problems that agents met in a race."""
    entered = await session.scalar(select(Entrant.submission_id).where(Entrant.race_id == race.id).limit(1))
    size = 0 if entered is None else Rules.load(race.rules).public_size
    return [*list(problems.get(race.public_suite_id, ()))[:size], *(race.drawn or ())]


async def qualifying(session: AsyncSession, race: Race, rules: Rules) -> Step:
    entrants = await standings(session, race.id)
    if race.void_reason is not None and race.drawn is None and race.draw_block_hash is None:
        return unchecked("qualifying", "the race was void before it was over")
    try:
        found = await phase_results(session, race.id, QUALIFYING)
        scores = qualifying_scores(found, entrants, rules)
    except IncompleteResults as error:
        return compared("qualifying", [str(error)])
    chosen = qualified(entrants, scores, rules)
    wrong: list[str] = []
    for standing in entrants:
        name, entrant = standing.submission.name, standing.entrant
        score = scores.agents.get(str(standing.submission.id))
        expected = None if score is None else score.score
        if entrant.qualifying_score != expected:
            wrong.append(f"score of {name!r}: stored {entrant.qualifying_score}, computed {expected}")
        role = "challenger" if standing.submission.id in chosen else None
        if standing.submission.id == race.champion_id:
            role = "champion"
        if entrant.role != role:
            wrong.append(f"role of {name!r}: stored {entrant.role}, computed {role}")
    return compared("qualifying", wrong)


async def draw(session: AsyncSession, race: Race, rules: Rules, problems: Problems) -> Step:
    if race.draw_block_hash is None:
        return unchecked("draw", "nothing was drawn")
    among = race.clustered_with if race.clustered_with is not None else sorted(problems)
    clusters = _clusters(problems, among)
    met: list[str] = []
    for earlier in await session.scalars(select(Race).where(Race.number < race.number)):
        met += await _shown(session, earlier, problems)
    met += list(problems.get(race.public_suite_id, ()))[: rules.public_size]
    pool = problems.get(race.pool_suite_id, {})
    try:
        drawn = draw_among(
            pool.values(),
            clusters,
            race_number=race.number,
            root=suite_root(pool.values()),
            block_hash=race.draw_block_hash,
            exposed=frozenset(clusters[p] for p in met if p in clusters),
            rules=rules,
        )
    except (RotationError, KeyError) as error:
        drawn = None
        if race.drawn is not None:
            return compared("draw", [f"it cannot be made again: {error}"])
    wrong = [] if drawn == race.drawn else differences(race.drawn, drawn, "problems")
    trusted = f"taken as stored: the hash of block {race.draw_block}, {race.draw_block_hash}"
    return compared("draw", wrong, trusted)


async def episodes(session: AsyncSession, race: Race, rules: Rules) -> Step:
    """Each that entrants and draw call for is there once, with the seed it must have and one final trace."""
    entrants = await standings(session, race.id)
    public = (
        await session.scalars(
            select(SuiteProblem.problem_id)
            .where(SuiteProblem.suite_id == race.public_suite_id)
            .order_by(SuiteProblem.position)
            .limit(rules.public_size)
        )
    ).all()
    finishers = [s for s in entrants if s.entrant.role is not None]
    expected = _called_for(race, QUALIFYING, public, entrants, rules)
    expected += _called_for(race, RACE, race.drawn or (), finishers, rules)
    finals: Counter[UUID] = Counter()
    kept: Counter[UUID] = Counter()
    rows = await session.execute(
        select(Trace.episode_id, Trace.final)
        .join(Episode, Episode.id == Trace.episode_id)
        .where(Episode.race_id == race.id)
    )
    for episode_id, final in rows:
        kept[episode_id] += 1
        finals[episode_id] += final
    found: Counter[tuple[str, UUID, str, int, int]] = Counter()
    wrong: list[str] = []
    for e in await session.scalars(select(Episode).where(Episode.race_id == race.id)):
        found[e.phase, e.submission_id, e.problem_id, e.repeat, e.seed] += 1
        if (e.state, finals[e.id], kept[e.id]) != ("done", 1, e.attempts) and race.state == "settled":
            wrong.append(
                f"episode {e.id} is {e.state} after {e.attempts} attempts, with {kept[e.id]} traces, "
                f"{finals[e.id]} of them final"
            )
    missing, surplus = expected - found, found - expected
    for what, keys in (("missing", missing), ("not called for", surplus)):
        for phase, agent, problem, *_ in sorted(keys, key=str):
            wrong.append(f"{what}: {phase} of {agent} on {problem}")
    return compared("episodes", wrong)


def _called_for(
    race: Race, phase: str, problem_ids: Sequence[str], entrants: Sequence[Standing], rules: Rules
) -> Counter[tuple[str, UUID, str, int, int]]:
    return Counter(
        (phase, s.submission.id, problem, repeat, episode_seed(race.number, phase, problem, repeat))
        for s in entrants
        for problem in problem_ids
        for repeat in range(rules.repeats)
    )
