"""What may be forgotten, at the very instant and just before it."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest

from placet.errors import MisuseError
from placet.model.approval import Approval, ApprovalDecision, ApprovalState
from placet.model.audit import ChainedEvent
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import ApprovalId, Digest, OwnerId, WriterId
from placet.model.ledger import Claimed
from placet.model.retention import Grave, Retention, held_tenants, is_hold_scope, tenant_hold
from placet.rules.retention import (
    HOLD_SCOPE,
    PURGE_SCOPE,
    buried,
    cut_length,
    is_held,
    mark_binding,
    may_be_forgotten,
)
from placet.rules.transitions import apply_claim
from placet.testing.conformance import A_MAC, ANOTHER_MAC, a_claim, a_question, an_answer

NOW = datetime(2026, 6, 1, tzinfo=UTC)
TICK = timedelta(microseconds=1)


def an_approval(
    state: ApprovalState, *, decide_by: datetime, expires_at: datetime | None, verdict: ApprovalDecision | None
) -> Approval:
    question = a_question(asked_at=decide_by - timedelta(days=1))
    answer = None
    if verdict is not None:
        answer = an_answer(question, verdict, at=question.asked_at)
        answer = replace(answer, expires_at=expires_at or answer.expires_at)
    return Approval(
        question=question,
        question_mac=A_MAC,
        state=state,
        answer=answer,
        signature=None if answer is None else ANOTHER_MAC,
        spent_at=NOW if state is ApprovalState.SPENT else None,
    )


@pytest.mark.parametrize("state", [ApprovalState.SPENT, ApprovalState.REVOKED, ApprovalState.EXPIRED])
def test_an_approval_goes_at_the_instant_its_signed_expiry_comes_and_not_before(state: ApprovalState) -> None:
    long_ago = NOW - timedelta(days=400)
    for expires_at, goes in ((NOW + TICK, False), (NOW, True), (NOW - TICK, True)):
        approval = an_approval(state, decide_by=long_ago, expires_at=expires_at, verdict=ApprovalDecision.APPROVE)
        assert may_be_forgotten(approval, now=NOW) is goes


def test_a_question_goes_at_the_instant_it_can_be_decided_no_more() -> None:
    for decide_by, goes in ((NOW + TICK, False), (NOW, True)):
        approval = an_approval(ApprovalState.WITHDRAWN, decide_by=decide_by, expires_at=None, verdict=None)
        assert may_be_forgotten(approval, now=NOW) is goes


def test_a_denial_needs_no_expiry_for_it_authorises_nothing() -> None:
    denied = an_approval(
        ApprovalState.DENIED, decide_by=NOW, expires_at=NOW + timedelta(days=9), verdict=ApprovalDecision.DENY
    )
    assert may_be_forgotten(denied, now=NOW)


@pytest.mark.parametrize("state", [ApprovalState.PENDING, ApprovalState.APPROVED])
def test_what_is_open_is_never_forgotten(state: ApprovalState) -> None:
    verdict = ApprovalDecision.APPROVE if state is ApprovalState.APPROVED else None
    approval = an_approval(state, decide_by=NOW - timedelta(days=400), expires_at=NOW - TICK, verdict=verdict)
    assert not may_be_forgotten(approval, now=NOW)


# ---------------------------------------------------------------- chains


def an_old_event(sequence: int, at: object, tenant: object = "acme") -> ChainedEvent:
    body = orjson.dumps({"tenant": tenant, "at": at})
    return ChainedEvent(writer=WriterId("w-1"), sequence=sequence, body=body, link="0" * 64, key_id="k-1")


def instants(*offsets: timedelta) -> list[ChainedEvent]:
    return [an_old_event(n + 1, (NOW + offset).isoformat()) for n, offset in enumerate(offsets)]


def test_a_chain_is_cut_up_to_its_first_event_that_is_not_old() -> None:
    assert cut_length(instants(-TICK, -TICK, timedelta(0), -TICK), before=NOW, holds=frozenset()) == 2
    assert cut_length(instants(-TICK), before=NOW, holds=frozenset()) == 1
    assert cut_length([], before=NOW, holds=frozenset()) == 0


@pytest.mark.parametrize("at", [None, 7, "yesterday", "2020-01-01T00:00:00"])
def test_a_chain_is_not_cut_past_an_event_that_says_no_instant(at: object) -> None:
    events = [an_old_event(1, "2020-01-01T00:00:00+00:00"), an_old_event(2, at), an_old_event(3, "2020-01-01T00:00Z")]
    assert cut_length(events, before=NOW, holds=frozenset()) == 1


def test_a_chain_is_not_cut_past_an_event_that_is_held_or_nobodys() -> None:
    old = "2020-01-01T00:00:00+00:00"
    events = [an_old_event(1, old), an_old_event(2, old, "other"), an_old_event(3, old)]
    assert cut_length(events, before=NOW, holds=frozenset({tenant_hold("other")})) == 1
    assert cut_length(events, before=NOW, holds=frozenset({tenant_hold("acme")})) == 0
    assert cut_length(events, before=NOW, holds=frozenset({"all"})) == 0
    assert cut_length([an_old_event(1, old, 7)], before=NOW, holds=frozenset()) == 0


# ---------------------------------------------------------------- graves and holds


def a_finished_effect(state: EffectState = EffectState.COMMITTED) -> Effect:
    claimed = apply_claim(None, a_claim(), now=NOW)
    assert isinstance(claimed, Claimed)
    return replace(claimed.effect, state=state)


def its_grave(effect: Effect) -> Grave:
    return Grave(
        tenant=effect.tenant,
        operation_key=effect.operation_key,
        state=effect.state,
        fence=effect.fence,
        updated_at=effect.updated_at,
        sealed_mark=b"mark",
    )


@pytest.mark.parametrize("state", list(EffectState))
def test_only_what_is_finished_is_buried_and_only_once(state: EffectState) -> None:
    effect = a_finished_effect(state)
    rest = buried(effect, its_grave(effect))
    finished = ("committed", "failed", "reconciled_committed", "reconciled_absent")
    assert (rest is not None) is (state.value in finished)
    if rest is not None:
        assert rest.owner == "" and buried(rest, its_grave(rest)) is None
        assert (rest.token, rest.fence, rest.fingerprint) == (effect.token, effect.fence, effect.fingerprint)


KEPT = (
    *("tenant", "operation_key", "fingerprint", "tool", "argument_digest", "run_id", "call_id", "subject"),
    *("state", "fence", "attempts", "attempt", "token", "arrival_bound_seconds", "ends_by_itself", "probes"),
    *("result_digest", "reason", "created_at", "updated_at"),
)
"""What names it, what a lost answer is found again by, and what its next dispatch goes on counting from."""


def a_full_row() -> Effect:
    """A row with something to forget in every field that may be empty."""
    return replace(
        a_finished_effect(EffectState.RECONCILED_COMMITTED),
        approval_id=ApprovalId("apr-1"),
        attempt_ended_at=NOW - TICK,
        probe_after=NOW + TICK,
        probes=2,
        sealed_result=b"sealed result",
        result_digest=Digest("d" * 64),
        external_reference="order 4711",
        reason="found by its probe",
        created_at=NOW - timedelta(days=3),
        updated_at=NOW - timedelta(days=2),
    )


def test_of_a_buried_row_its_name_and_its_end_are_left_and_nothing_else() -> None:
    row = a_full_row()
    rest = buried(row, its_grave(row))

    assert rest is not None
    assert {name: getattr(rest, name) for name in KEPT} == {name: getattr(row, name) for name in KEPT}
    assert {field.name: getattr(rest, field.name) for field in fields(Effect) if field.name not in KEPT} == {
        "owner": "",
        "tool_version": "",
        "contract_digest": "",
        "policy_version": "",
        "decision": "",
        "approval_id": None,
        "lease_until": row.updated_at,
        "send_by": row.updated_at,
        "attempt_ended_at": None,
        "probe_after": None,
        "sealed_arguments": b"mark",
        "sealed_result": None,
        "external_reference": None,
    }


@pytest.mark.parametrize(
    "seen",
    [{"state": EffectState.COMMITTED}, {"fence": 2}, {"updated_at": NOW}],
    ids=", ".join,
)
def test_a_row_that_has_moved_since_it_was_seen_is_not_buried(seen: dict[str, Any]) -> None:
    row = a_full_row()

    assert buried(row, replace(its_grave(row), **seen)) is None


def test_a_mark_is_bound_to_this_form_so_that_old_marks_still_open() -> None:
    effect = a_finished_effect()

    assert mark_binding(effect, "d" * 64) == b'[1,"purged","acme","key-1","committed","' + b"d" * 64 + b'"]'
    assert mark_binding(its_grave(effect), None) == b'[1,"purged","acme","key-1","committed",null]'


def test_a_mark_is_of_one_row_in_one_state_with_one_result() -> None:
    effect = a_finished_effect()
    bindings = {
        mark_binding(effect, "d" * 64),
        mark_binding(effect, None),
        mark_binding(replace(effect, tenant="other"), "d" * 64),
        mark_binding(replace(effect, operation_key="key-2"), "d" * 64),  # type: ignore[arg-type]
        mark_binding(replace(effect, state=EffectState.FAILED), "d" * 64),
    }
    assert len(bindings) == 5
    assert mark_binding(replace(effect, owner=OwnerId("")), "d" * 64) in bindings, "burying changes nothing of it"


def test_the_leaves_are_these_scopes_for_they_stand_in_peoples_sign_ins() -> None:
    assert (PURGE_SCOPE, HOLD_SCOPE) == ("ops.purge", "ops.hold")


def test_a_hold_is_of_everything_or_of_one_tenant_by_its_exact_name() -> None:
    assert is_held("acme", frozenset({"all"})) and is_held("acme", frozenset({"tenant:acme"}))
    assert not is_held("acme", frozenset({"tenant:acm", "tenant:acme2"})) and not is_held("acme", frozenset())
    assert held_tenants(frozenset({"all", "tenant:a:b"})) == {"a:b"}
    assert is_hold_scope("tenant:" + "x" * 128) and not is_hold_scope("tenant:" + "x" * 129)
    assert not any(map(is_hold_scope, ("", "tenant:", "ALL", None, b"all", "tool:pay")))


def test_a_retention_is_a_day_or_more() -> None:
    assert Retention(seconds=86_400.0, audit_seconds=86_400).seconds == 86_400.0
    with pytest.raises(MisuseError):
        Retention(audit_seconds=86_399.999)
