"""Title similarity by a sentence embedding model: the cosine of two titles' vectors.

Needs the extra `embed`. The model is loaded when the first title that is not cached has to be embedded.
Vectors are kept on disk by the hash of the title, in a file of their own for each model and revision, so that
a title is embedded once in a validator's life. The one thing to know: the model and its revision are part of
the name, because they are part of every outcome.
"""

from __future__ import annotations

import hashlib
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MODEL = "Qwen/Qwen3-Embedding-0.6B"
REVISION = "c54f2e6e80b2d7b7de06f51cec4959f6b3e03418"
"""The model that ShoppingBench and subnet 15 compare titles with, and the commit of it that is used."""
_BATCH = 32
_QUERY_SIZE = 500
"""Titles looked up in one statement; SQLite takes some hundreds of parameters."""
_BUSY_S = 30.0

Vector = npt.NDArray[np.float32]
"""Of length 1, so that the dot product of two is their cosine."""


class EmbedderMissing(RuntimeError):
    """The model cannot be loaded; the message says what to install or fetch."""


class EmbeddingSimilarity:
    """Cosine similarity under a `sentence-transformers` model. Safe to call from several threads.

    `model` is a name on the Hugging Face hub or a folder. Of a folder `revision` is not used: its name is the
    hash of its files. `cache` is a folder for the vectors.
    """

    def __init__(
        self,
        cache: Path,
        model: str = MODEL,
        revision: str = REVISION,
        *,
        device: str | None = None,
        batch: int = _BATCH,
    ) -> None:
        folder = Path(model)
        local = folder.is_dir()
        self._model_name = model
        self._revision = None if local else revision
        version = _hash_of(folder) if local else revision
        self.name = f"{folder.name if local else model}@{version[:12]}"
        self._device = device
        self._batch = batch
        self._loading = threading.Lock()
        self._encoder: Any = None
        self._vectors = _VectorFile(
            cache / f"titles-{hashlib.sha256(self.name.encode()).hexdigest()[:16]}.db"
        )

    def similarity(self, candidate: str, truth: str) -> float:
        """The cosine, in [-1, 1]. Raises EmbedderMissing."""
        one, other = self.vectors([candidate, truth])
        return float(np.clip(one @ other, -1.0, 1.0))

    def vectors(
        self, titles: Sequence[str], *, told: Callable[[int, int], None] | None = None
    ) -> list[Vector]:
        """The titles' vectors, in order; those that are not cached are embedded in batches and kept.

        `told` is called after each batch with how many titles are embedded, and of how many.
        Raises EmbedderMissing.
        """
        keys = [_key(title) for title in titles]
        found = self._vectors.read(keys)
        missing = {key: title for key, title in zip(keys, titles, strict=True) if key not in found}
        done = 0
        for part in _parts(list(missing.items()), self._batch):
            made = self._embed([title for _, title in part])
            found |= self._vectors.write(dict(zip((key for key, _ in part), made, strict=True)))
            done += len(part)
            if told is not None:
                told(done, len(missing))
        return [found[key] for key in keys]

    def load(self) -> None:
        """Load the model now, which takes seconds to minutes, and not with the first title. Raises
        EmbedderMissing.
        """
        with self._loading:
            self._loaded()

    def close(self) -> None:
        """Close the file of vectors."""
        self._vectors.close()

    def _loaded(self) -> Any:
        if self._encoder is None:
            self._encoder = _load(self._model_name, self._revision, self._device)
        return self._encoder

    def _embed(self, titles: list[str]) -> list[Vector]:
        with self._loading:  # a model takes one batch at a time
            made = self._loaded().encode(
                titles, batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False
            )
        return [np.asarray(vector, dtype=np.float32) for vector in made]


class _VectorFile:
    """Vectors by key in one SQLite file, shared by threads and processes."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
        with self._lock, self._connection:
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB NOT NULL)"
            )

    def read(self, keys: Iterable[bytes]) -> dict[bytes, Vector]:
        """The vectors that are there."""
        found: dict[bytes, Vector] = {}
        with self._lock:
            for part in _parts(list(dict.fromkeys(keys)), _QUERY_SIZE):
                marks = ",".join("?" * len(part))
                rows = self._connection.execute(
                    f"SELECT key, vector FROM vectors WHERE key IN ({marks})",  # noqa: S608 - marks alone
                    part,
                )
                found |= {key: np.frombuffer(vector, dtype=np.float32) for key, vector in rows}
        return found

    def write(self, vectors: dict[bytes, Vector]) -> dict[bytes, Vector]:
        """Keep vectors; what is there already stays. Returns what is kept, which decides for everyone."""
        with self._lock, self._connection:
            self._connection.executemany(
                "INSERT OR IGNORE INTO vectors VALUES (?, ?)",
                [(key, vector.tobytes()) for key, vector in vectors.items()],
            )
        return self.read(vectors)

    def close(self) -> None:
        with self._lock:
            self._connection.close()


def _load(model: str, revision: str | None, device: str | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise EmbedderMissing(
            "comparing titles by embeddings needs more packages: pip install 'bittensor-agent-arena[embed]'"
        ) from None
    try:
        return SentenceTransformer(model, revision=revision, device=device)
    except (OSError, ValueError) as error:
        raise EmbedderMissing(f"the embedding model {model} cannot be loaded: {error}") from error


def _hash_of(folder: Path) -> str:
    """SHA-256 (hex) over the names and contents of a model folder's files."""
    content = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts):
            content.update(f"{path.relative_to(folder)}\0".encode())
            with path.open("rb") as file:
                content.update(hashlib.file_digest(file, "sha256").digest())
    return content.hexdigest()


def _key(title: str) -> bytes:
    return hashlib.sha256(title.encode("utf-8", "replace")).digest()


def _parts(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))
