"""The words that are looked for: the same cut for documents and questions.

A word is a run of letters and digits. An identifier is its parts and itself (`KubeAPIErrorBudget`: kube, api, error,
budget, and the whole), because people ask for the parts. Chinese, Japanese and Korean have no blanks: of each run of
their characters every pair of neighbours is a word. Words are joined by blanks, so that what FTS5 is given holds
letters, digits and blanks and nothing else: no text, a question's least of all, can be syntax.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

MAX_QUERY_WORDS = 64
MOST_WEIGHED_WORDS = 256
"""Weighing a word takes a look at the index; a question without blanks has as many words as characters."""

_MAX_WORD = 64

_IDEOGRAPHS = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
_RUN = re.compile(rf"[{_IDEOGRAPHS}]+|[^\W_{_IDEOGRAPHS}]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_IDEOGRAPH = re.compile(rf"[{_IDEOGRAPHS}]")

_COMMON_TEXT = """
a about after again all also am an and any are as at be because been before being but by can could did do does doing for
from had has have having he her here hers him his how i if in into is it its just me my no nor not now of off on once
only or our ours out over own same she should so some such than that the their theirs them then there these they this
those through to too under until up us very was we were what when where which while who whom whose why will with would
you your yours
的 了 是 在 我 们 有 和 就 不 都 也 很 到 要 去 你 会 着 没 好 这 那 什么 怎么 怎样 如何 为什么 哪个 哪些 是否 可以
"""
_COMMON = frozenset(_COMMON_TEXT.split())
"""Words that say nothing of what a question is about."""


def words_of(text: str) -> Iterator[str]:
    """The words of a text in their order, in lower case; very long ones are cut."""
    for run in _RUN.finditer(unicodedata.normalize("NFKC", text)):
        word = run[0]
        if _IDEOGRAPH.match(word):
            yield from (word,) if len(word) == 1 else (word[at : at + 2] for at in range(len(word) - 1))
            continue
        whole = word[:_MAX_WORD]
        parts = _HUMP.split(whole)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)
        yield whole.lower()


def indexed_text(text: str) -> str:
    """What the index is given of a text."""
    return " ".join(words_of(text))


def asked_words(query: str) -> list[str]:
    """The words of a question that say what it is about, each once; all of them if none does."""
    words = list(dict.fromkeys(words_of(query)))
    return [word for word in words if word not in _COMMON] or words


def any_of(words: Iterable[str]) -> str:
    """The FTS5 expression for texts that hold at least one of the words."""
    return " OR ".join(f'"{word}"' for word in words)
