"""Rows to values and back. Questions and answers are stored as JSON; their MACs cover the values, not this form."""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from typing import Any

from placet.errors import PlacetError, StoreCorrupt
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
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, UnchainedEvent
from placet.model.credentials import CredentialKind, StoredCredential
from placet.model.custody import KeyUse
from placet.model.decision import RequirementKind, Terms
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects, UnknownGroup
from placet.model.identifiers import Digest
from placet.model.listing import Mark
from placet.model.retention import BrokenRun, Hold, OldRows, OldRun
from placet.model.run import Run
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.rules.approvals import edited_form, instant_text, question_form, signed_form
from placet.rules.asking import terms_form

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def microseconds(instant: datetime | None) -> int | None:
    return None if instant is None else _microseconds(instant)


def _microseconds(instant: datetime) -> int:
    passed = instant - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000 + passed.microseconds


def instant(value: int | None) -> datetime | None:
    return None if value is None else _EPOCH + timedelta(microseconds=value)


def _sure(value: int) -> datetime:
    return _EPOCH + timedelta(microseconds=value)


# ---------------------------------------------------------------- pages

_NEWER_THAN_ALL = (2**63 - 1, "")
_NEWER_THAN_EVERY_EVENT = ("~", "", 0)


def place_of(mark: Mark | None) -> tuple[int, str]:
    """What rows of a page are compared with, an instant and a name; before the first page, newer than any row."""
    return _NEWER_THAN_ALL if mark is None else (_microseconds(mark.at), mark.name)


def place_of_event(mark: Mark | None) -> tuple[str, str, int]:
    """The same for events, whose instant is compared as it stands in their bodies."""
    if mark is None:
        return _NEWER_THAN_EVERY_EVENT
    return mark.at.astimezone(UTC).isoformat(timespec="microseconds"), mark.name, mark.number


# ---------------------------------------------------------------- effects


def effect_row(effect: Effect) -> tuple[Any, ...]:
    """All columns of `effects`, in order."""
    return (
        effect.tenant,
        effect.operation_key,
        effect.fingerprint,
        effect.tool,
        effect.tool_version,
        effect.contract_digest,
        effect.argument_digest,
        effect.run_id,
        effect.call_id,
        effect.subject,
        effect.policy_version,
        effect.decision,
        effect.approval_id,
        effect.state.value,
        effect.fence,
        effect.attempts,
        effect.attempt,
        effect.token,
        effect.owner,
        microseconds(effect.lease_until),
        microseconds(effect.send_by),
        effect.arrival_bound_seconds,
        int(effect.ends_by_itself),
        microseconds(effect.attempt_ended_at),
        effect.probes,
        microseconds(effect.probe_after),
        effect.sealed_arguments,
        effect.sealed_result,
        effect.result_digest,
        effect.external_reference,
        effect.reason,
        microseconds(effect.created_at),
        microseconds(effect.updated_at),
    )


def effect_change(effect: Effect, *, was: Effect) -> tuple[Any, ...]:
    """The bindings of `change_effect`."""
    return (
        effect.call_id,
        effect.run_id,
        effect.subject,
        effect.tool_version,
        effect.contract_digest,
        effect.policy_version,
        effect.decision,
        effect.approval_id,
        effect.state.value,
        effect.fence,
        effect.attempts,
        effect.attempt,
        effect.token,
        effect.owner,
        microseconds(effect.lease_until),
        microseconds(effect.send_by),
        effect.arrival_bound_seconds,
        int(effect.ends_by_itself),
        microseconds(effect.attempt_ended_at),
        effect.probes,
        microseconds(effect.probe_after),
        effect.sealed_arguments,
        effect.sealed_result,
        effect.result_digest,
        effect.external_reference,
        effect.reason,
        microseconds(effect.updated_at),
        was.tenant,
        was.operation_key,
        was.state.value,
        was.fence,
    )


