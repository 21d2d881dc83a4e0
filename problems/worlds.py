"""A playable world by the name of its environment: what a race asks for, whatever is played in it."""

from __future__ import annotations

from pathlib import Path

from problems.ledger.ledger import CATEGORIES, GENERATOR, LedgerError, ask, generate
from problems.ledger.ledger import NAME as LEDGER
from problems.ledger.ledger_environment import SCORER, LedgerEnvironment
from problems.problem import AnsweredProblem, ProblemSuite, content_id
from problems.shopping.options import ShoppingOptions
from problems.shopping.shopping_environment import NAME as SHOPPING
from problems.shopping.similarity import TitleSimilarity
from problems.shopping.web import WebSearch
from problems.shopping.world import (
    World,
    WorldError,
    prepare_generated,
    prepare_released,
    prepare_suite,
    split,
)
from problems.suite_files import is_suite

ENVIRONMENTS = (SHOPPING, LEDGER)
_SPARE = 1.3
"""More problems are made than asked for by this factor, since whole clusters go to one suite."""
_COUNTERPARTIES = 50


def prepared(
    environment: str,
    folder: Path,
    *,
    seed: int,
    public: int,
    pool: int | None,
    products: int,
    path: Path | None = None,
    snippets: Path | None = None,
    web: WebSearch | None = None,
    similarity: TitleSimilarity | None = None,
    options: ShoppingOptions | None = None,
) -> World:
    """The world of an environment. Shopping is kept in `folder`; a ledger is made from its seed each time.

    `products` is the size of a generated catalog. `path` is a folder of ShoppingBench's files, an ORO suite,
    or a suite folder with its catalog; web problems in it are searched in `snippets` or by `web`.
    `similarity` and `options` say how shopping is scored; a suite folder brings its own options. Raises
    WorldError for an unknown environment or too few problems, and what the environment's own preparation
    raises.
    """
    if environment == LEDGER:
        return _ledger(seed=seed, public=public, pool=90 if pool is None else pool)
    if environment != SHOPPING:
        raise WorldError(f"there is no environment {environment!a}; there are {', '.join(ENVIRONMENTS)}")
    if path is not None and is_suite(path):
        return prepare_suite(
            folder, path, seed=seed, public=public, pool=pool, web=web, similarity=similarity
        )
    if path is not None:
        return prepare_released(
            folder,
            path,
            seed=seed,
            public=public,
            pool=pool,
            snippets=snippets,
            web=web,
            similarity=similarity,
            options=options,
        )
    return prepare_generated(
        folder,
        seed=seed,
        products=products,
        public=public,
        pool=pool,
        similarity=similarity,
        options=options,
    )


def _ledger(*, seed: int, public: int, pool: int) -> World:
    ledger = generate(seed, counterparties=_COUNTERPARTIES)
    try:
        problems = ask(ledger, each=int(_SPARE * (public + pool) / len(CATEGORIES)) + 2, seed=seed)
    except LedgerError as error:
        raise WorldError(
            f"{error}, or ask for fewer than {public} public and {pool} hidden problems"
        ) from None
    catalog_id = content_id([GENERATOR, *(line.shown() for line in ledger)])

    def suite(role: str, part: list[AnsweredProblem]) -> ProblemSuite:
        return ProblemSuite(
            name=f"{LEDGER}-{role}",
            environment=LEDGER,
            catalog_id=catalog_id,
            scorer=SCORER,
            problems=tuple(part),
        )

    shown, hidden = split(problems, seed=seed, public=public, pool=pool)
    return World(LedgerEnvironment(ledger), suite("public", shown), suite("pool", hidden), len(ledger))
