"""What is put on record of one request's questions: that they reach its client, and which kind of answer goes back.

A question that cannot be put on record reaches nobody, and an answer that cannot does not go out.
"""

from __future__ import annotations

from placet.engine.gate import Gate
from placet.errors import PlacetError
from placet.mcp_server.carried import Carried
from placet.ports.relay import UpstreamSide
from placet.rules import relaying


class Record:
    """
    Args:
        tool: in whose call; None in any other request.
    """

    def __init__(self, gate: Gate, side: UpstreamSide, carried: Carried, *, tool: str | None) -> None:
        self._gate = gate
        self._side = side
        self._carried = carried
        self._tool = tool

    async def asked(self, kinds: tuple[str, ...]) -> bool:
        """Whether it is on record that the client is asked this."""
        if not kinds:
            return True
        by, request_id = self._carried.principal, self._carried.request_id
        try:
            await self._gate.upstream_questions.asked(
                self._side.server, kinds, by=by, tool=self._tool, request_id=request_id
            )
        except PlacetError:
            return False
        return True

    def refused(self, kind: str) -> None:
        """Count a question that its client is not asked any more."""
        self._side.count_question(kind, relaying.REFUSED)

    async def answered(self, answers: tuple[tuple[str, str], ...]) -> bool:
        """Whether it is on record, and counted, how the client answered."""
        for kind, answer in answers:
            self._side.count_question(kind, answer)
        if not answers:
            return True
        by, request_id = self._carried.principal, self._carried.request_id
        try:
            await self._gate.upstream_questions.answered(
                self._side.server, answers, by=by, tool=self._tool, request_id=request_id
            )
        except PlacetError:
            return False
        return True
