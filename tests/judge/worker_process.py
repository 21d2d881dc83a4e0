"""A worker as a process of its own: `python -m tests.judge.worker_process URL DIE_AT`.

It judges until no trace lacks a grade, or kills itself when its DIE_AT-th transaction (from 0) is about to
commit. With -1 it lives.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import sys
from pathlib import Path

from sqlalchemy import event
from sqlalchemy.orm import Session

from judge.grounded import GroundedJudge
from judge.worker import JudgeWorker, Pace
from storage.database import Database
from storage.judging import IN_FORCE, lacking

PACE = Pace(concurrency=3, hold_s=1.0, poll_s=0.1)


async def work(url: str, die_at: int) -> None:
    """Judge to the end, or to ours."""
    judge = GroundedJudge()
    async with Database.open(url, Path(), pool_size=4) as database:
        commits = itertools.count()

        def die(_: Session) -> None:
            if next(commits) == die_at:
                os.kill(os.getpid(), signal.SIGKILL)

        event.listen(Session, "before_commit", die)
        stop = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(JudgeWorker(database, judge, pace=PACE).run(stop))
            while not stop.is_set():
                async with database.session() as session:
                    left = await lacking(session, judge=judge.name, rubric=judge.rubric, scope=IN_FORCE)
                if not left:
                    stop.set()
                await asyncio.sleep(0.05)


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2])))
