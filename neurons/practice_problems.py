"""What a miner practises on: public problems of a suite that is given, or of a world made for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from neurons.host import prepared_world, title_similarity, web_service
from neurons.settings import ProblemSettings, Settings, SettingsError
from problems.environment import Environment
from problems.problem import AnsweredProblem, ProblemSuite
from problems.rotation import even_shares
from problems.shopping.options import ShoppingOptions
from problems.shopping.shopping_environment import NAME as SHOPPING
from problems.shopping.shopping_environment import ShoppingEnvironment
from problems.shopping.web import SnippetStore
from problems.shopping.world import CATALOG, SNIPPETS
from problems.suite_files import is_suite, read_suite

PHASE = "practice"
PRODUCTS = 3_000
PUBLIC, POOL = 60, 6
"""Problems of the world that is made when no suite is given; those of the pool are left alone."""


@dataclass(frozen=True, slots=True)
class PracticeOptions:
    """What `arena miner run-local` was asked for. `out` is where traces are written."""

    agent: Path
    out: Path
    problems: int = 9
    categories: tuple[str, ...] = ()
    seed: int = 0
    suite: Path | None = None


def practice_world(options: PracticeOptions, settings: Settings) -> tuple[Environment, ProblemSuite]:
    """What is played: a suite's folder with its catalog, or a generated world, kept in the data folder.

    Raises SettingsError, SuiteError, CatalogError, WorldError, SynthesisError, SnippetFileError.
    """
    if options.suite is None:
        world = prepared_world(
            ProblemSettings(
                environment=settings.problems.environment, seed=options.seed, products=PRODUCTS, pool=POOL
            ),
            settings.data_dir / PHASE / f"{settings.problems.environment}-{options.seed}",
            public=PUBLIC,
        )
        return world.environment, world.public
    folder = options.suite
    if not is_suite(folder) or not (folder / CATALOG).is_dir():
        raise SettingsError(
            f"{folder} holds no suite with its catalog: make one with arena problems generate --out FOLDER"
        )
    suite = read_suite(folder)
    if suite.environment != SHOPPING:
        raise SettingsError(f"{folder} is a suite of {suite.environment}; only {SHOPPING} suites are played")
    kept = folder / SNIPPETS
    environment = ShoppingEnvironment.open(
        folder / CATALOG,
        title_similarity(settings.problems, settings.data_dir),
        options=ShoppingOptions.model_validate(suite.options),
        web=web_service(settings.web) or (SnippetStore.open(kept) if kept.is_file() else None),
    )
    return environment, suite


def chosen_problems(suite: ProblemSuite, options: PracticeOptions) -> list[AnsweredProblem]:
    """As many of the suite's problems as were asked for, evenly over the categories. Raises SettingsError."""
    if options.problems < 1:
        raise SettingsError(f"--problems must be at least 1, not {options.problems}")
    by_category: dict[str, list[AnsweredProblem]] = {}
    for problem in suite.problems:
        by_category.setdefault(problem.problem.category, []).append(problem)
    for category in options.categories:
        if category not in by_category:
            raise SettingsError(
                f"there is no category {category!r} here, only {', '.join(sorted(by_category))}"
            )
    offered = {c: p for c, p in by_category.items() if not options.categories or c in options.categories}
    shares = even_shares({c: len(p) for c, p in offered.items()}, options.problems)
    return [problem for category, share in shares.items() for problem in offered[category][:share]]
