"""What a workflow asks of an index of documents. Building it is not among that: whoever runs the index does so."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol

from placet.model.knowledge import DocumentStatus, Evidence, IndexStatus


class Knowledge(Protocol):
    """Knowledge bases, each of one tenant; one of another tenant is the same as none."""

    async def status(self, tenant: str, base_id: str) -> IndexStatus:
        """How the index stands now.

        Raises:
            NotFound: the tenant has no such knowledge base.
        """
        ...

    async def search(self, tenant: str, base_id: str, query: str, *, limit: int = 3) -> tuple[Evidence, ...]:
        """The best section of each of the documents that fit best, best first; none where nothing fits.

        Raises:
            NotFound: the tenant has no such knowledge base.
            MisuseError: the query is no text of 1 to 2,000 characters, or the limit not 1 to 10.
            KnowledgeUnavailable: there is no whole index, or it cannot be read.
        """
        ...

    async def document(self, tenant: str, document_id: str) -> DocumentStatus:
        """How one document stands. `document_id`: the knowledge base's id, `/`, and the path in its folder.

        Raises:
            NotFound: the tenant has no such document.
            MisuseError: the id is no text of 1 to 128 characters.
            KnowledgeUnavailable: the index cannot be read.
        """
        ...


class KnowledgeMeter(Protocol):
    """Numbers of knowledge bases. Durations are measured from entering the context to leaving it."""

    def indexing(self, stage: str) -> AbstractContextManager[object]:
        """`scan`, `documents`, `meaning` or `publish`."""
        ...

    def retrieving(self, stage: str) -> AbstractContextManager[object]:
        """`open`, `words`, `meaning` or `gather`."""
        ...

    def refused(self, *, reason: str) -> None:
        """A question was not answered from documents.

        `index_not_ready` or `index_unreadable`, which a search says itself; `nothing_found` or `too_weak`, which
        whoever asked `rules.evidence` says.
        """
        ...


class ModelMeter(Protocol):
    """Numbers of the models that are asked."""

    def model_called(self, *, provider: str, outcome: str) -> None:
        """`openai_compatible` or `scripted`; `answered`, `refused`, `timeout` or `failed`."""
        ...

    def model_tokens(self, *, provider: str, kind: str, tokens: int) -> None:
        """So many tokens, `prompt` or `completion`, as the provider counted them."""
        ...
