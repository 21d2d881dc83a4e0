"""Products on disk: full-text search with filters inside the engine, and records by id without searching.

A catalog is a folder that is never changed once it is there. It is built beside its place and moved in whole,
so that a killed build leaves no half catalog, and doing it again is safe. `catalog_id` is a hash of the
records in their order; problems are about one catalog and name it.

Search sees what ShoppingBench's index holds: title, SKU values and attribute values. It takes the 50 best by
relevance (BM25) *that pass the filters*, sorts those, and shows ten a page. A query is plain text: its words
are looked up one by one, and nothing in it is syntax.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tantivy

from problems.problem import canonical_json
from problems.shopping.product import Product as Product

PAGE_SIZE = 10
PAGES = 5
WINDOW = PAGE_SIZE * PAGES
"""How many products a search can show in all, as in ShoppingBench."""

Sort = Literal["default", "priceasc", "pricedesc", "order"]

_FORMAT = 1
_ANALYZER = "catalog"
_HEAP_BYTES = 128_000_000


class CatalogError(Exception):
    """A catalog cannot be built or opened; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What a product must fulfil to be shown. Price bounds are inclusive, PHP; all services are needed."""

    shop_id: str | None = None
    price_low: float | None = None
    price_high: float | None = None
    services: tuple[str, ...] = ()


class Catalog:
    """An open catalog. Reading is safe from several threads."""

    def __init__(self, directory: Path) -> None:
        """Open the catalog in `directory`. Raises CatalogError when there is none."""
        manifest = _manifest(directory)
        if manifest is None:
            raise CatalogError(f"there is no catalog in {directory}: build one with Catalog.build")
        self.directory = directory
        self.catalog_id: str = manifest["catalog_id"]
        self.size: int = manifest["products"]
        self._ids: npt.NDArray[np.uint64] = np.load(directory / "ids.npy", mmap_mode="r")
        self._rows: npt.NDArray[np.uint64] = np.load(directory / "rows.npy", mmap_mode="r")
        self._offsets: npt.NDArray[np.uint64] = np.load(directory / "offsets.npy", mmap_mode="r")
        self._records = (directory / "records.jsonl").open("rb")
        self._analyzer = _analyzer()
        self._index = tantivy.Index.open(str(directory / "index"))
        self._index.register_tokenizer(_ANALYZER, self._analyzer)
        self._schema = self._index.schema
        self._searcher = self._index.searcher()

    @classmethod
    def open(cls, directory: Path) -> Catalog:
        """Open the catalog in `directory`. Raises CatalogError when there is none."""
        return cls(directory)

    @classmethod
    def build(cls, directory: Path, products: Iterable[Product]) -> Catalog:
        """Write `products` as a catalog into `directory` and open it.

        When the same catalog is there already, it is kept. Raises CatalogError when two products share an id
        or another catalog is in the way.
        """
        directory.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(directory)
        building = Path(tempfile.mkdtemp(prefix=f".{directory.name}.{os.getpid()}.", dir=directory.parent))
        try:
            catalog_id = _write(building, products)
            present = _manifest(directory)
            if present is None:
                if directory.exists() and not any(directory.iterdir()):
                    directory.rmdir()
                building.rename(directory)
            elif present["catalog_id"] != catalog_id:
                raise CatalogError(
                    f"{directory} holds catalog {present['catalog_id'][:12]}, not {catalog_id[:12]}: "
                    "remove it, or build into another folder"
                )
        except OSError as error:
            raise CatalogError(f"cannot write a catalog to {directory}: {error}") from error
        finally:
            shutil.rmtree(building, ignore_errors=True)
        return cls(directory)

    def get(self, product_id: str) -> Product | None:
        """The product with this id, None when there is none."""
        key = _key(product_id)
        at = int(np.searchsorted(self._ids, key))
        while at < self.size and self._ids[at] == key:
            product = self._at(int(self._rows[at]))
            if product.product_id == product_id:
                return product
            at += 1
        return None

    def __iter__(self) -> Iterator[Product]:
        """All products, in catalog order."""
        return (self._at(row) for row in range(self.size))

    def __len__(self) -> int:
        return self.size

    def has_shop(self, shop_id: str) -> bool:
        """Whether any product is of this shop."""
        return bool(self._searcher.doc_freq("shop_id", shop_id))

    def words(self, text: str) -> list[str]:
        """The different words of `text` as search compares them: lower case, stemmed, without stop words."""
        return list(dict.fromkeys(self._analyzer.analyze(_encodable(text))))

    def window(self, q: str, filters: Filters | None = None, sort: Sort = "default") -> list[int]:
        """What the five pages of a search show, in order, as positions in the catalog (see `__iter__`)."""
        words = self.words(q)
        if not words:
            return []
        hits = self._searcher.search(self._query(words, filters or Filters()), WINDOW, count=False).hits
        addresses = [address for _, address in hits]
        rows = self._searcher.fast_field_values("row", addresses)
        order = sorted(range(len(hits)), key=lambda i: (-hits[i][0], rows[i]))
        if sort in ("priceasc", "pricedesc"):
            prices = self._searcher.fast_field_values("price", addresses)
            order.sort(key=lambda i: prices[i], reverse=sort == "pricedesc")
        elif sort == "order":
            sold = self._searcher.fast_field_values("sold_count", addresses)
            order.sort(key=lambda i: sold[i], reverse=True)
        return [rows[i] for i in order]

    def search(
        self, q: str, *, page: int = 1, filters: Filters | None = None, sort: Sort = "default"
    ) -> list[Product]:
        """Page `page` (1 to 5) of the products that share a word with `q` and pass the filters.

        Products of equal relevance come in catalog order. Raises ValueError for another page.
        """
        if not 1 <= page <= PAGES:
            raise ValueError(f"page must be from 1 to {PAGES}, not {page}")
        first = (page - 1) * PAGE_SIZE
        rows = self.window(q, filters, sort)[first : first + PAGE_SIZE]
        return [self._at(row) for row in rows]

    def _query(self, words: list[str], filters: Filters) -> Any:
        must, should = tantivy.Occur.Must, tantivy.Occur.Should
        terms = [(should, tantivy.Query.term_query(self._schema, "text", word, "freq")) for word in words]
        clauses = [(must, tantivy.Query.boolean_query(terms))]
        wanted = [("service", service) for service in filters.services]
        if filters.shop_id is not None:
            wanted.append(("shop_id", filters.shop_id))
        for name, value in wanted:
            term = tantivy.Query.term_query(self._schema, name, value, "basic")
            clauses.append((must, tantivy.Query.const_score_query(term, 0.0)))
        if filters.price_low is not None or filters.price_high is not None:
            within = tantivy.Query.range_query(
                self._schema, "price", tantivy.FieldType.Float, filters.price_low, filters.price_high
            )
            clauses.append((must, tantivy.Query.const_score_query(within, 0.0)))
        return tantivy.Query.boolean_query(clauses)

    def _at(self, row: int) -> Product:
        start, end = int(self._offsets[row]), int(self._offsets[row + 1])
        return Product.model_validate_json(os.pread(self._records.fileno(), end - start, start))


def _analyzer() -> Any:
    """Words as the engine compares them: as Lucene's English analyzer does, which ShoppingBench uses."""
    f = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    for step in (f.remove_long(64), f.lowercase(), f.ascii_fold(), f.stopword("english")):
        builder = builder.filter(step)
    return builder.filter(f.stemmer("english")).build()


