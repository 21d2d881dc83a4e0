"""A playable world on disk: a catalog, the environment over it, and two suites that share no leak cluster.

Preparing is idempotent: a folder that holds the world already is opened, one where preparing was killed is
completed, and one that holds another world is refused. The same arguments give the same world anywhere.
The suites' files hold answers; they are private to whoever runs the race.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from problems.environment import Environment
from problems.importers import WEB_REASON, ReleasedTasks, read_released
from problems.leak_clusters import leak_clusters, members
from problems.problem import AnsweredProblem, ProblemSuite, content_id
from problems.rotation import even_shares
from problems.shopping.catalog import Catalog
from problems.shopping.generator import GENERATOR, generate
from problems.shopping.options import ShoppingOptions
from problems.shopping.ordering import synthesise
from problems.shopping.product import Product
from problems.shopping.rebuild import REBUILD, rebuild
from problems.shopping.scoring import intended_attempt, score, scorer_name
from problems.shopping.shopping_environment import NAME, VERSION, ShoppingEnvironment
from problems.shopping.similarity import LexicalSimilarity, TitleSimilarity
from problems.shopping.synthesis import SYNTHESIS
from problems.shopping.web import SnippetStore, WebSearch
from problems.suite_files import read_suite, write_json, write_suite

_FORMAT = 2
"""Of a world's folder; changes with anything that changes what lies in it."""
CATALOG, SNIPPETS = "catalog", "snippets.jsonl"
"""Names in the folder of a world, and of a suite that can be played."""
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
    directory: Path,
    *,
    seed: int,
    products: int = 3_000,
    public: int = 30,
    pool: int | None = 90,
    similarity: TitleSimilarity | None = None,
    options: ShoppingOptions | None = None,
) -> World:
    """A world of generated products and certified problems.

    `public` and `pool` are numbers of problems; without `pool`, about one problem for ten products is made.
    `similarity` and `options` say how it is scored (see `ShoppingEnvironment`).
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

    return _prepare(directory, plan, make, seed, public, pool, similarity=similarity, options=options)


def prepare_released(
    directory: Path,
    path: Path,
    *,
    seed: int,
    public: int = 30,
    pool: int | None = None,
    snippets: Path | None = None,
    web: WebSearch | None = None,
    similarity: TitleSimilarity | None = None,
    options: ShoppingOptions | None = None,
) -> World:
    """Released tasks (ShoppingBench's or an ORO suite), over a small catalog rebuilt around their products.

    Every task is loaded; those that cannot be played are refused by name, web tasks among them unless
    `snippets` or `web` say where to search. Raises WorldError when another world lies in `directory`,
    ImportFailed when there is nothing to read, SnippetFileError.
    """
    tasks = read_released(path)
    plan = {
        "kind": "released",
        "versions": [REBUILD],
        "tasks": tasks.digest,
        "seed": seed,
        "public": public,
        "pool": pool,
        "web": _web_plan(snippets, web),
    }

    def make(catalog_directory: Path) -> _Made:
        playable = playable_tasks(tasks, seed=seed, searchable=bool(snippets or web))
        catalog = Catalog.build(catalog_directory, playable.products)
        return _Made(catalog, playable.problems, playable.refused, tasks.loaded)

    return _prepare(
        directory,
        plan,
        make,
        seed,
        public,
        pool,
        snippets=snippets,
        web=web,
        similarity=similarity,
        options=options,
    )


def prepare_suite(
    directory: Path,
    path: Path,
    *,
    seed: int,
    public: int = 30,
    pool: int | None = None,
    web: WebSearch | None = None,
    similarity: TitleSimilarity | None = None,
) -> World:
    """The problems of a suite folder over the catalog in it, split into a public part and a pool.

    Its snippets, where it has some, are what its web problems are searched in. Raises WorldError, SuiteError,
    CatalogError.
    """
    whole = read_suite(path)
    snippets = path / SNIPPETS if (path / SNIPPETS).is_file() else None
    plan = {
        "kind": "suite",
        "suite": whole.suite_id,
        "seed": seed,
        "public": public,
        "pool": pool,
        "web": _web_plan(snippets, web),
    }
    if whole.environment != NAME or not (path / CATALOG).is_dir():
        raise WorldError(
            f"{path} holds no {NAME} suite with its catalog: make one with arena problems generate"
        )

    def make(catalog_directory: Path) -> _Made:
        if not catalog_directory.exists():
            shutil.copytree(path / CATALOG, catalog_directory)
        catalog = Catalog.open(catalog_directory)
        if catalog.catalog_id != whole.catalog_id:
            raise WorldError(f"the catalog in {path} is not the one that its problems are about")
        searchable = bool(snippets or web)
        playable = [p for p in whole.problems if searchable or p.problem.category != "web"]
        refused = [(p.problem.problem_id, WEB_REASON) for p in whole.problems if p not in playable]
        return _Made(catalog, playable, refused, {path.name: len(whole.problems)})

    options = ShoppingOptions.model_validate(whole.options)
    return _prepare(
        directory,
        plan,
        make,
        seed,
        public,
        pool,
        snippets=snippets,
        web=web,
        similarity=similarity,
        options=options,
    )


@dataclass(frozen=True, slots=True)
class Playable:
    """Released tasks that can be played, with the products to play them on; the others by name and reason."""

    products: tuple[Product, ...]
    problems: tuple[AnsweredProblem, ...]
    refused: tuple[tuple[str, str], ...]


def playable_tasks(tasks: ReleasedTasks, *, seed: int, searchable: bool) -> Playable:
    """Rebuild a catalog around released tasks, and keep the tasks whose own answers pass on it.

    `searchable`: whether there is a source for web_search.
    """
    rebuilt = rebuild(tasks, seed=seed)
    products = {product.product_id: product for product in rebuilt.products}
    problems, failing = [], []
    candidates = [*rebuilt.playable, *(tasks.of("web") if searchable else ())]
    for task in candidates:
        outcome = score(task.problem, intended_attempt(task.problem), products.get, LexicalSimilarity())
        if outcome.solved:
            problems.append(task.problem)
        else:
            rules = ", ".join(failure.rule for failure in outcome.failures)
            failing.append((task.name, f"its own answer does not pass: {rules}"))
    refused = [(r.name, r.reason) for r in (*tasks.refused, *rebuilt.refused)] + failing
    if not searchable:
        refused += [(task.name, WEB_REASON) for task in tasks.of("web")]
    return Playable(rebuilt.products, tuple(problems), tuple(refused))


def _web_plan(snippets: Path | None, web: WebSearch | None) -> str | None:
    """What of the web source a world depends on: the snippets' hash, or that there is a service."""
    if snippets is not None:
        return hashlib.sha256(snippets.read_bytes()).hexdigest()
    return None if web is None else "a service"


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
    *,
    snippets: Path | None = None,
    web: WebSearch | None = None,
    similarity: TitleSimilarity | None = None,
    options: ShoppingOptions | None = None,
) -> World:
    """Open the world that was made by `plan`, or make it. Its manifest is written last.

    How it is scored is part of the plan: scored in another way, it is another world.
    """
    manifest_path = directory / "world.json"
    catalog_path = directory / CATALOG
    options = options or ShoppingOptions()
    similarity = similarity or LexicalSimilarity()
    plan = {
        **plan,
        "scorer": scorer_name(similarity, options),
        "options": options.model_dump(mode="json"),
    }
    if not manifest_path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        made = make(catalog_path)
        environment = ShoppingEnvironment(made.catalog, similarity, options=options)
        if snippets is not None:
            shutil.copyfile(snippets, directory / SNIPPETS)
        parts = split(made.problems, seed=seed, public=public, pool=pool)
        for role, problems in zip(_ROLES, parts, strict=True):
            suite = ProblemSuite(
                name=f"{plan['kind']}-{role}",
                environment=NAME,
                environment_version=VERSION,
                catalog_id=made.catalog.catalog_id,
                scorer=environment.scorer,
                options=options.model_dump(mode="json"),
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
    kept = directory / SNIPPETS
    source = web or (SnippetStore.open(kept) if kept.is_file() else None)
    environment = ShoppingEnvironment.open(catalog_path, similarity, options=options, web=source)
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
