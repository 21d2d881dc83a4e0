"""From recorder events to turns and tool records: who did what, in order.

The one thing to know: whether a tool call belongs to the model or to the script is decided here and nowhere
else. A `tool_call` event is *model-emitted* when an earlier model response of the episode carries a call with
the same name and equal canonical arguments that was not used up yet (the oldest unused one is used first);
otherwise it is *scripted*. A call whose arguments could not be understood matches an emitted call of the same
name that could not be understood either: the tool refuses both alike.

Everything here is a pure function of the events. Nothing that the agent printed, wrote or returned enters,
with one exception that stands apart: the answer of an agent that returned it instead of calling the tool for
it (`ClaimedAnswer`). It is no turn and no tool record; it counts as a call of the script, unless the model
emitted it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from storage.events import BrokenChain, Event, blobs

UNFINISHED = "unfinished"
"""The end reason of a log that stops without an `ended` event."""

_THINK = re.compile(r"<think>(.*?)(?:</think>|\Z)", re.DOTALL)
_THINK_TAIL = re.compile(r"\A(.*?)</think>", re.DOTALL)
_TOOL_BLOCK = re.compile(r"<tool_call>.*?(?:</tool_call>|\Z)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ToolRecord:
    """One executed tool call."""

    call_id: str
    """Id of the emitted call it matched, else `scripted-<seq>`. Not unique: a model may repeat an id."""
    name: str
    arguments: dict[str, Any] | None
    """Canonical; None when not understood."""
    raw: Any
    """The arguments as written."""
    content: Any
    error: str | None
    repairs: tuple[str, ...]
    emitted: bool
    """Whether the model emitted it itself."""
    at_ms: int
    elapsed_ms: float
    seq: int


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One answered model call: its whole context, the answer, and what became of the calls it emitted."""

    call_id: str
    model: str
    messages: tuple[dict[str, Any], ...]
    tools: tuple[dict[str, Any], ...]
    params: dict[str, Any]
    message: dict[str, Any]
    """The assistant message as the provider gave it."""
    reasoning: str
    """The reasoning field, else the text inside `<think>` of the content."""
    text: str
    """The content without `<think>` and tagged tool-call blocks."""
    finish_reason: str | None
    usage: dict[str, Any]
    emitted: tuple[dict[str, Any], ...]
    tool_records: tuple[ToolRecord, ...]
    """The executed calls that this response emitted, in execution order."""
    at_ms: int
    seq: int


@dataclass(frozen=True, slots=True)
class ScriptedTurn:
    """One tool call that no model response carried."""

    tool_records: tuple[ToolRecord, ...]
    """Exactly one."""
    at_ms: int
    seq: int


Turn = ModelTurn | ScriptedTurn


@dataclass(frozen=True, slots=True)
class ClaimedAnswer:
    """The answer of an agent that only returned it: a call that was never executed, and so has no result."""

    name: str
    arguments: dict[str, Any]
    """Canonical."""
    emitted_by: int | None
    """The seq of the model call that emitted it; None when none did."""
    at_ms: int
    seq: int

    @property
    def emitted(self) -> bool:
        """Whether the model emitted it itself."""
        return self.emitted_by is not None


@dataclass(frozen=True, slots=True)
class ToolCounts:
    """How many tool calls the model emitted itself, and how many the script made. An answer that was only
    claimed is one of them.
    """

    model_emitted: int
    scripted: int

    @property
    def agency_fraction(self) -> float:
        """The model's share of all tool calls, 0 to 1; 0 when there were none."""
        total = self.model_emitted + self.scripted
        return self.model_emitted / total if total else 0.0


def turns(events: Sequence[Event]) -> tuple[Turn, ...]:
    """Answered model calls and scripted tool calls, in order.

    Raises BrokenChain when a model call refers to a blob that the log does not hold.
    """
    stored = blobs(events)
    records, owners, _ = _match(events)
    by_owner: dict[int, list[ToolRecord]] = {}
    for record, owner in zip(records, owners, strict=True):
        by_owner.setdefault(owner, []).append(record)
    found: list[Turn] = []
    for event in events:
        if event.kind == "model_call" and "response" in event.body:
            found.append(_model_turn(event, stored, tuple(by_owner.get(event.seq, ()))))
        elif event.kind == "tool_call" and event.seq in by_owner:
            found.append(ScriptedTurn(tuple(by_owner[event.seq]), event.at_ms, event.seq))
    return tuple(found)


def tool_records(events: Sequence[Event]) -> tuple[ToolRecord, ...]:
    """All executed tool calls, in execution order."""
    return tuple(_match(events)[0])


def claimed_answer(events: Sequence[Event]) -> ClaimedAnswer | None:
    """The answer that the recorder took from what the agent returned, because no call had given one."""
    return _match(events)[2]


def counts(events: Sequence[Event]) -> ToolCounts:
    """How many tool calls are model-emitted, and how many scripted."""
    records, _, claimed = _match(events)
    emitted = [record.emitted for record in records]
    if claimed is not None:
        emitted.append(claimed.emitted)
    return ToolCounts(model_emitted=sum(emitted), scripted=len(emitted) - sum(emitted))


