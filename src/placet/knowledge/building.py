"""Build one index: what differs goes into a copy of the old one, which then takes its place.

    scan -> copy -> read and write what differs -> meaning of what is new -> sync, rename
                                                                              |
    die before the rename: the old index, and a draft the next build throws away
    die after it:          the new index

Source: ADR-0052.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import apsw

from placet.errors import KnowledgeNotBuilt, KnowledgeUnreadable
from placet.knowledge.bounds import Bounds
from placet.knowledge.comparing import Gone, Kept, LeftOut, Taken, differences
from placet.knowledge.folder import Scan, scanned
from placet.knowledge.index_file import IndexFile, is_whole, reading, seal, unseal, writing
from placet.knowledge.meaning import Embedding
from placet.knowledge.places import Place, building
from placet.knowledge.sections import MAX_SECTION_CHARACTERS, Document, document_of
from placet.knowledge.words import indexed_text
from placet.model.knowledge import (
    MAX_DOCUMENT_ID_CHARACTERS,
    BuildReport,
    KnowledgeBase,
    Skipped,
    SkipReason,
)
from placet.ports.knowledge import KnowledgeMeter

_WINDOW_CHARACTERS = 500
"""Meaning is that of so much text with its title and heading: a longer one means a little of everything."""

_BATCH = 32
_SETTLING_NANOSECONDS = 2_000_000_000
"""A file written to so shortly before it was read may be written to again without its times changing."""


class _ModelFailed(Exception):
    """The model gave no vectors; why stays where it is."""


class Cancelled(Exception):
    """Whoever asked for the build has left; the old index is as it was."""


@dataclass(slots=True, kw_only=True)
class _Tally:
    added: int = 0
    changed: int = 0
    removed: int = 0
    kept: int = 0
    is_other: bool = False
    windows: list[tuple[int, int, str]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class Builder:
    """Builds indexes of knowledge bases.

    Attributes:
        embedding: None for an index of words alone.
        is_left: asked between documents; true ends the build without a trace.
    """

    bounds: Bounds
    embedding: Embedding | None
    meter: KnowledgeMeter | None
    is_left: Callable[[], bool] = lambda: False

    def build(self, base: KnowledgeBase, place: Place) -> BuildReport:
        """Bring the index up to the folder. Durable on return; readers see the old one until then.

        Raises:
            KnowledgeBusy: somebody else builds it.
            KnowledgeNotBuilt: the folder cannot be read, or the index not written.
            Cancelled: `is_left` said so.
        """
        try:
            with building(place):
                place.draft.unlink(missing_ok=True)
                try:
                    return self._built(base, place)
                finally:
                    place.draft.unlink(missing_ok=True)
        except (OSError, apsw.Error, _ModelFailed):
            pass
        raise KnowledgeNotBuilt

    def _built(self, base: KnowledgeBase, place: Place) -> BuildReport:
        with self._stage("scan"):
            scan = scanned(base.documents, self.bounds, max_path_characters=max_path_characters(base))
        model = "" if self.embedding is None else self.embedding.name
        is_gone_on_with = self._can_go_on(base, place)
        if is_gone_on_with:
            shutil.copyfile(place.index, place.draft)
            unseal(place.draft)
        with writing(place.draft) as index:
            index.name_for(base, meaning=model, terms=terms_of(self.bounds, model))
            with self._stage("documents"):
                tally, skipped = self._updated(index, base, scan, now=place.draft.stat().st_mtime_ns)
            self._add_meaning(index, tally)
            sections = index.counts[1]
        if tally.is_other or not is_gone_on_with:
            with self._stage("publish"):
                _publish(place)
        return BuildReport(
            added=tally.added,
            changed=tally.changed,
            removed=tally.removed,
            kept=tally.kept,
            sections=sections,
            skipped=skipped,
        )

    def _can_go_on(self, base: KnowledgeBase, place: Place) -> bool:
        """Whether the old index can be gone on with."""
        model = "" if self.embedding is None else self.embedding.name
        try:
            with reading(place.index) as index:
                return index.is_of(base) and index.terms == terms_of(self.bounds, model) and is_whole(place.index)
        except (OSError, KnowledgeUnreadable):
            return False

    def _updated(
        self, index: IndexFile, base: KnowledgeBase, scan: Scan, *, now: int
    ) -> tuple[_Tally, tuple[Skipped, ...]]:
        tally, left_out = _Tally(), []
        for difference in differences(index, base.documents, scan, self.bounds):
            if self.is_left():
                raise Cancelled
            match difference:
                case Kept(row=row, stamp=stamp, is_stamped=is_stamped):
                    tally.kept += 1
                    if not is_stamped:
                        index.run("stamp_document", stamp, row)
                        tally.is_other = True
                case LeftOut() as left:
                    left_out.append((left.skipped, left.stamp))
                    _remove(index, left.row, tally)
                    tally.is_other |= not left.is_known
                case Gone(row=row):
                    _remove(index, row, tally)
                case Taken() as taken:
                    reason = self._take(index, taken, tally, now=now)
                    if reason is not None:
                        left_out.append((Skipped(path=taken.found.path, reason=reason), taken.found.stamp))
        index.run("forget_skipped")
        for skipped, stamp in left_out:
            index.run("put_skipped", skipped.path, skipped.reason.value, stamp)
        return tally, index.skipped

    def _take(self, index: IndexFile, taken: Taken, tally: _Tally, *, now: int) -> SkipReason | None:
        document = document_of(PurePosixPath(taken.found.path).stem, taken.text.text)
        tally.is_other = True
        if len(document.sections) > self.bounds.max_sections:
            _remove(index, taken.row, tally)
            return SkipReason.TOO_MANY_SECTIONS
        if taken.row is not None:
            _delete(index, taken.row)
        tally.changed += taken.row is not None
        tally.added += taken.row is None
        is_settled = taken.found.mtime_ns + _SETTLING_NANOSECONDS < now
        tally.windows += _inserted(index, taken, document, stamp=taken.found.stamp if is_settled else "")
        return None

    def _add_meaning(self, index: IndexFile, tally: _Tally) -> None:
        """Of like length together: a batch costs what its longest text costs."""
        if self.embedding is None:
            return
        waiting = sorted(tally.windows, key=lambda each: len(each[2]))
        with self._stage("meaning"):
            for at in range(0, len(waiting), _BATCH):
                if self.is_left():
                    raise Cancelled
                batch = waiting[at : at + _BATCH]
                vectors = _vectors(self.embedding, [text for _, _, text in batch])
                for (section, row, _), vector in zip(batch, vectors, strict=True):
                    index.run("put_vector", section, row, vector)

    def _stage(self, name: str) -> AbstractContextManager[object]:
        return nullcontext() if self.meter is None else self.meter.indexing(name)


def _vectors(embedding: Embedding, texts: list[str]) -> Sequence[bytes]:
    with suppress(Exception):
        return embedding.passages(texts)
    raise _ModelFailed


def terms_of(bounds: Bounds, model: str) -> str:
    """What an index was made by; one made by other terms is stale as a whole."""
    return f"{model} {bounds} {MAX_SECTION_CHARACTERS} {_WINDOW_CHARACTERS}"


def max_path_characters(base: KnowledgeBase) -> int:
    """How long a path may be, so that the document's id is one that can be asked for."""
    return MAX_DOCUMENT_ID_CHARACTERS - len(base.id) - 1


