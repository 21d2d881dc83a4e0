"""Episodes made by hand with the recorder's event log: a shopper that searches, looks, recommends, ends."""

from __future__ import annotations

import json
import random
import uuid
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from storage.events import EventLog
from storage.traces import StoredJudgement, StoredTrace
from storage.trajectory import counts, to_atif


def _tool(name: str, description: str, required: list[str], **properties: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required}
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {**parameters, "additionalProperties": False},
        },
    }


TOOLS = [
    _tool(
        "find_product",
        "Search the catalog.",
        ["q"],
        q={"type": "string", "description": "words to look for"},
        page={"type": "integer", "minimum": 1},
        price={"type": "string", "description": "a range, 10-50"},
    ),
    _tool(
        "view_product_information", "Details of products.", ["product_ids"], product_ids={"type": "string"}
    ),
    _tool("recommend_product", "Recommend products.", ["product_ids"], product_ids={"type": "string"}),
    _tool(
        "terminate", "End the task.", ["status"], status={"type": "string", "enum": ["success", "failure"]}
    ),
]

_COLOURS = ("red", "blue", "green", "black", "white", "silver", "beige", "navy")
_THINGS = ("running shoes", "desk lamp", "water bottle", "phone case", "yoga mat", "backpack", "rain jacket")

SYSTEM = "You help a shopper. Search, compare what you find with every wish, recommend one product, and end."


