"""What an approval binds, what is signed, who may decide, and when it fits.

Authority is the signature. A state column says where an approval stands in its life; it grants nothing.
Source: DESIGN section 9; REQUIREMENTS B042 to B069, H015 to H026.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from placet.model.approval import (
    Answer,
    Approval,
    ApprovalDecision,
    ApprovalState,
    Edited,
    Leave,
    Mac,
    Question,
    SignedVote,
    Vote,
    VoteKind,
)
from placet.model.call import Call
from placet.model.decision import Allow, Ask, Decision, Requirement, RequirementKind
from placet.model.json import JsonObject
from placet.model.principal import Principal, Standing, subjects_of
from placet.rules.asking import terms_form
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.policy import DECIDE_SCOPE
from placet.rules.reminding import reminders_form

FUTURE_SKEW_SECONDS = 30.0
"""How far in the future a decision may lie by the reader's clock. Source: B053."""

TRANSITIONS: frozenset[tuple[ApprovalState, ApprovalState]] = frozenset(
    {
        (ApprovalState.PENDING, ApprovalState.APPROVED),
        (ApprovalState.PENDING, ApprovalState.DENIED),
        (ApprovalState.PENDING, ApprovalState.EXPIRED),
        (ApprovalState.PENDING, ApprovalState.WITHDRAWN),
        (ApprovalState.APPROVED, ApprovalState.SPENT),
        (ApprovalState.APPROVED, ApprovalState.EXPIRED),
        (ApprovalState.APPROVED, ApprovalState.REVOKED),
    }
)
CLOSED_AS: Mapping[ApprovalState, ApprovalState] = {
    ApprovalState.PENDING: ApprovalState.WITHDRAWN,
    ApprovalState.APPROVED: ApprovalState.REVOKED,
}
"""What becomes of one that is not to be used any more."""


class Misfit(StrEnum):
    """Why an approval does not authorise a call. The first six are alarms: somebody altered a row."""

    QUESTION_FORGED = "question_forged"
    SIGNATURE_MISSING = "signature_missing"
    SIGNATURE_FORGED = "signature_forged"
    ARGUMENTS_FORGED = "arguments_forged"
    STATE_FORGED = "state_forged"
    VOTES_FORGED = "votes_forged"
    OTHER_CALL = "other_call"
    NOT_APPROVED = "not_approved"
    EXPIRED = "expired"
    FROM_THE_FUTURE = "from_the_future"
    OTHER_DISPATCH = "other_dispatch"
    NOT_ENTITLED = "not_entitled"
    KEY_RETIRED = "key_retired"

    @property
    def is_alarm(self) -> bool:
        return self in (
            Misfit.QUESTION_FORGED,
            Misfit.SIGNATURE_MISSING,
            Misfit.SIGNATURE_FORGED,
            Misfit.ARGUMENTS_FORGED,
            Misfit.STATE_FORGED,
            Misfit.VOTES_FORGED,
        )


def state_fits(approval: Approval) -> bool:
    """Whether the state is one that the answer on record, or its absence, can lead to."""
    decision = approval.answer.decision if approval.answer is not None else None
    is_spent = approval.state is ApprovalState.SPENT
    return approval.state in _STATES_OF[decision] and is_spent == (approval.spent_at is not None)


_STATES_OF: dict[ApprovalDecision | None, frozenset[ApprovalState]] = {
    None: frozenset({ApprovalState.PENDING, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN}),
    ApprovalDecision.APPROVE: frozenset(
        {ApprovalState.APPROVED, ApprovalState.SPENT, ApprovalState.EXPIRED, ApprovalState.REVOKED}
    ),
    ApprovalDecision.DENY: frozenset({ApprovalState.DENIED}),
}


def question_form(question: Question) -> bytes:
    """The bytes a question's MAC covers: every field, in canonical form.

    A question without terms, not edited, without reminders and bound to no state is spelled as before there were any.
    """
    more: JsonObject = {}
    if question.terms is not None or question.edited is not None:
        terms = None if question.terms is None else terms_form(question.terms)
        edited = None if question.edited is None else edited_form(question.edited)
        more = {"v": 2, "terms": terms, "edited": edited}
    if question.reminders is not None:
        more |= {"v": 3, "reminders": reminders_form(question.reminders)}
    if question.precondition is not None:
        more |= {"v": 4, "precondition": precondition_form(question.precondition)}
    return canonical_bytes(
        {
            "v": 1,
            "approval_id": question.approval_id,
            "tenant": question.tenant,
            "environment": question.environment,
            "subject": question.subject,
            "on_behalf_of": question.on_behalf_of,
            "request_id": question.request_id,
            "run_id": question.run_id,
            "call_id": question.call_id,
            "tool": question.tool,
            "tool_version": question.tool_version,
            "contract_digest": question.contract_digest,
            "argument_digest": question.argument_digest,
            "resource": question.resource,
            "operation_key": question.operation_key,
            "dispatch_number": question.dispatch_number,
            "purpose": question.purpose,
            "policy_version": question.policy_version,
            "reasons": list(question.reasons),
            "requirement": question.requirement.value,
            "lifetime_seconds": float(question.lifetime_seconds),
            "asked_at": instant_text(question.asked_at),
            "decide_by": instant_text(question.decide_by),
            "nonce": question.nonce,
            "sealed_arguments": sha256_hex("placet/sealed/1", question.sealed_arguments),
            **more,
        }
    )


