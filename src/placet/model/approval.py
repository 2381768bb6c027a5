"""A person's signed answer for one exact call, with expiry, spent once.

pending  → approved | denied | expired | withdrawn
approved → spent | expired | revoked
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from placet.model.decision import RequirementKind, Terms
from placet.model.identifiers import ApprovalId, CallId, Digest, OperationKey, PolicyVersion, RequestId, RunId
from placet.model.making import quick
from placet.model.reminders import Reminders


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    SPENT = "spent"
    REVOKED = "revoked"


class ApprovalDecision(StrEnum):
    """The only two answers a person can give."""

    APPROVE = "approve"
    DENY = "deny"


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Mac:
    """A keyed signature and the id of the key that made it."""

    key_id: str
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Edited:
    """Where a question comes from that a person made of another one by changing its arguments.

    Attributes:
        by: who did; its own vote counts for no review and no quorum.
        from_id, from_digest: the question that was asked, and the arguments it was about.
    """

    by: str
    from_id: ApprovalId
    from_digest: Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a person is asked: one exact call. Immutable once stored, and MACed as a whole.

    Attributes:
        dispatch_number: the fence the effect would get; a spare approval never fires a later dispatch.
        lifetime_seconds: how long an approval stays usable after the decision.
        decide_by: last instant at which it may still be decided, exclusive.
        sealed_arguments: the canonical arguments, encrypted; what is shown and what executes.
        reminders: when people are told again while it waits, and whether others may decide then.
        precondition: keyed digest of the state of the world that it was asked about in; None where nothing binds it to
            one.
    """

    approval_id: ApprovalId
    tenant: str
    environment: str
    subject: str
    on_behalf_of: str | None
    request_id: RequestId
    run_id: RunId
    call_id: CallId
    tool: str
    tool_version: str
    contract_digest: Digest
    argument_digest: Digest
    resource: str | None
    operation_key: OperationKey
    dispatch_number: int
    purpose: str
    policy_version: PolicyVersion
    reasons: tuple[str, ...]
    requirement: RequirementKind
    lifetime_seconds: float
    asked_at: datetime
    decide_by: datetime
    nonce: str
    sealed_arguments: bytes
    terms: Terms | None = None
    edited: Edited | None = None
    reminders: Reminders | None = None
    precondition: Mac | None = None

    @property
    def votes_needed(self) -> int:
        return 1 if self.terms is None else self.terms.votes


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """With what leave somebody decided, as it was then.

    Attributes:
        roles, scopes: what its sign-in granted, sorted.
        is_listed: whether the list of people that is kept here had it, so that leaving the list ends what it decided.
        by_escalation: whether it may decide only because the question had been escalated.
    """

    roles: tuple[str, ...]
    scopes: tuple[str, ...]
    is_listed: bool
    by_escalation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """One of several questions that a person decides with one answer.

    Attributes:
        digest: the argument digest that was on the person's screen.
    """

    approval_id: str
    digest: str


class VoteKind(StrEnum):
    """What one vote of a quorum says. A withdrawn one is never given again."""

    APPROVE = "approve"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True, kw_only=True)
class Vote:
    """One person's part in a quorum. Signed over the whole question; added, never changed.

    Attributes:
        digest_seen: the argument digest that was on the person's screen.
        leave: with what leave it was given.
    """

    kind: VoteKind
    voter: str
    voted_at: datetime
    digest_seen: Digest
    reason: str
    leave: Leave


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedVote:
    """A vote as it is stored."""

    vote: Vote
    signature: Mac


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A person's decision on one question.

    Attributes:
        digest_seen: the argument digest that was on the person's screen.
        expires_at: the instant at which it is expired, not the last at which it is good.
        reason: the person's words; data for the proposer, never an instruction.
        leave: with what leave it was decided; None of answers from before that was noted.
        votes: of a quorum, the signatures of the votes that made it, by voter.
    """

    decision: ApprovalDecision
    decided_by: str
    decided_at: datetime
    expires_at: datetime
    digest_seen: Digest
    reason: str
    leave: Leave | None = None
    votes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Something that is asked otherwise than before. None where there is, or was, nothing of the kind."""

    name: str
    was: str | None
    now: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A stored question with whatever became of it. Authority is the signature, never the state column."""

    question: Question
    question_mac: Mac
    state: ApprovalState
    answer: Answer | None
    signature: Mac | None
    spent_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedAnswer:
    """An answer with its signature, to be stored together with the vote that completes it."""

    answer: Answer
    signature: Mac


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVotes:
    """The votes are not those that were seen: somebody voted, or took a vote back, meanwhile. Nothing was written."""
