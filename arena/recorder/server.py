"""The recorder: everything an agent can reach, on one Unix socket, and the only witness of its episode.

Routes: `GET /problem`, `POST /tools/{name}`, `GET /v1/models`, `POST /v1/chat/completions`, `POST /claim`,
and for agents from elsewhere `GET /search/{tool}` and `POST /inference/chat/completions` (see `subnet_15`).
The one thing to know: the socket identifies the episode. Nothing that an agent sends names an episode, a
hotkey or a budget, so there is nothing to forge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

from arena import strict_json
from arena.recorder import subnet_15
from arena.recorder.budget import Budget, BudgetSpent
from arena.recorder.llm import ModelDesk
from arena.recorder.tools import ToolDesk
from arena.recorder.upstream import Model
from arena.recorder.wire import Request, Response, UnixHttpServer, WireLimits, json_response
from arena.recorder.witness import Witness
from arena.sandbox.sandbox import EndReason as SandboxEnd
from problems.environment import Environment, ToolUse
from problems.problem import Problem
from storage.events import EventLog

EndReason = Literal["final", "crashed", "fault"] | SandboxEnd
"""`final`: a final call succeeded. `fault`: we failed. The rest is how the sandbox saw the agent end."""

MAX_CLAIM_BYTES = 64 * 1024


class Recorder:
    """The recorder of one episode. Create it in the event loop that will serve it.

    `seed` seeds the sampling of model calls that name no seed. `clock` gives Unix seconds, `tick` seconds
    that never go back. Raises Unpriced when the budget counts money and a model has no price.
    """

    def __init__(
        self,
        episode_id: str,
        problem: Problem,
        environment: Environment,
        upstream: Model,
        budget: Budget,
        seed: int,
        clock: Callable[[], float] = time.time,
        tick: Callable[[], float] = time.monotonic,
    ) -> None:
        budget.check_prices(upstream.models, upstream.prices)
        self._problem = problem.model_dump(mode="json")
        offered = environment.tools(problem)
        self._tools = [tool.openai() for tool in offered]
        self._witness = Witness(budget, clock, tick)
        self._tool_desk = ToolDesk(self._witness, environment, [tool.name for tool in offered])
        self._model_desk = ModelDesk(self._witness, environment, self._tools, upstream, seed)
        self._turns = asyncio.Semaphore(budget.concurrent_requests)
        self.began = False
        """Whether anyone asked for the problem: until then no line of the agent's can have run."""
        self._claim: Any = None
        self._claimed = False
        self._witness.record(
            "started",
            {
                "episode_id": episode_id,
                "problem": self._problem,
                "tools": self._tools,
                "model": upstream.models[0],
                "seed": seed,
                "limits": budget.to_json(),
            },
        )

    @property
    def log(self) -> EventLog:
        """What happened so far."""
        return self._witness.log

    @property
    def finished(self) -> asyncio.Event:
        """Set when nothing more can count: a final call succeeded, or we failed the episode (`fault`)."""
        return self._witness.finished

    @property
    def fault(self) -> str | None:
        """Our own failure, environment or recorder: the episode cannot be scored."""
        return self._witness.fault

    @property
    def provider_fault(self) -> str | None:
        """Why a model call, or a tool's call of a service outside, was lost, if no later one succeeded."""
        return self._model_desk.provider_fault or self._tool_desk.provider_fault

    @property
    def key_refused(self) -> str | None:
        """Why the provider would not serve the miner's own key, if it did not."""
        return self._model_desk.key_refused

    def refuse_key(self, why: str) -> None:
        """The miner's own key is known not to serve: every model call is answered so."""
        self._model_desk.key_refused = why

    @property
    def exhausted(self) -> frozenset[str]:
        """The budgets that some request found spent, by their names in `Budget`."""
        return frozenset(self._witness.meter.exhausted)

    @asynccontextmanager
    async def serving(self, socket_path: Path) -> AsyncIterator[None]:
        """Serve on `socket_path`. Afterwards a tool call that had arrived is recorded, an open model call is
        given up, and the socket is gone.

        Raises ValueError when the path is too long, OSError when it cannot be bound.
        """
        budget = self._witness.meter.budget
        limits = WireLimits(
            budget.connections, budget.body_bytes, budget.request_timeout_s, budget.idle_timeout_s
        )
        server = UnixHttpServer(self._answer, limits, self._witness.refuse, self._lost_connection)
        await server.start(socket_path)
        try:
            yield
        finally:
            server.stop_listening()
            await self._tool_desk.close()
            await server.stop()
            await self._model_desk.close()

    @property
    def claim(self) -> Any:
        """What the agent says that it returned, as a JSON value; None when it said nothing."""
        return self._claim

    def fail(self, message: str) -> None:
        """We failed the episode outside the recorder."""
        self._witness.fail(message)

    def close(self, reason: EndReason, detail: str, answer: ToolUse | None = None) -> None:
        """Append the last event. Call it once, after serving. `answer` is the one taken from the claim."""
        witness = self._witness
        taken = {} if answer is None else {"name": answer.name, "arguments": dict(answer.arguments)}
        witness.record(
            "ended",
            {
                **({"claimed_answer": taken} if taken else {}),
                "reason": reason,
                "detail": detail,
                "claim": self._claim,
                "spent": witness.meter.spent(),
                "exhausted": sorted(witness.meter.exhausted),
                "unlogged_refusals": witness.unlogged_refusals,
                "fault": witness.fault,
                "provider_fault": self.provider_fault,
                "key_refused": self.key_refused,
            },
        )
        witness.finished.set()

    def _lost_connection(self, why: str) -> None:
        """A connection broke on our side: the agent may have failed for it, unless it had finished before."""
        if not self.finished.is_set():
            self._witness.fail(f"recorder: {why}")

    async def _answer(self, request: Request) -> Response:
        try:
            self._witness.meter.check_wall(self._witness.elapsed_s())
            self._witness.meter.count_bytes(len(request.body))
            async with self._turns:
                return await self._route(request)
        except BudgetSpent as spent:
            self._witness.refuse(request.path[:128], str(spent))
            error = {"message": str(spent), "code": "budget_spent", "param": spent.which}
            return json_response(429, {"error": error}, {"x-should-retry": "false"})
        except Exception as error:  # noqa: BLE001 - the recorder's own failure must not become the agent's
            self._witness.fail(f"recorder: {type(error).__name__}: {str(error)[:200]}")
            return json_response(500, {"error": {"message": "the arena failed", "code": "arena"}})

    async def _route(self, request: Request) -> Response:
        match request.method, request.path.split("/")[1:]:
            case "GET", ["problem"]:
                self.began = True
                self._witness.begin()
                return json_response(200, {"problem": self._problem, "tools": self._tools})
            case "GET", ["v1", "models"]:
                return self._model_desk.models()
            case "POST", ["v1" | "inference", "chat", "completions"]:
                return await self._model_desk.chat(request.body)
            case "POST", ["tools", name]:
                return await self._tool_desk.call(unquote(name), request.body)
            case "GET", ["search", name]:
                return await subnet_15.search(self._tool_desk, unquote(name), request.query)
            case "POST", ["claim"]:
                return self._take_claim(request.body)
            case _:
                return self._refusal(404, request.path[:128], "no such route")

    def _take_claim(self, body: bytes) -> Response:
        if self.finished.is_set():  # usual, and of no interest: an agent returns after its final call
            return json_response(409, {"error": {"message": "the episode is over"}})
        if self._claimed:
            return self._refusal(409, "claim", "a claim was already made")
        try:
            self._claim = strict_json.loads(body, max_bytes=MAX_CLAIM_BYTES)
        except strict_json.StrictJsonError as error:
            return self._refusal(400, "claim", str(error))
        self._claimed = True
        return json_response(200, {})

    def _refusal(self, status: int, what: str, message: str) -> Response:
        self._witness.refuse(what, message)
        return json_response(status, {"error": {"message": message}})
