"""What it costs to compare a source with all that were submitted before, and how that grows.

The source is a copy of an agent that is among the stored ones; the others are random fingerprints, as many
as real agents have, a tenth of them common to many. In the same run every stored source is compared one by
one, with all of their fingerprints in memory already.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from random import Random
from uuid import UUID, uuid4

from sqlalchemy import insert

from arena import baselines, calibration, fingerprint_index
from arena.calibration.copies import disguised
from arena.rules import Rules
from arena.screening import Screener
from arena.similarity import copied, likes
from bench.figures import Figure, main
from neurons.host import ready_sandbox
from storage.database import Database
from storage.tables import Fingerprint, Submission

SIZES = (1_000, 10_000)
PRINTS = 120
"""Fingerprints of a stored source, on average: an agent of some 100 lines has as many."""
COMMON = 2_000
_RULES = Rules()


def measure(quick: bool) -> Sequence[Figure]:
    """Figures in milliseconds."""
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as scratch:
        Path(scratch).chmod(0o755)  # so that the embedded server's user may pass when this runs as root
        return asyncio.run(_measure(5 if quick else 20, Path(scratch)))


async def _measure(rounds: int, scratch: Path) -> list[Figure]:
    rules, random = _RULES.similarity, Random(1)
    text = (resources.files(calibration) / "agents" / "planning.py").read_text(encoding="utf-8")
    source = disguised(text, random).encode()
    screener = Screener(await ready_sandbox(unsafe=False), _RULES)
    screening: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        own = baselines.own(await screener.screen(source), rules)
        screening.append(time.perf_counter() - began)
    original = baselines.own(await screener.screen(text.encode()), rules)
    figures = [Figure("screening of a source in the sandbox (p50)", 1e3 * statistics.median(screening), "ms")]
    async with Database.open(None, scratch) as database:
        await database.migrate()
        known: dict[UUID, frozenset[int]] = {}
        for size in SIZES:
            await _fill(database, known, size, original, random)
            figures.append(await _compared(database, known, own, rounds))
    return figures


async def _compared(
    database: Database, known: dict[UUID, frozenset[int]], own: frozenset[int], rounds: int
) -> Figure:
    rules = _RULES.similarity
    at = baselines.thresholds(rules)
    by_index, one_by_one = [], []
    for _ in range(rounds):
        began = time.perf_counter()
        async with database.session() as session:
            found = await fingerprint_index.like(session, own, hotkey="new", rules=rules)
        by_way_of_index = copied(len(own), found, at)
        by_index.append(time.perf_counter() - began)
        began = time.perf_counter()
        by_hand = copied(len(own), likes(own, known), at)
        one_by_one.append(time.perf_counter() - began)
        if by_way_of_index is None or by_way_of_index != by_hand:
            raise RuntimeError(f"the index finds {by_way_of_index}, one by one finds {by_hand}")
    return Figure(
        f"comparison with {len(known):,} sources (p50)",
        1e3 * statistics.median(by_index),
        "ms",
        baseline=1e3 * statistics.median(one_by_one),
        goal=100,
    )


async def _fill(
    database: Database, known: dict[UUID, frozenset[int]], size: int, original: frozenset[int], random: Random
) -> None:
    common = [Random(n).getrandbits(63) for n in range(COMMON)]
    fresh: dict[UUID, frozenset[int]] = {} if known else {uuid4(): original}
    while len(known) + len(fresh) < size:
        count = random.randrange(PRINTS // 2, 3 * PRINTS // 2)
        shared = random.sample(common, count // 10)
        fresh[uuid4()] = frozenset([*shared, *(random.getrandbits(63) for _ in range(count - len(shared)))])
    scheme = baselines.scheme(_RULES.similarity)
    ids = list(fresh)
    for begin in range(0, len(ids), 500):
        some = ids[begin : begin + 500]
        async with database.session() as session:
            await session.execute(
                insert(Submission),
                [
                    {
                        "id": id,
                        "hotkey": str(id),
                        "source_sha256": str(id),
                        "source": b"",
                        "name": "stored",
                        "state": "accepted",
                        "fingerprint_scheme": scheme,
                        "fingerprint_count": len(fresh[id]),
                    }
                    for id in some
                ],
            )
            rows = [{"hash": value, "submission_id": id} for id in some for value in fresh[id]]
            await session.execute(insert(Fingerprint), rows)
    known |= fresh


if __name__ == "__main__":
    main(measure)
