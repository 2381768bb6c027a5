"""What may be granted, what is signed, and when a standing grant answers an ask.

A call is covered if each of its arguments is within its limit, and none is there that the grant does not name.

Source: DESIGN section 9, standing grants; CASES E and F.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final

from placet.model.approval import Question
from placet.model.call import Call
from placet.model.contract import Contract, EffectClass, Risk
from placet.model.decision import Ask, GrantTerms, RequirementKind
from placet.model.grant import Grant, Limits, StoredGrant
from placet.model.identifiers import ApprovalId, CallId, OperationKey, RequestId, RunId
from placet.model.principal import subjects_of
from placet.rules.approvals import FUTURE_SKEW_SECONDS, instant_text, leave_form
from placet.rules.asking import terms_form
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.grant_limits import are_within, limit_in_words

MOST_STANDING: Final = 32
"""Usable grants for one subject and one tool."""

MOST_UNENDED: Final = 256
"""All that have not ended of these, the void with them: what one look reads at most, so that it misses none."""

_RISKS: Final = frozenset({Risk.LOW, Risk.MEDIUM})
_REASONS: Final = frozenset({"contract_always_asks"})
_REASON_KINDS: Final = ("matrix_", "rule:")


class GrantMisfit(StrEnum):
    """Why a grant does not answer an ask. The first two are alarms: somebody altered a row."""

    FORGED = "grant_forged"
    LIMITS_FORGED = "grant_limits_forged"
    KEY_CHANGED = "key_changed"
    OTHER_CALL = "other_call"
    OTHER_CONTRACT = "contract_changed"
    OTHER_POLICY = "policy_changed"
    OTHER_ASK = "other_ask"
    BEYOND_LIMITS = "beyond_limits"
    TOO_MUCH_RISK = "too_much_risk"
    REVOKED = "revoked"
    EXPIRED = "expired"
    FROM_THE_FUTURE = "from_the_future"
    USED_UP = "used_up"
    NOT_ENTITLED = "not_entitled"

    @property
    def is_alarm(self) -> bool:
        return self in (GrantMisfit.FORGED, GrantMisfit.LIMITS_FORGED)


# ---------------------------------------------------------------- what may be granted at all


def may_be_granted(contract: Contract) -> bool:
    """Whether any grant may reach this tool: never one of high or critical risk, no irreversible act, and none that
    binds what is approved to a state, which nobody has seen who says yes beforehand.
    """
    is_irreversible = contract.effect_class is EffectClass.IRREVERSIBLE
    return contract.risk in _RISKS and not is_irreversible and not contract.has_precondition


def may_be_answered(ask: Ask) -> bool:
    """Whether a grant may answer this ask: a review, asked for by the table, a rule or the contract and nothing else.

    A reason of any other origin, where a value came from above all, is for a person.
    """
    requirement = ask.requirement
    return (
        requirement.grants is not None
        and requirement.terms is not None
        and requirement.kind is RequirementKind.REVIEW
        and all(reason in _REASONS or reason.startswith(_REASON_KINDS) for reason in ask.reasons)
    )


def most_granted(ask: Ask, contract: Contract) -> GrantTerms | None:
    """The most that a grant may be that answers this ask; None where a person has to."""
    return ask.requirement.grants if may_be_granted(contract) and may_be_answered(ask) else None


# ---------------------------------------------------------------- in words


def in_words(grant: Grant, limits: Limits) -> tuple[str, ...]:
    """What a grant covers, a sentence for each limit, for people to read before they sign. Values are as JSON."""
    subjects = subjects_of(grant.subject)
    whom = " for ".join(subjects)
    where = "in every run" if grant.run_id is None else f"in the run {grant.run_id} only"
    return (
        f"Calls of {grant.tool}, version {grant.tool_version}, by {whom}, {where}.",
        *(f"{name}: {limit_in_words(limit)}" for name, limit in sorted(limits.items())),
        f"At most {grant.max_uses} of them, until {instant_text(grant.expires_at)}.",
    )


def wish_digest(grant: Grant) -> str:
    """Identity of what a grant says, whenever it is signed: by it a person signs what it was shown."""
    form = canonical_bytes(
        [
            *(1, grant.tenant, grant.environment, grant.subject, grant.run_id, grant.tool, grant.contract_digest),
            *(grant.limits_digest, grant.policy_version, grant.terms.rule, grant.max_uses),
            (grant.expires_at - grant.given_at).total_seconds(),
        ]
    )
    return sha256_hex("placet/grant-wish/1", form)


# ---------------------------------------------------------------- what is signed


def grant_form(grant: Grant) -> bytes:
    """The bytes a grant's MAC covers: every field, in canonical form."""
    return canonical_bytes(
        {
            "v": "grant/1",
            "grant_id": grant.grant_id,
            "tenant": grant.tenant,
            "environment": grant.environment,
            "subject": grant.subject,
            "run_id": grant.run_id,
            "tool": grant.tool,
            "tool_version": grant.tool_version,
            "contract_digest": grant.contract_digest,
            "limits_digest": grant.limits_digest,
            "policy_version": grant.policy_version,
            "terms": terms_form(grant.terms),
            "max_uses": grant.max_uses,
            "given_by": grant.given_by,
            "given_at": instant_text(grant.given_at),
            "expires_at": instant_text(grant.expires_at),
            "leave": leave_form(grant.leave),
            "reason": grant.reason,
            "nonce": grant.nonce,
            "sealed_limits": sha256_hex("placet/sealed/1", grant.sealed_limits),
            "revoked_by": grant.revoked_by,
            "revoked_at": None if grant.revoked_at is None else instant_text(grant.revoked_at),
        }
    )


