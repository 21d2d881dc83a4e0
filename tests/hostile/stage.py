"""Runs hostile agents through whole episodes: real recorder, real environment, scripted provider, bait.

Every attack has its own bait and its own slot; several run at a time. What comes out for each is a `Result`:
`held`, `breached` with what was breached, `error` when nothing can be concluded, or `not run` with a reason.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from arena.episode import EpisodeRecord, play
from arena.recorder.upstream import Upstream
from arena.sandbox.sandbox import Sandbox
from problems.environment import Environment
from problems.problem import AnsweredProblem, Problem
from problems.shopping.catalog import Catalog
from problems.shopping.generator import generate
from problems.shopping.shopping_environment import ShoppingEnvironment
from tests.arena.ledger import Ledger
from tests.arena.puppet import KEY, Puppet
from tests.hostile.bait import laid
from tests.hostile.seen import Expectation, NotShown, Seen, standing

State = Literal["held", "breached", "error", "not run"]
AT_ONCE = 6
FIRST_SLOT = 300
"""Each slot is a uid on this host; these are far from those that a validator here would use."""
MODELS = ("puppet-1", "puppet-2")
UNKNOWN_PRODUCT = {"reward": {"product_id": "1", "title": "none of these"}}


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one attack."""

    name: str
    category: str
    tries: str
    state: State
    why: tuple[str, ...] = ()


@dataclass
class Stage:
    """Where attacks are run: one sandbox, one scripted provider, and the worlds."""

    sandbox: Sandbox
    contained: bool
    upstream: Upstream
    root: Path
    _environment: ShoppingEnvironment | None = None
    _free: asyncio.Queue[int] = field(default_factory=asyncio.Queue)

    def __post_init__(self) -> None:
        for slot in range(2 * AT_ONCE):
            self._free.put_nowait(FIRST_SLOT + slot)

    async def attack(self, expectation: Expectation) -> Result:
        """Run one agent, as often as it takes, and say what became of it."""

        def result(state: State, *why: str) -> Result:
            return Result(expectation.name, expectation.category, expectation.tries, state, why)

        if expectation.contained_only and not self.contained:
            return result("not run", expectation.contained_only)
        try:
            seen = await self._seen(expectation)
        except OSError as error:
            return result("error", f"{type(error).__name__}: {error}")
        runs = [each for each in (seen, seen.other) if each is not None]
        never_began = next((each for each in runs if not each.began), None)
        if never_began is not None:
            return result("error", never_began.record.exit.detail)
        breaches = [word for each in runs for word in standing(each, expectation.verdict)]
        try:
            breaches += expectation.check(seen) or ()
        except NotShown as error:
            if not breaches:
                return result("error", f"the attempt was not shown: {error}")
        return result("breached", *breaches) if breaches else result("held")

    async def _seen(self, expectation: Expectation) -> Seen:
        match expectation.mode:
            case "once":
                return await self._once(expectation)
            case "together":
                one, other = await asyncio.gather(self._once(expectation), self._once(expectation))
            case "twice":
                slot = await self._free.get()
                try:
                    one = await self._once(expectation, slot=slot)
                    other = await self._once(expectation, slot=slot)
                finally:
                    self._free.put_nowait(slot)
            case "with twin":
                one, other = await asyncio.gather(self._once(expectation), self._once(expectation, bare=True))
        return replace(one, other=other)

    async def _once(self, expectation: Expectation, *, slot: int | None = None, bare: bool = False) -> Seen:
        if slot is None:
            slot = await self._free.get()
            try:
                return await self._once(expectation, slot=slot, bare=bare)
            finally:
                self._free.put_nowait(slot)
        async with laid(bare) as bait:
            problem, environment = self._world(expectation, bait.told)
            record: EpisodeRecord = await play(
                episode_id=f"{expectation.name}-{bait.mark}",
                source=expectation.source,
                problem=problem,
                environment=environment,
                sandbox=self.sandbox,
                limits=expectation.limits,
                slot=slot,
                upstream=self.upstream,
                budget=expectation.budget,
                seed=slot,
                socket_root=self.root / "s",
            )
            touched = await asyncio.to_thread(lambda: tuple(bait.touched()))
        return Seen(record, expectation.limits, expectation.budget, (bait.secret, KEY), touched)

    def _world(self, expectation: Expectation, told: dict[str, Any]) -> tuple[AnsweredProblem, Environment]:
        if expectation.world == "ledger":
            public = Problem(problem_id="p1", environment="ledger", category="sum", query=json.dumps(told))
            return AnsweredProblem(problem=public, answer={"total": 42}, leak_keys=()), Ledger()
        public = Problem(
            problem_id="twin" if told["bare"] else "p1",
            environment="shopping",
            category="product",
            query="Show me a facial serum below 600 PHP that can be paid on delivery.",
        )
        return AnsweredProblem(problem=public, answer=UNKNOWN_PRODUCT, leak_keys=()), self._shop()

    def _shop(self) -> ShoppingEnvironment:
        if self._environment is None:
            self._environment = ShoppingEnvironment(Catalog.build(self.root / "catalog", generate(7, 60)))
        return self._environment


@asynccontextmanager
async def staged_attacks(sandbox: Sandbox, *, contained: bool) -> AsyncIterator[Stage]:
    """A stage for `sandbox`; `contained` says whether it is one that must hold."""
    root = Path(tempfile.mkdtemp(prefix="hs", dir="/tmp"))
    os.chmod(root, 0o711)  # noqa: PTH101 - does not block
    try:
        with Puppet() as puppet:
            upstream = Upstream(puppet.base_url, SecretStr(KEY), MODELS, timeout_s=10, pause_s=0.01)
            try:
                yield Stage(sandbox, contained, upstream, root)
            finally:
                await upstream.aclose()
    finally:
        shutil.rmtree(root, ignore_errors=True)


async def run_suite(
    sandbox: Sandbox,
    expectations: Sequence[Expectation],
    *,
    contained: bool,
    report: Callable[[Result], None] = lambda _: None,
) -> list[Result]:
    """Run every attack, `AT_ONCE` at a time; results in the order of `expectations`."""
    turns = asyncio.Semaphore(AT_ONCE)
    async with staged_attacks(sandbox, contained=contained) as stage:

        async def one(expectation: Expectation) -> Result:
            async with turns:
                result = await stage.attack(expectation)
            report(result)
            return result

        return await asyncio.gather(*(one(expectation) for expectation in expectations))
