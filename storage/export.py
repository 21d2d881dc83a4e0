"""Export traces as files that others can train on and check: OpenAI chat JSONL, or one ATIF document a trace.

The one thing to know: an export appears whole or not at all. It is written beside its place and renamed into
it when everything, the manifest and the data card among it, is there.

What a model would be trained on (messages, tools) holds only what the recorder saw in the episode; who made
the agent stands in the metadata alone. Rule failures, which may reveal an answer, are never exported.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import uuid
from collections import Counter
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, Protocol, TextIO, TypeAlias, assert_never

from storage.data_card import data_card
from storage.database import Database
from storage.errors import ExportRefused
from storage.provenance import MANIFEST_NAME, ExportedFile, ExportManifest, merkle_root, sha256_file
from storage.traces import StoredTrace, TraceQuery, stream
from storage.trajectory import ModelTurn, turns

ExportFormat: TypeAlias = Literal["openai", "atif"]

CHAIN_HEADS_NAME = "chain_heads.txt"
LICENCE_NOT_STATED = "not stated"


async def export(
    database: Database,
    query: TraceQuery,
    *,
    format: ExportFormat,
    out: Path,
    created_at: datetime,
    licence: str = LICENCE_NOT_STATED,
    overwrite: bool = False,
    batch: int = 64,
) -> ExportManifest:
    """Write the traces of `query` into the new folder `out` and return its manifest.

    `created_at` has a time zone. `licence` is stated, not granted: whoever exports knows what they may give.
    With `overwrite` an earlier export is replaced; anything else is never touched. Memory is bounded by
    `batch` traces, whatever the size of the export. Raises ExportRefused.
    """
    if created_at.tzinfo is None:
        raise ValueError("created_at needs a time zone")
    await asyncio.to_thread(_require_free, out, overwrite)
    unfinished = out.with_name(f".{out.name}.{uuid.uuid4().hex}.unfinished")
    try:
        writer = await asyncio.to_thread(_Export, unfinished, format)
        try:
            async for trace in stream(database, query, batch=batch):
                await asyncio.to_thread(writer.add, trace)
        finally:
            writer.close()
        manifest = await asyncio.to_thread(writer.finish, query, created_at, licence)
        await asyncio.to_thread(_put_in_place, unfinished, out)
    finally:
        await asyncio.to_thread(shutil.rmtree, unfinished, ignore_errors=True)
    return manifest


def chat_line(trace: StoredTrace) -> dict[str, Any] | None:
    """A trace as one line of the `openai` format; None when no model answered in it.

    `messages` are those of the model call with the longest context (the last of them), as the recorder saw
    them, and the assistant message that answered it; `tools` are those offered in that call.
    """
    answered = [turn for turn in turns(trace.events) if isinstance(turn, ModelTurn)]
    if not answered:
        return None
    longest = max(answered, key=lambda turn: (len(turn.messages), turn.seq))
    return {
        "messages": [*longest.messages, longest.message],
        "tools": list(longest.tools),
        "metadata": trace_metadata(trace),
    }


def atif_document(trace: StoredTrace) -> dict[str, Any]:
    """A trace as an ATIF document, with what is known of it in `extra.trace`."""
    extra = {**(trace.trajectory.get("extra") or {}), "trace": trace_metadata(trace)}
    return {**trace.trajectory, "extra": extra}


def trace_metadata(trace: StoredTrace) -> dict[str, Any]:
    """What is known of a trace beside its conversation, as JSON. It holds no answer and no rule failure."""
    total = trace.model_emitted + trace.scripted
    return {
        "trace_id": str(trace.trace_id),
        "episode_id": str(trace.episode_id),
        "attempt": trace.attempt,
        "final": trace.final,
        "race": {"id": str(trace.race_id), "number": trace.race_number, "phase": trace.phase},
        "agent": {
            "submission_id": str(trace.submission_id),
            "hotkey": trace.hotkey,
            "name": trace.agent_name,
        },
        "problem": {
            "suite_id": trace.suite_id,
            "problem_id": trace.problem_id,
            "category": trace.category,
            "cluster_id": trace.cluster_id,
        },
        "verdict": trace.verdict,
        "reason": trace.reason,
        "outcome": _public_outcome(trace.outcome),
        "judgement": _judgement(trace),
        "agency": {
            "model_emitted": trace.model_emitted,
            "scripted": trace.scripted,
            "fraction": trace.model_emitted / total if total else 0.0,
        },
        "usage": {"prompt_tokens": trace.prompt_tokens, "completion_tokens": trace.completion_tokens},
        "wall_s": trace.wall_s,
        "recorded_at": trace.recorded_at.isoformat(),
        "provenance": {"chain_head": trace.chain_head, "events": len(trace.events)},
    }


class _Sink(Protocol):
    """One format: where it writes, and what it cannot hold."""

    def write(self, trace: StoredTrace) -> str | None:
        """Write a trace, or say in a few fixed words why it has no place in this format."""

    def close(self) -> None:
        """Close what is open."""


class _ChatSink:
    def __init__(self, folder: Path) -> None:
        self._file = _create(folder / "traces.jsonl")

    def write(self, trace: StoredTrace) -> str | None:
        line = chat_line(trace)
        if line is None:
            return "no answered model call"
        self._file.write(_json(line) + "\n")
        return None

    def close(self) -> None:
        self._file.close()


class _AtifSink:
    def __init__(self, folder: Path) -> None:
        self._folder = folder / "traces"
        self._folder.mkdir()

    def write(self, trace: StoredTrace) -> str | None:
        with _create(self._folder / f"{trace.trace_id}.json") as file:
            file.write(_json(atif_document(trace)) + "\n")
        return None

    def close(self) -> None:
        pass


class _Export:
    """An export while it is written: the sink, the chain heads, and the counts. Blocking."""

    def __init__(self, folder: Path, format: ExportFormat) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        self._format = format
        self._sink = _sink(format, folder)
        self._heads_file = _create(folder / CHAIN_HEADS_NAME)
        self._heads: list[bytes] = []
        self._left_out: Counter[str] = Counter()
        self._verdicts: Counter[str] = Counter()
        self._tool_calls: Counter[str] = Counter(model_emitted=0, scripted=0)
        self._judged = 0

    def add(self, trace: StoredTrace) -> None:
        why = self._sink.write(trace)
        if why is not None:
            self._left_out[why] += 1
            return
        self._heads.append(bytes.fromhex(trace.chain_head))
        self._heads_file.write(trace.chain_head + "\n")
        self._verdicts[trace.verdict] += 1
        self._tool_calls.update(model_emitted=trace.model_emitted, scripted=trace.scripted)
        self._judged += trace.judgement is not None and trace.judgement.grade is not None

    def close(self) -> None:
        self._sink.close()
        self._heads_file.close()

    def finish(self, query: TraceQuery, created_at: datetime, licence: str) -> ExportManifest:
        """Write the manifest and the data card. Everything else is closed by now."""
        manifest = ExportManifest(
            format=self._format,
            created_at=created_at.isoformat(),
            licence=licence,
            query=query.to_json(),
            traces=len(self._heads),
            left_out=dict(self._left_out),
            verdicts=dict(self._verdicts),
            judged=self._judged,
            unjudged=len(self._heads) - self._judged,
            tool_calls=dict(self._tool_calls),
            merkle_root=merkle_root(self._heads),
            files=(),
        )
        (self._folder / "README.md").write_text(data_card(manifest), encoding="utf-8")
        manifest = replace(manifest, files=_listing(self._folder))
        (self._folder / MANIFEST_NAME).write_bytes(manifest.to_bytes())
        return manifest


def _listing(folder: Path) -> tuple[ExportedFile, ...]:
    return tuple(
        ExportedFile(
            path=path.relative_to(folder).as_posix(), bytes=path.stat().st_size, sha256=sha256_file(path)
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    )


def _sink(format: ExportFormat, folder: Path) -> _Sink:
    match format:
        case "openai":
            return _ChatSink(folder)
        case "atif":
            return _AtifSink(folder)
        case _:
            assert_never(format)


def _public_outcome(outcome: dict[str, Any] | None) -> dict[str, Any] | None:
    if outcome is None:
        return None
    return {name: outcome.get(name) for name in ("components", "solved", "scorer")}


def _judgement(trace: StoredTrace) -> dict[str, Any] | None:
    found = trace.judgement
    if found is None:
        return None
    return {
        "judge": found.judge,
        "rubric": found.rubric,
        "grade": found.grade,
        "gate": found.gate,
        "rationale": found.rationale,
        "citations": list(found.citations),
        "uncertainty": {
            "votes": list(found.votes),
            "disagreement": found.disagreement,
            "abstentions": list(found.abstentions),
            "contradicted": found.contradicted,
        },
        "unjudged": found.unjudged,
    }


def _json(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, which JSON can escape and UTF-8 cannot hold
        return json.dumps(value, allow_nan=False)
    return text


def _create(path: Path) -> TextIO:
    return path.open("x", encoding="utf-8", newline="\n")


def _require_free(out: Path, overwrite: bool) -> None:
    if not out.exists() and not out.is_symlink():
        return
    if out.is_dir() and not out.is_symlink():
        if not any(out.iterdir()):
            return
        if (out / MANIFEST_NAME).is_file():
            if overwrite:
                return
            raise ExportRefused(
                f"{out} already holds an export; allow overwriting it, or choose another folder"
            )
    raise ExportRefused(f"{out} is something else than an export and is left alone; choose another folder")


def _put_in_place(unfinished: Path, out: Path) -> None:
    """Rename `unfinished` to `out`; an earlier export there is moved aside first and deleted last."""
    aside = out.with_name(f".{out.name}.{uuid.uuid4().hex}.replaced")
    if out.exists():
        out.rename(aside)
    unfinished.rename(out)
    shutil.rmtree(aside, ignore_errors=True)
