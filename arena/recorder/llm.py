"""Model calls: checked, metered, passed on with a key the agent never sees, and recorded with their context.

A streamed answer is recorded as the whole that it makes. It is taken from the provider to its end whether or
not the agent goes on listening: hanging up saves no tokens, and hides nothing from the record. The one thing
to know: a call lost for the provider's reasons sets `provider_fault`, and only a call that began later and
succeeded clears it; the episode's verdict depends on that.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from arena import strict_json
from arena.recorder.answers import LiveAnswer, whole
from arena.recorder.budget import NANO, BudgetSpent, Grant
from arena.recorder.chat import (
    ChatError,
    ChatRequest,
    GivenUsage,
    Reply,
    check_own_schema,
    parse_request,
)
from arena.recorder.emitted import emitted_calls
from arena.recorder.upstream import Asking, KeyRefused, Model, ProviderFault, RequestRejected
from arena.recorder.wire import Response, json_response
from arena.recorder.witness import Witness
from problems.environment import Environment
from storage.events import canonical

BYTES_PER_TOKEN = 4
"""For providers that report no usage: a rough English average, only ever used to keep a budget finite."""
PROVIDER_FAILED = "the model's provider failed: "
PROVIDER_REJECTED = "the model's provider: "
OWN_KEY_REFUSED = "the provider refused your own key: "
NOT_ASKED = "not asked again"
"""How errors begin that say what a provider did, and the one of them by which it was not even asked."""
CUT = "interrupted"
"""The finish reason of an answer that the agent had begun to read when the episode ended."""


def derived_seed(episode_seed: int, call_number: int) -> int:
    """The sampling seed of a model call whose agent gave none: 31 bits, the same for the same episode."""
    name = f"model call {call_number} of {episode_seed}".encode()
    return int.from_bytes(hashlib.sha256(name).digest()[:4], "big") >> 1


class ModelDesk:
    """Makes the model calls of one episode."""

    def __init__(
        self,
        witness: Witness,
        environment: Environment,
        tools: Sequence[Mapping[str, Any]],
        upstream: Model,
        seed: int,
    ) -> None:
        """`tools` are those of the problem, in OpenAI form."""
        self._witness = witness
        self._environment = environment
        self._schemas = {tool["function"]["name"]: _plain(tool["function"]["parameters"]) for tool in tools}
        self._upstream = upstream
        self._seed = seed
        self._begun = 0
        self._lost = 0
        self._last_loss = 0
        self._asking = asyncio.Semaphore(witness.meter.budget.concurrent_requests)
        self._streaming: set[asyncio.Task[Response]] = set()
        self.key_refused: str | None = None
        """Why the provider would not serve the miner's own key, if it did not."""
        self.provider_fault: str | None = None
        """Why a model call was lost, if none that began later succeeded."""

    def models(self) -> Response:
        """Answer `GET /v1/models`."""
        listed = [
            {"id": name, "object": "model", "created": 0, "owned_by": "arena"}
            for name in ("default", *self._upstream.models)
        ]
        return json_response(200, {"object": "list", "data": listed})

    async def chat(self, body: bytes) -> Response:
        """Answer `POST /v1/chat/completions`."""
        if self._witness.finished.is_set():
            return self._refusal(409, "episode_over", "the episode is over: no further call counts")
        try:
            request = parse_request(strict_json.loads(body, max_bytes=self._witness.meter.budget.body_bytes))
            self._check_tools(request)
        except (strict_json.StrictJsonError, ChatError) as error:
            return self._refusal(400, "invalid_request", str(error))
        self._begun += 1
        call = _Call(self._witness, request, self._begun, derived_seed(self._seed, self._begun))
        model = self._upstream.resolve(request.model)
        if model is None:
            known = ", ".join(("default", *self._upstream.models))
            return call.error("agent", 404, "model_not_found", f"no such model here; there is: {known}")
        limit = self._witness.meter.budget.prompt_bytes_per_call
        if call.prompt_bytes > limit:
            return call.error(
                "agent", 413, "prompt_too_large", f"send at most {limit} bytes of messages and tools"
            )
        try:
            granted = self._witness.meter.start_model_call(
                request.wanted_tokens,
                prompt_tokens=call.prompt_bytes // BYTES_PER_TOKEN,
                price=self._upstream.prices.get(model),
            )
        except BudgetSpent as spent:
            return call.error("budget", 429, "budget_spent", str(spent), which=spent.which)
        call.model, call.params["max_tokens"] = model, granted.completion_tokens
        if not request.stream:
            return await self._ask(call, granted, None)
        return await self._stream(call, granted)

    async def close(self) -> None:
        """Give up the streams that are open. What an agent has read of them is recorded."""
        for task in self._streaming:
            task.cancel()
        await asyncio.gather(*self._streaming, return_exceptions=True)

    async def _stream(self, call: _Call, granted: Grant) -> Response:
        live = call.live()
        answering = asyncio.create_task(self._ask(call, granted, live))
        self._streaming.add(answering)
        answering.add_done_callback(self._streaming.discard)
        await live.first(answering)
        if answering.done() and answering.result().status != 200 and not live.begun:
            return answering.result()
        return Response(200, b"", "text/event-stream", stream=live.pieces(answering))

    def _check_tools(self, request: ChatRequest) -> None:
        """Raise ChatError when a tool of the problem is offered with a schema that is not its own.

        A schema that allows one value only would make the model's call for it; a tool has one schema anyway.
        Other tools may be offered, though nothing here executes them, with a schema that is simple.
        """
        for tool in request.tools or ():
            function = tool.function
            if function.name not in self._schemas:
                check_own_schema(function.name, function.parameters)
            elif self._schemas[function.name] != function.parameters:
                raise ChatError(
                    f"tools: {function.name} must be offered with its own parameters, as /problem gives them"
                )

    async def _ask(self, call: _Call, granted: Grant, live: LiveAnswer | None) -> Response:
        asking = Asking(
            jitter=call.seed / 2**31,
            left_s=self._witness.left_s,
            say=None if live is None else live.say,
        )
        settled = False
        try:
            if self.key_refused is not None:
                raise KeyRefused(self.key_refused, 402)
            if self._lost >= self._witness.meter.budget.lost_model_calls:
                raise ProviderFault(f"{NOT_ASKED} after too many lost calls")
            async with self._asking:
                reply = await self._upstream.complete(call.payload(), asking)
            settled = True
            return self._answered(call, reply, granted, live)
        except RequestRejected as rejected:
            settled = True
            self._settle(call, granted, GivenUsage(prompt_tokens=0, completion_tokens=0))
            return call.error("agent", rejected.status, "rejected", f"{PROVIDER_REJECTED}{rejected}")
        except KeyRefused as refused:
            self.key_refused = str(refused)
            return call.error("key", 402, "key_refused", f"{OWN_KEY_REFUSED}{refused}")
        except ProviderFault as fault:
            self._lose(call, str(fault))
            said = live.message() if live is not None and live.begun else None
            message = f"{PROVIDER_FAILED}{fault}"
            return call.error("provider", 502, "provider", message, said=said)
        except asyncio.CancelledError:
            settled = self._interrupted(call, granted, asking, live)
            raise
        finally:
            if not settled:
                self._witness.meter.refund_model_call(granted)

    def _answered(self, call: _Call, reply: Reply, granted: Grant, live: LiveAnswer | None) -> Response:
        usage = reply.usage or call.estimated(reply.message)
        self._settle(call, granted, usage)
        if self._witness.finished.is_set() and not (live and live.begun):
            return self._refusal(409, "episode_over", "the episode ended before the model answered")
        self._record(call, reply, usage)
        if call.number > self._last_loss:
            self.provider_fault = None
        shown = replace(reply, usage=usage)
        return call.answer(shown) if live is None else live.end(shown)

    def _record(self, call: _Call, reply: Reply, usage: GivenUsage) -> None:
        price = self._upstream.prices.get(call.model)
        cost = price and price.nanodollars(usage.prompt_tokens, usage.completion_tokens) / NANO
        call.record(
            response={
                "message": reply.message,
                "finish_reason": reply.finish_reason,
                "usage": {
                    **usage.model_dump(),
                    "estimated": reply.usage is None,
                    **({} if cost is None else {"usd": cost}),
                },
                **({} if reply.logprobs is None else {"logprobs": reply.logprobs}),
                **({"provider": reply.provider} if reply.provider else {}),
                "emitted": emitted_calls(reply.message, self._environment, call.call_id),
            }
        )

    def _settle(self, call: _Call, granted: Grant, usage: GivenUsage) -> None:
        self._witness.meter.end_model_call(
            granted,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            price=self._upstream.prices.get(call.model),
        )

    def _lose(self, call: _Call, message: str) -> None:
        self._lost += 1
        self._last_loss = self._begun
        self.provider_fault = f"{call.model}: {message}"

    def _interrupted(self, call: _Call, granted: Grant, asking: Asking, live: LiveAnswer | None) -> bool:
        """The episode ended while the call was open; whether it is settled.

        What the agent has read is the model's word. Else, if the provider was already failing, it is lost.
        """
        if live is not None and live.begun:
            usage = call.estimated(live.message())
            self._settle(call, granted, usage)
            self._record(call, Reply(live.message(), CUT, None), usage)
            return True
        if asking.faults:
            self._lose(call, str(asking.faults[-1]))
            message = f"{PROVIDER_FAILED}{asking.faults[-1]}"
            call.error("provider", 502, "provider", message)
        else:
            self._witness.refuse("chat", "the episode ended before the model answered")
        return False

    def _refusal(self, status: int, code: str, message: str) -> Response:
        self._witness.refuse("chat", message)
        return _error_response(status, "invalid_request_error", code, message)


