"""Products on disk: full-text search with filters inside the engine, and records by id without searching.

A catalog is a folder that is never changed once it is there. It is built beside its place and moved in whole,
so that a killed build leaves no half catalog, and doing it again is safe. `catalog_id` is a hash of the
records in their order; problems are about one catalog and name it.

Search sees what ShoppingBench's index holds: title, SKU values and attribute values. It takes the 50 best by
relevance (BM25) *that pass the filters*, sorts those, and shows ten a page; with `exhaustive`, it sorts all
that pass. Ties are broken by relevance, then by catalog order; an exhaustive sort, which weighs no relevance,
breaks them by catalog order alone. A query is plain text: its words are looked up one by one, and nothing in
it is syntax.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import tantivy

from problems.shopping.catalog_writer import (
    ANALYZER,
    FORMAT,
    PADDING,
    CatalogWriter,
    Manifest,
    analyzer,
    encodable,
    key_of,
)
from problems.shopping.catalog_writer import CatalogError as CatalogError
from problems.shopping.product import Listing as Listing
from problems.shopping.product import Product as Product

PAGE_SIZE = 10
PAGES = 5
WINDOW = PAGE_SIZE * PAGES
"""How many products a search can show in all, as in ShoppingBench."""

Sort = Literal["default", "priceasc", "pricedesc", "order"]

_SORTED_BY = {
    "priceasc": ("price", tantivy.Order.Asc),
    "pricedesc": ("price", tantivy.Order.Desc),
    "order": ("sold_count", tantivy.Order.Desc),
}
"""By sort: the fast field, and which end comes first."""


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
            raise CatalogError(
                f"there is no catalog in {directory}: make one with `arena catalog build` or `import`"
            )
        self.directory = directory
        self.catalog_id = manifest.catalog_id
        self.size = manifest.products
        self.left_out = manifest.left_out
        self._ids: npt.NDArray[np.uint64] = _mapped(directory / "ids.npy")
        self._rows: npt.NDArray[np.uint64] = _mapped(directory / "rows.npy")
        self._offsets: npt.NDArray[np.uint64] = _mapped(directory / "offsets.npy")
        self._records = (directory / "records.jsonl").open("rb")
        self._analyzer = analyzer()
        self._index = tantivy.Index.open(str(directory / "index"))
        self._index.register_tokenizer(ANALYZER, self._analyzer)
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
        try:
            is_catalog(directory)  # or it can be made; better known now than at the end
            directory.parent.mkdir(parents=True, exist_ok=True)
            remove_abandoned(directory)
            building = Path(
                tempfile.mkdtemp(prefix=f".{directory.name}.{os.getpid()}.", dir=directory.parent)
            )
            try:
                with CatalogWriter(building) as writer:
                    for product in products:
                        writer.add(product)
                    writer.finish()
                put_in_place(building, directory)
            finally:
                shutil.rmtree(building, ignore_errors=True)
        except OSError as error:
            raise CatalogError(f"cannot write a catalog to {directory}: {error}") from error
        return cls(directory)

    def get(self, product_id: str) -> Product | None:
        """The product with this id, None when there is none."""
        # As it is, since beside a signed number all the ids would be copied as floats.
        key = np.uint64(key_of(product_id))
        at = int(np.searchsorted(self._ids, key))
        while at < self.size and self._ids[at] == key:
            product = self.at(int(self._rows[at]))
            if product.product_id == product_id:
                return product
            at += 1
        return None

    def at(self, row: int) -> Product:
        """The product at this position in the catalog (see `window`)."""
        return Product.stored(self._record(row))

    def __iter__(self) -> Iterator[Product]:
        """All products, in catalog order."""
        return (self.at(row) for row in range(self.size))

    def __len__(self) -> int:
        return self.size

    def has_shop(self, shop_id: str) -> bool:
        """Whether any product is of this shop."""
        return bool(self._searcher.doc_freq("shop_id", shop_id))

    def words(self, text: str) -> list[str]:
        """The different words of `text` as search compares them: lower case, stemmed, without stop words."""
        words = dict.fromkeys(self._analyzer.analyze(encodable(text)))
        words.pop(PADDING, None)
        return list(words)

    def window(
        self,
        q: str,
        filters: Filters | None = None,
        sort: Sort = "default",
        *,
        exhaustive: bool = False,
    ) -> list[int]:
        """What the five pages of a search show, in order, as positions in the catalog (see `__iter__`)."""
        words = self.words(q)
        if not words:
            return []
        query = self._query(words, filters or Filters())
        if sort == "default":
            hits = self._searcher.search(query, WINDOW, count=False).hits
        elif exhaustive:
            field, order = _SORTED_BY[sort]
            hits = self._searcher.search(query, WINDOW, count=False, order_by_field=field, order=order).hits
        else:
            field, order = _SORTED_BY[sort]
            hits = self._searcher.search(query, WINDOW, count=False).hits
            values = self._searcher.fast_field_values(field, [address for _, address in hits])
            best = sorted(range(len(hits)), key=values.__getitem__, reverse=order == tantivy.Order.Desc)
            hits = [hits[i] for i in best]
        return [address.doc for _, address in hits]

    def search(
        self,
        q: str,
        *,
        page: int = 1,
        filters: Filters | None = None,
        sort: Sort = "default",
        exhaustive: bool = False,
    ) -> list[Listing]:
        """Page `page` (1 to 5) of the products that share a word with `q` and pass the filters.

        The 50 best by relevance are sorted, or all matches when `exhaustive`. Raises ValueError for another
        page.
        """
        if not 1 <= page <= PAGES:
            raise ValueError(f"page must be from 1 to {PAGES}, not {page}")
        first = (page - 1) * PAGE_SIZE
        rows = self.window(q, filters, sort, exhaustive=exhaustive)[first : first + PAGE_SIZE]
        return [Listing.stored(self._record(row)) for row in rows]

    def _record(self, row: int) -> bytes:
        start, end = self._offsets[row : row + 2].tolist()
        return os.pread(self._records.fileno(), end - start, start)

    def _query(self, words: list[str], filters: Filters) -> Any:
        must, should = tantivy.Occur.Must, tantivy.Occur.Should
        found = tantivy.Query.boolean_query(
            [(should, tantivy.Query.term_query(self._schema, "text", word, "freq")) for word in words]
        )
        wanted = [("service", service) for service in filters.services]
        if filters.shop_id is not None:
            wanted.append(("shop_id", filters.shop_id))
        passing = [tantivy.Query.term_query(self._schema, name, value, "basic") for name, value in wanted]
        if filters.price_low is not None or filters.price_high is not None:
            passing.append(
                tantivy.Query.range_query(
                    self._schema, "price", tantivy.FieldType.Float, filters.price_low, filters.price_high
                )
            )
        if not passing:
            return found  # only so does the engine skip what cannot be among the best
        clauses = [(must, tantivy.Query.const_score_query(query, 0.0)) for query in passing]
        return tantivy.Query.boolean_query([(must, found), *clauses])


def _mapped(path: Path) -> npt.NDArray[np.uint64]:
    """The file's array, read as it is needed; a plain view, since memmap's own makes single reads slow."""
    view: npt.NDArray[np.uint64] = np.load(path, mmap_mode="r").view(np.ndarray)
    return view


def is_catalog(directory: Path) -> bool:
    """Whether a catalog is in `directory`. Raises CatalogError when anything else is in the way."""
    if _manifest(directory) is not None:
        return True
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise CatalogError(f"{directory} is there and holds no catalog: choose another folder")
    return False


def put_in_place(building: Path, directory: Path) -> None:
    """Move the whole catalog in `building` to `directory`; when it is there already, leave that as it is.

    Raises CatalogError when another catalog is in the way.
    """
    made, present = _manifest(building), _manifest(directory)
    if made is None:
        raise AssertionError(f"{building} holds no finished catalog")
    if present is None:
        if directory.exists() and not any(directory.iterdir()):
            directory.rmdir()
        building.rename(directory)
    elif present.catalog_id != made.catalog_id:
        raise CatalogError(
            f"{directory} holds catalog {present.catalog_id[:12]}, not {made.catalog_id[:12]}: "
            "remove it, or build into another folder"
        )


def remove_abandoned(directory: Path) -> None:
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


def _manifest(directory: Path) -> Manifest | None:
    """What the catalog in `directory` says of itself, None when there is no whole one."""
    try:
        manifest = Manifest.model_validate_json((directory / "catalog.json").read_bytes())
    except FileNotFoundError:
        return None
    if manifest.format != FORMAT:
        raise CatalogError(f"{directory} holds a catalog of another format: build it again elsewhere")
    return manifest
