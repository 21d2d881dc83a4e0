"""An episode as a person reads it in a terminal: what was asked, thought, called and answered, in order.

What agents, models and tools wrote is shown as text and never as markup, with control and direction-changing
characters made visible: none of it can pass for ours, or do anything to the terminal.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from judge.neutral import visible
from storage.events import Event, blobs
from storage.traces import StoredTrace
from storage.trajectory import tool_records
from storage.turns import plain_text, split_reply

SHORT = 600
"""Characters of a message or result that are shown, unless all are asked for."""
_LOOKS = {"solved": "bold green", "failed": "bold red", "unscored": "bold yellow"}


def transcript(trace: StoredTrace, *, hidden: str | None, full: bool) -> Group:
    """The episode. `hidden` says until when it is under embargo; `full` shortens nothing."""
    return Group(_head(trace, hidden), *_Telling(trace.events, SHORT if not full else None).tell())


def _head(trace: StoredTrace, hidden: str | None) -> Table:
    grid = Table(box=None, show_header=False, pad_edge=False)
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    verdict = Text(trace.verdict, _LOOKS.get(trace.verdict, ""))
    if trace.reason:
        verdict.append(f"  {visible(trace.reason)}", "default")
    emitted, scripted = trace.model_emitted, trace.scripted
    rows: list[tuple[str, str | Text]] = [
        ("episode", f"{trace.episode_id}, attempt {trace.attempt}"),
        ("trace", str(trace.trace_id)),
        ("race", f"{trace.race_number}, {trace.phase}"),
        ("agent", f"{trace.agent_name} of {trace.hotkey}"),
        ("problem", f"{trace.problem_id} ({trace.category}): {trace.problem.get('query', '')}"),
        ("verdict", verdict),
        ("tool calls", f"{emitted} by the model, {scripted} by the script"),
        ("tokens", f"{trace.prompt_tokens} read, {trace.completion_tokens} written, in {trace.wall_s:.1f} s"),
    ]
    if trace.judgement is not None:
        grade = trace.judgement.grade
        said = f"{trace.judgement.gate}, {grade:g}" if grade is not None else str(trace.judgement.unjudged)
        rows.append(("judge", f"{trace.judgement.judge}: {said}"))
    if hidden is not None:
        rows.append(("embargo", Text(hidden, "yellow")))
    for name, value in rows:
        grid.add_row(name, value if isinstance(value, Text) else Text(visible(value)))
    return grid


class _Telling:
    """Goes through the events; knows which messages were already shown."""

    def __init__(self, events: Sequence[Event], short: int | None) -> None:
        self._events = events
        self._short = short
        self._stored = blobs(events)
        self._whose = {record.seq: record.emitted for record in tool_records(events)}
        self._shown: Counter[str] = Counter()

    def tell(self) -> Iterator[RenderableType]:
        for event in self._events:
            if event.kind == "model_call":
                yield from self._model_call(event)
            elif event.kind == "tool_call":
                yield from self._tool_call(event)
            elif event.kind == "refused":
                yield self._line(event, "refused", f"{event.body['what']}: {event.body['message']}", "yellow")
            elif event.kind == "ended":
                detail = event.body.get("detail") or ""
                yield self._line(event, "ended", f"{event.body['reason']} {detail}".rstrip(), "bold")
                if event.body.get("claim") is not None:
                    yield self._block("claim", event.body["claim"], "dim")

    def _model_call(self, event: Event) -> Iterator[RenderableType]:
        body = event.body
        names: list[str] = body["messages"]
        asked = ", ".join(f"{k} {json.dumps(v)}" for k, v in sorted(body["params"].items()))
        yield self._line(event, "model", f"{body['model']}  {len(names)} messages; {asked}", "bold cyan")
        before = self._shown.copy()
        self._shown = Counter(names)
        for name in names:
            if before[name] > 0:
                before[name] -= 1
                continue
            message = self._stored.get(name) or {}
            if message.get("role") != "assistant":
                yield self._block(str(message.get("role")), plain_text(message.get("content")), "dim")
        if "error" in body:
            yield self._block(f"{body['error']['kind']} error", body["error"]["message"], "red")
            return
        response = body["response"]
        reasoning, text = split_reply(response["message"])
        if reasoning:
            yield self._block("thinks", reasoning, "italic")
        if text:
            yield self._block("says", text, "")
        for call in response.get("emitted") or ():
            yield self._block("calls", f"{call['name']}({_written(call['arguments'])})", "cyan")
        usage = response.get("usage") or {}
        spent = f"{usage.get('prompt_tokens', '?')} + {usage.get('completion_tokens', '?')} tokens"
        yield self._block("ends", f"{response.get('finish_reason')}, {spent}", "dim")

    def _tool_call(self, event: Event) -> Iterator[RenderableType]:
        body = event.body
        whose = "model" if self._whose.get(event.seq) else "script"
        said = f"{body['name']}({_written(body['arguments'])})  by the {whose}"
        yield self._line(event, "tool", said, "bold magenta")
        failed = body.get("error") is not None
        result = body["error"] if failed else body["content"]
        yield self._block("error" if failed else "gives", result, "red" if failed else "")

    def _line(self, event: Event, what: str, said: str, style: str) -> Text:
        return Text.assemble(f"\n{event.seq:4} ", (f"{what:8}", style), self._cut(said))

    def _block(self, what: str, value: object, style: str) -> RenderableType:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        return Padding(Text.assemble((f"{visible(what)}: ", "bold"), (self._cut(text), style)), (0, 0, 0, 13))

    def _cut(self, text: str) -> str:
        shown = visible(text)
        if self._short is None or len(shown) <= self._short:
            return shown
        return f"{shown[: self._short]} … {len(shown) - self._short} more characters (--full)"


def _written(arguments: Mapping[str, Any] | object) -> str:
    return json.dumps(arguments, ensure_ascii=False)
