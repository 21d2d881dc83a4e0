"""ShoppingBench's search as its server does it, for `bench.search`: Lucene by Pyserini, filters in Python.

A program of its own, because Pyserini needs another interpreter's packages, and a JDK of version 21 or newer
(`JAVA_HOME`, `JVM_PATH`): it imports nothing of this project. It is kinder to the server than the original:
no HTTP, and `k` is 10,000, where the original takes 100,000 hits.

    python _lucene.py build FOLDER_OF_DOCUMENTS INDEX      prints {"seconds", "bytes"}
    python _lucene.py search INDEX < queries.json          prints [{"ms", "ids"}, ...]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENAI_API_KEY", "unused")  # Pyserini does not import without one

_HITS = 10_000
_WINDOW = 50
_PAGE = 10
_WARM_UP = 20


def build(documents: str, index: str) -> dict[str, float]:
    """Index with the original's options."""
    began = time.perf_counter()
    subprocess.run(
        [
            *(sys.executable, "-m", "pyserini.index.lucene", "--collection", "JsonCollection"),
            *("--input", documents, "--index", index, "--generator", "DefaultLuceneDocumentGenerator"),
            *("--threads", "1", "--storePositions", "--storeDocvectors", "--storeRaw"),
        ],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - began
    return {"seconds": seconds, "bytes": sum(path.stat().st_size for path in Path(index).iterdir())}


def search(index: str, queries: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answer each query once, after a few to warm up."""
    from pyserini.search.lucene import LuceneSearcher  # type: ignore[import-not-found,unused-ignore]

    searcher = LuceneSearcher(index)
    for query in queries[:_WARM_UP]:
        _answer(searcher, query)
    answers = []
    for query in queries:
        began = time.perf_counter()
        ids = _answer(searcher, query)
        answers.append({"ms": 1e3 * (time.perf_counter() - began), "ids": ids})
    return answers


def _answer(searcher: Any, query: dict[str, Any]) -> list[str]:
    kept: list[dict[str, Any]] = []
    for hit in searcher.search(q=query["q"], k=query.get("hits", _HITS), remove_dups=True):
        product = json.loads(searcher.doc(hit.docid).raw())["product"]
        if _passes(product, query):
            kept.append(product)
            if len(kept) == _WINDOW:
                break
    if query["sort"] == "order":
        kept.sort(key=lambda product: product["sold_count"], reverse=True)
    elif query["sort"] != "default":
        kept.sort(key=lambda product: product["price"], reverse=query["sort"] == "pricedesc")
    return [product["product_id"] for product in kept[:_PAGE]]


def _passes(product: dict[str, Any], query: dict[str, Any]) -> bool:
    return (
        query["shop_id"] in (None, product["shop_id"])
        and (query["price_low"] is None or product["price"] >= query["price_low"])
        and (query["price_high"] is None or product["price"] <= query["price_high"])
        and all(service in product["service"] for service in query["services"])
    )


if __name__ == "__main__":
    if sys.argv[1] == "build":
        result: object = build(sys.argv[2], sys.argv[3])
    else:
        result = search(sys.argv[2], json.load(sys.stdin))
    print("\n" + json.dumps(result))
