"""Texts as vectors, so that a question finds what says the same in other words, or in another language.

Two models, both inside wheels (extra `knowledge`): a question in English is asked of the one that knows only English
and knows it better, any other of the multilingual one. A section's vector is that of both, one after the other; a
question's is that of one, with zeros in the other's place. So one product of an index's vectors with a question
compares like with like.

Nothing is downloaded, and nothing leaves the process. Each model is loaded at its first use, once per process, and
asked by one thread at a time. Source: ADR-0052.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from placet.knowledge import english, multilingual
from placet.model.knowledge import MeaningModel

if TYPE_CHECKING:
    import numpy

_Loaded = TypeVar("_Loaded")

_DIMENSIONS = 384
"""Of either model."""


class Meaning(StrEnum):
    """Whether search goes by meaning too. WHERE_INSTALLED: if the extra `knowledge` is; NEVER: by words alone."""

    WHERE_INSTALLED = "where_installed"
    NEVER = "never"

    @property
    def is_installed(self) -> bool:
        """Whether the extra is there, and wanted."""
        return self is Meaning.WHERE_INSTALLED and multilingual.is_installed()


@dataclass(frozen=True, slots=True)
class AskedMeaning:
    """The vector of a question, as float32 in the machine's order, and the model that it was asked of."""

    vector: bytes
    model: MeaningModel


class Embedding(Protocol):
    """What makes vectors.

    Attributes:
        name: names the models and their versions; an index made with others is stale.
    """

    name: str

    def passages(self, texts: Sequence[str]) -> Sequence[bytes]:
        """The vectors of sections, as float32 in the machine's order."""
        ...

    def query(self, text: str) -> AskedMeaning:
        """The vector of a question, as long as those of sections."""
        ...


def embedding_for(meaning: Meaning) -> Embedding | None:
    """The models to search with, None for words alone."""
    if not meaning.is_installed:
        return None
    return _with_english() if english.is_installed() else _multilingual()


def is_english(text: str) -> bool:
    """Whether a question goes to the model that knows only English: no letter in it is one that English has not."""
    return all(each.isascii() for each in text if each.isalpha())


class _Multilingual:
    name = MeaningModel.MULTILINGUAL.value

    def __init__(self) -> None:
        self._model = _Shared(multilingual.MultilingualModel)

    def passages(self, texts: Sequence[str]) -> Sequence[bytes]:
        return [row.tobytes() for row in self.rows(texts)]

    def rows(self, texts: Sequence[str]) -> numpy.ndarray:
        with self._model as model:
            return model.passages(list(map(_sound, texts)))

    def query(self, text: str) -> AskedMeaning:
        with self._model as model:
            return AskedMeaning(model.query(_sound(text)).tobytes(), MeaningModel.MULTILINGUAL)


class _WithEnglish:
    name = f"{MeaningModel.MULTILINGUAL} {MeaningModel.ENGLISH}"

    def __init__(self, others: _Multilingual) -> None:
        self._others = others
        self._english = _Shared(english.EnglishModel)

    def passages(self, texts: Sequence[str]) -> Sequence[bytes]:
        import numpy

        both = numpy.hstack([self._others.rows(texts), self._of_english(texts)])
        return [row.tobytes() for row in both]

    def query(self, text: str) -> AskedMeaning:
        nothing = bytes(4 * _DIMENSIONS)
        if is_english(text):
            return AskedMeaning(nothing + self._of_english([text]).tobytes(), MeaningModel.ENGLISH)
        asked = self._others.query(text)
        return AskedMeaning(asked.vector + nothing, asked.model)

    def _of_english(self, texts: Sequence[str]) -> numpy.ndarray:
        with self._english as model:
            return model.vectors(list(map(_sound, texts)))


class _Shared(Generic[_Loaded]):
    """A model that is loaded when it is first needed, for one thread at a time."""

    def __init__(self, load: Callable[[], _Loaded]) -> None:
        self._load = load
        self._lock = threading.Lock()
        self._model: _Loaded | None = None

    def __enter__(self) -> _Loaded:
        self._lock.acquire()
        try:
            if self._model is None:
                self._model = self._load()
        except BaseException:
            self._lock.release()
            raise
        return self._model

    def __exit__(self, *_: object) -> None:
        self._lock.release()


@cache
def _multilingual() -> _Multilingual:
    return _Multilingual()


@cache
def _with_english() -> _WithEnglish:
    return _WithEnglish(_multilingual())


def _sound(text: str) -> str:
    """What can be a C string."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