def _inserted(index: IndexFile, taken: Taken, document: Document, *, stamp: str) -> list[tuple[int, int, str]]:
    """Put a document into the index; its sections, each with its document's row and what its meaning is made of."""
    path, title = taken.found.path, document.title
    row = index.value("put_document", path, title, taken.text.digest, stamp, len(document.sections))
    named = indexed_text(f"{title} {PurePosixPath(path).stem}")
    index.run("put_document_words", row, named, indexed_text(document.headings), indexed_text(taken.text.text))
    added: list[tuple[int, int, str]] = []
    for section in document.sections:
        number = index.value("put_section", row, section.number, section.slug, section.content)
        index.run("put_section_words", number, named, indexed_text(section.heading), indexed_text(section.body))
        heading = "" if section.heading in ("", title) else f"{section.heading}. "
        added += [(number, row, f"{title}. {heading}{window}") for window in _windows(section.body)]
    return added


def _windows(body: str) -> list[str]:
    """A text in parts of like length."""
    text = " ".join(body.split())
    size = -(-len(text) // max(1, -(-len(text) // _WINDOW_CHARACTERS))) or 1
    return [text[at : at + size] for at in range(0, max(len(text), 1), size)]


def _remove(index: IndexFile, row: int | None, tally: _Tally) -> None:
    if row is not None:
        _delete(index, row)
        tally.removed += 1
        tally.is_other = True


def _delete(index: IndexFile, row: int) -> None:
    for statement in (
        "remove_section_words",
        "remove_document_words",
        "remove_vectors",
        "remove_sections",
        "remove_document",
    ):
        index.run(statement, row)


def _publish(place: Place) -> None:
    """Make the draft durable, then the index."""
    seal(place.draft)
    os.replace(place.draft, place.index)
    _synced(place.folder)


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
