"""Writing a catalog: records as they come, the index beside them, and a manifest when all are there.

A writer works in a folder of its own, which becomes the catalog when it is whole. Two things are
load-bearing:

- Order. Positions in the catalog are document numbers in the index, so there is one indexing thread and one
  segment. Products of equal relevance or price therefore come in catalog order, on every machine alike; with
  segments that merge as they like, two validators would answer the same search differently.
- Records before index. After `checkpoint`, a killed writer that is opened again keeps the records up to there
  and only indexes them again; what the reader of the source noted with it says where to read on.

Tantivy's BM25 has fixed parameters, k1 = 1.2 and b = 0.75; ShoppingBench's server runs Lucene with k1 = 0.9
and b = 0.4, which treats long listings more kindly. As b weighs a document's length against the average, a
number of padding words in every document lowers it: with padding of (0.75 / 0.4 - 1) times the average
length, the score is that of b = 0.4 exactly (lengths above 40 words are rounded, as Lucene's are).
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tantivy
from pydantic import BaseModel, ConfigDict

from problems.problem import canonical_json
from problems.shopping.product import Product

FORMAT = 3
ANALYZER = "catalog"
PADDING = "\u16f0"
"""A letter that no shopper writes; `Catalog.words` never lets it through."""

_CHECKPOINT = "checkpoint.json"
_HEAP_BYTES = 4_000_000_000
"""A bound, near the engine's greatest, and used only as needed: beyond it there is a second segment."""
_PADDING_SAMPLE = 1_000
"""Products whose average length stands for the catalog's."""
_PADDING_SHARE = 0.75 / 0.4 - 1


class CatalogError(Exception):
    """A catalog cannot be built, imported or opened; the message says what to do."""


class RepeatedId(CatalogError):
    """Two products of one catalog have the same id."""


class Manifest(BaseModel):
    """What a catalog says of itself."""

    model_config = ConfigDict(frozen=True)

    format: int
    catalog_id: str
    """SHA-256 over the records in their order."""
    products: int
    left_out: int = 0
    """Lines of the imported file that are no product; `bad_lines.jsonl` beside the manifest names them."""


