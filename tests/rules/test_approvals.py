"""What is signed, what fits, who may decide, and when it is over: from values alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import time
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import placet
from placet import Ask, Principal, Requirement, RequirementKind
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
from placet.model.decision import Terms
from placet.model.reminders import Reminders
from placet.rules import approvals as rules
from placet.rules.approvals import Misfit

NOW = datetime(2026, 1, 1, 12, 0, 0, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
AGENT = Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("p",))
FOR_UMA = dataclasses.replace(AGENT, on_behalf_of=Principal.person("uma", tenant="acme"))
ASK = Ask(reasons=("r",), policy_version="v1", requirement=Requirement())  # type: ignore[arg-type]


def tool_call(**changes: Any) -> Call:
    async def act(word: str) -> str: ...

    contract = placet.tool(effect="write", risk="medium", permission="p", name="act", resource="w:{word}")(act).contract
    call = Call(
        contract=contract, principal=AGENT, request_id="q1", run_id="r1", call_id="c1", reply_to="c1", first_attempt=1,
        arguments={"word": "x"}, canonical_arguments=b'{"word":"x"}', argument_digest="d" * 64, fingerprint="f" * 64,
        operation_key="k1", resource="w:x", is_recorded=True,
    )  # type: ignore[arg-type]  # fmt: skip
    return dataclasses.replace(call, **changes)


def question(**changes: Any) -> Question:
    call = tool_call()
    asked = Question(
        approval_id="apr-1", tenant="acme", environment="production", subject="agent", on_behalf_of=None,
        request_id="q1", run_id="r1", call_id="c1", tool="act", tool_version="1",
        contract_digest=call.contract.digest, argument_digest="d" * 64, resource="w:x", operation_key="k1",
        dispatch_number=0, purpose="act", policy_version="v1", reasons=("r",), requirement=RequirementKind.REVIEW,
        lifetime_seconds=300.0, asked_at=NOW, decide_by=NOW + timedelta(days=1), nonce="n-1",
        sealed_arguments=b"sealed",
    )  # type: ignore[arg-type]  # fmt: skip
    return dataclasses.replace(asked, **changes)


def answer(**changes: Any) -> Answer:
    given = Answer(
        decision=ApprovalDecision.APPROVE, decided_by="paula", decided_at=NOW, expires_at=NOW + timedelta(seconds=300),
        digest_seen="d" * 64, reason="",
    )  # type: ignore[arg-type]  # fmt: skip
    return dataclasses.replace(given, **changes)


MAC = Mac(key_id="k", value="0" * 64)
STATE = Mac(key_id="k-1", value="a" * 64)
LEAVE = Leave(roles=("admin",), scopes=("approvals.decide",), is_listed=False)
EDITED = Edited(by="mara", from_id="apr-0", from_digest="e" * 64)  # type: ignore[arg-type]
TERMS = Terms(rule="refunds", votes=2)


def vote(**changes: Any) -> Vote:
    given = Vote(
        kind=VoteKind.APPROVE, voter="paula", voted_at=NOW, digest_seen="d" * 64, reason="", leave=LEAVE
    )  # type: ignore[arg-type]  # fmt: skip
    return dataclasses.replace(given, **changes)


def signed(voter: str, **changes: Any) -> SignedVote:
    """A vote whose signature names it; nothing here checks signatures."""
    given = vote(voter=voter, **changes)
    return SignedVote(vote=given, signature=Mac(key_id="k", value=f"{given.kind.value} {voter}"))


def approval(q: Question | None = None, a: Answer | None = None, **changes: Any) -> Approval:
    row = Approval(
        question=q or question(), question_mac=MAC, state=ApprovalState.APPROVED, answer=a or answer(), signature=MAC,
        spent_at=None,
    )  # fmt: skip
    return dataclasses.replace(row, **changes)


REMINDERS = Reminders(remind_after_seconds=(60.0,))


def different(value: Any) -> Any:
    match value:
        case RequirementKind():
            return RequirementKind.CONFIRM
        case ApprovalDecision():
            return ApprovalDecision.DENY
        case str():
            return value + "x"
        case datetime():
            return value + MICROSECOND
        case int() | float():
            return value + 1
        case bytes():
            return value + b"x"
        case tuple():
            return (*value, "more")
        case Leave():
            return dataclasses.replace(value, scopes=(*value.scopes, "more"))
        case None:
            return "somebody"
    raise AssertionError(value)


# ---------------------------------------------------------------- what is signed


@pytest.mark.req("B043", "B044", "H020")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Question)])
def test_every_field_of_the_question_is_in_every_signature(name: str) -> None:
    given: dict[str, Any] = {"terms": TERMS, "edited": EDITED, "reminders": REMINDERS, "precondition": STATE}
    value = given.get(name) or different(getattr(question(), name))
    changed = dataclasses.replace(question(), **{name: value})

    assert rules.question_form(changed) != rules.question_form(question())
    assert rules.signed_form(changed, answer()) != rules.signed_form(question(), answer())
    assert rules.vote_form(changed, vote()) != rules.vote_form(question(), vote())


@pytest.mark.req("B043", "H020")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Terms)])
def test_every_field_of_the_terms_is_in_the_question(name: str) -> None:
    value = getattr(TERMS, name)
    changed = dataclasses.replace(TERMS, **{name: not value if type(value) is bool else different(value)})

    assert rules.question_form(question(terms=changed)) != rules.question_form(question(terms=TERMS))


@pytest.mark.req("B043", "H020")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Edited)])
def test_every_field_of_an_edit_is_in_the_question(name: str) -> None:
    changed = dataclasses.replace(EDITED, **{name: different(getattr(EDITED, name))})

    assert rules.question_form(question(edited=changed)) != rules.question_form(question(edited=EDITED))


@pytest.mark.case("E12")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Mac)])
def test_every_field_of_the_state_it_is_bound_to_is_in_the_question(name: str) -> None:
    changed = dataclasses.replace(STATE, **{name: different(getattr(STATE, name))})

    assert rules.question_form(question(precondition=changed)) != rules.question_form(question(precondition=STATE))


@pytest.mark.req("H017", "H023")
@pytest.mark.case("E13")
@pytest.mark.parametrize(("kind", "code"), [("review", "own_edit"), ("quorum", "own_edit"), ("confirm", None)])
def test_whoever_edited_a_call_reviews_it_not(kind: str, code: str | None) -> None:
    asked = question(requirement=RequirementKind(kind), on_behalf_of="mara", edited=EDITED)
    editor = person("mara", "approvals.decide")

    assert rules.why_not_entitled(asked, editor) == code
    assert rules.are_duties_apart(asked, "mara") is (code is None)
    if kind != "confirm":
        assert rules.why_not_entitled(asked, person("paula", "approvals.decide")) is None


@pytest.mark.req("B043", "H020")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Leave)])
def test_every_field_of_a_leave_is_in_the_signatures(name: str) -> None:
    value = getattr(LEAVE, name)
    changed = dataclasses.replace(LEAVE, **{name: not value if type(value) is bool else different(value)})

    assert rules.signed_form(question(), answer(leave=changed)) != rules.signed_form(question(), answer(leave=LEAVE))
    assert rules.vote_form(question(), vote(leave=changed)) != rules.vote_form(question(), vote())


@pytest.mark.req("B043", "H020")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Vote)])
def test_every_field_of_a_vote_is_in_its_signature(name: str) -> None:
    value = getattr(vote(), name)
    changed = dataclasses.replace(vote(), **{name: VoteKind.WITHDRAW if name == "kind" else different(value)})

    assert rules.vote_form(question(), changed) != rules.vote_form(question(), vote())


@pytest.mark.req("B043", "B044", "H020")
@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(Answer)])
def test_every_field_of_the_answer_is_in_its_signature(name: str) -> None:
    value = LEAVE if name == "leave" else different(getattr(answer(), name))
    changed = dataclasses.replace(answer(), **{name: value})

    assert rules.signed_form(question(), changed) != rules.signed_form(question(), answer())


def test_a_question_an_answer_and_a_vote_are_never_mistaken_for_each_other() -> None:
    assert b'"v":"vote/1"' in rules.vote_form(question(), vote())
    assert b'"verdict"' not in rules.vote_form(question(), vote())
    assert rules.question_form(question()) != rules.signed_form(question(), answer())
    assert rules.question_form(question(reasons=("a", "b"))) != rules.question_form(question(reasons=("a,b",)))
    assert rules.question_form(question(on_behalf_of=None)) != rules.question_form(question(on_behalf_of="None"))


def sha256_hex(domain: str, *parts: bytes) -> str:
    """As the digest is described, written again: the domain, NUL, then each part behind its length."""
    message = domain.encode() + b"\0" + b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hashlib.sha256(message).hexdigest()


QUESTION_FORM = {
    "v": 1, "approval_id": "apr-1", "tenant": "acme", "environment": "production", "subject": "agent",
    "on_behalf_of": None, "request_id": "q1", "run_id": "r1", "call_id": "c1", "tool": "act", "tool_version": "1",
    "contract_digest": tool_call().contract.digest, "argument_digest": "d" * 64, "resource": "w:x",
    "operation_key": "k1", "dispatch_number": 0, "purpose": "act", "policy_version": "v1", "reasons": ["r"],
    "requirement": "review", "lifetime_seconds": 300.0, "asked_at": "2026-01-01T12:00:00.000000+00:00",
    "decide_by": "2026-01-02T12:00:00.000000+00:00", "nonce": "n-1",
    "sealed_arguments": sha256_hex("placet/sealed/1", b"sealed"),
}  # fmt: skip


def test_what_is_signed_is_this_form_so_that_old_signatures_stay_good() -> None:
    form = json.dumps(QUESTION_FORM, sort_keys=True, separators=(",", ":")).encode()
    signed = {
        "v": 1, "question": sha256_hex("placet/question/1", form), "verdict": "approve", "decided_by": "paula",
        "decided_at": "2026-01-01T12:00:00.000000+00:00", "expires_at": "2026-01-01T12:05:00.000000+00:00",
        "digest_seen": "d" * 64, "reason": "",
    }  # fmt: skip

    assert rules.question_form(question()) == form
    assert rules.signed_form(question(), answer()) == json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()


def test_terms_edits_leaves_and_votes_are_signed_in_this_form() -> None:
    def text(form: dict[str, Any]) -> bytes:
        return json.dumps(form, sort_keys=True, separators=(",", ":")).encode()

    written = {"roles": ["admin"], "scopes": ["approvals.decide"], "is_listed": False}
    edited = {"by": "mara", "from_id": "apr-0", "from_digest": "e" * 64}
    asked = text(QUESTION_FORM | {"v": 2, "terms": None, "edited": edited})
    given = json.loads(rules.signed_form(question(), answer(leave=LEAVE, votes=("paula",))))
    digest = sha256_hex("placet/question/1", text(QUESTION_FORM))

    assert rules.question_form(question(edited=EDITED)) == asked
    bound = text(QUESTION_FORM | {"v": 4, "precondition": {"key_id": "k-1", "value": "a" * 64}})
    assert rules.question_form(question(precondition=STATE)) == bound
    assert given == json.loads(rules.signed_form(question(), answer())) | {
        "v": 2, "leave": written, "votes": ["paula"],
    }  # fmt: skip
    assert rules.vote_form(question(), vote()) == text(
        {
            "v": "vote/1", "question": digest, "kind": "approve", "voter": "paula",
            "voted_at": "2026-01-01T12:00:00.000000+00:00", "digest_seen": "d" * 64, "reason": "", "leave": written,
        }
    )  # fmt: skip


@pytest.mark.req("B049", "B055")
def test_an_instant_is_spelled_with_its_microseconds_and_must_know_its_zone() -> None:
    assert rules.instant_text(NOW) == "2026-01-01T12:00:00.000000+00:00"
    with pytest.raises(ValueError, match="zone"):
        rules.instant_text(datetime(2026, 1, 1))


# ---------------------------------------------------------------- what fits


def misfit(row: Approval, call: Call | None = None, *, ask: Ask = ASK, number: int = 0, now: datetime = NOW) -> Any:
    return rules.misfit(row, call or tool_call(), ask, dispatch_number=number, now=now)


def test_an_approval_of_this_very_call_fits() -> None:
    assert misfit(approval()) is None


@pytest.mark.req("B048", "B060", "B061", "H015", "H016", "H018", "H022")
@pytest.mark.parametrize(
    "name",
    [
        "tenant",
        "environment",
        "subject",
        "on_behalf_of",
        "run_id",
        "tool",
        "contract_digest",
        "argument_digest",
        "resource",
        "purpose",
        "policy_version",
        "requirement",
    ],
)
def test_a_question_that_differs_in_one_bound_field_does_not_fit(name: str) -> None:
    asked = question(**{name: different(getattr(question(), name))})

    assert misfit(approval(asked)) is Misfit.OTHER_CALL
    assert not rules.asks_for(asked, tool_call(), ASK, dispatch_number=0)


@pytest.mark.req("B060", "B061", "H016")
@pytest.mark.parametrize(
    "changed",
    [
        {"principal": dataclasses.replace(AGENT, subject="other")},
        {"principal": Principal.agent("agent", tenant="globex")},
        {"principal": dataclasses.replace(AGENT, environment="staging")},
        {"principal": dataclasses.replace(AGENT, on_behalf_of=Principal.person("uma", tenant="acme"))},
        {"run_id": "r2"},
        {"argument_digest": "e" * 64},
        {"resource": None},
    ],
)
def test_a_call_that_differs_in_one_bound_field_is_not_authorised(changed: dict[str, Any]) -> None:
    assert misfit(approval(), tool_call(**changed)) is Misfit.OTHER_CALL


@pytest.mark.req("H021")
@pytest.mark.parametrize("state", [state for state in ApprovalState if state is not ApprovalState.APPROVED])
def test_only_an_approved_one_authorises(state: ApprovalState) -> None:
    assert misfit(approval(state=state)) is Misfit.NOT_APPROVED
    assert misfit(approval(answer=None)) is Misfit.NOT_APPROVED
    assert misfit(approval(a=answer(decision=ApprovalDecision.DENY))) is Misfit.NOT_APPROVED


@pytest.mark.parametrize(
    ("asked", "decider", "why"),
    [
        (AGENT, "paula", None),
        (AGENT, "agent", Misfit.NOT_ENTITLED),
        (FOR_UMA, "uma", Misfit.NOT_ENTITLED),
        (FOR_UMA, "paula", None),
    ],
)
def test_who_may_not_decide_is_asked_again_when_the_approval_is_used(
    asked: Principal, decider: str, why: Misfit | None
) -> None:
    """A signed answer of before is no leave by itself: the duties are held apart anew."""
    of_it = question(subject=asked.identity, on_behalf_of=rules.on_behalf_of(asked))
    assert misfit(approval(of_it, answer(decided_by=decider)), tool_call(principal=asked)) is why


@pytest.mark.parametrize(("decider", "why"), [("uma", None), ("paula", Misfit.NOT_ENTITLED)])
def test_a_confirmation_of_somebody_else_does_not_fit(decider: str, why: Misfit | None) -> None:
    principal = FOR_UMA
    ask = dataclasses.replace(ASK, requirement=Requirement(kind=RequirementKind.CONFIRM))
    asked = question(
        subject=principal.identity, on_behalf_of="uma", requirement=RequirementKind.CONFIRM, argument_digest="d" * 64
    )
    found = rules.misfit(
        approval(asked, answer(decided_by=decider)), tool_call(principal=principal), ask, dispatch_number=0, now=NOW
    )
    assert found is why


def test_one_instant_has_one_spelling_whatever_its_zone() -> None:
    elsewhere = NOW.astimezone(timezone(timedelta(hours=8)))
    assert rules.instant_text(elsewhere) == rules.instant_text(NOW) == NOW.isoformat(timespec="microseconds")
    with pytest.raises(ValueError, match="zone"):
        rules.instant_text(NOW.replace(tzinfo=None))


def test_an_answer_given_to_another_screen_does_not_fit() -> None:
    assert misfit(approval(a=answer(digest_seen="e" * 64))) is Misfit.OTHER_CALL


def test_a_question_asks_for_the_dispatch_it_names() -> None:
    assert rules.asks_for(question(), tool_call(), ASK, dispatch_number=0) is True
    assert rules.asks_for(question(), tool_call(), ASK, dispatch_number=1) is False
    assert rules.asks_for(question(dispatch_number=1), tool_call(), ASK, dispatch_number=1) is True


def test_an_approval_names_its_dispatch() -> None:
    assert misfit(approval(), number=1) is Misfit.OTHER_DISPATCH
    assert misfit(approval(question(dispatch_number=1)), number=1) is None


@pytest.mark.req("B052", "H019", "B055")
@pytest.mark.parametrize(("offset", "fits"), [(-MICROSECOND, True), (timedelta(0), False), (MICROSECOND, False)])
def test_expired_is_at_the_instant_in_any_zone(offset: timedelta, fits: bool) -> None:
    now = (answer().expires_at + offset).astimezone(timezone(timedelta(hours=8)))

    assert misfit(approval(), now=now) is (None if fits else Misfit.EXPIRED)
    assert rules.is_overdue(approval(), now=now) is not fits


@pytest.mark.req("B053")
@pytest.mark.parametrize(("seconds", "fits"), [(30.0, True), (30.000001, False), (86_400, False)])
def test_a_decision_from_the_future_fits_within_30_seconds(seconds: float, fits: bool) -> None:
    given = answer(decided_at=NOW + timedelta(seconds=seconds), expires_at=NOW + timedelta(days=2))

    assert misfit(approval(a=given)) is (None if fits else Misfit.FROM_THE_FUTURE)


@pytest.mark.req("B068")
def test_a_decision_of_the_last_year_there_is_does_not_fit_and_raises_nothing() -> None:
    end = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

    assert misfit(approval(a=answer(decided_at=end, expires_at=end))) is Misfit.FROM_THE_FUTURE


@pytest.mark.parametrize(("offset", "over"), [(-MICROSECOND, False), (timedelta(0), True), (MICROSECOND, True)])
def test_a_question_is_overdue_at_its_instant(offset: timedelta, over: bool) -> None:
    waiting = approval(state=ApprovalState.PENDING, answer=None, signature=None)

    assert rules.is_overdue(waiting, now=question().decide_by + offset) is over


def test_what_is_closed_is_never_overdue() -> None:
    far = NOW + timedelta(days=1000)
    for state in set(ApprovalState) - {ApprovalState.PENDING, ApprovalState.APPROVED}:
        assert rules.is_overdue(approval(state=state), now=far) is False


def test_an_approved_one_whose_answer_is_gone_has_passed_its_clock() -> None:
    assert rules.is_overdue(approval(answer=None), now=NOW) is True


@pytest.mark.parametrize("state", list(ApprovalState))
def test_a_state_fits_the_answer_that_leads_to_it_and_no_other(state: ApprovalState) -> None:
    spent_at = NOW if state is ApprovalState.SPENT else None
    fits = {
        None: {"pending", "expired", "withdrawn"},
        ApprovalDecision.APPROVE: {"approved", "spent", "expired", "revoked"},
        ApprovalDecision.DENY: {"denied"},
    }

    for decision, states in fits.items():
        given = answer(decision=decision) if decision is not None else None
        row = approval(answer=given, state=state, spent_at=spent_at)
        assert rules.state_fits(row) is (state.value in states)


@pytest.mark.parametrize("state", list(ApprovalState))
def test_what_was_spent_says_when_and_nothing_else_does(state: ApprovalState) -> None:
    spent_at = None if state is ApprovalState.SPENT else NOW

    assert not rules.state_fits(approval(state=state, spent_at=spent_at))


def test_why_an_approval_does_not_fit_is_recorded_in_these_words() -> None:
    assert [misfit.value for misfit in Misfit] == [
        "question_forged", "signature_missing", "signature_forged", "arguments_forged", "state_forged", "votes_forged",
        "other_call", "not_approved", "expired", "from_the_future", "other_dispatch", "not_entitled", "key_retired",
    ]  # fmt: skip


@pytest.mark.parametrize("misfit", list(Misfit))
def test_alarms_are_the_misfits_of_altered_rows(misfit: Misfit) -> None:
    assert misfit.is_alarm is (misfit.value.endswith("_forged") or misfit is Misfit.SIGNATURE_MISSING)


# ---------------------------------------------------------------- who may decide


def person(subject: str = "paula", *scopes: str) -> Principal:
    return Principal.person(subject, tenant="acme", scopes=scopes)


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize(
    ("kind", "who", "answer"),
    [
        ("review", person("paula", "approvals.decide"), None),
        ("review", person("paula"), "scope_missing"),
        ("review", person("agent", "approvals.decide"), "own_request"),
        ("review", person("uma", "approvals.decide"), "own_request"),
        ("review", person("bea", "approvals.decide"), "own_request"),
        ("review", Principal.agent("paula", tenant="acme", scopes=("approvals.decide",)), "not_a_person"),
        ("quorum", person("paula", "approvals.decide"), None),
        ("quorum", person("paula"), "scope_missing"),
        ("quorum", person("bea", "approvals.decide"), "own_request"),
        ("quorum", Principal.agent("paula", tenant="acme", scopes=("approvals.decide",)), "not_a_person"),
        ("confirm", person("uma"), None),
        ("confirm", person("agent"), "not_the_requesting_user"),
        ("confirm", person("paula", "approvals.decide"), "not_the_requesting_user"),
        ("confirm", Principal.agent("uma", tenant="acme"), "not_a_person"),
    ],
)
def test_who_may_decide(kind: str, who: Principal, answer: str | None) -> None:
    asked = question(
        requirement=RequirementKind(kind), on_behalf_of="uma", subject='["production", "agent", "bea", "uma"]'
    )

    assert rules.why_not_entitled(asked, who) == answer


@pytest.mark.parametrize("kind", list(RequirementKind))
def test_a_person_signed_in_elsewhere_decides_nothing_here(kind: RequirementKind) -> None:
    asked = question(requirement=kind, on_behalf_of="uma", environment="production")
    elsewhere = [
        dataclasses.replace(who, environment="staging") for who in (person("uma"), person("paula", "approvals.decide"))
    ]

    assert [rules.why_not_entitled(asked, who) for who in elsewhere] == ["other_environment", "other_environment"]


def test_without_a_user_nobody_can_confirm() -> None:
    asked = question(requirement=RequirementKind.CONFIRM, on_behalf_of=None)

    assert rules.why_not_entitled(asked, person("agent")) == "not_the_requesting_user"


def test_the_user_is_at_the_far_end_of_the_delegation() -> None:
    user = person("uma")
    service = dataclasses.replace(AGENT, subject="service", on_behalf_of=user)

    assert rules.on_behalf_of(AGENT) is None
    assert rules.on_behalf_of(dataclasses.replace(AGENT, on_behalf_of=user)) == "uma"
    assert rules.on_behalf_of(dataclasses.replace(AGENT, on_behalf_of=service)) == "uma"


def test_the_transitions_are_the_ones_of_the_design() -> None:
    pending, approved = ApprovalState.PENDING, ApprovalState.APPROVED

    assert {
        (pending, approved),
        (pending, ApprovalState.DENIED),
        (pending, ApprovalState.EXPIRED),
        (pending, ApprovalState.WITHDRAWN),
        (approved, ApprovalState.SPENT),
        (approved, ApprovalState.EXPIRED),
        (approved, ApprovalState.REVOKED),
    } == rules.TRANSITIONS


def test_an_instant_is_spelled_the_same_wherever_the_process_thinks_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert rules.instant_text(NOW.astimezone(timezone(timedelta(hours=8)))) == "2026-01-01T12:00:00.000000+00:00"
    finally:
        monkeypatch.undo()
        time.tzset()


# ---------------------------------------------------------------- quorum


ASKED = question(requirement=RequirementKind.QUORUM, terms=TERMS, subject='["production", "agent", "uma"]')
CLOSED = answer(decided_by="paula", votes=("approve omar", "approve paula"))
TWO = (signed("omar"), signed("paula"))


@pytest.mark.req("H017", "H023")
def test_votes_that_were_taken_back_do_not_stand() -> None:
    votes = (signed("paula"), signed("omar"), signed("zoe"), signed("omar", kind=VoteKind.WITHDRAW))

    assert rules.standing_votes(votes) == (signed("paula"), signed("zoe"))
    assert rules.standing_votes((signed("zoe"), signed("omar"))) == (signed("omar"), signed("zoe"))


@pytest.mark.req("H017")
def test_the_very_votes_that_the_answer_names_are_a_quorum() -> None:
    assert rules.is_quorum(ASKED, CLOSED, TWO)
    assert rules.is_quorum(ASKED, CLOSED, TWO[::-1])


BROKEN: dict[str, tuple[Question, Answer, tuple[SignedVote, ...]]] = {
    "one is missing": (ASKED, CLOSED, TWO[:1]),
    "one is more": (ASKED, CLOSED, (*TWO, signed("zoe"))),
    "one was taken back": (ASKED, CLOSED, (*TWO, signed("omar", kind=VoteKind.WITHDRAW))),
    "they are too few": (question(terms=dataclasses.replace(TERMS, votes=3)), CLOSED, TWO),
    "one person twice": (
        ASKED, answer(decided_by="paula", votes=("approve paula", "approve paula")), (TWO[1], TWO[1])
    ),
    "one of the requester": (
        ASKED, answer(decided_by="paula", votes=("approve agent", "approve paula")), (signed("agent"), TWO[1])
    ),
    "one of whom the requester acts for": (
        ASKED, answer(decided_by="paula", votes=("approve paula", "approve uma")), (TWO[1], signed("uma"))
    ),
    "one of other arguments": (ASKED, CLOSED, (TWO[0], signed("paula", digest_seen="e" * 64))),
    "one after the answer": (ASKED, CLOSED, (TWO[0], signed("paula", voted_at=NOW + MICROSECOND))),
    "the answer is nobody's of them": (ASKED, dataclasses.replace(CLOSED, decided_by="zoe"), TWO),
    "the answer names none": (ASKED, answer(), ()),
}  # fmt: skip


@pytest.mark.req("H017", "H020")
@pytest.mark.parametrize("what", BROKEN)
def test_anything_else_is_no_quorum(what: str) -> None:
    asked, given, votes = BROKEN[what]

    assert not rules.is_quorum(asked, given, votes)


def test_what_a_person_decided_with_is_known_again() -> None:
    who = Principal.person("paula", tenant="acme", roles=("admin", "operator"), scopes=("b", "a"))
    leave = rules.leave_of(who, is_listed=True)

    assert leave == Leave(roles=("admin", "operator"), scopes=("a", "b"), is_listed=True)
    assert rules.decider_of(question(), "paula", leave) == who


@pytest.mark.parametrize(
    ("terms", "needed"),
    [
        (None, ()),
        (TERMS, ()),
        (Terms(rule="r", reason_to_approve=True), ("approve",)),
        (Terms(rule="r", reason_to_deny=True), ("deny",)),
        (Terms(rule="r", reason_to_approve=True, reason_to_deny=True), ("approve", "deny")),
    ],
)
def test_a_decision_may_need_words(terms: Terms | None, needed: tuple[str, ...]) -> None:
    asked = question(terms=terms)

    assert rules.reasons_needed(asked) == needed
    for decision in ApprovalDecision:
        assert rules.lacks_reason(asked, decision, " ") is (decision.value in needed)
        assert not rules.lacks_reason(asked, decision, "because")


def test_an_approval_fits_only_the_terms_that_policy_asks_with_today() -> None:
    asks = dataclasses.replace(ASK, requirement=Requirement(terms=Terms(rule="refunds")))
    asked = question(terms=Terms(rule="refunds"))

    assert rules.misfit(approval(asked), tool_call(), asks, dispatch_number=0, now=NOW) is None
    assert rules.misfit(approval(asked), tool_call(), ASK, dispatch_number=0, now=NOW) is Misfit.OTHER_CALL
    assert rules.misfit(approval(), tool_call(), asks, dispatch_number=0, now=NOW) is Misfit.OTHER_CALL
