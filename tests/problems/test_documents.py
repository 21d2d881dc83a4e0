"""An import is whole in the end, however often it was killed, and names what it left out."""

from __future__ import annotations

import fcntl
import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from problems.shopping import documents
from problems.shopping.catalog import Catalog, CatalogError, Product
from problems.shopping.documents import BAD_LINES, Progress, TooManyBadLines, import_documents
from problems.shopping.generator import generate

COUNT = 400


def document(product: Product) -> bytes:
    """As ShoppingBench writes it."""
    record = product.model_dump(mode="json") | {"specification": "s", "main_image_url": "u"}
    return json.dumps({"id": product.product_id, "contents": product.title, "product": record}).encode()


@pytest.fixture
def lines() -> list[bytes]:
    return [document(product) for product in generate(2, COUNT)]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints and judgements often enough to matter in a small file."""
    monkeypatch.setattr(documents, "_CHECKPOINT_EVERY", 50)
    monkeypatch.setattr(documents, "_PROGRESS_EVERY", 10)
    monkeypatch.setattr(documents, "_JUDGED_FROM", 100)
    monkeypatch.setattr(documents, "_BLOCK", 4096)


def written(path: Path, lines: Iterable[bytes]) -> Path:
    content = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


class Stopped(Exception):
    pass


def stop_at(products: int, stage: str = "reading") -> object:
    """A progress that ends the import there, as if the process were gone."""

    def progress(at: Progress) -> None:
        if at.stage == stage and at.products >= products:
            raise Stopped

    return progress


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.gz"])
def test_the_original_file_becomes_the_catalog_of_its_products(
    tmp_path: Path, lines: list[bytes], name: str
) -> None:
    imported = import_documents(written(tmp_path / name, lines), tmp_path / "c")
    built = Catalog.build(tmp_path / "built", generate(2, COUNT))
    assert imported.catalog.catalog_id == built.catalog_id
    assert (imported.lines, imported.bad, imported.first_bad) == (COUNT, 0, ())
    assert [p.name for p in tmp_path.glob(".*")] == []


def test_a_line_may_be_the_product_alone(tmp_path: Path) -> None:
    source = written(tmp_path / "d", (p.record().strip() for p in generate(2, 20)))
    assert list(import_documents(source, tmp_path / "c").catalog) == list(generate(2, 20))


@pytest.mark.parametrize("name", ["documents.jsonl", "documents.jsonl.gz"])
@pytest.mark.parametrize("stops", [(55,), (120, 121, 390), (10,)])
def test_a_stopped_import_goes_on_to_the_same_catalog(
    tmp_path: Path, lines: list[bytes], name: str, stops: tuple[int, ...]
) -> None:
    lines[7] = b"not json"
    lines[201] = b"{}"
    source = written(tmp_path / name, lines)
    whole = import_documents(source, tmp_path / "whole")
    for stop in stops:
        with pytest.raises(Stopped):
            import_documents(source, tmp_path / "c", progress=stop_at(stop))  # type: ignore[arg-type]
    first: list[Progress] = []
    imported = import_documents(source, tmp_path / "c", progress=first.append)
    if stops[-1] > 50:
        assert first[0].products > 50 - 2, "it goes on, and does not start anew"
    assert imported.catalog.catalog_id == whole.catalog.catalog_id
    assert (imported.lines, imported.bad, imported.first_bad) == (whole.lines, whole.bad, whole.first_bad)
    bad_lines = [(folder / BAD_LINES).read_bytes() for folder in (tmp_path / "c", tmp_path / "whole")]
    assert bad_lines[0] == bad_lines[1]
    for q in ("black", "waterproof case", "sale"):
        assert imported.catalog.window(q) == whole.catalog.window(q)


def test_an_import_stopped_before_its_end_was_indexed_reads_nothing_again(
    tmp_path: Path, lines: list[bytes]
) -> None:
    source = written(tmp_path / "d.gz", lines)
    with pytest.raises(Stopped):
        import_documents(source, tmp_path / "c", progress=stop_at(0, "finishing"))  # type: ignore[arg-type]
    seen: list[Progress] = []
    assert import_documents(source, tmp_path / "c", progress=seen.append).catalog.size == COUNT
    assert {at.stage for at in seen} == {"finishing"}


_KILLED = """
import os, signal, sys
from pathlib import Path
from problems.shopping import documents
documents._CHECKPOINT_EVERY = 50
documents._PROGRESS_EVERY = 10
def progress(at):
    if at.products >= 130:
        os.kill(os.getpid(), signal.SIGKILL)