_EFFECT_FIELDS = tuple(field.name for field in fields(Effect))
_EFFECT_INSTANTS = tuple(
    _EFFECT_FIELDS.index(name)
    for name in ("lease_until", "send_by", "attempt_ended_at", "probe_after", "created_at", "updated_at")
)
_STATE = _EFFECT_FIELDS.index("state")
_STATES = {state.value: state for state in EffectState}
_ENDS = _EFFECT_FIELDS.index("ends_by_itself")


def effect_from(row: tuple[Any, ...]) -> Effect:
    """A row of the ledger.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    try:
        values = list(row[: len(_EFFECT_FIELDS)])  # a newer placet may have added columns behind these
        values[_STATE] = _STATES[values[_STATE]]
        values[_ENDS] = bool(values[_ENDS])
        for index in _EFFECT_INSTANTS:
            values[index] = instant(values[index])
        return Effect(**dict(zip(_EFFECT_FIELDS, values, strict=True)))
    except (KeyError, ValueError, TypeError, OverflowError):
        pass
    raise StoreCorrupt("A row of the ledger cannot be read; somebody changed it by hand.")


def effect_or_broken(row: tuple[Any, ...]) -> Effect | BrokenEffect:
    """A row for a list, in which one that cannot be read must not hide the others."""
    try:
        return effect_from(row)
    except StoreCorrupt:
        return BrokenEffect(tenant=row[0], operation_key=row[1])


def unknown_effects_from(found: Iterable[tuple[Any, ...]]) -> UnknownEffects:
    groups = [(UnknownGroup(tool=tool, probes=probes, count=count), oldest) for tool, probes, count, oldest in found]
    return UnknownEffects(
        count=sum(group.count for group, _ in groups),
        oldest_at=instant(min((oldest for _, oldest in groups), default=None)),
        groups=tuple(group for group, _ in groups),
    )


# ---------------------------------------------------------------- approvals


def approval_row(approval: Approval) -> tuple[Any, ...]:
    """All columns of `approvals`, in order."""
    question = approval.question
    return (
        question.approval_id,
        question.tenant,
        question.subject,
        question.run_id,
        question.tool,
        question.argument_digest,
        question.policy_version,
        question.operation_key,
        approval.state.value,
        _question_json(question),
        approval.question_mac.key_id,
        approval.question_mac.value,
        question.sealed_arguments,
        _answer_json(approval.answer),
        approval.signature.key_id if approval.signature else None,
        approval.signature.value if approval.signature else None,
        microseconds(question.asked_at),
        microseconds(approval.spent_at),
    )


def approval_change(approval: Approval, *, was: Approval) -> tuple[Any, ...]:
    """The bindings of `change_approval`."""
    row = approval_row(approval)
    return (row[8], row[13], row[14], row[15], row[17], was.question.tenant, was.question.approval_id, was.state.value)


def approval_from(row: tuple[Any, ...]) -> Approval:
    """Whatever a row says. One that was altered by hand, or moved, has a MAC that does not hold."""
    try:
        approval = _approval(row)
        question_form(approval.question)
        if approval.answer is not None:
            signed_form(approval.question, approval.answer)
        return approval
    except (PlacetError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return _unreadable(row)


def _approval(row: tuple[Any, ...]) -> Approval:
    question = json.loads(row[9])
    question.update(_looked_up_by(row))
    question["reasons"] = tuple(question["reasons"])
    question["requirement"] = RequirementKind(question["requirement"])
    question["asked_at"] = datetime.fromisoformat(question["asked_at"])
    question["decide_by"] = datetime.fromisoformat(question["decide_by"])
    if "terms" in question:
        question["terms"] = Terms(**question["terms"])
    if "edited" in question:
        question["edited"] = Edited(**question["edited"])
    answer = json.loads(row[13]) if row[13] is not None else None
    if answer is not None:
        answer["decision"] = ApprovalDecision(answer.pop("verdict"))
        answer["decided_at"] = datetime.fromisoformat(answer["decided_at"])
        answer["expires_at"] = datetime.fromisoformat(answer["expires_at"])
        if "leave" in answer:
            answer["leave"] = _leave_from(answer["leave"])
        answer["votes"] = tuple(answer.get("votes", ()))
    return Approval(
        question=Question(**question, sealed_arguments=row[12]),
        question_mac=Mac(key_id=row[10], value=row[11]),
        state=ApprovalState(row[8]),
        answer=Answer(**answer) if answer is not None else None,
        signature=Mac(key_id=row[14], value=row[15]) if row[15] is not None else None,
        spent_at=instant(row[17]),
    )


_LOOKED_UP_BY = (
    "approval_id",
    "tenant",
    "subject",
    "run_id",
    "tool",
    "argument_digest",
    "policy_version",
    "operation_key",
)
"""The first columns of a row. They are in no other place, and the question's MAC covers them: no row can be moved."""


