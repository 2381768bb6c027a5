"""Puts on record that an upstream asks somebody something, and which kind of answer goes back, each before it does.

Never the question, and never the answer: a question of an upstream is no approval, and decides nothing here.
"""

from __future__ import annotations

from typing import Any

from placet.engine.chronicle import Chronicle
from placet.model.audit import EventKind
from placet.model.contract import UNKNOWN_TOOL_LABEL
from placet.model.principal import Principal
from placet.ports.store import Store


class UpstreamQuestions:
    """The record of one store."""

    def __init__(self, *, store: Store, chronicle: Chronicle) -> None:
        self._store = store
        self._chronicle = chronicle

    async def asked(
        self, server: str, kinds: tuple[str, ...], *, by: Principal, tool: str | None, request_id: str | None
    ) -> None:
        """The principal's client is about to be asked; durable on return.

        Args:
            kinds: of what is asked at once, as `rules.relaying.question_kind` says it.
            tool: in whose call; None: in another request.

        Raises:
            StoreError: it may not be on record; nobody is to be asked.
        """
        facts = self._facts(by, tool, request_id)
        await self._store.record(
            tuple(
                self._chronicle.event(
                    EventKind.UPSTREAM_ASKED,
                    facts,
                    detail=kind.replace(".", "_"),
                    reasons=(f"upstream:{server}",),
                    model_suggested=False,
                )
                for kind in kinds
            )
        )

    async def answered(
        self,
        server: str,
        answers: tuple[tuple[str, str], ...],
        *,
        by: Principal,
        tool: str | None,
        request_id: str | None,
    ) -> None:
        """The client has answered, and the answers are about to go to the upstream; durable on return.

        Args:
            answers: the kind of each question, and how it was answered, as `rules.relaying.answer_kind` says it.

        Raises:
            StoreError: it may not be on record; no answer is to go out.
        """
        facts = self._facts(by, tool, request_id)
        await self._store.record(
            tuple(
                self._chronicle.event(
                    EventKind.UPSTREAM_ANSWERED,
                    facts,
                    detail=answer,
                    reasons=(f"upstream:{server}", f"question:{kind}"),
                    model_suggested=False,
                )
                for kind, answer in answers
            )
        )

    def _facts(self, by: Principal, tool: str | None, request_id: str | None) -> dict[str, Any]:
        facts = self._chronicle.of_principal(by)
        return facts | {"tool": tool or UNKNOWN_TOOL_LABEL, "request_id": request_id}
