"""Open indexes: each one is looked at once, when it is new, and its vectors are kept while it is the newest.

An index file is never changed, so what was found of a file holds for as long as its name leads to that file.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from placet.errors import KnowledgeUnreadable
from placet.knowledge.index_file import IndexFile, is_whole, reading
from placet.knowledge.places import Place
from placet.knowledge.searching import Vectors
from placet.model.knowledge import KnowledgeBase

_TRIES = 20

_Identity = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class _Known:
    identity: _Identity
    vectors: Vectors | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """An index that is open, and which file that is."""

    index: IndexFile
    place: Place
    identity: _Identity

    @property
    def built_at(self) -> datetime:
        """When it was written, by the clock of the file system."""
        return datetime.fromtimestamp(self.identity[2] / 1e9, UTC)


class Shelf:
    """Safe for many threads."""

    def __init__(self) -> None:
        self._known: dict[Place, _Known] = {}
        self._lock = threading.Lock()

    @contextmanager
    def opened(self, base: KnowledgeBase, place: Place) -> Iterator[Opened]:
        """The newest index of a knowledge base.

        Raises:
            KnowledgeUnreadable: it is damaged, of another form, or another knowledge base's.
            FileNotFoundError: there is none.
        """
        for _ in range(_TRIES):
            identity = _identity(place.index)
            with self._doubted(place), reading(place.index) as index:
                is_known = self._is_known(place, identity)
                is_sound = is_known or (_is_whole(place.index) and index.is_of(base))
                if _identity(place.index) != identity:
                    continue  # a new one was published between the two looks
                if not is_sound:
                    raise KnowledgeUnreadable
                if not is_known:
                    self._remember(place, _Known(identity))
                yield Opened(index=index, place=place, identity=identity)
                return
        raise KnowledgeUnreadable

    @contextmanager
    def _doubted(self, place: Place) -> Iterator[None]:
        """What turns out to be damaged is looked at as a whole again, by whoever opens it next."""
        try:
            yield
        except KnowledgeUnreadable:
            with self._lock:
                self._known.pop(place, None)
            raise

    def vectors(self, opened: Opened) -> Vectors:
        """The vectors of an open index; read once per index file."""
        with self._lock:
            known = self._known.get(opened.place)
        if known is not None and known.identity == opened.identity and known.vectors is not None:
            return known.vectors
        vectors = Vectors.of(opened.index)
        self._remember(opened.place, _Known(opened.identity, vectors))
        return vectors

    def _is_known(self, place: Place, identity: _Identity) -> bool:
        with self._lock:
            known = self._known.get(place)
        return known is not None and known.identity == identity

    def _remember(self, place: Place, known: _Known) -> None:
        with self._lock:
            self._known[place] = known


def _is_whole(path: Path) -> bool:
    with suppress(OSError):
        return is_whole(path)
    return False


def _identity(path: Path) -> _Identity:
    fault: FileNotFoundError | KnowledgeUnreadable
    try:
        seen = os.stat(path)
        return seen.st_dev, seen.st_ino, seen.st_mtime_ns, seen.st_size
    except (FileNotFoundError, NotADirectoryError):
        fault = FileNotFoundError()
    except OSError:
        fault = KnowledgeUnreadable()
    raise fault
