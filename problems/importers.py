"""Tasks that others released, as problems of this program.

ShoppingBench (arXiv 2508.04266) releases four JSON Lines files, whose tasks have no ids: the query is the
key. ORO (subnet 15) releases a suite as one JSON list of the same tasks, with difficulties. An entry that
cannot be used is refused by name with its reason, and stops the others only when there are too many.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from problems.problem import AnsweredProblem
from problems.shopping.answer import ShoppingAnswer, UnscorableProblem, read_answer
from problems.shopping.identity import answered
from problems.shopping.product import Product

SHOPPINGBENCH_FILES = {
    "synthesize_product_test.jsonl": "product",
    "synthesize_shop_test.jsonl": "shop",
    "synthesize_voucher_test.jsonl": "voucher",
    "synthesize_web_simpleqa_test.jsonl": "web",
}
"""The released files and the category of their tasks."""

WEB_REASON = "it needs the tool web_search, and no source for it is given (--snippets)"
TOLERATED = 5
"""So many bad entries never stop an import."""
TOLERATED_SHARE = 0.05
"""Nor does this share of them."""
_NAMED = 3
"""Bad entries that an error names."""


class ImportFailed(Exception):
    """There is nothing to import; the message says what was looked for."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A task that cannot be played, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Task:
    """A task and its answer, typed. `name` is its file's category and line: "shop:17"."""

    name: str
    problem: AnsweredProblem
    answer: ShoppingAnswer


@dataclass(frozen=True, slots=True)
class ReleasedTasks:
    """All tasks of a release. `records` are the product records that its web tasks carry."""

    source: str
    tasks: tuple[Task, ...]
    records: tuple[Product, ...]
    refused: tuple[Refusal, ...]
    loaded: dict[str, int]
    """How many entries each file holds."""
    digest: str
    """SHA-256 over the files."""

    def of(self, *categories: str) -> list[Task]:
        """The tasks of some categories, in order."""
        return [task for task in self.tasks if task.problem.problem.category in categories]


class _Entry(BaseModel):
    """What the entries of both releases have in common."""

    model_config = ConfigDict(extra="allow")

    query: str = Field(min_length=1)
    reward: dict[str, Any] | list[dict[str, Any]]
    category: str = ""
    difficulty: str = ""


_NOT_ANSWER = frozenset({"query", "category", "difficulty"})
_ORO_ONLY = frozenset({"title", "reward_title_embeddings"})


@dataclass(slots=True)
class _Reading:
    """What has been read so far."""

    tasks: dict[str, Task] = field(default_factory=dict)
    records: dict[str, Product] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    entries: int = 0

    def add(self, name: str, category: str, entry: object, dropped: frozenset[str] = frozenset()) -> None:
        """Read one entry, a JSON text or the value; `dropped` are keys that belong to no answer."""
        self.entries += 1
        try:
            if isinstance(entry, str):
                parsed = _Entry.model_validate_json(entry)
            else:
                parsed = _Entry.model_validate(entry)
            task = _task(name, category or parsed.category.lower(), parsed, _NOT_ANSWER | dropped)
            record = None
            if task.problem.problem.category == "web" and isinstance(parsed.reward, dict):
                record = Product.model_validate(parsed.reward)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            self.refused.append(Refusal(name, f"it is malformed at {where or 'the line'}: {first['msg']}"))
            return
        except UnscorableProblem as error:
            self.refused.append(Refusal(name, f"it has no rules: {' '.join(str(error).split())[:200]}"))
            return
        problem_id = task.problem.problem.problem_id
        if problem_id in self.tasks:
            same = self.tasks[problem_id].name
            self.refused.append(Refusal(name, f"it asks word for word what {same} asks"))
            return
        self.tasks[problem_id] = task
        if record is not None:
            self.records.setdefault(record.product_id, record)

    def done(self, source: str, loaded: dict[str, int], digest: str) -> ReleasedTasks:
        """All of it. Raises ImportFailed when too much is bad."""
        if len(self.refused) > max(TOLERATED, TOLERATED_SHARE * self.entries):
            raise ImportFailed(
                f"{len(self.refused)} of {self.entries} entries of {source} cannot be used, more than the "
                f"{TOLERATED_SHARE:.0%} that are tolerated: {_named(self.refused)}"
            )
        return ReleasedTasks(
            source,
            tuple(self.tasks.values()),
            tuple(self.records.values()),
            tuple(self.refused),
            loaded,
            digest,
        )


def read_released(path: Path) -> ReleasedTasks:
    """The tasks in `path`: a folder of ShoppingBench's files, or the JSON file of an ORO suite.

    Raises ImportFailed when there are none, or when too many cannot be used.
    """
    return read_shoppingbench(path) if path.is_dir() else read_oro(path)


def read_shoppingbench(path: Path) -> ReleasedTasks:
    """Every released file in the folder `path`. Raises ImportFailed."""
    files = [name for name in SHOPPINGBENCH_FILES if (path / name).is_file()]
    if not files:
        raise ImportFailed(f"{path} holds none of {', '.join(SHOPPINGBENCH_FILES)}")
    reading = _Reading()
    loaded: dict[str, int] = {}
    content = hashlib.sha256()
    for file in files:
        category = SHOPPINGBENCH_FILES[file]
        raw = (path / file).read_bytes()
        content.update(raw)
        lines = [line for line in raw.decode("utf-8", "replace").split("\n") if line.strip()]
        loaded[file] = len(lines)
        for number, line in enumerate(lines, start=1):
            reading.add(f"{category}:{number}", category, line)
    return reading.done(str(path), loaded, content.hexdigest())


def read_oro(path: Path) -> ReleasedTasks:
    """An ORO suite. Its precomputed title embeddings are left out. Raises ImportFailed."""
    try:
        raw = path.read_bytes()
        entries = json.loads(raw)
    except OSError as error:
        raise ImportFailed(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise ImportFailed(f"{path} is no JSON ({error}); an ORO suite is a JSON list of problems") from None
    if isinstance(entries, dict):
        entries = entries.get("problems")
    if not isinstance(entries, list) or not entries:
        raise ImportFailed(f"{path} is no ORO suite: that is a JSON list of problems")
    reading = _Reading()
    for number, entry in enumerate(entries, start=1):
        reading.add(f"{path.name}:{number}", "", entry, _ORO_ONLY)
    return reading.done(str(path), {path.name: len(entries)}, hashlib.sha256(raw).hexdigest())


def _task(name: str, category: str, entry: _Entry, dropped: frozenset[str]) -> Task:
    """One entry as a task. Raises pydantic.ValidationError, UnscorableProblem."""
    answer = {key: value for key, value in entry.model_dump().items() if key not in dropped}
    rewards = entry.reward if isinstance(entry.reward, list) else [entry.reward]
    ids = [str(reward.get("product_id", "")) for reward in rewards]
    problem = answered(category, entry.query, answer, ids, difficulty=entry.difficulty)
    return Task(name, problem, read_answer(problem))


def _named(refused: Iterable[Refusal]) -> str:
    listed = [f"{refusal.name}: {refusal.reason}" for refusal in refused]
    more = f" (and {len(listed) - _NAMED} more)" if len(listed) > _NAMED else ""
    return "; ".join(listed[:_NAMED]) + more
