"""A playable world on disk: a catalog, the environment over it, and two suites that share no leak cluster.

Preparing is idempotent: a folder that holds the world already is opened, one where preparing was killed is
completed, and one that holds another world is refused. The same arguments give the same world anywhere.
The suites' files hold answers; they are private to whoever runs the race.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from problems.environment import Environment
from problems.importers import read_shoppingbench
from problems.leak_clusters import leak_clusters, members
from problems.problem import AnsweredProblem, ProblemSuite, content_id
from problems.rotation import even_shares
from problems.shopping.catalog import Catalog
from problems.shopping.generator import GENERATOR, generate
from problems.shopping.rebuild import REBUILD, rebuild
from problems.shopping.scoring import intended_attempt
from problems.shopping.shopping_environment import NAME, VERSION, ShoppingEnvironment
from problems.shopping.synthesis import SYNTHESIS, synthesise
from problems.suite_files import read_suite, write_json, write_suite

_FORMAT = 2
"""Of a world's folder; changes with anything that changes what lies in it."""
_CATEGORIES = ("product", "shop", "voucher")
_ROLES = ("public", "pool")
_SPARE = 1.15
"""More problems are made than asked for by this factor, since whole clusters go to one suite."""


class WorldError(Exception):
    """A world cannot be prepared; the message says what to do."""


@dataclass(frozen=True, slots=True)
class World:
    """What a race needs. `refused` names each task that cannot be played, with the reason."""

    environment: Environment
    public: ProblemSuite
    pool: ProblemSuite
    catalog_size: int
    """How many records the problems are about: products, or a ledger's transactions."""
    refused: tuple[tuple[str, str], ...] = ()
    loaded: Mapping[str, int] = field(default_factory=dict)
    """How many tasks each source file holds; empty for a generated world."""


