"""Traces that the grounded judge judges on one core, in a day, beside reading their evidence from JSON.

The traces are long ones: a search, a page, a look at the candidates and a reasoned choice, again and again,
made from a seed. One process, one thread; events to evidence is part of judging, as it is for the worker.
The two are measured in turn, trace by trace, in one run.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any

from bench.figures import Figure, main
from judge.evidence import evidence
from judge.grounded import judge
from problems.shopping.tools import TOOLS
from storage.events import Event, EventLog

A_DAY_S = 86_400
GOAL = 20_000
LONG, LONGEST = 8, 31
"""Rounds of search and look, two model calls each. The longest is what the rules let an agent make."""
PAGE = 10
_THINGS = ("kettle", "backpack", "desk lamp", "rain jacket", "drill", "yoga mat", "mug", "phone case")
# fmt: off
_WORDS = (
    "steel", "travel", "folding", "cordless", "ceramic", "black", "white", "blue", "large", "compact",
    "waterproof", "portable", "wireless", "soft", "classic", "premium", "kids", "outdoor", "silent",
    "heavy", "light", "double", "wall", "handle", "grip", "lid", "strap", "pocket", "charger", "set",
)
# fmt: on
_COLOURS = ("black", "white", "blue", "red", "green")
_SERVICES = ("COD", "freeShipping", "official")


def measure(quick: bool) -> Sequence[Figure]:
    """Traces a day; the goal is that of one validator."""
    return [
        *_figures("long", LONG, 4 if quick else 24),
        *_figures("longest", LONGEST, 1 if quick else 4),
    ]


def _figures(kind: str, rounds: int, traces: int) -> list[Figure]:
    shopper = random.Random(20_000)
    judging: list[float] = []
    reading: list[float] = []
    sizes: list[int] = []
    for _ in range(traces):
        events = _episode(shopper, rounds)
        as_json = evidence(events).to_bytes()
        sizes.append(len(as_json))
        reading.append(_seconds(lambda given=as_json: json.loads(given)))
        judging.append(_seconds(lambda given=events: judge(evidence(given))))
    size = f"{kind} traces, {statistics.fmean(sizes) / 1024:.0f} KiB"
    return [
        Figure(
            f"grounded judge, one core: {size}",
            A_DAY_S / statistics.fmean(judging),
            "traces a day",
            baseline=A_DAY_S / statistics.fmean(reading),
            goal=GOAL,
            at_most=False,
        ),
        Figure(f"the slowest of {size}", max(judging) * 1000, "ms", baseline=max(reading) * 1000),
    ]


def _seconds(work: Any) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


class _Recording:
    """Writes the events of one long episode, a second apart."""

    def __init__(self, query: str) -> None:
        self._log = EventLog()
        self._calls = 0
        problem = {"problem_id": "p", "environment": "shopping", "category": "product", "query": query}
        tools = [tool.openai() for tool in TOOLS]
        started = {"episode_id": "e", "problem": problem, "tools": tools, "model": "m", "seed": 1}
        self._log.append("started", {**started, "limits": {}}, at_ms=self._now())

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far."""
        return self._log.events

    def turn(self, reasoning: str, tool: str, arguments: dict[str, Any], content: Any) -> None:
        """A model call with its reasoning, and the tool call that it emits."""
        self._calls += 1
        message = {"role": "assistant", "content": "", "reasoning_content": reasoning}
        emitted = [{"id": f"c{self._calls}", "name": tool, "arguments": arguments}]
        usage = {"prompt_tokens": 1000, "completion_tokens": len(reasoning) // 4}
        response = {"message": message, "finish_reason": "stop", "usage": usage, "emitted": emitted}
        asked = self._log.blob({"role": "user", "content": "go on"}, at_ms=self._now())
        call: dict[str, Any] = {
            "call_id": f"m{self._calls}",
            "model": "m",
            "messages": [asked],
            "tools": None,
            "params": {},
        }
        self._log.append(
            "model_call",
            {**call, "streamed": False, "elapsed_ms": 5, "response": response},
            at_ms=self._now(),
        )
        executed = {"name": tool, "arguments": arguments, "canonical": arguments, "content": content}
        self._log.append(
            "tool_call", {**executed, "error": None, "repairs": [], "elapsed_ms": 1}, at_ms=self._now()
        )

    def _now(self) -> int:
        return 1_700_000_000_000 + 1000 * len(self._log.events)


def _episode(shopper: random.Random, rounds: int) -> tuple[Event, ...]:
    thing = shopper.choice(_THINGS)
    low, high = 100, 900
    query = (
        f"I look for a {shopper.choice(_COLOURS)} {thing} with cash on delivery, priced between {low} and "
        f"{high} PHP, and I would rather have free shipping too."
    )
    recording = _Recording(query)
    best: dict[str, Any] | None = None
    seen: list[dict[str, Any]] = []
    for page in range(1, rounds + 1):
        words = " ".join(shopper.sample(_WORDS, 2))
        found = [_product(shopper, thing) for _ in range(PAGE)]
        recording.turn(
            _thought(shopper, seen) + f" Next I search for {words} {thing}, page {page}.",
            "find_product",
            {"q": f"{words} {thing}", "page": page},
            found,
        )
        seen += found
        looked = shopper.sample(found, 3)
        recording.turn(
            _thought(shopper, found),
            "view_product_information",
            {"product_ids": ",".join(product["product_id"] for product in looked)},
            [_details(shopper, product) for product in looked],
        )
        fitting = [p for p in seen if low <= p["price"] <= high and "COD" in p["service"]]
        best = min(fitting, key=lambda product: product["price"], default=best)
    chosen = best or seen[0]
    recording.turn(
        f"{_thought(shopper, [chosen, *seen[-8:]])} So {chosen['product_id']} at {chosen['price']} PHP lies "
        f"between {low} and {high}, offers cash on delivery, and is cheaper than the others; I recommend it.",
        "recommend_product",
        {"product_ids": chosen["product_id"]},
        f"Having recommended {chosen['product_id']}",
    )
    return recording.events


def _product(shopper: random.Random, thing: str) -> dict[str, Any]:
    return {
        "product_id": str(shopper.randrange(10**9, 10**10)),
        "shop_id": str(shopper.randrange(100, 999)),
        "title": " ".join([*shopper.sample(_WORDS, 7), thing]).title(),
        "price": round(shopper.uniform(60, 1200), 2),
        "service": shopper.sample(_SERVICES, shopper.randrange(len(_SERVICES) + 1)),
        "sold_count": shopper.randrange(500),
    }


def _details(shopper: random.Random, product: dict[str, Any]) -> dict[str, Any]:
    return {
        "product_id": product["product_id"],
        "short_description": " ".join(shopper.choices(_WORDS, k=20)),
        "description": " ".join(shopper.choices(_WORDS, k=150)),
        "sku_options": {str(n): {"color_family": shopper.choice(_COLOURS)} for n in range(4)},
        "attributes": {"material": shopper.sample(_WORDS, 2), "brand": [shopper.choice(_WORDS)]},
    }


def _thought(shopper: random.Random, seen: Sequence[dict[str, Any]]) -> str:
    """What a model says of up to six products: mostly true, in several sentences."""
    if len(seen) < 2:
        return "The query names a price range and a service, so I search with both set."
    said = []
    for one, other in zip(*[iter(shopper.sample(list(seen), min(6, len(seen) // 2 * 2)))] * 2, strict=False):
        cheaper, dearer = sorted((one, other), key=lambda product: product["price"])
        said.append(
            f"{cheaper['product_id']} ({cheaper['title']}) costs {cheaper['price']} PHP, while "
            f"{dearer['product_id']} costs {dearer['price']} PHP, so the first is cheaper than the second."
        )
        services = ", ".join(one["service"]) or "no service"
        said.append(f"The listing of {one['product_id']} shows {services} and {one['sold_count']} sold.")
    return " ".join(said)


if __name__ == "__main__":
    main(measure)
