"""The recorder's events: what happened in an episode, in order, each bound to the one before it by hash.

This is the only source of a trajectory. An event is plain JSON so that it can be stored, moved and verified
anywhere. Bulky values (chat messages, tool schemas) are stored once, in a `blob` event, and referred to by
their digest, so that the full context of every model call is kept without quadratic growth.

Kinds and their bodies:

- `started`   {"episode_id", "problem": Problem as an agent sees it, "tools": [OpenAI tool, ...], "model",
               "seed", "limits": {...}}
- `blob`      {"digest", "value"}: digest is the SHA-256 of the value's canonical JSON
- `model_call` {"call_id", "model", "messages": [digest, ...], "tools": digest or null, "params": {...},
               "streamed", "elapsed_ms", and either "response": {"message", "finish_reason", "usage":
               {"prompt_tokens", "completion_tokens", "estimated", "usd" (where priced), and whatever else the
               provider counts}, "logprobs" and "provider" (its id, model, fingerprint) where given,
               "emitted": [{"id", "name", "arguments" (canonical, or null when not understood)}, ...]} or
               "error": {"kind": "provider" | "agent" | "budget" | "key", "message", "status", "said" (what
               the agent had read of an answer that broke off)}}
- `tool_call` {"name", "arguments" (as written), "canonical" (or null), "content", "error" (or null),
               "repairs": [...], "elapsed_ms"}
- `refused`   {"what", "message"}: a request that could not be taken (malformed, over budget, after the end)
- `ended`     {"reason", "detail", "claim", ...}: last event. `reason` is one of EndReason. With
               "claimed_answer": {"name", "arguments" (canonical)} when no call answered, and the claim did
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

EventKind = Literal["started", "blob", "model_call", "tool_call", "refused", "ended"]

GENESIS = "0" * 64
"""The hash before the first event."""


class BrokenChain(ValueError):
    """The events are not the ones that were recorded."""


@dataclass(frozen=True, slots=True)
class Event:
    """One recorded event. `at_ms` is Unix time in milliseconds; `hash` binds it to all events before it."""

    seq: int
    at_ms: int
    kind: EventKind
    body: dict[str, Any]
    previous: str
    hash: str

    def to_json(self) -> dict[str, Any]:
        """The event as a JSON object."""
        return {
            "seq": self.seq,
            "at_ms": self.at_ms,
            "kind": self.kind,
            "body": self.body,
            "previous": self.previous,
            "hash": self.hash,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Event:
        """The inverse of `to_json`. Raises KeyError when a field is missing."""
        return cls(
            seq=value["seq"],
            at_ms=value["at_ms"],
            kind=value["kind"],
            body=value["body"],
            previous=value["previous"],
            hash=value["hash"],
        )


def canonical(value: object) -> str:
    """The one way to write `value` as JSON. Raises ValueError on NaN or infinities."""
    return _ENCODER.encode(value)


def digest(value: object) -> str:
    """SHA-256 (hex) of the canonical JSON of `value`. Raises ValueError on NaN or infinities."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def next_event(previous: str, seq: int, at_ms: int, kind: EventKind, body: dict[str, Any]) -> Event:
    """The event that follows the one whose hash is `previous`."""
    return Event(seq, at_ms, kind, body, previous, _hash(previous, seq, at_ms, kind, body))


class EventLog:
    """An append-only, hash-chained log in memory. The clock is passed in, in Unix milliseconds."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._blobs: dict[str, str] = {}

    @property
    def events(self) -> tuple[Event, ...]:
        """All events so far."""
        return tuple(self._events)

    @property
    def head(self) -> str:
        """The hash of the last event."""
        return self._events[-1].hash if self._events else GENESIS

    def append(self, kind: EventKind, body: dict[str, Any], *, at_ms: int) -> Event:
        """Add an event. Raises ValueError when the body is not JSON."""
        event = next_event(self.head, len(self._events), at_ms, kind, body)
        self._events.append(event)
        return event

    def blob(self, value: Any, *, at_ms: int) -> str:
        """Store `value` once and return its digest."""
        return self.written_blob(canonical(value), value, at_ms=at_ms)

    def written_blob(self, text: str, value: Any, *, at_ms: int) -> str:
        """The same for a value whose canonical JSON is `text`, which need not be hashed where it is known."""
        name = self._blobs.get(text)
        if name is None:
            name = self._blobs[text] = hashlib.sha256(text.encode()).hexdigest()
            self.append("blob", {"digest": name, "value": value}, at_ms=at_ms)
        return name


def verify(events: Sequence[Event]) -> str:
    """Check the whole chain and every blob; return its head. Raises BrokenChain and says where."""
    previous = GENESIS
    for index, event in enumerate(events):
        if event.seq != index:
            raise BrokenChain(f"event {index} carries sequence number {event.seq}")
        if event.previous != previous:
            raise BrokenChain(f"event {index} does not follow the one before it")
        if event.hash != _hash(previous, event.seq, event.at_ms, event.kind, event.body):
            raise BrokenChain(f"event {index} ({event.kind}) was changed after it was recorded")
        if event.kind == "blob" and digest(event.body["value"]) != event.body["digest"]:
            raise BrokenChain(f"event {index} holds a blob that is not what its digest says")
        previous = event.hash
    return previous


def blobs(events: Iterable[Event]) -> dict[str, Any]:
    """All stored values by digest."""
    return {e.body["digest"]: e.body["value"] for e in events if e.kind == "blob"}


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def _hash(previous: str, seq: int, at_ms: int, kind: str, body: dict[str, Any]) -> str:
    return digest([previous, seq, at_ms, kind, body])
