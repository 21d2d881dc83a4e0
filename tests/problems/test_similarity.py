"""How alike two titles are, and which way of saying so an outcome names."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from problems.shopping import embedding
from problems.shopping.embedding import EmbedderMissing, EmbeddingSimilarity
from problems.shopping.scoring import scorer_name
from problems.shopping.similarity import (
    LexicalSimilarity,
    PrecomputedSimilarity,
    StoredEmbeddings,
    TitleSimilarity,
    UnknownPair,
)

WORDS = ("red", "wool", "hat", "blue", "cap", "violin", "bow", "[UNK]")
needs_model = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="sentence-transformers is not installed: pip install 'bittensor-agent-arena[embed]'",
)


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A real sentence-transformers model with eight words, each in a direction of its own."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.eye(len(WORDS), dtype=np.float32)
    folder = tmp_path_factory.mktemp("model") / "eight-words"
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)]).save(str(folder))
    return folder


@given(a=st.text(), b=st.text())
def test_lexical_similarity_is_symmetric_and_whole_for_the_same_words(a: str, b: str) -> None:
    lexical = LexicalSimilarity()
    assert lexical.similarity(a, b) == lexical.similarity(b, a)
    assert 0 <= lexical.similarity(a, b) <= 1


def test_lexical_similarity_ignores_order_case_and_punctuation() -> None:
    assert LexicalSimilarity().similarity("Red wool-hat!", "HAT red, wool") == 1


@needs_model
def test_an_embedding_model_gives_the_cosine_of_two_titles(model: Path, tmp_path: Path) -> None:
    similarity = EmbeddingSimilarity(tmp_path, str(model))
    assert similarity.similarity("red hat", "hat red") == pytest.approx(1)
    assert similarity.similarity("red hat", "red cap") == pytest.approx(0.5)
    assert similarity.similarity("red hat", "blue cap") == pytest.approx(0)


@needs_model
def test_a_title_is_embedded_once_in_batches_and_kept_on_disk(model: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    titles = ["red hat", "blue cap", "wool hat", "red hat", "violin bow", "bow"]
    first = EmbeddingSimilarity(tmp_path, str(model), batch=2)
    made = first.vectors(titles, told=lambda done, of: told.append((done, of)))
    assert told == [(2, 5), (4, 5), (5, 5)]
    first.close()
    again = EmbeddingSimilarity(tmp_path, str(model))
    kept = again.vectors(titles, told=lambda done, of: told.append((done, of)))
    assert len(told) == 3
    assert again._encoder is None
    assert all(np.array_equal(a, b) for a, b in zip(made, kept, strict=True))


@needs_model
def test_threads_share_one_model_and_one_cache(model: Path, tmp_path: Path) -> None:
    similarity = EmbeddingSimilarity(tmp_path, str(model))
    pairs = [(a, b) for a in WORDS[:4] for b in WORDS[:4]]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda pair: similarity.similarity(*pair), pairs))
    assert found == pytest.approx([float(a == b) for a, b in pairs])


@needs_model
def test_another_model_has_another_name_and_another_cache(model: Path, tmp_path: Path) -> None:
    import shutil

    other = tmp_path / "eight-words"
    shutil.copytree(model, other)
    same = EmbeddingSimilarity(tmp_path / "cache", str(other))
    assert same.name == EmbeddingSimilarity(tmp_path / "cache", str(model)).name
    (other / "README.md").write_text("changed")
    changed = EmbeddingSimilarity(tmp_path / "cache", str(other))
    assert changed.name != same.name
    assert changed.name.startswith("eight-words@")


@needs_model
def test_a_folder_without_a_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "nothing").mkdir()
    similarity = EmbeddingSimilarity(tmp_path / "cache", str(tmp_path / "nothing"))
    with pytest.raises(EmbedderMissing, match="nothing cannot be loaded"):
        similarity.similarity("a", "b")


def test_without_the_packages_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(EmbedderMissing, match=r"bittensor-agent-arena\[embed\]"):
        EmbeddingSimilarity(tmp_path).similarity("a", "b")


def test_the_packages_are_loaded_only_when_a_title_must_be_embedded() -> None:
    code = (
        "import sys, problems.shopping.embedding; "
        "print('torch' in sys.modules, 'sentence_transformers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split() == ["False", "False"]


def test_the_default_is_the_models_pinned_commit(tmp_path: Path) -> None:
    assert EmbeddingSimilarity(tmp_path).name == f"Qwen/Qwen3-Embedding-0.6B@{embedding.REVISION[:12]}"


def test_stored_embeddings_are_compared_and_named_by_their_content() -> None:
    stored = StoredEmbeddings({"a": [1, 0], "b": [3, 4]}, model="m")
    assert stored.similarity("a", "b") == pytest.approx(0.6)
    assert stored.name != StoredEmbeddings({"a": [1, 0], "b": [4, 3]}, model="m").name
    with pytest.raises(UnknownPair, match="name the model"):
        stored.similarity("a", "c")


@needs_model
def test_a_title_without_a_stored_embedding_is_left_to_the_model(model: Path, tmp_path: Path) -> None:
    others = EmbeddingSimilarity(tmp_path, str(model))
    red_hat = [1.0, 0, 1, 0, 0, 0, 0, 0]
    stored = StoredEmbeddings({"the target": red_hat}, model="eight words", others=others)
    assert stored.similarity("red cap", "the target") == pytest.approx(0.5)
    assert others.name in stored.name


@pytest.mark.parametrize("vectors", [{"a": [0.0, 0.0]}, {"a": [float("nan")]}, {"a": [1.0], "b": [1.0, 2.0]}])
def test_stored_embeddings_that_cannot_be_compared_are_refused(vectors: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="stored embedding"):
        StoredEmbeddings(vectors, model="m")


def test_the_embeddings_of_a_released_suite_are_read(shared_data: Path) -> None:
    stored = StoredEmbeddings.of_suite(shared_data / "oro" / "problem_suite_v3.json", model="qwen")
    assert len(stored) == 53
    titles = sorted(stored._vectors)
    assert stored.similarity(titles[0], titles[0]) == pytest.approx(1)
    assert stored.similarity(titles[0], titles[1]) < 0.7


@pytest.mark.parametrize("written", ["[]", "{}", "[1]", "{"])
def test_a_suite_without_embeddings_is_refused(tmp_path: Path, written: str) -> None:
    path = tmp_path / "suite.json"
    path.write_text(written)
    with pytest.raises(ValueError):
        StoredEmbeddings.of_suite(path, model="m")


def test_every_similarity_makes_a_scorer_of_its_own(tmp_path: Path) -> None:
    every: list[TitleSimilarity] = [
        LexicalSimilarity(),
        PrecomputedSimilarity({}),
        StoredEmbeddings({"a": [1.0]}, model="m"),
        EmbeddingSimilarity(tmp_path),
        EmbeddingSimilarity(tmp_path, revision="0" * 40),
    ]
    assert len({scorer_name(similarity) for similarity in every}) == len(every)
