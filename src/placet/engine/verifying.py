"""What of a stored approval or grant holds: what was asked, answered, voted and granted, and the sealed values.

A row of the database is believed only as far as its MACs carry it.
"""

from __future__ import annotations

from contextlib import suppress

from placet.errors import KeyMaterialError, PlacetError
from placet.model.approval import Approval, ApprovalState, Mac, Question, SignedVote
from placet.model.grant import Limit, StoredGrant
from placet.ports.keys import KeyPurpose, Keys, KeyState, sealed_under
from placet.rules import approvals as rules
from placet.rules import grant_limits, operations
from placet.rules import grants as grant_rules
from placet.rules.approvals import Misfit
from placet.rules.canonical import canonical_bytes
from placet.rules.grants import GrantMisfit

EVERYWHERE = frozenset(("*",) * depth for depth in range(1, 64))
"""Stored values are authenticated; every integer in them may be as wide as it is."""


def verify(approval: Approval, keys: Keys) -> Misfit | None:
    """What in the row was altered; None if question, answer and stored arguments are as they were written."""
    question, answer, signature = approval.question, approval.answer, approval.signature
    if not keys.is_authentic(KeyPurpose.APPROVAL, rules.question_form(question), approval.question_mac):
        return _inauthentic(Misfit.QUESTION_FORGED, approval.question_mac, keys)
    needs_answer = approval.state not in (ApprovalState.PENDING, ApprovalState.EXPIRED, ApprovalState.WITHDRAWN)
    if needs_answer and (answer is None or signature is None):
        return Misfit.SIGNATURE_MISSING
    if answer is not None and (
        signature is None or not keys.is_authentic(KeyPurpose.APPROVAL, rules.signed_form(question, answer), signature)
    ):
        return _inauthentic(Misfit.SIGNATURE_FORGED, signature, keys)
    if not rules.state_fits(approval):
        return Misfit.STATE_FORGED
    return None if stored_arguments(question, keys) is not None else Misfit.ARGUMENTS_FORGED


def sound_votes(question: Question, votes: tuple[SignedVote, ...], keys: Keys) -> tuple[SignedVote, ...] | Misfit:
    """The votes on a question that waits; or what in their rows was altered.

    What was signed under a key that is retired counts no more, and is no sign that somebody altered a row.
    """
    found = [(each, _vote_misfit(question, each, keys)) for each in votes]
    if any(misfit is Misfit.VOTES_FORGED for _, misfit in found):
        return Misfit.VOTES_FORGED
    return tuple(each for each, misfit in found if misfit is None)


def verify_quorum(approval: Approval, votes: tuple[SignedVote, ...], keys: Keys) -> Misfit | None:
    """What keeps an approval, which `verify` has passed, from being the word of as many people as it needs."""
    question, answer = approval.question, approval.answer
    misfits = [misfit for each in votes if (misfit := _vote_misfit(question, each, keys)) is not None]
    if misfits:
        return Misfit.VOTES_FORGED if Misfit.VOTES_FORGED in misfits else misfits[0]
    return None if answer is not None and rules.is_quorum(question, answer, votes) else Misfit.VOTES_FORGED


def _vote_misfit(question: Question, signed: SignedVote, keys: Keys) -> Misfit | None:
    try:
        form = rules.vote_form(question, signed.vote)
    except PlacetError:  # what stands there has no canonical form, so nobody signed it
        return Misfit.VOTES_FORGED
    if keys.is_authentic(KeyPurpose.APPROVAL, form, signed.signature):
        return None
    return _inauthentic(Misfit.VOTES_FORGED, signed.signature, keys)


def _inauthentic(misfit: Misfit, mac: Mac | None, keys: Keys) -> Misfit:
    """Under a retired key nothing authorises any more; it is no sign that somebody altered a row."""
    is_named = type(mac) is Mac and type(mac.key_id) is str  # what a row holds may be anything
    is_retired = is_named and mac is not None and keys.state_of(mac.key_id) is KeyState.RETIRED
    return Misfit.KEY_RETIRED if is_retired else misfit


def verify_grant(stored: StoredGrant, keys: Keys) -> dict[str, Limit] | GrantMisfit:
    """The limits of a standing grant whose row is as it was written; or what of it does not hold.

    What was signed under a key that has been retired is worth nothing, and is no sign that somebody altered a row.
    """
    grant, mac = stored.grant, stored.mac
    if not keys.is_authentic(KeyPurpose.GRANT, grant_rules.grant_form(grant), mac):
        is_retired = keys.state_of(mac.key_id) is KeyState.RETIRED
        return GrantMisfit.KEY_CHANGED if is_retired else GrantMisfit.FORGED
    if keys.state_of(sealed_under(grant.sealed_limits)) is KeyState.RETIRED:
        return GrantMisfit.KEY_CHANGED
    with suppress(PlacetError):
        canonical = keys.unseal(grant.sealed_limits, bound_to=grant_rules.limits_binding(grant.tenant, grant.grant_id))
        if grant_limits.limits_digest(grant.tool, canonical) == grant.limits_digest:
            return grant_limits.limits_of(canonical)
    return GrantMisfit.LIMITS_FORGED


def stored_arguments(question: Question, keys: Keys) -> bytes | None:
    """The canonical arguments of a question, if they are the ones its digest names."""
    try:
        canonical = keys.unseal(
            question.sealed_arguments, bound_to=question_binding(question.tenant, question.approval_id)
        )
    except KeyMaterialError:
        return None
    return canonical if operations.argument_digest(question.tool, canonical) == question.argument_digest else None


def question_binding(tenant: str, approval_id: str) -> bytes:
    """What a question's sealed arguments are bound to: moved to another row they do not open."""
    return canonical_bytes([1, "question", tenant, approval_id])