def end_reason(events: Sequence[Event]) -> str:
    """Why the episode ended, as the recorder says; `UNFINISHED` when the log stops before its end."""
    for event in reversed(events):
        if event.kind == "ended":
            return str(event.body["reason"])
    return UNFINISHED


def context(event: Event, stored: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """The messages a `model_call` event was made with. `stored` is `blobs(events)`. Raises BrokenChain."""
    return tuple(dict(_blob(event, stored, name)) for name in event.body["messages"])


def plain_text(content: object) -> str:
    """The text of a chat message's content: a string, null, or a list of parts (what is not text as JSON)."""
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part_text(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def split_reply(message: Mapping[str, Any]) -> tuple[str, str]:
    """The (reasoning, text) of an assistant message.

    A chat template may have opened the reasoning itself, so that the content holds only `</think>`; a reply
    that was cut off may hold only `<think>`. Both are understood.
    """
    content = plain_text(message.get("content"))
    thoughts = [match.strip() for match in _THINK.findall(content)]
    rest = _THINK.sub("", content)
    tail = _THINK_TAIL.match(rest)
    if tail is not None:
        thoughts.insert(0, tail.group(1).strip())
        rest = rest[tail.end() :]
    given = message.get("reasoning_content") or message.get("reasoning")
    reasoning = given if isinstance(given, str) else "\n\n".join(t for t in thoughts if t)
    return reasoning, _TOOL_BLOCK.sub("", rest).strip()


def emitted_id(call: Mapping[str, Any], seq: int, index: int) -> str:
    """The id of emitted call number `index` of the model call at `seq`; made up when the model gave none."""
    return str(call.get("id") or f"emitted-{seq}-{index}")


def _part_text(part: object) -> str:
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    return json.dumps(part, ensure_ascii=False)


def _blob(event: Event, stored: Mapping[str, Any], name: str) -> Any:
    try:
        return stored[name]
    except KeyError:
        raise BrokenChain(
            f"event {event.seq} ({event.kind}) refers to a blob that the log does not hold"
        ) from None


def _model_turn(event: Event, stored: Mapping[str, Any], executed: tuple[ToolRecord, ...]) -> ModelTurn:
    body, response = event.body, event.body["response"]
    message = dict(response["message"])
    reasoning, text = split_reply(message)
    tools = _blob(event, stored, body["tools"]) if body.get("tools") is not None else ()
    return ModelTurn(
        call_id=str(body["call_id"]),
        model=str(body["model"]),
        messages=context(event, stored),
        tools=tuple(tools),
        params=dict(body.get("params") or {}),
        message=message,
        reasoning=reasoning,
        text=text,
        finish_reason=response.get("finish_reason"),
        usage=dict(response.get("usage") or {}),
        emitted=tuple(response.get("emitted") or ()),
        tool_records=executed,
        at_ms=event.at_ms,
        seq=event.seq,
    )


def _match(events: Sequence[Event]) -> tuple[list[ToolRecord], list[int], ClaimedAnswer | None]:
    """Every executed call; for each the seq of the model call that emitted it, or its own if scripted; and
    the answer that was only claimed.
    """
    claimed: ClaimedAnswer | None = None
    unused: dict[str, deque[tuple[str, int]]] = {}
    records: list[ToolRecord] = []
    owners: list[int] = []
    for event in events:
        if event.kind == "model_call" and "response" in event.body:
            for index, call in enumerate(event.body["response"].get("emitted") or ()):
                waiting = unused.setdefault(_key(call["name"], call["arguments"]), deque())
                waiting.append((emitted_id(call, event.seq, index), event.seq))
        elif event.kind == "tool_call":
            waiting = unused.get(_key(event.body["name"], event.body["canonical"]), deque())
            call_id, owner = waiting.popleft() if waiting else (f"scripted-{event.seq}", event.seq)
            records.append(_record(event, call_id, emitted=owner != event.seq))
            owners.append(owner)
        elif event.kind == "ended" and event.body.get("claimed_answer") is not None:
            name, arguments = (event.body["claimed_answer"][key] for key in ("name", "arguments"))
            waiting = unused.get(_key(name, arguments), deque())
            emitted_by = waiting.popleft()[1] if waiting else None
            claimed = ClaimedAnswer(name, arguments, emitted_by, event.at_ms, event.seq)
    return records, owners, claimed


def _key(name: str, canonical: dict[str, Any] | None) -> str:
    """Equal for equal calls. JSON, because in Python 1, 1.0 and True are the same key."""
    return json.dumps([name, canonical], sort_keys=True)


def _record(event: Event, call_id: str, *, emitted: bool) -> ToolRecord:
    body = event.body
    return ToolRecord(
        call_id=call_id,
        name=str(body["name"]),
        arguments=body["canonical"],
        raw=body["arguments"],
        content=body["content"],
        error=body.get("error"),
        repairs=tuple(body.get("repairs") or ()),
        emitted=emitted,
        at_ms=event.at_ms,
        elapsed_ms=float(body.get("elapsed_ms") or 0.0),
        seq=event.seq,
    )