def precondition_form(precondition: Mac) -> JsonObject:
    """The digest of a state, and whose key it is, as signatures and stores spell it."""
    return {"key_id": precondition.key_id, "value": precondition.value}


def edited_form(edited: Edited) -> JsonObject:
    """Where an edited question comes from, as signatures and stores spell it."""
    return {"by": edited.by, "from_id": edited.from_id, "from_digest": edited.from_digest}


def signed_form(question: Question, answer: Answer) -> bytes:
    """The bytes an answer's signature covers: the whole question and every field of the answer.

    An answer from before leaves were noted has neither leave nor votes, and keeps its form.
    """
    more: JsonObject = {}
    if answer.leave is not None or answer.votes:
        leave = None if answer.leave is None else leave_form(answer.leave)
        more = {"v": 2, "leave": leave, "votes": list(answer.votes)}
    return canonical_bytes(
        {
            "v": 1,
            "question": sha256_hex("placet/question/1", question_form(question)),
            "verdict": answer.decision.value,  # signed under this name, which is older than the glossary's
            "decided_by": answer.decided_by,
            "decided_at": instant_text(answer.decided_at),
            "expires_at": instant_text(answer.expires_at),
            "digest_seen": answer.digest_seen,
            "reason": answer.reason,
            **more,
        }
    )


def vote_form(question: Question, vote: Vote) -> bytes:
    """The bytes a vote's signature covers: the whole question and every field of the vote."""
    return canonical_bytes(
        {
            "v": "vote/1",  # no answer is of this form, so that neither stands for the other
            "question": sha256_hex("placet/question/1", question_form(question)),
            "kind": vote.kind.value,
            "voter": vote.voter,
            "voted_at": instant_text(vote.voted_at),
            "digest_seen": vote.digest_seen,
            "reason": vote.reason,
            "leave": leave_form(vote.leave),
        }
    )


def leave_form(leave: Leave) -> JsonObject:
    """Leave as signatures spell it."""
    said: JsonObject = {"roles": list(leave.roles), "scopes": list(leave.scopes), "is_listed": leave.is_listed}
    return {**said, "by_escalation": True} if leave.by_escalation else said


def standing_votes(votes: tuple[SignedVote, ...]) -> tuple[SignedVote, ...]:
    """The votes that count: approving ones that were not taken back, by voter."""
    back = {each.vote.voter for each in votes if each.vote.kind is VoteKind.WITHDRAW}
    given = [each for each in votes if each.vote.kind is VoteKind.APPROVE and each.vote.voter not in back]
    return tuple(sorted(given, key=lambda each: each.vote.voter))


def is_quorum(question: Question, answer: Answer, votes: tuple[SignedVote, ...]) -> bool:
    """Whether these votes, whose signatures hold, are the very ones that the answer names, and enough of them."""
    counted = standing_votes(votes)
    voters = {each.vote.voter for each in counted}
    return (
        answer.votes == tuple(each.signature.value for each in counted)
        and len(voters) == len(counted) >= question.votes_needed
        and answer.decided_by in voters
        and all(_is_for(question, answer, each.vote) for each in counted)
    )


def _is_for(question: Question, answer: Answer, vote: Vote) -> bool:
    return (
        vote.digest_seen == question.argument_digest
        and vote.voted_at <= answer.decided_at
        and are_duties_apart(question, vote.voter)
    )


def misfit(approval: Approval, call: Call, ask: Ask, *, dispatch_number: int, now: datetime) -> Misfit | None:
    """Why this approval, whose MACs have been verified, does not authorise the call; None if it does.

    The call's id and key are not compared here: the stored call is what executes, and the caller has adopted them.
    """
    question, answer = approval.question, approval.answer
    if not _is_of_call(question, call, ask):
        return Misfit.OTHER_CALL
    if (
        answer is None
        or approval.state is not ApprovalState.APPROVED
        or answer.decision is not ApprovalDecision.APPROVE
    ):
        return Misfit.NOT_APPROVED
    if answer.digest_seen != call.argument_digest:
        return Misfit.OTHER_CALL
    if not are_duties_apart(question, answer.decided_by):
        return Misfit.NOT_ENTITLED
    if answer.expires_at <= now:
        return Misfit.EXPIRED
    if answer.decided_at > now + timedelta(seconds=FUTURE_SKEW_SECONDS):
        return Misfit.FROM_THE_FUTURE
    if question.dispatch_number != dispatch_number:
        return Misfit.OTHER_DISPATCH
    return None


def asks_for(question: Question, call: Call, ask: Ask, *, dispatch_number: int) -> bool:
    """Whether an answer to this question would authorise the call as it is now."""
    return question.dispatch_number == dispatch_number and _is_of_call(question, call, ask)


