"""Queries in a language model's words, taken only when they can be read back.

One call writes the wish from the constraints; it never sees a title or an id. Another call, which sees the
text alone with a list of things that might be asked for (decoys among them), reads the constraints back. What
it reads must be exactly what was given: no constraint more, fewer or other. Budget, voucher rules and the
question of a web problem stay the fixed text that they are. After `tries` the template's words stay, or the
problem is left out, as the caller chooses; what happened to each is counted.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import openai
from pydantic import BaseModel, ConfigDict, ValidationError

from problems.shopping.answer import Target, read_answer
from problems.shopping.certificate import holds_words, id_told, title_told
from problems.shopping.identity import answered
from problems.shopping.product import SERVICES
from problems.shopping.synthesis import Certified
from problems.shopping.verbaliser import VerbaliserError, voucher_text

LLM_VERBALISER = "llm-verbaliser-1"
MAX_TEXT = 1_500
"""Characters of a wish."""
_LINK = " The answer stands in the name of what I want."
"""After the wish of a web problem, which begins with a question."""
_DECOYS = 8
_MAX_TOKENS = 2_048

_WRITE = """You write what a shopper says to a shopping assistant. Say every requirement of the JSON you get,
each feature with its value word for word, and nothing that is not in it. Use natural, varied language. Name
the service official as LazMall and flashsale as LazFlash. Prices are in PHP: "low" is the least, "high" the
most. {together} Answer with the shopper's words alone."""
_TOGETHER = {
    True: "Say that one shop must sell all items.",
    False: "Say nothing about shops selling things together.",
}
_READ = """You read what a shopper wants and answer with JSON alone, of this form:
{"items": [{"kind": "...", "features": [["key", "value"]], "services": [], "low": null, "high": null}],
"one_shop": false}
One entry for each item, in the order in which they are named. "kind" is one of KINDS. Each feature has a key
out of KEYS and the value word for word as the shopper says it. "services" are out of SERVICES: official means
LazMall, flashsale LazFlash, COD cash on delivery. "low" and "high" bound the price in PHP. "one_shop" says
whether one shop must sell all items. Leave out what the shopper does not say."""


class _Item(BaseModel):
    model_config = ConfigDict(extra="ignore")

    kind: str = ""
    features: list[tuple[str, str]] = []
    services: list[str] = []
    low: float | None = None
    high: float | None = None


class _Read(BaseModel):
    model_config = ConfigDict(extra="ignore")

    items: list[_Item]
    one_shop: bool = False


@dataclass(frozen=True, slots=True)
class Reworded:
    """The problems to keep, how many have the model's words, and why others have not."""

    problems: tuple[Certified, ...]
    accepted: int
    rejected: dict[str, int] = field(default_factory=dict)
    """Problems whose last try was rejected, by reason."""


class LlmVerbaliser:
    """Rewords certified problems by an OpenAI-compatible endpoint. `reader` is the model that reads back."""

    def __init__(
        self,
        client: openai.AsyncOpenAI,
        writer: str,
        reader: str | None = None,
        *,
        tries: int = 3,
        concurrency: int = 8,
        temperature: float = 0.7,
    ) -> None:
        if tries < 1 or concurrency < 1:
            raise ValueError("a verbaliser needs at least one try and one request at a time")
        self._client = client
        self._writer = writer
        self._reader = reader or writer
        self._tries = tries
        self._gate = asyncio.Semaphore(concurrency)
        self._temperature = temperature

    async def reword(self, problems: Sequence[Certified], *, fall_back: bool) -> Reworded:
        """The problems in the model's words where those could be read back.

        The others keep their own words (`fall_back`) or are left out. Raises VerbaliserError when the
        endpoint refuses the key, the model or the address.
        """
        nouns = sorted({noun for one in problems for noun in one.nouns})
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(one, nouns)) for one in problems]
        except* VerbaliserError as refused:
            raise refused.exceptions[0] from None
        kept: list[Certified] = []
        reasons: Counter[str] = Counter()
        accepted = 0
        for one, task in zip(problems, tasks, strict=True):
            found = task.result()
            if isinstance(found, Certified):
                kept.append(found)
                accepted += 1
            else:
                reasons[found] += 1
                kept += [one] if fall_back else []
        return Reworded(tuple(kept), accepted, dict(reasons.most_common()))

    async def _one(self, one: Certified, nouns: Sequence[str]) -> Certified | str:
        """The problem in the model's words, or why its last try was rejected."""
        answer = read_answer(one.problem)
        before = f"{one.question} " if one.question else ""
        after = _LINK if one.question else ""
        after += "" if answer.voucher is None else voucher_text(answer.voucher)
        together = one.problem.problem.category == "shop"
        wanted = [_asked(noun, target) for noun, target in zip(one.nouns, _targets(one), strict=True)]
        reason = "nothing was tried"
        async with self._gate:
            for _ in range(self._tries):
                try:
                    text = await self._write(wanted, together)
                    read = await self._read(text, one, nouns)
                except (openai.APITimeoutError, openai.APIConnectionError, openai.InternalServerError):
                    reason = "the endpoint did not answer"
                    continue
                except openai.RateLimitError:
                    reason = "the endpoint asked for fewer requests"
                    continue
                except openai.APIStatusError as error:
                    raise VerbaliserError(
                        f"the endpoint refuses requests (HTTP {error.status_code}): check its address, the "
                        "model's name and OPENAI_API_KEY"
                    ) from None
                found = _rejected(text, read, wanted, together) or _told(
                    text, answer.reward, answer.knowledge
                )
                if found is None:
                    return _with_query(one, f"{before}{text}{after}")
                reason = found
        return reason

    async def _write(self, wanted: Sequence[_Item], together: bool) -> str:
        asked = json.dumps([item.model_dump() for item in wanted], ensure_ascii=False)
        reply = await self._ask(
            self._writer, _WRITE.format(together=_TOGETHER[together]), asked, self._temperature
        )
        return " ".join(reply.strip().strip('"').split())

    async def _read(self, text: str, one: Certified, nouns: Sequence[str]) -> str:
        keys = {key for target in _targets(one) for key, _ in target.pairs()}
        others = [noun for noun in nouns if noun not in one.nouns]
        kinds = sorted({*one.nouns, *others[:_DECOYS]})
        system = f"{_READ}\nKINDS: {json.dumps(kinds)}\nKEYS: {json.dumps(sorted(keys | _OFTEN))}\n"
        return await self._ask(self._reader, f"{system}SERVICES: {json.dumps(SERVICES)}", text, 0.0)

    async def _ask(self, model: str, system: str, user: str, temperature: float) -> str:
        reply = await self._client.chat.completions.create(
            model=model,
            messages=[{"role": "system", "content": system}, {"role": "user", "content": user}],
            temperature=temperature,
            max_tokens=_MAX_TOKENS,
        )
        text = (reply.choices[0].message.content or "") if reply.choices else ""
        return text.rpartition("</think>")[2]


