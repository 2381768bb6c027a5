"""Asks policy. It is foreign code: whatever it raises, however it waits, and any silence, is a deny."""

from __future__ import annotations

import asyncio

from placet.engine.session import Session
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Decision, Deny
from placet.model.exact import is_seconds
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal
from placet.ports.clock import Clock
from placet.ports.policy import PolicyEngine
from placet.ports.waiting import foreign, owes_cancellation, takes_owed_cancellation
from placet.rules import policy as policy_rules


class Decider:
    """Policy's word and the contract's own."""

    def __init__(self, *, policy: PolicyEngine, clock: Clock) -> None:
        self._policy = policy
        self._clock = clock
        self._asking: set[asyncio.Future[object]] = set()

    def may_see(self, contract: Contract, principal: Principal) -> bool:
        """Whether the tool is listed for the principal. Seeing is not yet being allowed."""
        if contract.allowed_tenants is not None and principal.tenant not in contract.allowed_tenants:
            return False
        try:
            return self._policy.is_listed(contract, principal) is True
        except BaseException:  # a made-up cancellation included: nothing is waited for here
            return False

    async def decide(self, call: Call, session: Session) -> Decision:
        """Policy's word and the contract's own, the stricter; every fault in deciding is a deny (G4)."""
        if type(self._policy) is policy_rules.Matrix:
            decision = await self._word(self._policy, call)
        else:
            patience = session.deadline - self._clock.monotonic()
            decision = await foreign(self._answer(call, patience), timeout_seconds=None)
        if not policy_rules.is_sound(decision):
            return Deny(reasons=("policy_failed",), policy_version=PolicyVersion("unavailable"))
        return policy_rules.effective(decision, call)

    async def _word(self, table: policy_rules.Matrix, call: Call) -> object:
        """Our own table is looked up right here: it waits for nobody."""
        if owes_cancellation() and await takes_owed_cancellation():
            return None
        try:
            return table.word(call.contract, call.principal)
        except BaseException:  # of a requirement that is none of ours; nothing is waited for here
            return None

    async def _answer(self, call: Call, patience: float) -> object:
        """What the policy says, as one piece of foreign code: its budget, its call and its waiting.

        It is asked in a task of its own, so that one which does not end when it is cancelled can be left behind.
        """
        seconds = self._policy.timeout_seconds
        if seconds is not None and not is_seconds(seconds):
            return None
        budget = patience if seconds is None else min(seconds, patience)
        asking = asyncio.ensure_future(_said(self._policy, call))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            await asyncio.wait((asking,), timeout=max(0.0, budget))
        finally:
            if not asking.done():
                asking.cancel()
        return asking.result() if asking.done() and not asking.cancelled() else None


async def _said(policy: PolicyEngine, call: Call) -> object:
    """What the policy says, or None for whatever it raises; in a task of its own, so nothing may leave it."""
    try:
        return await policy.decide(call)
    except BaseException:
        return None
