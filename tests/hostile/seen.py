"""What was seen of one attack, and the registry of what must be seen of each.

An expectation is a generator of breaches: each sentence it yields is something that should not have been
possible. `NotShown` says that the attempt was not made, so that nothing can be concluded.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from arena.episode import EpisodeRecord
from arena.recorder.budget import Budget
from arena.sandbox.sandbox import Limits
from arena.verdict import Failed, Solved, Unscored
from storage import events

AGENTS = Path(__file__).with_name("agents")

LIMITS = Limits(
    wall_s=20.0,
    cpu_s=10.0,
    memory_bytes=96 << 20,
    processes=16,
    file_bytes=4 << 20,
    work_bytes=8 << 20,
    output_bytes=64 << 10,
    open_files=64,
)
BUDGET = Budget(request_timeout_s=1.5, idle_timeout_s=20.0)

Breaches = Iterator[str]
Mode = Literal["once", "twice", "together", "with twin"]
Bare = Literal["", "always", "as root"]


class NotShown(Exception):
    """The agent did not show that it made its attempt."""


@dataclass(frozen=True)
class Seen:
    """One attack, over.

    `touched` is what happened to the bait; `other` is the second run of an agent that is run twice, together
    with itself, or against its harmless twin.
    """

    record: EpisodeRecord
    limits: Limits
    budget: Budget
    secrets: tuple[str, ...]
    touched: tuple[str, ...]
    other: Seen | None = None

    @property
    def began(self) -> bool:
        """Whether the agent surely ran: what it then did to us is no set-up error of ours."""
        ended = self.record.exit
        return ended.reason != "setup_error" or bool(ended.stdout) or len(self.record.events) > 2

    @property
    def report(self) -> dict[str, Any]:
        """What the agent says it tried: its claim, else its last line of output that is a JSON object."""
        claim = self.record.events[-1].body.get("claim")
        if isinstance(claim, dict):
            return claim
        for line in reversed(self.record.exit.stdout.splitlines()):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                return value
        raise NotShown(f"no report; it {self.record.exit.detail}; {self.record.exit.stderr[-300:]}")

    def get(self, name: str) -> Any:
        """One entry of the report."""
        if name not in self.report:
            raise NotShown(f"the report has no {name}: {self.report}")
        return self.report[name]

    def refused(self, *, but: tuple[str, ...] = ()) -> Breaches:
        """Every attempt reported must have been refused, `but` for those that are harmless."""
        attempts = self.get("attempts")
        if not attempts:
            raise NotShown("nothing was attempted")
        for name, result in attempts.items():
            if name in but:
                continue
            word = str(result).partition(" ")[0]
            if word not in errno.errorcode.values() and word != "refused":
                yield f"{name}: {result}"

    def at_most(self, name: str, limit: float) -> Breaches:
        """A number in the report must not exceed `limit`, and must be above zero to mean anything."""
        number = self.get(name)
        if not number > 0:
            raise NotShown(f"{name} is {number}")
        if number > limit:
            yield f"{name} is {number}, the limit {limit:g}"

    def ended(self, *reasons: str) -> Breaches:
        """The sandbox must have ended the agent for one of these reasons."""
        if self.record.exit.reason not in reasons:
            yield f"ended as {self.record.exit.reason} ({self.record.exit.detail}), not {'/'.join(reasons)}"

    def bodies(self, kind: str, **wanted: Any) -> list[dict[str, Any]]:
        """The bodies of events of that kind with these values."""
        return [
            event.body
            for event in self.record.events
            if event.kind == kind and all(event.body.get(name) == value for name, value in wanted.items())
        ]

    def no_calls(self, *names: str) -> Breaches:
        """None of these tools may have been called."""
        for name in names:
            if self.bodies("tool_call", name=name):
                yield f"a call of {name} was recorded that was never made"

    def refusals(self, *words: str) -> int:
        """How many refusals were logged whose message has one of `words`."""
        return sum(any(word in body["message"] for word in words) for body in self.bodies("refused"))

    def was_told(self, *words: str) -> Breaches:
        """The recorder must have refused, and logged, something for each of `words`."""
        for word in words:
            if not self.refusals(word):
                yield f"no refusal was logged that says {word!r}"


@dataclass(frozen=True)
class Expectation:
    """What must be seen of the agent `name`.

    `bare` says whether the attempt succeeds without a sandbox, which proves that it bites; `contained_only`,
    why it must never be run without one.
    """

    name: str
    category: str
    check: Callable[[Seen], Breaches | None]
    limits: Limits
    budget: Budget
    verdict: type
    bare: Bare
    contained_only: str
    mode: Mode
    world: Literal["ledger", "shopping"]

    @property
    def source(self) -> bytes:
        """The agent."""
        return (AGENTS / f"{self.name}.py").read_bytes()

    @property
    def tries(self) -> str:
        """What the agent tries: the first sentence of its file."""
        text = self.source.decode()
        return " ".join(text.split('"""')[1].split()).partition(". ")[0].rstrip(".")


EXPECTATIONS: dict[str, Expectation] = {}


def expect(
    *,
    limits: Limits = LIMITS,
    budget: Budget = BUDGET,
    verdict: type = Failed,
    bare: Bare = "",
    contained_only: str = "",
    mode: Mode = "once",
    world: Literal["ledger", "shopping"] = "ledger",
) -> Callable[[Callable[[Seen], Breaches | None]], Callable[[Seen], Breaches | None]]:
    """Register a check under the name of its agent; its module names the category."""

    def register(check: Callable[[Seen], Breaches | None]) -> Callable[[Seen], Breaches | None]:
        name, category = check.__name__, check.__module__.rpartition(".")[2]
        EXPECTATIONS[name] = Expectation(
            name, category, check, limits, budget, verdict, bare, contained_only, mode, world
        )
        return check

    return register


def standing(seen: Seen, verdict: type) -> Breaches:
    """What must be true of every attack whatsoever."""
    yield from seen.touched
    record, ended = seen.record, seen.record.exit
    if isinstance(record.verdict, Unscored) and verdict is not Unscored:
        yield f"the episode was made unscored: {record.verdict.reason}"
    if isinstance(record.verdict, Solved) and verdict is Failed:
        yield "the episode counts as solved"
    if isinstance(record.verdict, Failed) and verdict is Solved:
        yield f"an honest answer was lost: {record.verdict.reason}"
    if ended.leftovers:
        yield f"{ended.leftovers} processes outlived the sandbox"
    if ended.peak_memory_bytes > seen.limits.memory_bytes:
        yield f"{ended.peak_memory_bytes >> 20} MiB were used, the limit {seen.limits.memory_bytes >> 20}"
    if ended.cpu_s > seen.limits.cpu_s + 1.5:
        yield f"{ended.cpu_s:.1f} s of CPU were used, the limit {seen.limits.cpu_s:g}"
    if len(ended.stdout) + len(ended.stderr) > seen.limits.output_bytes:
        yield "more output was kept than allowed"
    text = json.dumps([event.to_json() for event in record.events]) + ended.stdout + ended.stderr
    if any(secret in text for secret in seen.secrets):
        yield "a secret of the host came out"
    try:
        events.verify(record.events)
    except events.BrokenChain as error:
        yield f"the record is broken: {error}"
    kinds = [event.kind for event in record.events]
    if kinds.count("started") != 1 or kinds.count("ended") != 1 or kinds[-1] != "ended":
        yield "the record does not begin and end once"
