"""Find the sections that answer a question: by words, by whole documents, and by meaning, ranked together.

    question -> words asked for -> sections that hold them ----------------+-> reciprocal ranks -> best section
                                -> documents that hold them, without a model --+                       of each
             -> vector          -> documents near to it, with a model ---------+

With models words have one vote and meaning the other; whole documents by words would give words two. Each ranking
orders documents, and a document scores 1 / (60 + its rank) in each: no score of one is ever compared with a score of
another. Source: ADR-0052.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from placet.knowledge.index_file import IndexFile
from placet.knowledge.meaning import Embedding
from placet.knowledge.words import MAX_QUERY_WORDS, MOST_WEIGHED_WORDS, any_of, asked_words
from placet.model.knowledge import Evidence, KnowledgeBase, MeaningModel
from placet.ports.knowledge import KnowledgeMeter

if TYPE_CHECKING:
    import numpy

_RANK_CONSTANT = 60
_RANKED_DOCUMENTS = 60
_RANKED_SECTIONS = 400
_NEAREST_PARTS = 4
"""One short part is near to many questions by chance; four seldom are."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """All vectors of an index, as rows of one matrix, with the section and the document of each row."""

    sections: Sequence[int]
    documents: Sequence[int]
    matrix: numpy.ndarray

    @classmethod
    def of(cls, index: IndexFile) -> Vectors:
        import numpy

        rows = index.rows("vectors")
        matrix = numpy.frombuffer(b"".join(vector for _, _, vector in rows), dtype=numpy.float32)
        return cls(
            [section for section, _, _ in rows],
            [document for _, document, _ in rows],
            matrix.reshape(len(rows), -1) if rows else matrix,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One question to one open index.

    Attributes:
        embedding: None to search by words alone.
        vectors: those of this index; None to search by words alone.
    """

    index: IndexFile
    base: KnowledgeBase
    embedding: Embedding | None
    vectors: Vectors | None
    meter: KnowledgeMeter | None = None

    def found(self, query: str, *, limit: int) -> tuple[Evidence, ...]:
        """The best section of each of the best documents, best first."""
        with self._stage("words"):
            words = self._telling(asked_words(query))
            by_section = self._best_sections(list(words))
            by_document = self._best_documents(list(words))
        with self._stage("meaning"):
            near, model = self._near(query)
        with self._stage("gather"):
            best = fused((list(by_section), list(near) if near else by_document))[:limit]
            chosen = [(near.get(row), self._section_of(row, by_section, near)) for row in best]
            held = self._coverage(words, [section for _, section in chosen])
            return tuple(
                self._evidence(section, coverage=held[section], similarity=place and place[1], model=model)
                for place, section in chosen
            )

    def _telling(self, words: Sequence[str]) -> dict[str, float]:
        """The words with their weights: what few sections hold says more; of the first 256 the 64 that say most."""
        sections = self.index.counts[1]
        weights = {
            word: _weight(self.index.value("held_by", any_of([word])), sections) for word in words[:MOST_WEIGHED_WORDS]
        }
        most = sorted(weights, key=lambda word: -weights[word])[:MAX_QUERY_WORDS]
        return {word: weights[word] for word in most}

    def _best_sections(self, words: Sequence[str]) -> dict[int, int]:
        """Documents in the order of their best sections, each with that section."""
        if not words:
            return {}
        sections = [row for (row,) in self.index.rows("best_sections", any_of(words), _RANKED_SECTIONS)]
        documents = dict(self.index.rows("sections_of", json.dumps(sections)))
        best: dict[int, int] = {}
        for section in sections:
            best.setdefault(documents[section], section)
        return dict(list(best.items())[:_RANKED_DOCUMENTS])

    def _best_documents(self, words: Sequence[str]) -> list[int]:
        if not words:
            return []
        return [row for (row,) in self.index.rows("best_documents", any_of(words), _RANKED_DOCUMENTS)]

    def _near(self, query: str) -> tuple[dict[int, tuple[int, float]], MeaningModel | None]:
        """Documents in the order of how near their nearest parts are, each with its nearest section; by which model."""
        if self.embedding is None or self.vectors is None or not len(self.vectors.sections):
            return {}, None
        import numpy

        asked = self.embedding.query(query)
        likeness = self.vectors.matrix @ numpy.frombuffer(asked.vector, dtype=numpy.float32)
        nearest: dict[int, list[tuple[int, float]]] = {}
        for at in numpy.argsort(-likeness, kind="stable").tolist():
            parts = nearest.setdefault(self.vectors.documents[at], [])
            if len(parts) < _NEAREST_PARTS:
                parts.append((self.vectors.sections[at], min(max(float(likeness[at]), 0.0), 1.0)))
        best = sorted(nearest, key=lambda row: -sum(near for _, near in nearest[row]) / len(nearest[row]))
        return {row: nearest[row][0] for row in best[:_RANKED_DOCUMENTS]}, asked.model

    def _section_of(self, row: int, by_section: dict[int, int], near: dict[int, tuple[int, float]]) -> int:
        """The section to show of a document: the one whose words fit, else the one that is near, else its first."""
        if row in by_section:
            return by_section[row]
        section: int = near[row][0] if row in near else self.index.value("first_section", row)
        return section

    def _coverage(self, words: dict[str, float], sections: Sequence[int]) -> dict[int, float]:
        held = dict.fromkeys(sections, 0.0)
        whole = sum(words.values())
        for word, weight in words.items():
            for (section,) in self.index.rows("holding", any_of([word]), json.dumps(list(sections))):
                held[section] += weight / whole
        return held

    def _evidence(
        self, section: int, *, coverage: float, similarity: float | None, model: MeaningModel | None
    ) -> Evidence:
        path, title, slug, number, content = self.index.rows("section", section)[0]
        return Evidence(
            citation=f"{PurePosixPath(path).with_suffix('')}#{slug}:{number}",
            source=path,
            document_id=f"{self.base.id}/{path}",
            title=title,
            content=content,
            coverage=round(min(coverage, 1.0), 4),
            similarity=None if similarity is None else round(similarity, 4),
            measured_by=None if similarity is None else model,
        )

    def _stage(self, name: str) -> AbstractContextManager[object]:
        return nullcontext() if self.meter is None else self.meter.retrieving(name)


def fused(rankings: Iterable[Sequence[int]]) -> list[int]:
    """One ranking of several, by reciprocal ranks; ties by number, so that the answer is always the same."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(scores, key=lambda row: (-scores[row], row))


def _weight(holding: int, sections: int) -> float:
    """Inverse document frequency, as BM25 has it, never below 0."""
    return math.log(1 + (sections - holding + 0.5) / (holding + 0.5))