def _looked_up_by(row: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(_LOOKED_UP_BY, row[:8], strict=True))


def _unreadable(row: tuple[Any, ...]) -> Approval:
    """Stands for a row of which not even the form is left: a question nobody asked, whose MAC cannot hold."""
    states = [state for state in ApprovalState if state.value == row[8]]
    blank: dict[str, Any] = dict.fromkeys(
        ("environment", "request_id", "call_id", "tool_version", "contract_digest", "purpose", "nonce"), "unreadable"
    )
    return Approval(
        question=Question(
            **_looked_up_by(row),
            **blank,
            on_behalf_of=None,
            resource=None,
            dispatch_number=0,
            reasons=(),
            requirement=RequirementKind.REVIEW,
            lifetime_seconds=0.0,
            asked_at=_EPOCH,
            decide_by=_EPOCH,
            sealed_arguments=b"",
        ),
        question_mac=Mac(key_id="unreadable", value=""),
        state=states[0] if states else ApprovalState.PENDING,
        answer=None,
        signature=None,
        spent_at=None,
    )


def _question_json(question: Question) -> str:
    apart = {*_LOOKED_UP_BY, "sealed_arguments"}
    data = {field.name: getattr(question, field.name) for field in fields(Question) if field.name not in apart}
    data["reasons"] = list(question.reasons)
    data["requirement"] = question.requirement.value
    data["asked_at"] = instant_text(question.asked_at)
    data["decide_by"] = instant_text(question.decide_by)
    if question.terms is None:  # in the form of before, which processes of before can read
        del data["terms"]
    else:
        data["terms"] = terms_form(question.terms)
    if question.edited is None:
        del data["edited"]
    else:
        data["edited"] = edited_form(question.edited)
    return json.dumps(data, sort_keys=True)


def _answer_json(answer: Answer | None) -> str | None:
    if answer is None:
        return None
    data = {field.name: getattr(answer, field.name) for field in fields(Answer)}
    data["verdict"] = data.pop("decision").value  # as in `signed_form`: stores have it under this name
    data["decided_at"] = instant_text(answer.decided_at)
    data["expires_at"] = instant_text(answer.expires_at)
    data["leave"] = _leave_data(answer.leave) if answer.leave is not None else None
    data["votes"] = list(answer.votes)
    for name in ("leave", "votes"):
        if not data[name]:
            del data[name]
    return json.dumps(data, sort_keys=True)


def _leave_data(leave: Leave) -> dict[str, Any]:
    return {"roles": list(leave.roles), "scopes": list(leave.scopes), "is_listed": leave.is_listed}


def _leave_from(data: dict[str, Any]) -> Leave:
    """Raises TypeError, ValueError or KeyError for what is none."""
    return Leave(roles=tuple(data["roles"]), scopes=tuple(data["scopes"]), is_listed=data["is_listed"])