def prepare_generated(
    directory: Path, *, seed: int, products: int = 3_000, public: int = 30, pool: int | None = 90
) -> World:
    """A world of generated products and certified problems.

    `public` and `pool` are numbers of problems; without `pool`, about one problem for ten products is made.
    Raises WorldError when another world lies in `directory`, SynthesisError when the catalog is too small.
    """
    plan = {
        "kind": "generated",
        "versions": [GENERATOR, SYNTHESIS],
        "seed": seed,
        "products": products,
        "public": public,
        "pool": pool,
    }

    def make(catalog_directory: Path) -> _Made:
        catalog = Catalog.build(catalog_directory, generate(seed, products))
        wanted = public + (max(products // 10 - public, 3) if pool is None else pool)
        each = int(wanted * _SPARE / len(_CATEGORIES)) + 2
        made = synthesise(catalog, dict.fromkeys(_CATEGORIES, each), seed=seed)
        return _Made(catalog, [certified.problem for certified in made])

    return _prepare(directory, plan, make, seed, public, pool)


def prepare_shoppingbench(
    directory: Path, path: Path, *, seed: int, public: int = 30, pool: int | None = None
) -> World:
    """ShoppingBench's released tasks, over a small catalog rebuilt around their products.

    `path` is a folder with any of the released files. Every task is loaded; those that cannot be played are
    refused by name. Raises WorldError when another world lies in `directory`, ImportFailed when there is no
    file to read.
    """
    tasks = read_shoppingbench(path)
    plan = {
        "kind": "shoppingbench",
        "versions": [REBUILD],
        "tasks": tasks.digest,
        "seed": seed,
        "public": public,
        "pool": pool,
    }

    def make(catalog_directory: Path) -> _Made:
        rebuilt = rebuild(tasks, seed=seed)
        catalog = Catalog.build(catalog_directory, rebuilt.products)
        environment = ShoppingEnvironment(catalog)
        playable, failing = [], []
        for task in rebuilt.playable:
            outcome = environment.score(task.problem, intended_attempt(task.problem))
            if outcome.solved:
                playable.append(task.problem)
            else:
                rules = ", ".join(failure.rule for failure in outcome.failures)
                failing.append((task.name, f"its own answer does not pass: {rules}"))
        refused = [(r.name, r.reason) for r in (*tasks.refused, *rebuilt.refused)] + failing
        return _Made(catalog, playable, refused, tasks.loaded)

    return _prepare(directory, plan, make, seed, public, pool)


def split(
    problems: Sequence[AnsweredProblem], *, seed: int, public: int, pool: int | None
) -> tuple[list[AnsweredProblem], list[AnsweredProblem]]:
    """A public and a pool part that share no leak cluster, with the categories in even shares.

    Problems beyond `pool` are left out; without `pool`, none are. Raises WorldError when there are too few.
    """
    by_id = {p.problem.problem_id: p for p in problems}
    clusters = list(members(leak_clusters(problems)).items())
    clusters.sort(key=lambda item: hashlib.sha256(f"split:{seed}:{item[0]}".encode()).hexdigest())
    listed = [[by_id[name] for name in names] for _, names in clusters]
    room = even_shares(_count(problems), public)
    shown: list[AnsweredProblem] = []
    hidden: list[AnsweredProblem] = []
    for cluster in listed:
        needs = _count(cluster)
        if all(needs[category] <= room[category] for category in needs):
            shown += cluster
            room = {category: room[category] - needs.get(category, 0) for category in room}
        else:
            hidden += cluster
    quota = even_shares(_count(hidden), len(hidden) if pool is None else pool)
    kept = []
    for problem in hidden:
        if quota[problem.problem.category] > 0:
            quota[problem.problem.category] -= 1
            kept.append(problem)
    if len(shown) < public or (pool is not None and len(kept) < pool) or not kept:
        raise WorldError(
            f"{len(problems)} problems give {len(shown)} public and {len(kept)} hidden ones, "
            f"where {public} and {pool or 'some'} were asked for: ask for fewer, or for more products"
        )
    return shown, kept


@dataclass(frozen=True, slots=True)
class _Made:
    catalog: Catalog
    problems: Sequence[AnsweredProblem]
    refused: Sequence[tuple[str, str]] = ()
    loaded: Mapping[str, int] = field(default_factory=dict)


def _prepare(
    directory: Path,
    plan: Mapping[str, Any],
    make: Callable[[Path], _Made],
    seed: int,
    public: int,
    pool: int | None,
) -> World:
    """Open the world that was made by `plan`, or make it. Its manifest is written last."""
    manifest_path = directory / "world.json"
    catalog_path = directory / "catalog"
    if not manifest_path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        made = make(catalog_path)
        environment = ShoppingEnvironment(made.catalog)
        parts = split(made.problems, seed=seed, public=public, pool=pool)
        for role, problems in zip(_ROLES, parts, strict=True):
            suite = ProblemSuite(
                name=f"{plan['kind']}-{role}",
                environment=NAME,
                environment_version=VERSION,
                catalog_id=made.catalog.catalog_id,
                scorer=environment.scorer,
                problems=tuple(problems),
            )
            write_suite(suite, directory / role)
        manifest = {
            "format": _FORMAT,
            "plan": plan,
            "catalog_id": made.catalog.catalog_id,
            "refused": [list(pair) for pair in made.refused],
            "loaded": dict(made.loaded),
        }
        write_json(manifest_path, manifest)
    manifest = json.loads(manifest_path.read_text(encoding="utf-8"))
    if manifest.get("format") != _FORMAT:
        raise WorldError(
            f"{directory} was made by another version of this program, which kept problems in another form: "
            "remove it, or use another folder"
        )
    if content_id(manifest["plan"]) != content_id(plan):
        raise WorldError(f"{directory} holds a world of another plan: remove it, or use another folder")
    public_suite, pool_suite = (read_suite(directory / role) for role in _ROLES)
    environment = ShoppingEnvironment.open(catalog_path)
    return World(
        environment=environment,
        public=public_suite,
        pool=pool_suite,
        catalog_size=environment.catalog.size,
        refused=tuple((name, reason) for name, reason in manifest["refused"]),
        loaded=manifest["loaded"],
    )


def _count(problems: Sequence[AnsweredProblem]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for problem in problems:
        counts[problem.problem.category] = counts.get(problem.problem.category, 0) + 1
    return dict(sorted(counts.items()))
