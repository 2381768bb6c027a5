"""The question whether a call may run."""

from __future__ import annotations

from typing import Protocol

from placet.model.approval import Question
from placet.model.call import Call
from placet.model.contract import Contract
from placet.model.decision import Decision, Entitlement, Requirement
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal


class PolicyEngine(Protocol):
    """Answers for every call anew. Whatever it raises, and any silence, is a deny.

    Attributes:
        timeout_seconds: how long one answer may take; None for an engine that never waits.
    """

    @property
    def version(self) -> PolicyVersion: ...

    @property
    def timeout_seconds(self) -> float | None: ...

    async def decide(self, call: Call) -> Decision:
        """May this call run? Sees the validated arguments, never the raw ones."""
        ...

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        """May this principal see the tool at all, whatever its arguments?"""
        ...

    async def may_decide(self, question: Question, person: Principal) -> Entitlement:
        """May this person approve, or deny, this question? Asked when somebody decides, and again before an approval
        is spent, of everybody who gave it. A yes widens nothing: separate duties and `approvals.decide` are needed all
        the same.
        """
        ...


class GrantingPolicy(Protocol):
    """What an engine also answers under which standing grants may be given."""

    async def grantable(self, contract: Contract, tenant: str) -> Requirement | None:
        """What a review of this tool's calls in this tenant has to look like, with the most that a standing grant in
        its place may be; None where nobody may give one. Asked when somebody wants to give one. Of every call that is
        asked about `decide` says itself whether a grant may answer: its requirement has `grants`.
        """
        ...


class EscalatingPolicy(Protocol):
    """What an engine also answers whose questions may widen, with `Reminders.widens`, who decides them."""

    async def may_decide_escalated(self, question: Question, person: Principal) -> Entitlement:
        """May this person decide this question because it was escalated? Asked only of whom `may_decide` did not let,
        of a question whose own signed instants say that it is escalated; and again before an approval is spent.
        Separate duties and `approvals.decide` are needed all the same.
        """
        ...
