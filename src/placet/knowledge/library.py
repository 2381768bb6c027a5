"""The knowledge bases of a process: their states, their documents, searching them and building their indexes.

Everything that reads or writes files runs in threads, so an event loop never waits for a disk or a model. The methods
that end in `_now` are what those threads run, for callers that have a thread of their own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path

from placet.errors import KnowledgeUnavailable, KnowledgeUnreadable, MisuseError, NotFound, PlacetError
from placet.knowledge.bounds import DEFAULT_BOUNDS, Bounds
from placet.knowledge.building import Builder, max_path_characters, terms_of
from placet.knowledge.comparing import changed, document_status
from placet.knowledge.folder import Scan, scanned
from placet.knowledge.meaning import Meaning, embedding_for
from placet.knowledge.places import is_being_built, place_of
from placet.knowledge.searching import Search
from placet.knowledge.shelf import Opened, Shelf
from placet.model.knowledge import (
    MAX_DOCUMENT_ID_CHARACTERS,
    MAX_EVIDENCE,
    MAX_QUERY_CHARACTERS,
    BuildReport,
    DocumentStatus,
    Evidence,
    IndexState,
    IndexStatus,
    KnowledgeBase,
)
from placet.ports.knowledge import KnowledgeMeter


class Library:
    """Fulfils `ports.knowledge.Knowledge`, and builds.

    Args:
        indexes: the folder of the indexes, made at the first build.
        bases: the knowledge bases; an id is unique in its tenant.
        meaning: whether to search by meaning too, which needs the extra `knowledge`.
        bounds: how much one index takes in.
    """

    def __init__(
        self,
        indexes: str | os.PathLike[str],
        bases: Sequence[KnowledgeBase],
        *,
        meaning: Meaning = Meaning.WHERE_INSTALLED,
        bounds: Bounds = DEFAULT_BOUNDS,
        meter: KnowledgeMeter | None = None,
    ) -> None:
        self._indexes = Path(indexes)
        self._bases = {(base.tenant, base.id): base for base in bases}
        if len(self._bases) != len(bases):
            raise MisuseError("Two knowledge bases of one tenant have the same id.")
        self._embedding = embedding_for(meaning)
        self._bounds = bounds
        self._meter = meter
        self._shelf = Shelf()

    def bases_of(self, tenant: str) -> tuple[KnowledgeBase, ...]:
        """The tenant's knowledge bases, in the order they were given."""
        return tuple(base for base in self._bases.values() if base.tenant == tenant)

    async def status(self, tenant: str, base_id: str) -> IndexStatus:
        """See the port."""
        return await asyncio.to_thread(self.status_now, tenant, base_id)

    async def search(self, tenant: str, base_id: str, query: str, *, limit: int = 3) -> tuple[Evidence, ...]:
        """See the port."""
        return await asyncio.to_thread(self.search_now, tenant, base_id, query, limit=limit)

    async def document(self, tenant: str, document_id: str) -> DocumentStatus:
        """See the port."""
        return await asyncio.to_thread(self.document_now, tenant, document_id)

    async def build(self, tenant: str, base_id: str) -> BuildReport:
        """Bring the index up to its folder: what is new or altered goes in, what is gone goes out.

        Readers see the old index until the new one is whole and durable. If the caller is cancelled, the build ends
        soon and leaves the old index.

        Raises:
            NotFound: the tenant has no such knowledge base.
            KnowledgeBusy: somebody else builds it, in this process or in another.
            KnowledgeNotBuilt: the folder cannot be read, or the index not written; the old index is as it was.
        """
        left = threading.Event()
        try:
            return await asyncio.to_thread(self._build, tenant, base_id, left.is_set)
        except asyncio.CancelledError:
            left.set()
            raise

    def status_now(self, tenant: str, base_id: str) -> IndexStatus:
        """`status`, in this thread."""
        base = self._base(tenant, base_id)
        place = place_of(self._indexes, base)
        try:
            with self._shelf.opened(base, place) as opened:
                return self._standing(base, opened)
        except KnowledgeUnreadable:
            return IndexStatus(state=IndexState.UNREADABLE)
        except FileNotFoundError:
            return IndexStatus(state=IndexState.BUILDING if is_being_built(place) else IndexState.ABSENT)

    def search_now(self, tenant: str, base_id: str, query: str, *, limit: int = 3) -> tuple[Evidence, ...]:
        """`search`, in this thread."""
        if type(query) is not str or not 0 < len(query) <= MAX_QUERY_CHARACTERS:
            raise MisuseError(f"A query is a text of 1 to {MAX_QUERY_CHARACTERS:,} characters.")
        if type(limit) is not int or not 0 < limit <= MAX_EVIDENCE:
            raise MisuseError(f"The limit of a search is a number from 1 to {MAX_EVIDENCE}.")
        base = self._base(tenant, base_id)
        fault: type[KnowledgeUnavailable]  # what went wrong is no part of what is raised
        try:
            return self._found(base, query, limit)
        except KnowledgeUnreadable:
            fault = KnowledgeUnreadable
        except FileNotFoundError:
            fault = KnowledgeUnavailable
        if self._meter is not None:
            self._meter.refused(reason=fault.code)
        raise fault

    def document_now(self, tenant: str, document_id: str) -> DocumentStatus:
        """`document`, in this thread."""
        if type(document_id) is not str or not 0 < len(document_id) <= MAX_DOCUMENT_ID_CHARACTERS:
            raise MisuseError(f"A document's id is a text of 1 to {MAX_DOCUMENT_ID_CHARACTERS} characters.")
        base_id, _, path = document_id.partition("/")
        base = self._base(tenant, base_id)
        scan = self._scan(base)
        found: DocumentStatus | PlacetError
        try:
            with self._shelf.opened(base, place_of(self._indexes, base)) as opened:
                found = document_status(base, path, index=opened.index, scan=scan, bounds=self._bounds)
        except FileNotFoundError:
            found = document_status(base, path, index=None, scan=scan, bounds=self._bounds)
        except KnowledgeUnreadable:
            found = KnowledgeUnreadable()
        if isinstance(found, PlacetError):
            raise found
        return found

    def paths_now(self, tenant: str, base_id: str) -> frozenset[str]:
        """The paths of the documents that the index holds; none where there is no index.

        Raises:
            NotFound: the tenant has no such knowledge base.
            KnowledgeUnreadable: the index cannot be read.
        """
        base = self._base(tenant, base_id)
        is_damaged = False
        with suppress(FileNotFoundError):
            try:
                with self._shelf.opened(base, place_of(self._indexes, base)) as opened:
                    return frozenset(path for _, path, *_ in opened.index.rows("documents"))
            except KnowledgeUnreadable:
                is_damaged = True
        if is_damaged:
            raise KnowledgeUnreadable
        return frozenset()

    def build_now(self, tenant: str, base_id: str) -> BuildReport:
        """`build`, in this thread."""
        return self._build(tenant, base_id, lambda: False)

    def _build(self, tenant: str, base_id: str, is_left: Callable[[], bool]) -> BuildReport:
        base = self._base(tenant, base_id)
        builder = Builder(bounds=self._bounds, embedding=self._embedding, meter=self._meter, is_left=is_left)
        return builder.build(base, place_of(self._indexes, base))

    def _found(self, base: KnowledgeBase, query: str, limit: int) -> tuple[Evidence, ...]:
        with ExitStack() as stack:
            with nullcontext() if self._meter is None else self._meter.retrieving("open"):
                opened = stack.enter_context(self._shelf.opened(base, place_of(self._indexes, base)))
                vectors = self._shelf.vectors(opened) if self._has_meaning(opened) else None
            search = Search(
                index=opened.index, base=base, embedding=self._embedding, vectors=vectors, meter=self._meter
            )
            return search.found(query, limit=limit)

    def _standing(self, base: KnowledgeBase, opened: Opened) -> IndexStatus:
        index = opened.index
        documents, sections, _ = index.counts
        model = index.meaning if self._embedding is None else self._embedding.name
        scan = self._scan(base)
        differing = documents if scan is None else changed(index, base.documents, scan, self._bounds)
        is_current = scan is not None and index.terms == terms_of(self._bounds, model) and not differing
        return IndexStatus(
            state=IndexState.READY if is_current else IndexState.STALE,
            documents=documents,
            sections=sections,
            built_at=opened.built_at,
            has_meaning=self._has_meaning(opened),
            changed=differing,
            skipped=index.skipped,
        )

    def _has_meaning(self, opened: Opened) -> bool:
        return self._embedding is not None and opened.index.meaning == self._embedding.name

    def _scan(self, base: KnowledgeBase) -> Scan | None:
        """What the folder holds; None where it cannot be read."""
        with suppress(OSError):
            return scanned(base.documents, self._bounds, max_path_characters=max_path_characters(base))
        return None

    def _base(self, tenant: str, base_id: str) -> KnowledgeBase:
        base = self._bases.get((tenant, base_id)) if type(tenant) is str and type(base_id) is str else None
        if base is None:
            raise NotFound("There is no such knowledge base, or it is not yours.")
        return base
