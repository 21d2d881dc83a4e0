"""Exports: whole, checkable, and without what must not leave."""

from __future__ import annotations

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import atif
import pytest

from storage import traces
from storage.database import Database
from storage.errors import ExportRefused
from storage.export import export
from storage.provenance import check_files, merkle_root
from storage.traces import TraceQuery
from tests.storage.episodes import HOTKEY, QUERY, Recording, add_episodes, driven

CREATED_AT = datetime(2026, 1, 2, tzinfo=UTC)
OUTCOME = {
    "components": {"product": 1.0},
    "solved": True,
    "scorer": "r",
    "failures": [{"rule": "product", "wanted": "the-answer", "found": None}],
}


async def test_an_openai_line_is_the_longest_conversation_with_its_answer(
    database: Database, tmp_path: Path
) -> None:
    await _store(database)
    manifest = await export(
        database, TraceQuery(), format="openai", out=tmp_path / "x", created_at=CREATED_AT
    )
    (line,) = _lines(tmp_path / "x")
    assert [message["role"] for message in line["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert line["messages"][1]["content"] == QUERY
    assert line["messages"][-1]["content"] == "It fits."
    assert line["tools"][0]["function"]["name"] == "find"
    assert line["metadata"]["judgement"]["uncertainty"] == {
        "votes": [0.8, 1.0],
        "disagreement": 0.2,
        "abstentions": [],
        "contradicted": False,
    }
    assert line["metadata"]["agency"] == {"model_emitted": 2, "scripted": 0, "fraction": 1.0}
    assert line["metadata"]["outcome"] == {"components": {"product": 1.0}, "solved": True, "scorer": "r"}
    assert (manifest.traces, manifest.judged, manifest.unjudged) == (1, 1, 0)


@pytest.mark.parametrize("format", ["openai", "atif"])
async def test_no_export_reveals_an_answer_or_shows_a_model_who_made_the_agent(
    database: Database, tmp_path: Path, format: Any
) -> None:
    await _store(database)
    await export(database, TraceQuery(), format=format, out=tmp_path / "x", created_at=CREATED_AT)
    assert not any("the-answer" in text for text in _texts(tmp_path / "x"))
    if format == "openai":
        (line,) = _lines(tmp_path / "x")
        assert HOTKEY not in json.dumps([line["messages"], line["tools"]])
        assert line["metadata"]["agent"]["hotkey"] == HOTKEY


async def test_every_atif_document_validates(database: Database, tmp_path: Path) -> None:
    await _store(database, _scripted)
    await _store(database)
    manifest = await export(database, TraceQuery(), format="atif", out=tmp_path / "x", created_at=CREATED_AT)
    documents = _texts(tmp_path / "x" / "traces")
    assert len(documents) == manifest.traces == 2
    for document in documents:
        found = atif.Trajectory.model_validate_json(document)
        assert found.extra is not None
        assert found.extra["trace"]["provenance"]["chain_head"] == found.trajectory_id


async def test_a_trace_without_a_model_call_is_left_out_of_chat_and_counted(
    database: Database, tmp_path: Path
) -> None:
    await _store(database, _scripted)
    manifest = await export(
        database, TraceQuery(), format="openai", out=tmp_path / "x", created_at=CREATED_AT
    )
    assert (manifest.traces, manifest.left_out) == (0, {"no answered model call": 1})
    assert "no answered model call 1" in (tmp_path / "x" / "README.md").read_text()


async def test_the_manifest_lets_anyone_check_the_files_and_the_root(
    database: Database, tmp_path: Path
) -> None:
    for _ in range(3):
        await _store(database)
    out = tmp_path / "x"
    manifest = await export(
        database, TraceQuery(), format="openai", out=out, created_at=CREATED_AT, licence="CC0-1.0", batch=2
    )
    assert json.loads((out / "manifest.json").read_text()) == json.loads(json.dumps(manifest.to_json()))
    heads = (out / "chain_heads.txt").read_text().split()
    assert heads == [line["metadata"]["provenance"]["chain_head"] for line in _lines(out)]
    assert merkle_root([bytes.fromhex(head) for head in heads]) == manifest.merkle_root
    assert check_files(out) == []
    assert "CC0-1.0" in (out / "README.md").read_text()
    (out / "traces.jsonl").write_text("{}")
    assert check_files(out) == ["traces.jsonl is not the file that was exported"]


async def test_the_same_traces_give_the_same_bytes(database: Database, tmp_path: Path) -> None:
    await _store(database)
    for name in ("a", "b"):
        await export(database, TraceQuery(), format="openai", out=tmp_path / name, created_at=CREATED_AT)
    for file in ("traces.jsonl", "manifest.json", "README.md"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


async def test_an_export_is_replaced_only_when_told_and_nothing_else_ever(
    database: Database, tmp_path: Path
) -> None:
    async def again(out: Path, *, overwrite: bool) -> None:
        await export(
            database, TraceQuery(), format="openai", out=out, created_at=CREATED_AT, overwrite=overwrite
        )

    out = tmp_path / "x"
    await again(out, overwrite=False)
    with pytest.raises(ExportRefused, match="already holds an export"):
        await again(out, overwrite=False)
    await _store(database)
    await again(out, overwrite=True)
    assert len(_lines(out)) == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    with pytest.raises(ExportRefused, match="left alone"):
        await again(tmp_path / "mine", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


async def test_a_failed_export_leaves_nothing_behind(database: Database, tmp_path: Path) -> None:
    await _store(database)
    with pytest.raises(ValueError, match="batch"):
        await export(
            database, TraceQuery(), format="openai", out=tmp_path / "x", created_at=CREATED_AT, batch=0
        )
    assert not _names(tmp_path)


def _scripted(episode_id: uuid.UUID) -> Recording:
    recording = Recording(episode_id)
    recording.tool("find", {"q": "lamp"})
    return recording.ended()


async def _store(database: Database, record: Any = driven) -> None:
    (episode_id,) = await add_episodes(database, 1)
    async with database.session() as session:
        trace_id = await traces.append(
            session,
            episode_id=episode_id,
            attempt=1,
            final=True,
            verdict="solved",
            reason=None,
            outcome=OUTCOME,
            events=record(episode_id).events,
            wall_s=1.0,
        )
        await traces.record_judgement(
            session,
            trace_id=trace_id,
            judge="j",
            rubric="r",
            grade=0.9,
            gate="g",
            rationale="sound",
            citations=[],
            votes=[0.8, 1.0],
            disagreement=0.2,
            unjudged=None,
        )


def _names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def _texts(out: Path) -> list[str]:
    return [path.read_text() for path in out.rglob("*") if path.is_file()]


def _lines(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "traces.jsonl").read_text().split("\n")[:-1]]
