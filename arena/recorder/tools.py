"""Tool calls: parsed strictly, executed by the environment outside the agent, recorded as they happened.

Calls of one episode are executed one after the other, so that the log's order is the order of effects and
nothing can slip in behind a final call. A tool that the problem does not offer is refused before the
environment sees it. An environment that raises or does not answer in time is our failure, not the agent's; a
service outside that lets a tool down sets `provider_fault`, as a lost model call does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from arena import strict_json
from arena.recorder.budget import BudgetSpent
from arena.recorder.wire import Response, json_response
from arena.recorder.witness import Witness
from problems.environment import Environment, ServiceUnavailable, ToolReply, ToolUse

MAX_NAME = 128


class ToolDesk:
    """Executes the tool calls of one episode."""

    def __init__(self, witness: Witness, environment: Environment, offered: Sequence[str]) -> None:
        """`offered` are the names of the problem's tools."""
        self._witness = witness
        self._environment = environment
        self._offered = tuple(offered)
        self._lost: dict[str, str] = {}
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tool")
        self._closing = False

    @property
    def provider_fault(self) -> str | None:
        """Why a tool did not answer for the reasons of a service outside, if no later call of it did."""
        return next(iter(self._lost.values()), None)

    async def call(self, name: str, body: bytes) -> Response:
        """Answer `POST /tools/{name}`: {"content", "error"}, with status 200 unless it was refused."""
        if not 0 < len(name) <= MAX_NAME or not name.isprintable():
            return self._refusal(404, name[:MAX_NAME], "a tool's name has 1 to 128 printable characters")
        try:
            arguments = strict_json.loads(body, max_bytes=self._witness.meter.budget.body_bytes)
        except strict_json.StrictJsonError as error:
            return self._refusal(400, name, f"the arguments must be a JSON object: {error}")
        async with self._turn:
            if self._closing or self._witness.finished.is_set():
                return self._refusal(409, name, "the episode is over: no further call counts")
            try:
                self._witness.meter.count_tool_call()
            except BudgetSpent as spent:
                return self._refusal(429, name, str(spent))
            return await self._execute(name, arguments)

    async def close(self) -> None:
        """Let the call being executed end, and refuse those that wait. Bounded by the tool's own deadline."""
        self._closing = True
        async with self._turn:
            self._thread.shutdown(wait=False, cancel_futures=True)

    async def _execute(self, name: str, arguments: object) -> Response:
        started = self._witness.now_ms()
        loop = asyncio.get_running_loop()
        limit = self._witness.meter.budget.tool_timeout_s
        answer = loop.run_in_executor(self._thread, self._reply, name, arguments)
        try:
            reply = await asyncio.wait_for(answer, limit)
            self._record(name, arguments, reply, started)
            final = self._is_final(name, reply)
        except TimeoutError:
            return self._failure(name, arguments, started, f"no answer within {limit:g} s")
        except Exception as error:  # noqa: BLE001 - whatever an environment raises is ours, never the agent's
            return self._failure(name, arguments, started, f"{type(error).__name__}: {error}")
        if final:
            self._witness.finished.set()
        return json_response(200, {"content": reply.content, "error": reply.error})

    def _reply(self, name: str, arguments: object) -> ToolReply:
        """What the tool answers; runs in the tools' own thread."""
        if name not in self._offered:
            error = f"there is no tool {name[:MAX_NAME]!a} here; the tools are {', '.join(self._offered)}"
            return ToolReply({"error": error}, self._environment.canonical(name, arguments), error)
        try:
            reply = self._environment.call(name, arguments)
        except ServiceUnavailable as unavailable:
            self._lost[name] = str(unavailable)
            error = f"{name} is not available at present, which is not your fault: go on without it"
            return ToolReply({"error": error}, self._environment.canonical(name, arguments), error)
        if reply.error is None:
            self._lost.pop(name, None)
        return reply

    def _is_final(self, name: str, reply: ToolReply) -> bool:
        return reply.error is None and self._environment.is_final(ToolUse(name, reply.arguments or {}))

    def _record(self, name: str, arguments: object, reply: ToolReply, started: int) -> None:
        body: dict[str, Any] = {
            "name": name,
            "arguments": arguments,
            "canonical": reply.arguments,
            "content": reply.content,
            "error": reply.error,
            "repairs": list(reply.repairs),
            "elapsed_ms": self._witness.elapsed_ms(started),
        }
        self._witness.record("tool_call", body)

    def _failure(self, name: str, arguments: object, started: int, what: str) -> Response:
        message = f"environment: {name}: {what[:300]}"
        self._witness.refuse(f"tool {name}", message)
        self._witness.fail(message)
        return json_response(500, {"content": None, "error": "the arena failed; this is not your fault"})

    def _refusal(self, status: int, name: str, message: str) -> Response:
        self._witness.refuse(f"tool {name}", message)
        return json_response(status, {"content": message, "error": message})
