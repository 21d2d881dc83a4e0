"""Gathers the demo's report from where the truth lies: the database, the chain and the run folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

from sqlalchemy import func, select

from arena.leaderboard import qualifying_board, race_board
from distill.corpus import CorpusTooSmall
from distill.pipeline import DistillReport
from neurons.chain import Metagraph, WeightReceipt
from neurons.demo.options import DemoOptions
from neurons.demo.report import DemoReport, Episodes, NotTrained, Problems, Trained, Weights
from problems.shopping.world import World
from storage.database import Database
from storage.tables import Episode, Race, Submission, Trace


async def gather(
    *,
    options: DemoOptions,
    data_dir: Path,
    world: World,
    database: Database,
    sandbox: str,
    model: str,
    race_id: UUID,
    metagraph: Metagraph,
    receipt: WeightReceipt,
    trained: DistillReport | CorpusTooSmall,
    exported: Mapping[str, Path],
    wall_s: float,
) -> DemoReport:
    """The report of a settled race. Raises LookupError when it has not settled."""
    async with database.session() as session:
        race = await session.get_one(Race, race_id)
        qualifying = await qualifying_board(session, race.number)
        final = await race_board(session, race.number)
        agent_names = {row.hotkey: row.name for row in (await session.scalars(select(Submission))).all()}
    if race.settlement is None or race.settled_at is None or qualifying is None or final is None:
        raise LookupError(f"race {race.number} has not settled")
    return DemoReport(
        seed=options.seed,
        sandbox=sandbox,
        model=model,
        problems=_problems(options, world, race.drawn or []),
        episodes=await _episodes(database, race_id),
        qualifying=qualifying,
        race=final,
        promotion=race.settlement["promotion"],
        payout=race.settlement["payout"],
        weights=Weights(
            netuid=options.netuid,
            sent=receipt.sent,
            read_back=receipt.read_back,
            confirmed=receipt.confirmed,
            block_hash=receipt.block_hash,
            holders={n.uid: _holder(n.hotkey, metagraph, agent_names) for n in metagraph.neurons},
        ),
        training=_trained(trained),
        artefacts={
            "data folder": data_dir,
            **({"problems": data_dir / "world"} if (data_dir / "world").is_dir() else {}),
            **{f"traces ({format})": folder for format, folder in exported.items()},
            **_training_artefacts(trained),
            "chain": data_dir / "chain",
        },
        settled_at=race.settled_at,
        wall_s=wall_s,
    )


def _problems(options: DemoOptions, world: World, drawn: Iterable[str]) -> Problems:
    categories = {p.problem.problem_id: p.problem.category for p in world.pool.problems}
    return Problems(
        source=str(options.problems) if options.problems else "generated",
        catalog_products=world.catalog_size,
        records=options.records,
        public=world.public.categories(),
        pool=world.pool.categories(),
        drawn=dict(sorted(Counter(categories[problem_id] for problem_id in drawn).items())),
        loaded=dict(world.loaded),
        refused=dict(Counter(reason for _, reason in world.refused).most_common()),
    )


async def _episodes(database: Database, race_id: UUID) -> Episodes:
    ours = (
        select(Trace)
        .join(Episode, Episode.id == Trace.episode_id)
        .where(Episode.race_id == race_id)
        .subquery()
    )
    async with database.session() as session:
        verdicts = await session.execute(
            select(ours.c.verdict, func.count()).where(ours.c.final).group_by(ours.c.verdict)
        )
        reasons = await session.execute(
            select(ours.c.reason, func.count())
            .where(ours.c.final, ours.c.verdict == "failed")
            .group_by(ours.c.reason)
            .order_by(func.count().desc(), ours.c.reason)
        )
        retried = await session.scalar(select(func.count()).select_from(ours).where(~ours.c.final))
        calls = (
            await session.execute(
                select(
                    func.coalesce(func.sum(ours.c.model_emitted), 0),
                    func.coalesce(func.sum(ours.c.scripted), 0),
                ).where(ours.c.final)
            )
        ).one()
        return Episodes(
            verdicts=dict(sorted((str(name), int(n)) for name, n in verdicts)),
            retried=retried or 0,
            model_emitted_calls=int(calls[0]),
            scripted_calls=int(calls[1]),
            failed_for={str(reason): int(n) for reason, n in reasons},
        )


def _holder(hotkey: str, metagraph: Metagraph, agent_names: Mapping[str, str]) -> str:
    if hotkey == metagraph.owner_hotkey:
        return "subnet owner (burn)"
    return agent_names.get(hotkey, "validator")


def _training_artefacts(report: DistillReport | CorpusTooSmall) -> dict[str, Path]:
    if isinstance(report, CorpusTooSmall):
        return {}
    return {
        "corpus": report.corpus,
        "model": report.stages[-1].model if report.stages else report.folder,
        "training report": report.folder / "report.json",
    }


def _trained(report: DistillReport | CorpusTooSmall) -> Trained | NotTrained:
    if isinstance(report, CorpusTooSmall):
        return NotTrained(reason=str(report), funnel=report.funnel)

    def figures(evaluation: Any) -> dict[str, Any]:
        shown: dict[str, Any] = evaluation.model_dump(mode="json", exclude={"by_cluster"})
        return shown

    manifest = report.manifest
    return Trained(
        funnel=manifest.funnel,
        rows={side: manifest.files[side].rows for side in ("train", "heldout")} | {"dropped": manifest.rows},
        clusters={"train": len(manifest.train_clusters), "heldout": len(manifest.heldout_clusters)},
        before=figures(report.before),
        after=figures(report.after),
        change=report.stages[-1].change.model_dump(mode="json") if report.stages else {},
    )