def edit_row(of: Question, edited_id: str) -> tuple[Any, ...]:
    """All columns of `approval_edits`, in order: a way to find what was made of a question, which proves nothing."""
    return (of.tenant, edited_id, of.subject, of.run_id, of.tool, of.argument_digest, of.approval_id)


# ---------------------------------------------------------------- votes


def vote_row(tenant: str, approval_id: str, signed: SignedVote) -> tuple[Any, ...]:
    """All columns of `approval_votes`, in order."""
    vote = signed.vote
    data = {"digest_seen": vote.digest_seen, "reason": vote.reason, "leave": _leave_data(vote.leave)}
    return (
        tenant,
        approval_id,
        vote.voter,
        vote.kind.value,
        json.dumps(data, sort_keys=True),
        signed.signature.key_id,
        signed.signature.value,
        microseconds(vote.voted_at),
    )


def vote_from(row: tuple[Any, ...]) -> SignedVote:
    """Whatever a row says. One that was altered by hand, or moved, has a signature that does not hold."""
    signature = Mac(key_id=row[5], value=row[6])
    with suppress(ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        data = json.loads(row[4])
        vote = Vote(
            kind=VoteKind(row[3]),
            voter=row[2],
            voted_at=_sure(row[7]),
            digest_seen=data["digest_seen"],
            reason=data["reason"],
            leave=_leave_from(data["leave"]),
        )
        return SignedVote(vote=vote, signature=signature)
    return SignedVote(vote=_unreadable_vote(row), signature=Mac(key_id="unreadable", value=row[6]))


def _unreadable_vote(row: tuple[Any, ...]) -> Vote:
    nothing = Leave(roles=(), scopes=(), is_listed=False)
    return Vote(kind=VoteKind.APPROVE, voter=row[2], voted_at=_EPOCH, digest_seen=Digest(""), reason="", leave=nothing)


# ---------------------------------------------------------------- keys


def mac_text(mac: Mac) -> str:
    return json.dumps([mac.key_id, mac.value])


def mac_from(text: str) -> Mac:
    """A stored MAC; one that is authentic for nothing if the text is no MAC."""
    try:
        key_id, value = json.loads(text)
        if type(key_id) is str and type(value) is str:
            return Mac(key_id=key_id, value=value)
    except (ValueError, TypeError, RecursionError):
        pass
    return Mac(key_id="", value="")


def key_uses_from(found: Iterable[tuple[str, bytes | None, int]]) -> tuple[KeyUse, ...]:
    """Counts by key id, whatever the rows say instead of one."""
    counts: dict[str, dict[str, int]] = {}
    for kind, key_id, count in found:
        counts.setdefault((key_id or b"").decode("ascii", "replace"), {})[kind] = count
    return tuple(KeyUse(key_id=key_id, **numbers) for key_id, numbers in sorted(counts.items()))


# ---------------------------------------------------------------- runs and audit


def run_from(row: tuple[Any, ...]) -> Run:
    """A run.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    with suppress(OverflowError):
        return Run(
            tenant=row[0],
            run_id=row[1],
            subject=row[2],
            policy_version=row[3],
            max_steps=row[4],
            steps=row[5],
            opened_at=_sure(row[6]),
            stepped_at=instant(row[7]),
        )
    raise StoreCorrupt("A run cannot be read; somebody changed it by hand.")


def old_run_or_broken(row: tuple[Any, ...]) -> OldRun | BrokenRun:
    """A run for a list, in which one that cannot be read must not hide the others."""
    try:
        run = run_from(row)
    except StoreCorrupt:
        return BrokenRun(tenant=row[0], run_id=row[1])
    return OldRun(tenant=run.tenant, run_id=run.run_id, steps=run.steps)


def stop_record_from(row: tuple[Any, ...]) -> StopRecord:
    """A stop, and who set it.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand.
    """
    scope, stopped_at, subject, tenant, leave, sealed_reason = row
    with suppress(OverflowError, ValueError):
        note = None
        if subject is not None:
            note = StopNote(subject=subject, tenant=tenant, leave=StopLeave(leave), sealed_reason=sealed_reason)
        return StopRecord(scope=scope, stopped_at=_sure(stopped_at), note=note)
    raise StoreCorrupt("A stop cannot be read; somebody changed it by hand. It stops what it did.")


def event_from(row: tuple[Any, ...]) -> ChainedEvent:
    return ChainedEvent(writer=row[0], sequence=row[1], body=row[2].encode(), link=row[3], key_id=row[4])


def unchained_from(row: tuple[Any, ...]) -> UnchainedEvent:
    """An event that waits, whatever somebody put there; what is no MAC is authentic for nothing."""
    number, body, key_id, value = row
    mac = Mac(key_id=key_id.decode("ascii", "replace"), value=value.decode("ascii", "replace"))
    return UnchainedEvent(number=number, body=body, mac=mac)


def head_from(row: tuple[Any, ...]) -> ChainHead:
    return ChainHead(
        writer=row[0], sequence=row[1], link=row[2], opened_after=row[3].encode(), key_id=row[4], mac=row[5]
    )


# ---------------------------------------------------------------- what is old


def tombstone_row(tombstone: ChainTombstone) -> tuple[Any, ...]:
    """All columns of `audit_tombstones`, in order."""
    return (
        tombstone.writer,
        tombstone.first_kept,
        tombstone.link,
        tombstone.removed,
        tombstone.cut_by,
        instant_text(tombstone.cut_at),
        tombstone.key_id,
        tombstone.mac,
    )


def tombstone_from(row: tuple[Any, ...]) -> ChainTombstone:
    """Whatever a row says; one that was altered by hand has a MAC that does not hold."""
    try:
        cut_at = datetime.fromisoformat(row[5])
    except ValueError:
        cut_at = _EPOCH
    return ChainTombstone(
        writer=row[0],
        first_kept=row[1],
        link=row[2],
        removed=row[3],
        cut_by=row[4],
        cut_at=cut_at if cut_at.tzinfo is not None else _EPOCH,
        key_id=row[6],
        mac=row[7],
    )


def hold_from(row: tuple[Any, ...]) -> Hold:
    """A hold.

    Raises:
        StoreCorrupt: it cannot be read; somebody changed it by hand. Its scope is held all the same.
    """
    with suppress(OverflowError):
        return Hold(scope=row[0], held_by=row[1], held_at=_sure(row[2]))
    raise StoreCorrupt("A hold cannot be read; somebody changed it by hand. What it holds is not forgotten.")


def old_rows_from(found: Iterable[tuple[int, int | None]]) -> OldRows:
    counts = list(found)
    oldest = min((at for _, at in counts if at is not None), default=None)
    return OldRows(count=sum(count for count, _ in counts), oldest_at=instant(oldest))


# ---------------------------------------------------------------- credentials


def credential_row(row: StoredCredential) -> tuple[Any, ...]:
    """All columns of `credentials`, in order."""
    return (
        row.kind.value,
        row.name,
        row.tenant,
        row.subject,
        row.body.decode(),
        row.mac.key_id,
        row.mac.value,
        microseconds(row.made_at),
        microseconds(row.ends_at),
        microseconds(row.used_at),
    )


def credential_from(row: tuple[Any, ...]) -> StoredCredential:
    """Whatever a row says; one that was altered by hand, or moved, has a MAC that does not hold."""
    return StoredCredential(
        kind=CredentialKind(row[0]),
        name=row[1],
        tenant=row[2],
        subject=row[3],
        body=row[4].encode(),
        mac=Mac(key_id=row[5], value=row[6]),
        made_at=_told_at(row[7]) or _EPOCH,
        ends_at=_told_at(row[8]) or _EPOCH,
        used_at=_told_at(row[9]),
    )


def _told_at(value: int | None) -> datetime | None:
    """None also for one beyond what any clock says."""
    with suppress(OverflowError):
        return instant(value)
    return None
