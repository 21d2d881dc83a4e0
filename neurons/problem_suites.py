"""Suites as a user asks for them: generated, imported, audited. Folders, progress and clocks live here.

A suite's folder holds what `problems.suite_files` writes, and beside it `catalog/` and, where web problems
can be searched, `snippets.jsonl`: what `--problems FOLDER` plays.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neurons.settings import SettingsError
from problems.importers import WEB_REASON, read_released
from problems.problem import AnsweredProblem, ProblemSuite, SuiteManifest
from problems.shopping.audit import Audit, audit
from problems.shopping.catalog import Catalog
from problems.shopping.facts import Fact, read_facts, snippets
from problems.shopping.generation import Order, certified, suite_of
from problems.shopping.generator import generate
from problems.shopping.levels import dealt
from problems.shopping.options import ShoppingOptions
from problems.shopping.shopping_environment import NAME
from problems.shopping.synthesis import Certified
from problems.shopping.web import SnippetStore
from problems.shopping.world import CATALOG, SNIPPETS, playable_tasks
from problems.suite_files import is_suite, read_suite, write_suite

_LLM_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class VerbaliserOptions:
    """Which endpoint rewords queries. The key is `OPENAI_API_KEY`'s."""

    base_url: str
    model: str | None
    reader: str | None = None
    tries: int = 3
    refuse: bool = False


@dataclass(frozen=True, slots=True)
class GenerateOptions:
    """What `arena problems generate` was asked for."""

    out: Path
    catalog: Path | None
    products: int | None
    seed: int
    count: int
    categories: Sequence[str]
    difficulties: Sequence[str] = ()
    knowledge: Path | None = None
    exhaustive_sort: bool = False
    workers: int | None = None
    llm: VerbaliserOptions | None = None


