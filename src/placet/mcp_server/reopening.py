"""Questions that this door asked in another process, or under a session that is gone, and that stand open still.

A model that is told to ask again sends the same arguments and nothing else. Which run it asked in is remembered by the
process that was asked; one that has been started since then looks once, for each principal, at what the store has.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final

from placet.engine.gate import Gate
from placet.engine.verifying import verify
from placet.errors import PlacetError
from placet.mcp_server.naming import Namer, owner_of
from placet.model.approval import Approval, ApprovalState
from placet.model.json import JsonObject
from placet.model.principal import Principal
from placet.ports.keys import Keys
from placet.rules import approvals as rules

_OPEN: Final = (ApprovalState.PENDING, ApprovalState.APPROVED)
_MOST_LOOKED_AT: Final = 512
_MOST_OWNERS: Final = 4_096
Runs = dict[tuple[str, str], str]


class Reopened:
    """The runs in which open questions of before were asked, by whose they are and what they are about.

    Only runs that this door named itself: whoever names its runs asks in them.
    """

    def __init__(self, *, gate: Gate, keys: Keys, namer: Namer) -> None:
        self._gate = gate
        self._keys = keys
        self._namer = namer
        self._of: OrderedDict[str, Runs] = OrderedDict()
        self._looking = asyncio.Lock()

    async def run_of(self, tool: str, arguments: JsonObject, *, principal: Principal) -> str | None:
        """The run in which exactly this was asked by this very principal; None where nothing stands open."""
        runs = await self._runs_of(principal)
        if not runs:
            return None
        digest = self._gate.argument_digest(tool, arguments)
        return None if digest is None else runs.get((tool, digest))

    def met(self, tool: str, arguments: JsonObject, *, principal: Principal) -> None:
        """Whoever asked it has met its question, and this process remembers that itself from now on."""
        runs = self._of.get(owner_of(principal))
        digest = self._gate.argument_digest(tool, arguments)
        if runs and digest is not None:
            runs.pop((tool, digest), None)

    async def _runs_of(self, principal: Principal) -> Runs:
        owner = owner_of(principal)
        async with self._looking:
            known = self._of.get(owner)
            if known is None:
                try:
                    known = await self._looked_up(principal)
                except PlacetError:  # the call itself says so; the next one looks again
                    return {}
                self._of[owner] = known
                if len(self._of) > _MOST_OWNERS:
                    self._of.popitem(last=False)
        return known

    async def _looked_up(self, principal: Principal) -> Runs:
        """The newest question of each wish counts."""
        store = self._gate.store
        found = await store.approvals(principal.tenant, states=_OPEN, limit=_MOST_LOOKED_AT)
        now = await store.now() if found else None
        runs: Runs = {}
        for each in found:
            if now is not None and self._is_own(each, principal) and not rules.is_overdue(each, now=now):
                runs.setdefault((each.question.tool, each.question.argument_digest), each.question.run_id)
        return runs

    def _is_own(self, approval: Approval, principal: Principal) -> bool:
        question = approval.question
        is_mine = (question.tenant, question.subject) == (principal.tenant, principal.identity)
        return is_mine and self._namer.is_derived(question.run_id, principal) and verify(approval, self._keys) is None
