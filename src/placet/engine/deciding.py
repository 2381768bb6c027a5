"""Asks policy. It is foreign code: whatever it raises, however it waits, and any silence, is a deny."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from math import inf
from typing import Protocol, cast

from placet.engine.session import Session
from placet.model.approval import Question
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Decision, Deny, Requirement, ShadowAnswer
from placet.model.exact import is_seconds
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal, is_identity
from placet.ports.clock import Clock
from placet.ports.policy import EscalatingPolicy, GrantingPolicy, PolicyEngine
from placet.ports.waiting import foreign, owes_cancellation, takes_owed_cancellation
from placet.rules import policy as policy_rules

LONGEST_DECIDING_SECONDS = 30.0
"""How long a policy that names no time of its own may think about who may decide."""


class Shadow(Protocol):
    """What stands beside the policy that binds; see `engine/shadowing`."""

    async def beside(self, decision: Decision, call: Call, session: Session) -> ShadowAnswer: ...


class Decider:
    """Policy's word and the contract's own."""

    def __init__(self, *, policy: PolicyEngine, clock: Clock, shadow: Shadow | None = None) -> None:
        self._policy = policy
        self._clock = clock
        self._shadow = shadow
        self._asking: set[asyncio.Future[object]] = set()

    @property
    def policy_version(self) -> PolicyVersion | None:
        """The policy in force; None where it does not say so in text."""
        try:
            version: object = self._policy.version
        except BaseException:  # foreign code, which is not waited for here
            return None
        return PolicyVersion(version) if is_identity(version) and type(version) is str else None

    def may_see(self, contract: Contract, principal: Principal) -> bool:
        """Whether the tool is listed for the principal. Seeing is not yet being allowed."""
        if contract.allowed_tenants is not None and principal.tenant not in contract.allowed_tenants:
            return False
        try:
            return self._policy.is_listed(contract, principal) is True
        except BaseException:  # a made-up cancellation included: nothing is waited for here
            return False

    @property
    def asked_now(self) -> int:
        """How many questions the policy has not answered yet, those included that nobody waits for any more."""
        return len(self._asking)

    async def decide(self, call: Call, session: Session) -> Decision:
        """What becomes of the call: a question that nobody could answer is not asked. What a policy in shadow would
        have said is only put beside it.
        """
        decision = policy_rules.answerable(await self.said_of(call, session), call)
        if self._shadow is None:
            return decision
        return replace(decision, shadow=await self._shadow.beside(decision, call, session))

    async def said_of(self, call: Call, session: Session) -> Decision:
        """Policy's word and the contract's own, the stricter; every fault in deciding is a deny (G4)."""
        decision = await self.heard_of(call, session)
        if decision is None:
            return Deny(reasons=("policy_failed",), policy_version=PolicyVersion("unavailable"))
        return policy_rules.effective(decision, call)

    async def heard_of(self, call: Call, session: Session) -> Decision | None:
        """Policy's own word; None for every fault, and any silence."""
        decision: object
        if type(self._policy) is policy_rules.Matrix:
            decision = await self._word(self._policy, call)
        else:
            patience = session.deadline - self._clock.monotonic()
            decision = await foreign(self._answer(call, patience), timeout_seconds=None)
        return decision if policy_rules.is_sound(decision) else None

    async def _word(self, table: policy_rules.Matrix, call: Call) -> object:
        """Our own table is looked up right here: it waits for nobody."""
        if owes_cancellation() and await takes_owed_cancellation():
            return None
        try:
            return table.word(call.contract, call.principal)
        except BaseException:  # of a requirement that is none of ours; nothing is waited for here
            return None

    async def why_not_entitled(self, question: Question, person: Principal, *, deadline: float = inf) -> str | None:
        """Why policy does not let the person decide the question, in a fixed word; None if it does."""
        if type(self._policy) is policy_rules.Matrix:
            answer = await self._entitlement(self._policy, question, person)
        else:
            patience = min(LONGEST_DECIDING_SECONDS, deadline - self._clock.monotonic())
            asking = self._answered(lambda: self._policy.may_decide(question, person), patience)
            answer = await foreign(asking, timeout_seconds=None)
        return None if policy_rules.is_entitled(answer) else policy_rules.refusal_code(answer)

    async def why_not_by_escalation(
        self, question: Question, person: Principal, *, deadline: float = inf
    ) -> str | None:
        """The same of a question that was escalated, for whoever may not decide it otherwise.

        An engine that widens nothing need not know how: what lacks an answer is a no.
        """
        patience = min(LONGEST_DECIDING_SECONDS, deadline - self._clock.monotonic())
        policy = cast(EscalatingPolicy, self._policy)
        asking = self._answered(lambda: policy.may_decide_escalated(question, person), patience)
        answer = await foreign(asking, timeout_seconds=None)
        return None if policy_rules.is_entitled(answer) else policy_rules.refusal_code(answer)

    async def grantable(self, contract: Contract, tenant: str) -> Requirement | None:
        """What policy wants of a review in whose place a grant may be given; None where it lets nobody give one.

        An engine that knows of no grants need not answer: what lacks an answer is a no.
        """
        policy = cast(GrantingPolicy, self._policy)
        asking = self._answered(lambda: policy.grantable(contract, tenant), LONGEST_DECIDING_SECONDS)
        answer = await foreign(asking, timeout_seconds=None)
        return answer if policy_rules.is_grantable(answer) else None

    async def _entitlement(self, table: policy_rules.Matrix, question: Question, person: Principal) -> object:
        if owes_cancellation() and await takes_owed_cancellation():
            return None
        try:
            return table.entitlement(question, person)
        except BaseException:  # of rules that are none of ours
            return None

    async def _answer(self, call: Call, patience: float) -> object:
        return await self._answered(lambda: self._policy.decide(call), patience)

    async def _answered(self, question: Callable[[], Awaitable[object]], patience: float) -> object:
        """What the policy says, as one piece of foreign code: its budget, its call and its waiting.

        It is asked in a task of its own, so that one which does not end when it is cancelled can be left behind.
        """
        seconds = self._policy.timeout_seconds
        if seconds is not None and not is_seconds(seconds):
            return None
        budget = patience if seconds is None else min(seconds, patience)
        asking = asyncio.ensure_future(_said(question))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            await asyncio.wait((asking,), timeout=max(0.0, budget))
        finally:
            if not asking.done():
                asking.cancel()
        return asking.result() if asking.done() and not asking.cancelled() else None


async def _said(question: Callable[[], Awaitable[object]]) -> object:
    """What the policy says, or None for whatever it raises; in a task of its own, so nothing may leave it."""
    try:
        return await question()
    except BaseException:
        return None