class Shopper:
    """Records one episode. `step` records a model call with one tool call, and the tool's answer."""

    def __init__(self, number: int, *, seed: int = 0) -> None:
        chooser = random.Random(f"{seed}:{number}")
        self.thing = f"{chooser.choice(_COLOURS)} {chooser.choice(_THINGS)}"
        self.product_id = str(chooser.randrange(10**7, 10**8))
        self.price = chooser.randrange(5, 90)
        self.others = [str(chooser.randrange(10**7, 10**8)) for _ in range(5)]
        self.log, self.clock = EventLog(), 1_700_000_000_000
        self.number = number
        query = f"I want {self.thing} for at most {self.price + 5} dollars."
        problem = {"problem_id": f"problem-{number}", "environment": "shop", "category": "product"}
        self.problem = {**problem, "query": query}
        self.messages: list[dict[str, Any]] = [
            {"role": "system", "content": SYSTEM},
            {"role": "user", "content": query},
        ]
        self.log.append(
            "started",
            {
                "episode_id": f"episode-{number}",
                "problem": self.problem,
                "tools": TOOLS,
                "model": "m",
                "seed": 0,
            },
            at_ms=self._tick(),
        )

    def step(
        self,
        name: str,
        arguments: dict[str, Any] | str,
        reply: Any,
        reasoning: str = "",
        *,
        understood: bool = True,
        error: str | None = None,
        repairs: list[str] | None = None,
        execute: bool = True,
        finish_reason: str = "tool_calls",
        tagged: bool = False,
    ) -> Shopper:
        """One model call that emits one tool call."""
        written = arguments if isinstance(arguments, str) else json.dumps(arguments, separators=(",", ":"))
        canonical = json.loads(written) if understood else None
        call_id = f"call-{len(self.log.events)}"
        message: dict[str, Any] = {"role": "assistant", "content": None, "reasoning_content": reasoning}
        if tagged:
            block = f'<tool_call>{{"name": "{name}", "arguments": {written}}}</tool_call>'
            message = {"role": "assistant", "content": f"<think>{reasoning}</think>{block}"}
        else:
            function = {"name": name, "arguments": written}
            message["tool_calls"] = [{"id": call_id, "type": "function", "function": function}]
        self.model_call(
            message, [{"id": call_id, "name": name, "arguments": canonical}], finish_reason=finish_reason
        )
        if execute:
            self.tool(name, written, canonical, reply, error=error, repairs=repairs)
        self.messages.append({"role": "tool", "tool_call_id": call_id, "content": json.dumps(reply)})
        return self

    def model_call(
        self, message: dict[str, Any], emitted: list[dict[str, Any]], *, finish_reason: str = "stop"
    ) -> None:
        """Record a model call in the present context, and add its answer to the context."""
        body = {
            "call_id": f"c{len(self.log.events)}",
            "model": "m",
            "messages": [self.log.blob(m, at_ms=self._tick()) for m in self.messages],
            "tools": self.log.blob(TOOLS, at_ms=self._tick()),
            "params": {},
            "streamed": False,
            "elapsed_ms": 1,
            "response": {"message": message, "finish_reason": finish_reason, "usage": {}, "emitted": emitted},
        }
        self.log.append("model_call", body, at_ms=self._tick())
        self.messages.append(message)

    def tool(
        self,
        name: str,
        written: Any,
        canonical: dict[str, Any] | None,
        reply: Any,
        *,
        error: str | None = None,
        repairs: list[str] | None = None,
    ) -> None:
        """Record a tool call; without a model call before it, a scripted one."""
        body = {"name": name, "arguments": written, "canonical": canonical, "content": reply, "error": error}
        self.log.append("tool_call", {**body, "repairs": repairs or [], "elapsed_ms": 1}, at_ms=self._tick())

    def found(self) -> list[dict[str, Any]]:
        """What a search answers: near-twins, the wanted one third."""
        ids = [*self.others[:2], self.product_id, *self.others[2:]]
        return [
            {"product_id": i, "title": f"{self.thing} no. {i[-3:]}", "price": self.price + n, "shop": i[:3]}
            for n, i in enumerate(ids)
        ]

    def shop(self) -> Shopper:
        """The whole episode, all of it by the model."""
        self.step("find_product", {"q": self.thing, "page": 1}, self.found(), f"I need {self.thing}.")
        chosen = {"product_ids": self.product_id}
        details = [{**self.found()[2], "colour": self.thing.split()[0]}]
        self.step("view_product_information", chosen, details, f"{self.product_id} is cheap enough.")
        self.step("recommend_product", chosen, "ok", f"{self.product_id} fits every wish.")
        return self.step("terminate", {"status": "success"}, "ended", "All done.")

    def trace(
        self, *, end: str | None = "final", verdict: str = "solved", grade: float | None = 0.9
    ) -> StoredTrace:
        """The episode as the store would give it."""
        if end is not None:
            self.log.append("ended", {"reason": end, "detail": "", "claim": None}, at_ms=self._tick())
        events, found = self.log.events, counts(self.log.events)
        blank = StoredJudgement("judge", "r1", grade, None, None, (), (), 0.0, None)
        if grade is None:
            blank = replace(blank, unjudged="the judge could not answer")
        return StoredTrace(
            trace_id=_id(f"trace-{self.number}"),
            episode_id=_id(f"episode-{self.number}"),
            attempt=1,
            final=True,
            race_id=_id("race"),
            race_number=1,
            phase="qualifying",
            submission_id=_id("submission"),
            hotkey="5F",
            agent_name="shopper",
            suite_id="suite",
            problem_id=f"problem-{self.number}",
            category="product",
            cluster_id=f"cluster-{self.number // 2}",
            problem=self.problem,
            verdict=verdict,
            reason=None if verdict == "solved" else "wrong",
            outcome=None,
            events=events,
            chain_head=self.log.head,
            trajectory=to_atif(events).to_json_dict(),
            model_emitted=found.model_emitted,
            scripted=found.scripted,
            prompt_tokens=0,
            completion_tokens=0,
            wall_s=1.0,
            recorded_at=datetime(2026, 1, 1, tzinfo=UTC),
            judgement=blank,
        )

    def _tick(self) -> int:
        self.clock += 1
        return self.clock


def traces(count: int, *, seed: int = 0) -> list[StoredTrace]:
    """`count` good episodes, two problems a leak cluster."""
    return [Shopper(number, seed=seed).shop().trace() for number in range(count)]


def _id(name: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, name)