@dataclass(frozen=True, slots=True)
class Made:
    """A suite that was written."""

    folder: Path
    suite_id: str
    manifest: SuiteManifest
    catalog_size: int
    per_minute: float | None = None
    """Certified problems a minute, from a catalog that is there."""
    refused: tuple[tuple[str, str], ...] = ()
    notes: dict[str, int] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What `--json` prints."""
        return {
            "folder": str(self.folder),
            "suite_id": self.suite_id,
            **self.manifest.model_dump(mode="json"),
            "catalog_size": self.catalog_size,
            "per_minute": self.per_minute,
            "refused": [list(pair) for pair in self.refused],
            "notes": self.notes,
        }


async def generate_suite(options: GenerateOptions, show: Callable[[int], None]) -> Made:
    """Make a suite to order; `show` is told how many problems are certified.

    Raises SettingsError for an order that cannot be, SynthesisError, KnowledgeError, CatalogError,
    VerbaliserError.
    """
    if (options.catalog is None) == (options.products is None):
        raise SettingsError("which catalog? give --catalog FOLDER, or --products N to generate one")
    facts: Sequence[Fact] = read_facts(options.knowledge) if options.knowledge else ()
    try:
        counts = dealt(options.count, dict.fromkeys(options.categories, 1)) if options.categories else {}
        order = Order(counts, options.seed, options.difficulties, facts)
    except ValueError as error:
        raise SettingsError(str(error)) from None
    if not counts:
        raise SettingsError("no category is given: name some in --categories")
    with _new(options.out):
        return await _generated(options, order, show)


async def _generated(options: GenerateOptions, order: Order, show: Callable[[int], None]) -> Made:
    catalog = await asyncio.to_thread(_catalog, options)
    began = time.monotonic()
    problems: list[Certified] = []
    for one in certified(catalog, order, workers=options.workers):
        problems.append(one)
        show(len(problems))
    took = time.monotonic() - began
    notes: dict[str, int] = {}
    if options.llm is not None:
        problems, notes = await _reworded(options.llm, problems)
    play = ShoppingOptions(exhaustive_sort=options.exhaustive_sort)
    suite = suite_of([one.problem for one in problems], catalog, name=options.out.name, options=play)
    if known := snippets(order.facts):
        lines = "".join(json.dumps(snippet, ensure_ascii=False) + "\n" for snippet in known)
        (options.out / SNIPPETS).write_text(lines, encoding="utf-8")
    write_suite(suite, options.out)
    return Made(
        options.out,
        suite.suite_id,
        suite.manifest(),
        catalog.size,
        per_minute=order.total / took * 60,
        notes=notes,
    )


def import_suite(path: Path, out: Path, *, catalog: Path | None, snippets: Path | None, seed: int) -> Made:
    """Write released tasks as a suite. Raises ImportFailed, CatalogError, SnippetFileError, SettingsError."""
    with _new(out):
        return _imported(path, out, catalog=catalog, snippets=snippets, seed=seed)


def _imported(path: Path, out: Path, *, catalog: Path | None, snippets: Path | None, seed: int) -> Made:
    tasks = read_released(path)
    if snippets is not None:
        SnippetStore.open(snippets)
    if catalog is None:
        playable = playable_tasks(tasks, seed=seed, searchable=snippets is not None)
        opened = Catalog.build(out / CATALOG, playable.products)
        problems: Sequence[AnsweredProblem] = playable.problems
        refused = list(playable.refused)
    else:
        opened = Catalog.open(catalog)
        playing = tasks.of("product", "shop", "voucher", *(["web"] if snippets else []))
        problems = [task.problem for task in playing]
        refused = [(r.name, r.reason) for r in tasks.refused]
        refused += [] if snippets else [(task.name, WEB_REASON) for task in tasks.of("web")]
    if snippets is not None:
        shutil.copyfile(snippets, out / SNIPPETS)
    suite = suite_of(problems, opened, name=out.name, options=ShoppingOptions())
    write_suite(suite, out)
    return Made(out, suite.suite_id, suite.manifest(), opened.size, refused=tuple(refused))


def audited(path: Path, *, catalog: Path | None = None, against: Path | None = None) -> Audit:
    """Check the problems in `path`. Raises SuiteError, ImportFailed, CatalogError, SettingsError."""
    problems, own = _problems(path)
    other = _problems(against)[0].values() if against is not None else ()
    folder = catalog or own
    return audit(problems, Catalog.open(folder) if folder is not None else None, against=other)


def _problems(path: Path) -> tuple[dict[str, AnsweredProblem], Path | None]:
    """The problems in `path` by the names to report, and the catalog beside them if there is one."""
    if path.is_dir() and is_suite(path):
        suite: ProblemSuite = read_suite(path)
        if suite.environment != NAME:
            raise SettingsError(f"{path} is a suite of {suite.environment}; the audit knows {NAME} alone")
        own = path / CATALOG if (path / CATALOG).is_dir() else None
        return {p.problem.problem_id: p for p in suite.problems}, own
    return {task.name: task.problem for task in read_released(path).tasks}, None


def _catalog(options: GenerateOptions) -> Catalog:
    if options.catalog is not None:
        return Catalog.open(options.catalog)
    assert options.products is not None
    return Catalog.build(options.out / CATALOG, generate(options.seed, options.products))


@contextlib.contextmanager
def _new(out: Path) -> Iterator[None]:
    """A folder that was not there yet; what fails leaves none behind. Raises SettingsError."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SettingsError(f"{out} is there already: choose another --out, or remove it")
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)
        raise


async def _reworded(
    options: VerbaliserOptions, problems: Sequence[Certified]
) -> tuple[list[Certified], dict[str, int]]:
    """The problems in a model's words, and what happened to how many."""
    import openai

    from problems.shopping.llm_verbaliser import LlmVerbaliser

    if options.model is None:
        raise SettingsError("which model writes? give --llm.model")
    client = openai.AsyncOpenAI(
        base_url=options.base_url,
        api_key=os.environ.get("OPENAI_API_KEY") or "none",
        timeout=_LLM_TIMEOUT_S,
        max_retries=0,
    )
    async with client:
        writer = LlmVerbaliser(client, options.model, options.reader, tries=options.tries)
        found = await writer.reword(problems, fall_back=not options.refuse)
    otherwise = "left out" if options.refuse else "kept its template"
    notes = {"written by the model and read back": found.accepted}
    return list(found.problems), notes | {f"{otherwise}: {r}": n for r, n in found.rejected.items()}
