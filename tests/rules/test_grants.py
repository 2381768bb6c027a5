"""When a grant answers an ask: each thing that it is held against, by itself."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

import placet
from placet import GrantTerms, Principal, Requirement, RequirementKind
from placet.model.approval import Mac, Question
from placet.model.call import Call
from placet.model.decision import Ask, Terms
from placet.model.grant import Grant, GrantId, OneOf, StoredGrant
from placet.model.identifiers import PolicyVersion, RunId
from placet.rules import grants as rules
from placet.rules.approvals import why_not_entitled
from placet.rules.grants import GrantMisfit
from tests.rules.test_approvals import AGENT, FOR_UMA, LEAVE, MICROSECOND, NOW, tool_call

TERMS = Terms(rule="small")
MOST = GrantTerms(max_uses=5, max_seconds=3_600.0)
REQUIREMENT = Requirement(terms=TERMS, grants=MOST)
ASK = Ask(reasons=("contract_always_asks", "rule:small"), policy_version=PolicyVersion("v1"), requirement=REQUIREMENT)
LIMITS = {"word": OneOf(values=("x",))}
CALL = tool_call()


def a_grant(**changes: Any) -> StoredGrant:
    grant = Grant(
        grant_id=GrantId("grt-1"), tenant="acme", environment="production", subject="agent", run_id=RunId("r1"),
        tool="act", tool_version="1", contract_digest=CALL.contract.digest, limits_digest="d" * 64,
        policy_version="v1", terms=TERMS, max_uses=3, given_by="paula", given_at=NOW,
        expires_at=NOW + timedelta(hours=1), leave=LEAVE, reason="", nonce="n-1", sealed_limits=b"sealed",
    )  # type: ignore[arg-type]  # fmt: skip
    return StoredGrant(grant=dataclasses.replace(grant, **changes), mac=Mac(key_id="k", value="0" * 64))


def of_contract(**options: Any) -> Call:
    async def act(word: str) -> str: ...

    settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}
    return tool_call(contract=placet.tool(**(settings | options))(act).contract)


def asked(**changes: Any) -> Ask:
    return dataclasses.replace(ASK, **changes)


def test_a_grant_that_fits_answers() -> None:
    assert rules.misfit(a_grant(), LIMITS, CALL, ASK, now=NOW) is None
    assert rules.misfit(a_grant(run_id=None), LIMITS, CALL, ASK, now=NOW) is None
    assert rules.misfit(a_grant(), LIMITS, CALL, ASK, now=NOW + timedelta(hours=1) - MICROSECOND) is None


HIGH, GONE = of_contract(risk="high"), of_contract(effect="irreversible", risk="low")
MISFITS: dict[str, tuple[StoredGrant, Call, Ask, timedelta, GrantMisfit]] = {
    "another tenant": (a_grant(tenant="globex"), CALL, ASK, timedelta(), GrantMisfit.OTHER_CALL),
    "another environment": (a_grant(environment="staging"), CALL, ASK, timedelta(), GrantMisfit.OTHER_CALL),
    "another subject": (a_grant(subject="agent-2"), CALL, ASK, timedelta(), GrantMisfit.OTHER_CALL),
    "the subject for somebody": (a_grant(), tool_call(principal=FOR_UMA), ASK, timedelta(), GrantMisfit.OTHER_CALL),
    "another run": (a_grant(run_id="r2"), CALL, ASK, timedelta(), GrantMisfit.OTHER_CALL),
    "another tool": (a_grant(tool="act2"), CALL, ASK, timedelta(), GrantMisfit.OTHER_CONTRACT),
    "another contract": (a_grant(contract_digest="e" * 64), CALL, ASK, timedelta(), GrantMisfit.OTHER_CONTRACT),
    "another policy": (a_grant(policy_version="v2"), CALL, ASK, timedelta(), GrantMisfit.OTHER_POLICY),
    "the policy of another ask": (
        a_grant(), CALL, asked(policy_version="v2"), timedelta(), GrantMisfit.OTHER_POLICY
    ),
    "another rule": (a_grant(terms=Terms(rule="other")), CALL, ASK, timedelta(), GrantMisfit.OTHER_ASK),
    "other terms of the rule": (
        a_grant(terms=Terms(rule="small", may_edit=False)), CALL, ASK, timedelta(), GrantMisfit.OTHER_ASK
    ),
    "a rule without grants": (
        a_grant(), CALL, asked(requirement=Requirement(terms=TERMS)), timedelta(), GrantMisfit.OTHER_ASK
    ),
    "a reason of another kind": (
        a_grant(), CALL, asked(reasons=(*ASK.reasons, "verbatim_untrusted")), timedelta(), GrantMisfit.OTHER_ASK
    ),
    "high risk": (a_grant(contract_digest=HIGH.contract.digest), HIGH, ASK, timedelta(), GrantMisfit.TOO_MUCH_RISK),
    "what cannot be undone": (
        a_grant(contract_digest=GONE.contract.digest), GONE, ASK, timedelta(), GrantMisfit.TOO_MUCH_RISK
    ),
    "given by the requester": (a_grant(given_by="agent"), CALL, ASK, timedelta(), GrantMisfit.NOT_ENTITLED),
    "given by whom it acts for": (
        a_grant(given_by="uma", subject=FOR_UMA.identity), tool_call(principal=FOR_UMA), ASK, timedelta(),
        GrantMisfit.NOT_ENTITLED,
    ),
    "revoked": (a_grant(revoked_at=NOW, revoked_by="omar"), CALL, ASK, timedelta(), GrantMisfit.REVOKED),
    "at its instant": (a_grant(), CALL, ASK, timedelta(hours=1), GrantMisfit.EXPIRED),
    "from the future": (a_grant(), CALL, ASK, -timedelta(seconds=30) - MICROSECOND, GrantMisfit.FROM_THE_FUTURE),
    "used up": (dataclasses.replace(a_grant(), uses=3), CALL, ASK, timedelta(), GrantMisfit.USED_UP),
    "beyond its limits": (
        a_grant(), tool_call(arguments={"word": "y"}), ASK, timedelta(), GrantMisfit.BEYOND_LIMITS
    ),
}  # fmt: skip


@pytest.mark.case("E05")
@pytest.mark.parametrize("what", MISFITS)
def test_whatever_is_otherwise_a_grant_does_not_answer(what: str) -> None:
    stored, call, ask, later, expected = MISFITS[what]
    assert rules.misfit(stored, LIMITS, call, ask, now=NOW + later) is expected


def test_only_a_review_with_grants_may_be_answered() -> None:
    assert rules.may_be_answered(ASK)
    assert rules.most_granted(ASK, CALL.contract) == MOST
    assert rules.most_granted(ASK, HIGH.contract) is None
    without = object.__new__(Requirement)
    for name, value in (("terms", TERMS), ("grants", MOST), ("kind", RequirementKind.QUORUM)):
        object.__setattr__(without, name, value)
    assert not rules.may_be_answered(asked(requirement=without))


@pytest.mark.parametrize(
    ("giver", "code"),
    [
        (Principal.person("paula", tenant="acme", scopes=("approvals.decide",)), None),
        (Principal.person("paula", tenant="acme"), "scope_missing"),
        (Principal.person("agent", tenant="acme", scopes=("approvals.decide",)), "own_request"),
        (Principal.person("uma", tenant="acme", scopes=("approvals.decide",)), "own_request"),
        (dataclasses.replace(AGENT, scopes=frozenset({"approvals.decide"})), "not_a_person"),
    ],
)
def test_policy_is_asked_about_a_grant_as_about_a_question(giver: Principal, code: str | None) -> None:
    question = rules.as_question(a_grant(subject=FOR_UMA.identity).grant)
    assert type(question) is Question
    assert (question.on_behalf_of, question.tool, question.terms) == ("uma", "act", TERMS)
    assert why_not_entitled(question, giver) == code