documents.import_documents(Path(sys.argv[1]), Path(sys.argv[2]), progress=progress)
"""


def test_a_killed_process_leaves_no_catalog_and_the_next_goes_on(tmp_path: Path, lines: list[bytes]) -> None:
    source = written(tmp_path / "d.gz", lines)
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(source), str(tmp_path / "c")], check=False, timeout=60
    )
    assert killed.returncode == -signal.SIGKILL
    assert not (tmp_path / "c").exists()
    seen: list[Progress] = []
    imported = import_documents(source, tmp_path / "c", progress=seen.append)
    assert seen[0].products > 100
    assert list(imported.catalog) == list(generate(2, COUNT))


def test_another_file_starts_anew(tmp_path: Path, lines: list[bytes]) -> None:
    with pytest.raises(Stopped):
        import_documents(
            written(tmp_path / "a", lines),
            tmp_path / "c",
            progress=stop_at(120),  # type: ignore[arg-type]
        )
    other = written(tmp_path / "b", [document(p) for p in generate(3, 60)])
    assert list(import_documents(other, tmp_path / "c").catalog) == list(generate(3, 60))


def test_a_broken_download_says_so_and_goes_on_when_it_is_whole(tmp_path: Path, lines: list[bytes]) -> None:
    source = written(tmp_path / "d.gz", lines)
    whole = source.read_bytes()
    source.write_bytes(whole[: len(whole) * 2 // 3])
    with pytest.raises(CatalogError, match=r"d\.gz is broken: .* Fetch it again"):
        import_documents(source, tmp_path / "c")
    source.write_bytes(whole)
    seen: list[Progress] = []
    assert import_documents(source, tmp_path / "c", progress=seen.append).catalog.size == COUNT
    assert seen[0].products > 50


BAD = {
    b'{"product": {"title": "no id"}}': "product.product_id: Field required",
    b'{"product_id": "1", "price": -3}': "price: Input should be greater than or equal to 0",
    b'{"product_id": "1", "sold_count": 1e40}': "sold_count",
    b'{"product_id": "' + b"9" * 65 + b'"}': "product_id",
    b"[1, 2": "Invalid JSON",
    b"\xff\xfe": "Invalid JSON",
    b'{"product_id": "\\ud800"}': "Invalid JSON",
}


@pytest.mark.parametrize(("line", "reason"), BAD.items(), ids=list(BAD.values()))
def test_a_bad_line_is_left_out_and_named(
    tmp_path: Path, lines: list[bytes], line: bytes, reason: str
) -> None:
    imported = import_documents(written(tmp_path / "d", [*lines[:200], line, *lines[200:]]), tmp_path / "c")
    assert (imported.catalog.size, imported.bad, imported.catalog.left_out) == (COUNT, 1, 1)
    assert imported.first_bad[0].startswith("line 201: ")
    assert reason in imported.first_bad[0]
    named = [json.loads(line) for line in (tmp_path / "c" / BAD_LINES).read_bytes().splitlines()]
    assert [entry["line"] for entry in named] == [201]


def test_a_second_product_of_an_id_is_a_bad_line(tmp_path: Path, lines: list[bytes]) -> None:
    imported = import_documents(written(tmp_path / "d", [*lines, lines[3]]), tmp_path / "c")
    assert imported.catalog.size == COUNT
    assert imported.first_bad[0].startswith(f"line {COUNT + 1}: two products have the id")


def test_a_line_without_end_is_left_out_without_being_held(
    tmp_path: Path, lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "_MAX_LINE", 20_000)
    endless = b'{"product_id": "1", "title": "' + b"x" * 70_000 + b'"}'
    imported = import_documents(
        written(tmp_path / "d", [*lines[:200], endless, *lines[200:]]), tmp_path / "c"
    )
    assert imported.first_bad == ("line 201: it is longer than 20000 bytes",)
    assert imported.catalog.size == COUNT


def test_empty_lines_are_no_bad_lines(tmp_path: Path, lines: list[bytes]) -> None:
    imported = import_documents(written(tmp_path / "d", [b"", *lines, b" "]), tmp_path / "c")
    assert (imported.catalog.size, imported.bad) == (COUNT, 0)


def test_too_many_bad_lines_stop_the_import_which_goes_on_when_more_are_allowed(
    tmp_path: Path, lines: list[bytes]
) -> None:
    spoilt = [b"x" if i % 10 == 9 else line for i, line in enumerate(lines)]
    source = written(tmp_path / "d", spoilt)
    with pytest.raises(TooManyBadLines) as stopped:
        import_documents(source, tmp_path / "c")
    assert "10 of the first 100 lines" in str(stopped.value)
    assert "where 1.00% may be; line 10: Invalid JSON" in str(stopped.value)
    assert "--max-bad-share" in str(stopped.value)
    seen: list[Progress] = []
    imported = import_documents(source, tmp_path / "c", max_bad_share=0.1, progress=seen.append)
    assert seen[0].products >= 90, "it goes on"
    assert (imported.catalog.size, imported.bad) == (COUNT * 9 // 10, COUNT // 10)


def test_few_bad_lines_at_the_start_are_judged_by_the_whole_file(tmp_path: Path, lines: list[bytes]) -> None:
    imported = import_documents(written(tmp_path / "d", [b"x", b"y", *lines]), tmp_path / "c")
    assert imported.bad == 2


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_a_file_without_a_product_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "d").write_bytes(content)
    with pytest.raises(CatalogError, match="holds no product"):
        import_documents(tmp_path / "d", tmp_path / "c")


def test_a_pointer_to_the_file_is_not_taken_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "d.gz").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:a0ba\n")
    with pytest.raises(CatalogError, match="git lfs pull"):
        import_documents(tmp_path / "d.gz", tmp_path / "c")


def test_a_folder_that_is_taken_is_known_before_anything_is_read(tmp_path: Path, lines: list[bytes]) -> None:
    source = written(tmp_path / "d", lines)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter").touch()
    with pytest.raises(CatalogError, match="choose another folder"):
        import_documents(source, tmp_path / "full")
    Catalog.build(tmp_path / "c", generate(1, 5))
    with pytest.raises(CatalogError, match="holds a catalog already"):
        import_documents(source, tmp_path / "c")


def test_two_imports_into_one_folder_do_not_mix(tmp_path: Path, lines: list[bytes]) -> None:
    building = tmp_path / ".c.importing"
    building.mkdir()
    held = os.open(building, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(CatalogError, match=r"another import into .* is running"):
            import_documents(written(tmp_path / "d", lines), tmp_path / "c")
    finally:
        os.close(held)
    assert import_documents(tmp_path / "d", tmp_path / "c").catalog.size == COUNT
