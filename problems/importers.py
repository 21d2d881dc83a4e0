"""Tasks that others released, as problems of this program.

ShoppingBench (arXiv 2508.04266) releases four JSON Lines files, whose tasks have no ids: the query is the
key. A line that cannot be used is refused by name with its reason, and never stops the rest.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from problems.problem import AnsweredProblem
from problems.shopping.identity import answered
from problems.shopping.product import Product
from problems.shopping.scoring import ShoppingAnswer

SHOPPINGBENCH_FILES = {
    "synthesize_product_test.jsonl": "product",
    "synthesize_shop_test.jsonl": "shop",
    "synthesize_voucher_test.jsonl": "voucher",
    "synthesize_web_simpleqa_test.jsonl": "web",
}
"""The released files and the category of their tasks."""

WEB_REASON = "it needs the tool web_search, which the shopping environment does not offer"


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
class ShoppingBenchTasks:
    """All tasks of a folder. `web` are loaded and refused; `records` are the product records they carry."""

    playable: tuple[Task, ...]
    web: tuple[AnsweredProblem, ...]
    records: tuple[Product, ...]
    refused: tuple[Refusal, ...]
    loaded: dict[str, int]
    """How many tasks each file holds."""
    digest: str
    """SHA-256 over the files."""


class _Line(BaseModel):
    model_config = ConfigDict(extra="allow")

    query: str = Field(min_length=1)
    reward: dict[str, Any] | list[dict[str, Any]]


def read_shoppingbench(path: Path) -> ShoppingBenchTasks:
    """Read every released file in the folder `path`. Raises ImportFailed when there is none."""
    files = [name for name in SHOPPINGBENCH_FILES if (path / name).is_file()]
    if not files:
        raise ImportFailed(f"{path} holds none of {', '.join(SHOPPINGBENCH_FILES)}")
    playable: list[Task] = []
    web: list[AnsweredProblem] = []
    records: dict[str, Product] = {}
    refused: list[Refusal] = []
    loaded: dict[str, int] = {}
    content = hashlib.sha256()
    seen: dict[str, str] = {}
    for file in files:
        category = SHOPPINGBENCH_FILES[file]
        raw = (path / file).read_bytes()
        content.update(raw)
        lines = [line for line in raw.decode("utf-8").split("\n") if line.strip()]
        loaded[file] = len(lines)
        for number, line in enumerate(lines, start=1):
            name = f"{category}:{number}"
            try:
                task = _read(name, category, line)
            except ValidationError as error:
                first = error.errors()[0]
                where = ".".join(str(part) for part in first["loc"])
                refused.append(Refusal(name, f"it is malformed at {where or 'the line'}: {first['msg']}"))
                continue
            if task.problem.problem.problem_id in seen:
                same = seen[task.problem.problem.problem_id]
                refused.append(Refusal(name, f"it asks word for word what {same} asks"))
                continue
            seen[task.problem.problem.problem_id] = name
            if category == "web":
                web.append(task.problem)
                record = Product.model_validate(task.problem.answer["reward"])
                records.setdefault(record.product_id, record)
                refused.append(Refusal(name, WEB_REASON))
            else:
                playable.append(task)
    return ShoppingBenchTasks(
        tuple(playable), tuple(web), tuple(records.values()), tuple(refused), loaded, content.hexdigest()
    )


def _read(name: str, category: str, line: str) -> Task:
    """One line as a task. Raises pydantic.ValidationError."""
    parsed = _Line.model_validate_json(line)
    answer = {key: value for key, value in parsed.model_dump().items() if key != "query"}
    if category == "web":
        record = Product.model_validate(parsed.reward)
        typed = ShoppingAnswer.model_validate(
            {"reward": {"product_id": record.product_id, "title": [record.title]}}
        )
    else:
        typed = ShoppingAnswer.model_validate(answer)
    ids = [target.product_id for target in typed.reward]
    return Task(name, answered(category, parsed.query, answer, ids), typed)
