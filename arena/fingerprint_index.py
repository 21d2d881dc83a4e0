"""The fingerprints of all submissions, by their hash: which of them are like a new source.

A look-up costs a descent of the index for each fingerprint of the new source, and a row for each that another
submission shares: it grows with the size of the source and with what is shared, and with the number of stored
submissions only as the depth of a B-tree does. The baselines' hashes are never stored, so that the many forks
of one baseline do not share long lists.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import BigInteger, ColumnElement, any_, delete, func, insert, literal, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncSession

from arena import baselines
from arena.rules import SimilarityRules
from arena.similarity import Like
from storage.tables import Fingerprint, Submission


async def store(
    session: AsyncSession, submission: Submission, own: frozenset[int], rules: SimilarityRules
) -> None:
    """Keep a stored submission's fingerprints, in place of any older ones."""
    if submission.fingerprint_scheme is not None:
        await session.execute(delete(Fingerprint).where(Fingerprint.submission_id == submission.id))
    submission.fingerprint_scheme = baselines.scheme(rules)
    submission.fingerprint_count = len(own)
    hashes = func.unnest(_bigints(sorted(own))).column_valued("hash")
    await session.execute(
        insert(Fingerprint).from_select(["hash", "submission_id"], select(hashes, literal(submission.id)))
    )


async def like(
    session: AsyncSession, own: frozenset[int], *, hotkey: str, rules: SimilarityRules
) -> list[Like[UUID]]:
    """Other hotkeys' submissions that share enough to matter to `similarity.copied`, the refused left out."""
    least = min(rules.threshold * rules.own_fingerprints, rules.merged_share * len(own))
    # The index is meant, whatever the planner makes of the statistics of a table that has just grown.
    await session.execute(select(func.set_config("enable_seqscan", "off", True)))
    shared = await session.execute(
        select(Fingerprint.submission_id, func.array_agg(Fingerprint.hash))
        .where(Fingerprint.hash == any_(_bigints(sorted(own))))
        .group_by(Fingerprint.submission_id)
        .having(func.count() >= least)
    )
    hashes = {id: frozenset(found) for id, found in shared}
    await session.execute(select(func.set_config("enable_seqscan", "on", True)))
    others = await session.execute(
        select(Submission.id, Submission.fingerprint_count)
        .where(Submission.id.in_(hashes), Submission.hotkey != hotkey, Submission.state != "refused")
        .where(Submission.fingerprint_scheme == baselines.scheme(rules))
        .order_by(Submission.id)
    )
    return [Like(id, count or 0, hashes[id]) for id, count in others]


async def unindexed(session: AsyncSession, rules: SimilarityRules, limit: int) -> Sequence[Submission]:
    """Submissions whose fingerprints were never taken, or by another scheme, the earliest first."""
    found = await session.scalars(
        select(Submission)
        .where(Submission.fingerprint_scheme.is_distinct_from(baselines.scheme(rules)))
        .where(Submission.state != "refused")
        .order_by(Submission.submitted_at, Submission.id)
        .limit(limit)
    )
    return found.all()


def _bigints(values: Sequence[int]) -> ColumnElement[Sequence[int]]:
    return literal(list(values), ARRAY(BigInteger))