def _is_of_call(question: Question, call: Call, ask: Ask) -> bool:
    return (
        question.tenant == call.principal.tenant
        and question.environment == call.principal.environment
        and question.subject == call.principal.identity
        and question.on_behalf_of == on_behalf_of(call.principal)
        and question.run_id == call.run_id
        and question.tool == call.contract.name
        and question.contract_digest == call.contract.digest
        and question.argument_digest == call.argument_digest
        and question.resource == call.resource
        and question.purpose == call.contract.purpose
        and question.policy_version == ask.policy_version
        and question.requirement is ask.requirement.kind
        and question.terms == ask.requirement.terms
        and question.reminders == ask.requirement.reminders
    )


def bound_by(question: Question, decision: Decision) -> Decision:
    """What is to be done with a call that a person made: its question is answered first, although policy allows the
    call as it is. Under another policy than the one it was asked under it binds nobody, and a denial is one anyhow.
    """
    if not isinstance(decision, Allow) or decision.policy_version != question.policy_version:
        return decision
    requirement = Requirement(
        kind=question.requirement,
        lifetime_seconds=question.lifetime_seconds,
        decide_within_seconds=(question.decide_by - question.asked_at).total_seconds(),
        terms=question.terms,
        reminders=question.reminders,
    )
    return Ask(
        reasons=question.reasons,
        policy_version=question.policy_version,
        requirement=requirement,
        shadow=decision.shadow,
    )


def is_overdue(approval: Approval, *, now: datetime) -> bool:
    """Whether a pending or approved one has passed its clock; at the instant itself it has."""
    match approval.state:
        case ApprovalState.PENDING:
            return approval.question.decide_by <= now
        case ApprovalState.APPROVED:
            return approval.answer is None or approval.answer.expires_at <= now
        case _:
            return False


def why_not_entitled(question: Question, person: Principal) -> str | None:
    """Why this principal may not decide the question, whatever policy says; None if it may, unless policy says no.

    Asked when deciding, and again when spending, of the person as it is known then.
    """
    if person.standing is not Standing.PERSON:
        return "not_a_person"
    if person.environment != question.environment:
        return "other_environment"
    match question.requirement:
        case RequirementKind.CONFIRM:
            return None if are_duties_apart(question, person.subject) else "not_the_requesting_user"
        case RequirementKind.REVIEW | RequirementKind.QUORUM:
            if person.subject in subjects_of(question.subject):
                return "own_request"
            if not are_duties_apart(question, person.subject):
                return "own_edit"
            return None if DECIDE_SCOPE in person.scopes else "scope_missing"


def are_duties_apart(question: Question, decider: str) -> bool:
    """Whether somebody of this name may decide the question at all, whatever else it may do.

    A confirmation is the requesting user's own; a review, or a vote, is never given by the requester, anybody it acts
    for, or whoever edited the call.
    """
    match question.requirement:
        case RequirementKind.CONFIRM:
            return decider == question.on_behalf_of
        case RequirementKind.REVIEW | RequirementKind.QUORUM:
            is_editor = question.edited is not None and decider == question.edited.by
            return decider not in subjects_of(question.subject) and not is_editor


def leave_of(person: Principal, *, is_listed: bool, by_escalation: bool = False) -> Leave:
    """What a decision keeps of the person's leave."""
    roles = tuple(sorted(role.value for role in person.roles))
    scopes = tuple(sorted(person.scopes))
    return Leave(roles=roles, scopes=scopes, is_listed=is_listed, by_escalation=by_escalation)


def decider_of(question: Question, decider: str, leave: Leave) -> Principal:
    """Whoever decided, as it signed in then.

    Raises:
        MisuseError: what was signed names no principal.
    """
    return Principal.person(
        decider,
        tenant=question.tenant,
        roles=leave.roles,
        scopes=leave.scopes,
        environment=question.environment,
    )


def lacks_reason(question: Question, decision: ApprovalDecision, reason: str) -> bool:
    """Whether the question's terms want words that are not there."""
    return not reason.strip() and decision.value in reasons_needed(question)


def reasons_needed(question: Question) -> tuple[str, ...]:
    """The decisions that need the person's words."""
    terms = question.terms
    if terms is None:
        return ()
    needed = {ApprovalDecision.APPROVE: terms.reason_to_approve, ApprovalDecision.DENY: terms.reason_to_deny}
    return tuple(decision.value for decision, is_needed in needed.items() if is_needed)


def on_behalf_of(principal: Principal) -> str | None:
    """The user at the far end of the delegation, however many hands it went through; None if it acts for itself."""
    user = principal
    while user.on_behalf_of is not None:
        user = user.on_behalf_of
    return user.subject if user is not principal else None


def instant_text(instant: datetime) -> str:
    """UTC, microseconds, one spelling per instant. The instant must know its zone."""
    if instant.tzinfo is None:
        raise ValueError("an instant must know its zone")
    return instant.astimezone(UTC).isoformat(timespec="microseconds")
