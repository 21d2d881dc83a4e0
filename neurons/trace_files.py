"""A trace as a file: what an episode left, whole, for whoever has no store.

The one thing to know: a file is somebody's word. Reading it checks that its events are a chain and that the
rest follows from them, so that a damaged file is noticed; who wrote it, nothing here can tell.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from storage.events import BrokenChain
from storage.traces import StoredTrace, what_events_say

_TRACE = TypeAdapter(StoredTrace)


class NoTraceFile(ValueError):
    """The file holds no trace, or one that contradicts itself."""


def write_trace(trace: StoredTrace, file: Path) -> None:
    """Write the trace as JSON. Raises OSError."""
    file.write_bytes(_TRACE.dump_json(trace, indent=1) + b"\n")


def read_trace(file: Path) -> StoredTrace:
    """The trace in the file. Raises NoTraceFile, OSError."""
    try:
        trace = _TRACE.validate_json(file.read_bytes())
        if what_events_say(trace.events).chain_head != trace.chain_head:
            raise NoTraceFile(f"{file} was changed: its events do not end as it says")
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "all of it"
        raise NoTraceFile(f"{file} holds no trace of an episode: {where}: {first['msg']}") from None
    except BrokenChain as error:
        raise NoTraceFile(f"{file} was changed: {error}") from None
    return trace