class CatalogWriter:
    """Writes one catalog into `directory`, which may hold what a killed writer left there."""

    def __init__(self, directory: Path, on_kept: Callable[[int, int], None] = lambda _, __: None) -> None:
        """Start, or go on from the last checkpoint in `directory`.

        `on_kept` is told now and then how many bytes of the kept records are indexed again, and of how many.
        """
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._content = hashlib.sha256(canonical_json(["catalog", FORMAT]))
        self._offsets = array("Q", [0])
        self._keys = array("Q")
        self._seen: set[str] = set()
        self._sample: list[Product] = []
        self._padding: str | None = None
        self._index = new_index(directory / "index")
        self._writer = self._index.writer(_HEAP_BYTES, 1)
        kept = _last_checkpoint(directory)["bytes"]
        self._records = (directory / "records.jsonl").open("a+b")
        self._records.truncate(kept)
        self._records.seek(0)
        for record in iter(self._records.readline, b""):
            self._take(Product.stored(record), record)
            if len(self) % 10_000 == 0:
                on_kept(self._offsets[-1], kept)

    def __len__(self) -> int:
        """How many products are in."""
        return len(self._keys)

    def add(self, product: Product) -> None:
        """Add a product. Raises RepeatedId."""
        if product.product_id in self._seen:
            raise RepeatedId(f"two products have the id {product.product_id!r}: ids must be unique")
        record = product.record()
        self._records.write(record)
        self._take(product, record)

    def checkpoint(self, note: Any) -> None:
        """Make sure that what was added so far outlives this process, with `note` (JSON) beside it."""
        self._records.flush()
        os.fsync(self._records.fileno())
        building = self.directory / "checkpoint.tmp"
        building.write_text(json.dumps({"bytes": self._offsets[-1], "note": note}), encoding="utf-8")
        building.replace(self.directory / _CHECKPOINT)

    def finish(self, left_out: int = 0) -> Manifest:
        """Write the rest; the manifest comes last. Raises CatalogError when the index is too large."""
        self._index_sample()
        self._writer.commit()
        self._writer.wait_merging_threads()
        self._records.close()
        self._index.reload()
        if self._index.searcher().num_segments > 1:
            raise CatalogError(
                f"{len(self)} products are more than one index segment holds: make several catalogs of them"
            )
        keys = np.array(self._keys, dtype=np.uint64)
        rows = np.argsort(keys, kind="stable").astype(np.uint64)
        np.save(self.directory / "ids.npy", keys[rows])
        np.save(self.directory / "rows.npy", rows)
        np.save(self.directory / "offsets.npy", np.array(self._offsets, dtype=np.uint64))
        manifest = Manifest(
            format=FORMAT, catalog_id=self._content.hexdigest(), products=len(self), left_out=left_out
        )
        (self.directory / "catalog.json").write_text(manifest.model_dump_json(), encoding="utf-8")
        (self.directory / _CHECKPOINT).unlink(missing_ok=True)
        return manifest

    def __enter__(self) -> CatalogWriter:
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of the files; what was added after the last checkpoint is lost, unless all was finished."""
        if not self._records.closed:
            self._records.close()
            self._writer.rollback()

    def _take(self, product: Product, record: bytes) -> None:
        self._seen.add(product.product_id)
        self._keys.append(key_of(product.product_id))
        self._offsets.append(self._offsets[-1] + len(record))
        self._content.update(record)
        if self._padding is None:
            self._sample.append(product)
            if len(self._sample) == _PADDING_SAMPLE:
                self._index_sample()
        else:
            self._writer.add_document(_document(product, self._padding))

    def _index_sample(self) -> None:
        if self._padding is None:
            self._padding = _padding(self._sample)
            for product in self._sample:
                self._writer.add_document(_document(product, self._padding))
            self._sample = []


def last_note(directory: Path) -> Any:
    """What came with the last checkpoint of a writer in `directory`; None when there was none."""
    return _last_checkpoint(directory)["note"]


def analyzer() -> Any:
    """Words as the engine compares them: as Lucene's English analyzer does, which ShoppingBench uses."""
    f = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (f.remove_long(64), f.lowercase(), f.ascii_fold(), f.stopword("english")):
        builder = builder.filter(step)
    return builder.filter(f.stemmer("english")).build()


def new_index(directory: Path) -> Any:
    """An empty index in `directory`, in the place of any that is there."""
    if directory.exists():
        for file in directory.iterdir():
            file.unlink()
    directory.mkdir(exist_ok=True)
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name=ANALYZER, index_option="freq")
    builder.add_text_field("shop_id", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("service", tokenizer_name="raw", index_option="basic")
    builder.add_float_field("price", fast=True)
    builder.add_integer_field("sold_count", fast=True)
    index = tantivy.Index(builder.build(), str(directory))
    index.register_tokenizer(ANALYZER, analyzer())
    return index


def key_of(product_id: str) -> int:
    """64 bits that stand for an id in the sorted list of ids."""
    digest = hashlib.blake2b(encodable(product_id).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def encodable(text: str) -> str:
    """`text` with lone surrogates, which no UTF-8 has, replaced."""
    return text.encode("utf-8", "replace").decode()


def _last_checkpoint(directory: Path) -> dict[str, Any]:
    try:
        kept: dict[str, Any] = json.loads((directory / _CHECKPOINT).read_bytes())
    except FileNotFoundError:
        return {"bytes": 0, "note": None}
    return kept


def _padding(sample: Sequence[Product]) -> str:
    words = analyzer()
    lengths = [len(words.analyze(_text(product))) for product in sample]
    return f"\n{PADDING}" * round(_PADDING_SHARE * sum(lengths) / max(len(lengths), 1))


def _text(product: Product) -> str:
    """What is searched. The title stands in it twice, since a word of the title tells more than a value."""
    return f"{product.title}\n{product.searchable_text()}"


def _document(product: Product, padding: str) -> Any:
    document = tantivy.Document()
    document.add_text("text", _text(product) + padding)
    document.add_text("shop_id", product.shop_id)
    for service in product.service:
        document.add_text("service", service)
    document.add_float("price", product.price)
    document.add_integer("sold_count", product.sold_count)
    return document
