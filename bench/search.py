"""Product search, beside the way of ShoppingBench's server and beside Tantivy alone.

The same searches on the same generated catalog (a million products): 500 of seven kinds, and 3,000 for a
product by words of its title. The server's way is Lucene through Pyserini, its best 10,000 hits fetched,
parsed and filtered in Python (see `_lucene.py`); it is left out where there is no Pyserini. Tantivy alone
runs the same query on the same index for the 50 best, and reads ten records with the standard library, as it
takes to show a page. Both indexes are made from one file. Here a search is run three times and counts with
its median; Lucene's way is run once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import tantivy
from rich.console import Console

from bench import _lucene
from bench._shopping_queries import KINDS, Query, known_items, queries
from bench.figures import Figure, present
from problems.shopping.catalog import PAGE_SIZE, WINDOW, Catalog
from problems.shopping.catalog_writer import ANALYZER, analyzer
from problems.shopping.documents import import_documents
from problems.shopping.generator import generate
from problems.shopping.shopping_environment import ShoppingEnvironment

PRODUCTS, QUICK_PRODUCTS = 1_000_000, 4_000
QUERIES, QUICK_QUERIES = 500, 70
KNOWN = 3_000
ROUNDS = 3
_WITH_SHOP = ("shop", "all filters")
_NO_PYSERINI = (
    "Pyserini is not installed for this Python, so Lucene's figures are left out; "
    "--pyserini-python names one that has it"
)


@dataclass(frozen=True, slots=True)
class Timed:
    """What one way of searching took for each query, in ms, and the product ids it showed."""

    ms: list[float]
    ids: list[list[str]]

    def of(self, asked: Sequence[Query], kind: str) -> list[float]:
        return [ms for ms, query in zip(self.ms, asked, strict=False) if query.kind == kind]


@dataclass(frozen=True, slots=True)
class Built:
    """A finished index."""

    seconds: float
    bytes: float


def measure(
    quick: bool, folder: Path, pyserini: Path | None, products: int | None = None
) -> Sequence[Figure]:
    """All figures. What is in `folder` already is not built again."""
    products = products or (QUICK_PRODUCTS if quick else PRODUCTS)
    count = QUICK_QUERIES if quick else QUERIES
    documents = _documents(folder, products)
    own = _built(folder / "own.json", lambda: _import(documents, folder / "catalog"))
    catalog = Catalog.open(folder / "catalog")
    asked, known = queries(catalog, count), known_items(catalog, KNOWN)
    environment = ShoppingEnvironment(catalog)
    ours, bare, called = _timed(
        asked,
        lambda query: [listing.product_id for listing in catalog.search(**_search(query))],
        _bare(catalog),
        lambda query: _called(environment, query),
    )
    found = _success(known, [[shown.product_id for shown in catalog.search(query.q)] for query in known])
    lucene = other = None
    if pyserini is None:
        Console(stderr=True).print(_NO_PYSERINI)
    else:
        other = _built(folder / "lucene.json", lambda: _lucene_index(pyserini, documents.parent, folder))
        lucene = _lucene_search(pyserini, folder / "lucene", asked, known)
    figures = [figure for kind in KINDS for figure in _latencies(kind, asked, ours, bare, called, lucene)]
    figures += _totals(asked, ours, lucene, own, other, _bytes_of(folder / "catalog" / "index"))
    theirs = None if lucene is None else _success(known, lucene.ids[count:])
    goal = None if theirs is None else 0.0
    return [
        *figures,
        Figure(
            "known-item success at 10, beside Lucene", found, "", theirs, goal, of="difference", at_most=False
        ),
    ]


def _latencies(
    kind: str, asked: Sequence[Query], ours: Timed, bare: Timed, called: Timed, lucene: Timed | None
) -> list[Figure]:
    times = 1_000 if kind in _WITH_SHOP else None
    value, figures = ours.of(asked, kind), []
    for name, of, faster in (("p50", statistics.median, times or 100), ("p95", _p95, times or 30)):
        baseline = None if lucene is None else of(lucene.of(asked, kind))
        goal = None if lucene is None else 1 / faster
        figures.append(Figure(f"{kind} {name}, beside Lucene", of(value), "ms", baseline, goal, of="ratio"))
    alone, median = statistics.median(bare.of(asked, kind)), statistics.median(value)
    added = [call - search for call, search in zip(called.of(asked, kind), value, strict=True)]
    return [
        *figures,
        Figure(f"{kind} p50, beside Tantivy alone", median, "ms", alone, 1.5, of="ratio"),
        Figure(f"{kind}: what a tool call adds, p50", statistics.median(added), "ms", goal=1.0),
    ]


def _totals(
    asked: Sequence[Query],
    ours: Timed,
    lucene: Timed | None,
    own: Built,
    other: Built | None,
    index_bytes: int,
) -> list[Figure]:
    theirs = None if lucene is None else Timed(lucene.ms[: len(asked)], lucene.ids[: len(asked)])
    rate = None if theirs is None else _rate(theirs)
    size, seconds = (None, None) if other is None else (other.bytes / 1e6, other.seconds)
    figures = [
        Figure("searches a second, one after another", _rate(ours), "1/s", rate),
        Figure("size of all files", own.bytes / 1e6, "MB", size),
        Figure("size of the search index in it", index_bytes / 1e6, "MB"),
        Figure("time to build from one file", own.seconds, "s", seconds),
    ]
    if theirs is not None:
        pairs = [(mine, its) for mine, its in zip(ours.ids, theirs.ids, strict=True) if its]
        shared = statistics.mean(len(set(mine) & set(its)) / len(its) for mine, its in pairs)
        figures.append(Figure("share of Lucene's first ten that is in ours", shared, ""))
    return figures


def _documents(folder: Path, products: int) -> Path:
    """The catalog as ShoppingBench writes it: one file in a folder, since Lucene indexes a folder."""
    path = folder / "documents" / "documents.jsonl"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        writing = folder / "documents.tmp"
        with writing.open("w", encoding="utf-8") as file:
            for product in generate(1, products):
                document = {
                    "id": product.product_id,
                    "contents": product.searchable_text(),
                    "product": product.model_dump(mode="json"),
                }
                file.write(json.dumps(document) + "\n")
        writing.rename(path)
    return path


def _built(facts: Path, build: Callable[[], Built]) -> Built:
    """What a build that may have been made before has cost."""
    if not facts.exists():
        built = build()
        facts.write_text(json.dumps({"seconds": built.seconds, "bytes": built.bytes}), encoding="utf-8")
    return Built(**json.loads(facts.read_bytes()))


def _import(documents: Path, directory: Path) -> Built:
    began = time.perf_counter()
    import_documents(documents, directory)
    seconds = time.perf_counter() - began
    return Built(seconds, _bytes_of(directory))


def _bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _search(query: Query) -> dict[str, Any]:
    return {"q": query.q, "filters": query.filters, "sort": query.sort}


def _called(environment: ShoppingEnvironment, query: Query) -> list[str]:
    reply = environment.call("find_product", query.arguments())
    if reply.error:
        raise RuntimeError(f"the tool refused {query}: {reply.error}")
    return [shown["product_id"] for shown in reply.content]


def _bare(catalog: Catalog) -> Callable[[Query], list[str]]:
    """The same query, and a page of records, with nothing around them."""
    offsets = np.load(catalog.directory / "offsets.npy").tolist()
    records = (catalog.directory / "records.jsonl").open("rb")
    index = tantivy.Index.open(str(catalog.directory / "index"))
    words = analyzer()
    index.register_tokenizer(ANALYZER, words)
    schema, searcher = index.schema, index.searcher()
    must, should, of = tantivy.Occur.Must, tantivy.Occur.Should, tantivy.Query

    def search(query: Query) -> list[str]:
        wanted = query.filters
        terms = [of.term_query(schema, "text", word, "freq") for word in words.analyze(query.q)]
        found = of.boolean_query([(should, term) for term in terms])
        passing = [of.term_query(schema, "service", service, "basic") for service in wanted.services]
        if wanted.shop_id is not None:
            passing.append(of.term_query(schema, "shop_id", wanted.shop_id, "basic"))
        low, high = wanted.price_low, wanted.price_high
        if low is not None or high is not None:
            passing.append(of.range_query(schema, "price", tantivy.FieldType.Float, low, high))
        if passing:
            unscored = [(must, of.const_score_query(one, 0.0)) for one in passing]
            found = of.boolean_query([(must, found), *unscored])
        hits = searcher.search(found, WINDOW, count=False).hits
        page = []
        for _, address in hits[:PAGE_SIZE]:
            records.seek(offsets[address.doc])
            page.append(json.loads(records.readline())["product_id"])
        return page

    return search


def _timed(asked: Sequence[Query], *ways: Callable[[Query], list[str]]) -> list[Timed]:
    """Every way in turn for each query, so that a busy machine slows all alike; which is first, changes."""
    took = [[[0.0] * ROUNDS for _ in asked] for _ in ways]
    ids: list[list[list[str]]] = [[[] for _ in asked] for _ in ways]
    for query in asked[:20]:
        for answer in ways:
            answer(query)
    for turn in range(ROUNDS):
        for i, query in enumerate(asked):
            for step in range(len(ways)):
                w = (i + step) % len(ways)
                began = time.perf_counter()
                ids[w][i] = ways[w](query)
                took[w][i][turn] = 1e3 * (time.perf_counter() - began)
    return [Timed([statistics.median(t) for t in took[w]], ids[w]) for w in range(len(ways))]


def _success(known: Sequence[Query], shown: Sequence[Sequence[str]]) -> float:
    return statistics.mean(query.product_id in ids for query, ids in zip(known, shown, strict=True))


def _lucene_index(python: Path, documents: Path, folder: Path) -> Built:
    return Built(**_run(python, ["build", str(documents), str(folder / "lucene")]))


def _lucene_search(python: Path, index: Path, asked: Sequence[Query], known: Sequence[Query]) -> Timed:
    """Both kinds in one process. Of the known ones only the best ten matter, and nobody times them."""
    sent = [query.to_json() for query in asked] + [query.to_json() | {"hits": PAGE_SIZE} for query in known]
    answers = _run(python, ["search", str(index)], json.dumps(sent))
    return Timed([answer["ms"] for answer in answers], [answer["ids"] for answer in answers])


def _run(python: Path, arguments: list[str], stdin: str = "") -> Any:
    command = [str(python), str(_lucene.__file__), *arguments]
    ran = subprocess.run(command, input=stdin, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(ran.stdout.splitlines()[-1])


def _p95(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=20, method="inclusive")[-1]


def _rate(timed: Timed) -> float:
    return 1e3 * len(timed.ms) / sum(timed.ms)


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small catalog; under 45 seconds")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--products", type=int, help=f"size of the catalog; {PRODUCTS:,} if not given")
    parser.add_argument("--folder", type=Path, help="keep what is built here, and use it again")
    parser.add_argument("--pyserini-python", type=Path, help="a Python that has Pyserini")
    options = parser.parse_args()
    pyserini = options.pyserini_python or (Path(sys.executable) if find_spec("pyserini") else None)
    with tempfile.TemporaryDirectory(prefix="arena-bench-") as scratch:
        folder = options.folder or Path(scratch)
        figures = measure(options.quick, folder, pyserini, options.products)
    present(figures, as_json=options.json)


if __name__ == "__main__":
    _main()