class _Call:
    """One model call, from a valid request to its event and answer."""

    def __init__(self, witness: Witness, request: ChatRequest, number: int, seed: int) -> None:
        self._witness = witness
        self._request = request
        self._started = witness.now_ms()
        self.number = number
        self.seed = seed
        self.call_id = f"model-{number}"
        self.model = request.model[:128]
        self.params = request.params(
            seed=seed, max_tokens=request.wanted_tokens or 0, sampling=witness.meter.budget
        )
        self._messages, self._tools = request.prompt()
        # Written once, for the record and to be measured: it is most of what a call costs us.
        self._message_texts = [canonical(message) for message in self._messages]
        self._tools_text = canonical(self._tools) if self._tools else ""

    def payload(self) -> dict[str, Any]:
        """What the provider is sent."""
        tools = {"tools": self._tools} if self._tools else {}
        return {"model": self.model, "messages": self._messages, **tools, **self.params, "stream": False}

    @cached_property
    def prompt_bytes(self) -> int:
        """The size of what the model reads, as JSON."""
        return len(",".join(self._message_texts).encode()) + len(self._tools_text.encode())

    def record(self, **result: Any) -> None:
        """Append the event. `result` is `response` or `error`."""
        body = {
            "call_id": self.call_id,
            "model": self.model,
            "messages": list(map(self._witness.blob, self._message_texts, self._messages)),
            "tools": self._witness.blob(self._tools_text, self._tools) if self._tools else None,
            "params": self.params,
            "streamed": bool(self._request.stream),
            "elapsed_ms": self._witness.elapsed_ms(self._started),
            **result,
        }
        self._witness.record("model_call", body)

    def error(
        self,
        kind: str,
        status: int,
        code: str,
        message: str,
        *,
        which: str | None = None,
        said: dict[str, Any] | None = None,
    ) -> Response:
        """Record that there is no answer, and say so to the agent. `said` is what it had read of one."""
        if said is not None or self._witness.may_log_refusal():
            broken = {} if said is None else {"said": said}
            self.record(error={"kind": kind, "message": message, "status": status, **broken})
        return _error_response(status, f"{kind}_error", code, message, which)

    def estimated(self, message: Mapping[str, Any]) -> GivenUsage:
        """What the call cost, for a provider that does not say."""
        return GivenUsage(
            prompt_tokens=self.prompt_bytes // BYTES_PER_TOKEN,
            completion_tokens=len(repr(message)) // BYTES_PER_TOKEN,
        )

    def answer(self, reply: Reply) -> Response:
        """The answer as a whole."""
        body = whole(reply, call_id=self.call_id, model=self.model, created=self._started // 1000)
        return json_response(200, body)

    def live(self) -> LiveAnswer:
        """The answer in pieces."""
        options = self._request.stream_options
        return LiveAnswer(
            self.call_id,
            self.model,
            self._started // 1000,
            include_usage=options is not None and bool(options.include_usage),
        )


def _plain(schema: object) -> object:
    """A schema as it looks after a trip through JSON, as an agent sends it back."""
    return json.loads(json.dumps(schema))


def _error_response(status: int, kind: str, code: str, message: str, which: str | None = None) -> Response:
    error = {"message": message, "type": kind, "code": code, "param": which}
    # The openai package would otherwise retry by itself what we have already retried, or what cannot change.
    return json_response(status, {"error": error}, {"x-should-retry": "false"})
