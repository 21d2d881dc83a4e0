"""What a conversation has shown so far: the request, the calls made, and the products in their results.

This is all the shopper ever knows. It keeps nothing between requests, and reaches nothing but the messages.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from arena.scripted_shopper.wish import Item

_IN_TITLE = 0.6
"""What a quality is worth that only the title tells: a title may call a thing what no option of it is."""
_IN_OTHER_VALUE = 0.4
_KIND_WEIGHT = 0.25
_WORD = re.compile(r"[^\W_]+(?:[.'’\-/&%:][^\W_]+)*%?")


@dataclass(frozen=True, slots=True)
class PastCall:
    """A tool call with its result as a JSON value; `result` is None while there is none."""

    name: str
    arguments: Mapping[str, Any]
    result: Any

    @property
    def records(self) -> list[Mapping[str, Any]]:
        """The product records of the result; none when it was an error."""
        return list(product_records(self.result))


@dataclass(slots=True)
class KnownProduct:
    """What results said of one product. `rank` is the order in which products first turned up."""

    product_id: str
    rank: int
    title: str = ""
    price: float | None = None
    shop_id: str = ""
    services: tuple[str, ...] = ()
    viewed: bool = False
    attributes: tuple[str, ...] = ()
    options: tuple[tuple[str, ...], ...] = ()
    keys: tuple[str, ...] = ()
    """Names of attributes and option fields, in words."""

    def credits(self, item: Item) -> dict[str, float]:
        """How surely it bears each wanted word, 0 to 1, with the option that bears most.

        A value counts in full only when all of it was asked for: "short sleeve" is no "long sleeve".
        """
        best: dict[str, float] = dict.fromkeys(item.words, 0.0)
        for option in self.options or ((),):
            credits = self._credits(item, option)
            best = max(best, credits, key=lambda c: sum(map(c.__getitem__, item.features)))
        return best

    def _credits(self, item: Item, option: tuple[str, ...]) -> dict[str, float]:
        asked, title = _stems(item.text), _stems(self.title)
        values = [_stems(value) for value in (*self.attributes, *option)]
        credits = {}
        for word in item.words:
            root = stem(word)
            sure = _IN_TITLE if word in item.qualities else 1.0
            borne = [1.0 if value <= asked else _IN_OTHER_VALUE for value in values if root in value]
            credits[word] = max(borne, default=0.0)
            if root in title:
                credits[word] = max(credits[word], sure)
        return credits

    def named(self, words: Iterable[str]) -> tuple[str, ...]:
        """Those of `words` that its title holds."""
        title = _stems(self.title)
        return tuple(word for word in words if stem(word) in title)

    def matched(self, item: Item) -> tuple[str, ...]:
        """The wanted words that this product bears: in its title, or in a value that was asked for whole."""
        return tuple(word for word, credit in self.credits(item).items() if credit > _IN_OTHER_VALUE)

    def missing(self, item: Item) -> tuple[str, ...]:
        """The telling words that it does not surely bear, names of its own fields left out."""
        credits, named = self.credits(item), _stems(" ".join(self.keys))
        return tuple(w for w in item.features if credits[w] < 1.0 and (credits[w] or stem(w) not in named))

    def coverage(self, item: Item) -> float:
        """The share of the wanted words that it bears, 0 to 1; the name of the kind counts for little."""
        credits, named = self.credits(item), _stems(" ".join(self.keys))
        weights = dict.fromkeys(item.kind, _KIND_WEIGHT) | dict.fromkeys(item.features, 1.0)
        counted = {w: x for w, x in weights.items() if credits[w] or stem(w) not in named}
        whole = sum(counted.values())
        return sum(x * credits[w] for w, x in counted.items()) / whole if whole else 0.0

    def bearing(self, item: Item) -> tuple[str, ...]:
        """The attribute and option values that hold a wanted word, as the results write them."""
        wanted = _stems(" ".join(item.features))
        values = [*self.attributes, *(value for option in self.options for value in option)]
        return tuple(dict.fromkeys(value for value in values if _stems(value) & wanted))

    def fits(self, item: Item) -> bool:
        """Whether price and services are as wanted, as far as results tell."""
        price_fits = self.price is None or item.fits_price(self.price)
        return price_fits and set(item.services) <= set(self.services)


@dataclass(slots=True)
class Conversation:
    """A conversation, read."""

    request: str
    calls: tuple[PastCall, ...]
    products: dict[str, KnownProduct] = field(default_factory=dict)

    def named(self, name: str) -> list[PastCall]:
        """The calls of one tool."""
        return [call for call in self.calls if call.name == name]

    def result_of(self, name: str, arguments: Mapping[str, Any]) -> PastCall | None:
        """The call with exactly these arguments, if it was made."""
        return next((c for c in self.calls if c.name == name and dict(c.arguments) == dict(arguments)), None)


def read_conversation(messages: Sequence[Mapping[str, Any]]) -> Conversation:
    """Read OpenAI chat messages. The request is the first user message."""
    request = next((text_of(m) for m in messages if m.get("role") == "user"), "")
    results = {str(m.get("tool_call_id")): text_of(m) for m in messages if m.get("role") == "tool"}
    calls = []
    for message in messages:
        for call in message.get("tool_calls") or ():
            function = call.get("function") or {}
            arguments = _json(function.get("arguments"))
            result = _json(results[str(call.get("id"))]) if str(call.get("id")) in results else None
            calls.append(
                PastCall(str(function.get("name")), arguments if isinstance(arguments, dict) else {}, result)
            )
    conversation = Conversation(request, tuple(calls))
    for past in calls:
        for record in past.records:
            learn(conversation.products, record)
    return conversation


def learn(products: dict[str, KnownProduct], record: Mapping[str, Any]) -> None:
    """Add what a result's record says to `products`."""
    product_id = str(record["product_id"])
    known = products.setdefault(product_id, KnownProduct(product_id, len(products)))
    if isinstance(record.get("title"), str):
        known.title = record["title"]
    price = record.get("price")
    if isinstance(price, (int, float)) and not isinstance(price, bool):
        known.price = float(price)
    if "shop_id" in record:
        known.shop_id = str(record["shop_id"])
    if isinstance(record.get("service"), list):
        known.services = tuple(map(str, record["service"]))
    if "attributes" in record or "sku_options" in record:
        known.viewed = True
        options = record.get("sku_options") or {}
        known.attributes = tuple(_leaves(record.get("attributes")))
        each = options.values() if isinstance(options, Mapping) else options
        known.options = tuple(tuple(_leaves(option)) for option in each)
        known.keys = tuple(dict.fromkeys(_keys([record.get("attributes"), list(each)])))


def product_records(value: Any) -> Iterator[Mapping[str, Any]]:
    """All records with a product id in a JSON value."""
    if isinstance(value, Mapping):
        if "product_id" in value:
            yield value
        else:
            for inner in value.values():
                yield from product_records(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from product_records(inner)


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message's content, which may be a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "\n".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def stem(word: str) -> str:
    """A word without its plural or possessive ending: enough to meet its other forms."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ses", "xes", "ches", "shes")):
        return word[:-2]
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


@lru_cache(maxsize=16_384)
def _stems(text: str) -> frozenset[str]:
    """The stems of a text's words and of the parts of compounds. Cached: the same titles come every turn."""
    whole = {stem(match.group()) for match in _WORD.finditer(text)}
    return frozenset(whole | {stem(part) for word in whole for part in re.split(r"[\-/&:]", word) if part})


def _leaves(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for inner in value.values():
            yield from _leaves(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key).replace("_", " ")
            yield from _keys(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _keys(inner)


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