def _schema() -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("text", tokenizer_name=_ANALYZER, index_option="freq")
    builder.add_text_field("shop_id", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("service", tokenizer_name="raw", index_option="basic")
    builder.add_float_field("price", indexed=True, fast=True)
    builder.add_integer_field("sold_count", fast=True)
    builder.add_unsigned_field("row", fast=True)
    return builder.build()


def _write(directory: Path, products: Iterable[Product]) -> str:
    """Write every file of a catalog; return its id. One writer and one commit, so that order is kept."""
    (directory / "index").mkdir()
    index = tantivy.Index(_schema(), str(directory / "index"))
    index.register_tokenizer(_ANALYZER, _analyzer())
    writer = index.writer(_HEAP_BYTES, 1)
    content = hashlib.sha256(canonical_json(["catalog", _FORMAT]))
    keys, offsets = array("Q"), array("Q", [0])
    with (directory / "records.jsonl").open("wb") as records:
        for row, product in enumerate(products):
            line = canonical_json(product.model_dump(mode="json")) + b"\n"
            content.update(line)
            records.write(line)
            offsets.append(offsets[-1] + len(line))
            keys.append(_key(product.product_id))
            writer.add_document(_document(row, product))
    writer.commit()
    writer.wait_merging_threads()
    ids = np.frombuffer(keys, dtype=np.uint64) if keys else np.empty(0, dtype=np.uint64)
    rows = np.argsort(ids, kind="stable").astype(np.uint64)
    _refuse_repeated(directory / "records.jsonl", ids[rows], rows, offsets)
    np.save(directory / "ids.npy", ids[rows])
    np.save(directory / "rows.npy", rows)
    np.save(directory / "offsets.npy", np.frombuffer(offsets, dtype=np.uint64))
    manifest = {"format": _FORMAT, "catalog_id": content.hexdigest(), "products": len(keys)}
    (directory / "catalog.json").write_text(json.dumps(manifest), encoding="utf-8")
    return content.hexdigest()


def _document(row: int, product: Product) -> Any:
    document = tantivy.Document()
    document.add_text("text", product.searchable_text())
    document.add_text("shop_id", product.shop_id)
    for service in product.service:
        document.add_text("service", service)
    document.add_float("price", product.price)
    document.add_integer("sold_count", product.sold_count)
    document.add_unsigned("row", row)
    return document


def _refuse_repeated(
    records: Path, ids: npt.NDArray[np.uint64], rows: npt.NDArray[np.uint64], offsets: array[int]
) -> None:
    """Raise CatalogError when two records share an id. Equal hashes of different ids are allowed."""
    with records.open("rb") as file:
        for at in np.flatnonzero(ids[1:] == ids[:-1]):
            lines = []
            for row in (int(rows[at]), int(rows[at + 1])):
                file.seek(offsets[row])
                lines.append(json.loads(file.readline())["product_id"])
            if lines[0] == lines[1]:
                raise CatalogError(f"two products have the id {lines[0]!r}: ids must be unique")


def _manifest(directory: Path) -> dict[str, Any] | None:
    """What the catalog in `directory` says of itself, None when there is no whole one."""
    try:
        manifest: dict[str, Any] = json.loads((directory / "catalog.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    if manifest.get("format") != _FORMAT:
        raise CatalogError(f"{directory} holds a catalog of another format: build it again elsewhere")
    return manifest


def _remove_abandoned(directory: Path) -> None:
    """Remove what builds of processes that are gone left beside `directory`."""
    for left in directory.parent.glob(f".{directory.name}.*.*"):
        pid = left.name.removeprefix(f".{directory.name}.").split(".", 1)[0]
        if pid.isdigit() and not _alive(int(pid)):
            shutil.rmtree(left, ignore_errors=True)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _key(product_id: str) -> int:
    digest = hashlib.blake2b(_encodable(product_id).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _encodable(text: str) -> str:
    """`text` with lone surrogates, which no UTF-8 has, replaced."""
    return text.encode("utf-8", "replace").decode()
