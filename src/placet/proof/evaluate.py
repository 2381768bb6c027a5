"""How well documents are found: questions whose documents are known, put to an index of those documents.

    Recall@3   the share of questions with one of their documents among the first three
    MRR@3      the mean of 1 / the rank of the first of them, 0 where none is among the first three

Each with the interval that 95 of 100 resamplings of the questions fall into (percentile bootstrap): with 20 questions
it is wide, and two numbers whose intervals overlap are not told apart by them. The same seed gives the same interval.

Source: REQUIREMENTS C061.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from placet.errors import ConfigurationError
from placet.knowledge import KnowledgeBase, Library, Meaning
from placet.model.knowledge import MAX_QUERY_CHARACTERS

AT = 3
SCHEMA = "retrieval/1"
ALL = "all"

_RESAMPLES = 2_000
_OUTSIDE = 0.025
_MAX_BYTES = 8 << 20
_MAX_QUESTIONS = 10_000
_MAX_GOLD = 64
_MAX_NAME = 64
_MAX_PATH = 1_024
_TENANT, _BASE = "evaluation", "documents"


class QuestionsRefused(ConfigurationError):
    """The questions cannot be used; nothing was measured."""

    code = "questions_invalid"
    hint = 'One JSON object a line: {"id": "q1", "lang": "en", "question": "...", "gold": ["path/in/the/folder.md"]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, and the documents that answer it, by their paths in the folder."""

    id: str
    lang: str
    question: str
    gold: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """Where the first document that answers a question came, from 1; 0 where it was not among the first three."""

    question: Question
    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A number, and what 95 of 100 resamplings fall between."""

    value: float
    low: float
    high: float

    def as_data(self) -> dict[str, float]:
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """The questions of one language, or of all."""

    lang: str
    questions: int
    recall: Measured
    mrr: Measured

    def as_data(self) -> dict[str, Any]:
        return {
            "lang": self.lang,
            "questions": self.questions,
            "recall_at_3": self.recall.as_data(),
            "mrr_at_3": self.mrr.as_data(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """What came of it. `scores`: each language, then all; `has_meaning`: whether it was searched by meaning too."""

    has_meaning: bool
    documents: int
    sections: int
    seed: int
    scores: tuple[Score, ...]
    answered: tuple[Answered, ...]

    @property
    def overall(self) -> Score:
        return self.scores[-1]

    def as_data(self) -> dict[str, Any]:
        return {
            "searched_by": "words_and_meaning" if self.has_meaning else "words",
            "documents": self.documents,
            "sections": self.sections,
            "seed": self.seed,
            "resamples": _RESAMPLES,
            "scores": [score.as_data() for score in self.scores],
            "ranks": {each.question.id: each.rank for each in self.answered},
        }


def read_questions(path: Path) -> tuple[Question, ...]:
    """The questions of a JSON Lines file.

    Raises:
        QuestionsRefused: it cannot be read, or a line of it is no question; the message names the line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError:
        content = None
    if content is None:
        raise QuestionsRefused(f"The questions cannot be read: {path}")
    if len(content) > _MAX_BYTES:
        raise QuestionsRefused(f"The questions are more than {_MAX_BYTES >> 20} MiB.")
    lines = [(number, line) for number, line in enumerate(content.split(b"\n"), start=1) if line.strip()]
    if not 0 < len(lines) <= _MAX_QUESTIONS:
        raise QuestionsRefused(f"There have to be 1 to {_MAX_QUESTIONS:,} questions.")
    questions = tuple(_question(number, line) for number, line in lines)
    if len({question.id for question in questions}) != len(questions):
        raise QuestionsRefused("Two questions have the same id.")
    return questions


def evaluate(
    questions: Sequence[Question], documents: Path, *, indexes: Path, meaning: Meaning, seed: int
) -> Evaluation:
    """Index the documents, ask every question, and measure.

    Args:
        indexes: where the index is kept; one that is there already is brought up to the documents.

    Raises:
        QuestionsRefused: a question's document is not in the index.
        KnowledgeError: the documents cannot be read, or the index not be written.
    """
    base = KnowledgeBase(tenant=_TENANT, id=_BASE, documents=documents)
    library = Library(indexes, [base], meaning=meaning)
    library.build_now(_TENANT, _BASE)
    held = library.paths_now(_TENANT, _BASE)
    for question in questions:
        for path in sorted(question.gold - held):
            raise QuestionsRefused(f"A document of question {question.id!r} is not in the index: {path!r}")
    answered = tuple(_answered(library, question) for question in questions)
    status = library.status_now(_TENANT, _BASE)
    return Evaluation(
        has_meaning=status.has_meaning,
        documents=status.documents,
        sections=status.sections,
        seed=seed,
        scores=scores_of(answered, seed=seed),
        answered=answered,
    )


def scores_of(answered: Sequence[Answered], *, seed: int) -> tuple[Score, ...]:
    """The score of each language in alphabetical order, then of all questions."""
    languages = sorted({each.question.lang for each in answered})
    groups: Mapping[str, list[Answered]] = {
        **{lang: [each for each in answered if each.question.lang == lang] for lang in languages},
        ALL: list(answered),
    }
    return tuple(
        Score(
            lang=lang,
            questions=len(group),
            recall=_measured([float(each.rank > 0) for each in group], seed=seed),
            mrr=_measured([1 / each.rank if each.rank else 0.0 for each in group], seed=seed),
        )
        for lang, group in groups.items()
    )


def _measured(values: Sequence[float], *, seed: int) -> Measured:
    chance = random.Random(seed)
    means = sorted(_mean(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    low, high = means[int(_OUTSIDE * _RESAMPLES)], means[int((1 - _OUTSIDE) * _RESAMPLES) - 1]
    return Measured(value=round(_mean(values), 4), low=round(low, 4), high=round(high, 4))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _answered(library: Library, question: Question) -> Answered:
    found = library.search_now(_TENANT, _BASE, question.question, limit=AT)
    ranks = (rank for rank, item in enumerate(found, start=1) if item.source in question.gold)
    return Answered(question=question, rank=next(ranks, 0))


def _question(number: int, line: bytes) -> Question:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        said = None
    if type(said) is not dict or not _is_question(said):
        raise QuestionsRefused(f"Line {number} is no question.")
    return Question(id=said["id"], lang=said["lang"], question=said["question"], gold=frozenset(said["gold"]))


def _is_question(said: dict[str, Any]) -> bool:
    gold = said.get("gold")
    return (
        _is_text(said.get("id"), _MAX_NAME)
        and _is_text(said.get("lang"), _MAX_NAME)
        and said["lang"] != ALL
        and _is_text(said.get("question"), MAX_QUERY_CHARACTERS)
        and type(gold) is list
        and 0 < len(gold) <= _MAX_GOLD
        and all(_is_text(path, _MAX_PATH) for path in gold)
    )


def _is_text(value: object, most: int) -> bool:
    return type(value) is str and 0 < len(value) <= most
