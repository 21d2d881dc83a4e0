"""Small hand-written shopping episodes, as the recorder would have logged them."""

from __future__ import annotations

from typing import Any

from storage.events import Event, EventLog

TOOLS = [
    {"type": "function", "function": {"name": name, "description": name, "parameters": {"type": "object"}}}
    for name in ("find_product", "view_product_information", "recommend_product", "terminate")
]

QUERY = "Show me black ceramic mugs that support cash on delivery, priced between 100 and 200 PHP."

MUGS = [
    {
        "product_id": "5113553158",
        "shop_id": "901",
        "title": "Hoshi Studio Ceramic Mug Wide Handle 350ml",
        "price": 149.5,
        "service": ["COD", "freeShipping"],
        "sold_count": 31,
    },
    {
        "product_id": "4797792514",
        "shop_id": "902",
        "title": "Big Morning Stoneware Cup Black Matte Glaze",
        "price": 185.0,
        "service": ["COD"],
        "sold_count": 8,
    },
    {
        "product_id": "3729609901",
        "shop_id": "901",
        "title": "Travel Tumbler Double Wall Steel",
        "price": 420.0,
        "service": [],
        "sold_count": 2,
    },
]

MUG_DETAILS = [
    {
        "product_id": "5113553158",
        "short_description": "",
        "description": "",
        "sku_options": {"1": {"color_family": "black"}},
        "attributes": {"material": ["ceramic"]},
    },
    {
        "product_id": "4797792514",
        "short_description": "",
        "description": "",
        "sku_options": {"1": {"color_family": "black"}},
        "attributes": {"material": ["stoneware"]},
    },
]

PLAN = (
    "The query asks for black ceramic mugs with cash on delivery between 100 and 200 PHP, so I will search "
    "for them with the price range and the service set."
)

COMPARISON = (
    "5113553158 costs 149.5 PHP and its material is ceramic, while 4797792514 costs 185 PHP and is stoneware"
    ". So 5113553158 is cheaper than 4797792514 and has the right material."
)

CLOSING = (
    "Check: black is an option of 5113553158, it supports cash on delivery, and its price of 149.5 PHP lies "
    "between 100 and 200. All constraints hold, so I recommend 5113553158."
)


class Episode:
    """Writes an episode's events, one call after another; the clock ticks a second an event."""

    def __init__(self, query: str = QUERY, **started: Any) -> None:
        self._log = EventLog()
        self._now = int(started.pop("begin_ms", 1_700_000_000_000))
        self._calls = 0
        problem = {
            "problem_id": started.pop("problem_id", "p1"),
            "environment": "shopping",
            "category": "product",
            "query": query,
        }
        self._put(
            "started",
            {"episode_id": "e1", "problem": problem, "tools": TOOLS, "model": "m", "seed": 1},
            started,
        )

    def think(self, reasoning: str, *calls: tuple[str, dict[str, Any]], tokens: int | None = None) -> Episode:
        """A model call that answers with `reasoning` and emits `calls`."""
        self._calls += 1
        emitted = [
            {"id": f"c{self._calls}-{n}", "name": name, "arguments": arguments}
            for n, (name, arguments) in enumerate(calls)
        ]
        usage = {"prompt_tokens": 100, "completion_tokens": len(reasoning) // 4 if tokens is None else tokens}
        message = {"role": "assistant", "content": "", "reasoning_content": reasoning}
        user = self._log.blob({"role": "user", "content": "go on"}, at_ms=self._tick())
        self._put(
            "model_call",
            {
                "call_id": f"m{self._calls}",
                "model": "m",
                "messages": [user],
                "tools": None,
                "params": {},
                "streamed": False,
                "elapsed_ms": 5,
                "response": {"message": message, "finish_reason": "stop", "usage": usage, "emitted": emitted},
            },
        )
        return self

    def tool(self, name: str, arguments: dict[str, Any], content: Any, error: str | None = None) -> Episode:
        """An executed tool call and its result."""
        self._put(
            "tool_call",
            {
                "name": name,
                "arguments": arguments,
                "canonical": arguments,
                "content": content,
                "error": error,
                "repairs": [],
                "elapsed_ms": 1,
            },
        )
        return self

    def search(self, reasoning: str = PLAN, found: Any = None, tokens: int | None = None) -> Episode:
        """The model searches and finds mugs."""
        call = {"q": "black ceramic mug", "page": 1}
        self.think(reasoning, ("find_product", call), tokens=tokens)
        return self.tool("find_product", call, MUGS if found is None else found)

    def view(self, reasoning: str) -> Episode:
        """The model looks at two mugs."""
        call = {"product_ids": "5113553158,4797792514"}
        self.think(reasoning, ("view_product_information", call))
        return self.tool("view_product_information", call, MUG_DETAILS)

    def recommend(self, reasoning: str, ids: str = "5113553158") -> Episode:
        """The model answers."""
        call = {"product_ids": ids}
        self.think(reasoning, ("recommend_product", call))
        return self.tool("recommend_product", call, f"Having recommended {ids}")

    @property
    def events(self) -> tuple[Event, ...]:
        """The log, ended."""
        return self._log.events

    def _put(self, kind: Any, body: dict[str, Any], more: dict[str, Any] | None = None) -> None:
        self._log.append(kind, {**body, **(more or {})}, at_ms=self._tick())

    def _tick(self) -> int:
        self._now += 1000
        return self._now