def revoked(grant: Grant, *, by: str | None, at: datetime) -> Grant:
    """The same grant, for signing, as one that was taken back. What the row says of it nobody turns back by changing
    the row; that nobody puts the row of before in its place is what the store's triggers see to.
    """
    return replace(grant, revoked_by=by, revoked_at=at)


def limits_binding(tenant: str, grant_id: str) -> bytes:
    """What a grant's sealed limits are bound to: moved to another row they do not open."""
    return canonical_bytes([1, "grant", tenant, grant_id])


def as_question(grant: Grant) -> Question:
    """What policy is asked about the giver: may this person approve this tool's calls to this subject?

    The question is never stored and nobody answers it. Whoever may not decide it may give no such grant.
    """
    on_behalf_of = subjects_of(grant.subject)[1:]
    return Question(
        approval_id=ApprovalId(grant.grant_id),
        tenant=grant.tenant,
        environment=grant.environment,
        subject=grant.subject,
        on_behalf_of=on_behalf_of[-1] if on_behalf_of else None,
        request_id=RequestId(grant.grant_id),
        run_id=RunId("") if grant.run_id is None else grant.run_id,
        call_id=CallId(grant.grant_id),
        tool=grant.tool,
        tool_version=grant.tool_version,
        contract_digest=grant.contract_digest,
        argument_digest=grant.limits_digest,
        resource=None,
        operation_key=OperationKey(grant.grant_id),
        dispatch_number=0,
        purpose="",
        policy_version=grant.policy_version,
        reasons=("standing_grant",),
        requirement=RequirementKind.REVIEW,
        lifetime_seconds=(grant.expires_at - grant.given_at).total_seconds(),
        asked_at=grant.given_at,
        decide_by=grant.expires_at,
        nonce=grant.nonce,
        sealed_arguments=grant.sealed_limits,
        terms=grant.terms,
    )


# ---------------------------------------------------------------- when it fits


def misfit(stored: StoredGrant, limits: Limits, call: Call, ask: Ask, *, now: datetime) -> GrantMisfit | None:
    """Why this grant, whose MAC has been verified, does not answer this ask for this call; None if it does."""
    grant = stored.grant
    if not may_be_granted(call.contract):
        return GrantMisfit.TOO_MUCH_RISK
    if not may_be_answered(ask) or grant.terms != ask.requirement.terms:
        return GrantMisfit.OTHER_ASK
    if (why_void := void(grant, call.contract)) is not None:
        return why_void
    if grant.policy_version != ask.policy_version:
        return GrantMisfit.OTHER_POLICY
    if not _is_of(grant, call):
        return GrantMisfit.OTHER_CALL
    if grant.given_by in subjects_of(grant.subject):
        return GrantMisfit.NOT_ENTITLED
    if (ended := end(stored, now=now)) is not None:
        return ended
    return None if are_within(call.arguments, limits) else GrantMisfit.BEYOND_LIMITS


def end(stored: StoredGrant, *, now: datetime) -> GrantMisfit | None:
    """Why it has ended, or has not begun by this clock; None while it stands."""
    grant = stored.grant
    if grant.revoked_at is not None:
        return GrantMisfit.REVOKED
    if grant.expires_at <= now:
        return GrantMisfit.EXPIRED
    if grant.given_at > now + timedelta(seconds=FUTURE_SKEW_SECONDS):
        return GrantMisfit.FROM_THE_FUTURE
    return GrantMisfit.USED_UP if stored.uses >= grant.max_uses else None


def void(grant: Grant, contract: Contract) -> GrantMisfit | None:
    """Whether the tool is not what it was when the grant was given."""
    is_same = grant.tool == contract.name and grant.contract_digest == contract.digest
    return None if is_same else GrantMisfit.OTHER_CONTRACT


def _is_of(grant: Grant, call: Call) -> bool:
    principal = call.principal
    return (
        grant.tenant == principal.tenant
        and grant.environment == principal.environment
        and grant.subject == principal.identity
        and grant.run_id in (None, call.run_id)
    )