_OFTEN = frozenset({"brand", "color_family", "size", "material", "pattern", "recommended_gender"})
"""Keys that are always on offer to the reader, so that not every one stands for a constraint."""


def _targets(one: Certified) -> list[Target]:
    """What is asked of each target; of a web problem too, whose rules look at less than is asked."""
    rewards = one.problem.answer["reward"]
    return [Target.model_validate(reward) for reward in (rewards if isinstance(rewards, list) else [rewards])]


def _asked(noun: str, target: Target) -> _Item:
    return _Item(
        kind=noun,
        features=sorted(target.pairs()),
        services=list(target.service),
        low=max((p.low for p in target.price if p.low is not None), default=None),
        high=min((p.high for p in target.price if p.high is not None), default=None),
    )


def _rejected(text: str, reply: str, wanted: Sequence[_Item], together: bool) -> str | None:
    """Why the text is not taken; None when exactly what was wanted was read from it."""
    if not text or len(text) > MAX_TEXT:
        return "the text is empty or too long"
    start, end = reply.find("{"), reply.rfind("}")
    try:
        read = _Read.model_validate_json(reply[start : end + 1])
    except ValidationError:
        return "the reading is not the JSON that was asked for"
    if len(read.items) != len(wanted):
        return "another number of items was read"
    if len(wanted) > 1 and read.one_shop != together:
        return "another wish about shops was read"
    for found, item in zip(read.items, wanted, strict=True):
        if _same(found.kind) != _same(item.kind):
            return "another kind was read"
        if {tuple(map(_same, pair)) for pair in found.features} != {
            tuple(map(_same, pair)) for pair in item.features
        }:
            return "other features were read"
        if set(found.services) != set(item.services):
            return "other services were read"
        if (found.low, found.high) != (item.low, item.high):
            return "another price was read"
    return None


def _told(text: str, targets: Sequence[Target], knowledge: str | None) -> str | None:
    if id_told(text, [target.product_id for target in targets]):
        return "the text holds an id"
    if any(title_told(text, title) for target in targets for title in target.title):
        return "the text holds a title"
    return "the text holds the answer" if knowledge and holds_words(text, knowledge) else None


def _same(text: str) -> str:
    return " ".join(text.casefold().split())


def _with_query(one: Certified, query: str) -> Certified:
    """The same problem asked in other words: another id, the same targets."""
    old = one.problem.problem
    ids = [target.product_id for target in read_answer(one.problem).reward]
    new = answered(
        old.category, query, one.problem.answer, ids, scope=old.problem_id, difficulty=old.difficulty
    )
    kept = [key for key in one.problem.leak_keys if key.startswith("fact:")]
    keys = tuple(sorted({*new.leak_keys, *kept}))
    return Certified(new.model_copy(update={"leak_keys": keys}), one.nouns, one.satisfying, one.question)
