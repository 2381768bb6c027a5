"""What an ask needs: which rule fits, what it says, and what changes the version of the policy."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import placet
from placet import Approvers, AskRule, AskRules, EffectClass, Matrix, Principal, Requirement, RequirementKind, Risk
from placet.errors import MisuseError
from placet.model.approval import Question
from placet.model.contract import Contract
from placet.model.decision import Entitled, GrantTerms, NotEntitled, Terms
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Role
from placet.rules.asking import ANYBODY, LONGEST_SECONDS, MOST_RULES, AskReminders, entitlement
from placet.testing.conformance import a_question


def contract(name: str = "pay", risk: str = "high", effect: str = "write") -> Contract:
    async def act(word: str) -> str: ...

    options: dict[str, Any] = {"effect": effect, "risk": risk, "permission": "p", "name": name}
    return placet.tool(**options)(act).contract


def person(name: str = "mara", *, roles: tuple[str, ...] = (), scopes: tuple[str, ...] = ()) -> Principal:
    return Principal.person(name, tenant="acme", roles=roles, scopes=scopes)


# ---------------------------------------------------------------- which rule fits


EVERYTHING = AskRule(name="everything")
FITTING: list[tuple[dict[str, Any], bool]] = [
    ({}, True),
    ({"tools": frozenset({"pay", "refund"})}, True),
    ({"tools": frozenset({"refund"})}, False),
    ({"tools": frozenset({"PAY"})}, False),
    ({"risks": frozenset({Risk.HIGH, Risk.CRITICAL})}, True),
    ({"risks": frozenset({Risk.CRITICAL})}, False),
    ({"effects": frozenset({EffectClass.WRITE})}, True),
    ({"effects": frozenset({EffectClass.IRREVERSIBLE})}, False),
    ({"tenants": frozenset({"acme"})}, True),
    ({"tenants": frozenset({"globex"})}, False),
    ({"tools": frozenset({"pay"}), "tenants": frozenset({"globex"})}, False),
    ({"tools": frozenset({"pay"}), "risks": frozenset({Risk.HIGH}), "effects": frozenset({EffectClass.WRITE}),
      "tenants": frozenset({"acme"})}, True),
]  # fmt: skip


@pytest.mark.parametrize(("criteria", "fits"), FITTING)
def test_a_rule_fits_what_has_a_place_in_each_of_its_sets(criteria: dict[str, Any], fits: bool) -> None:
    rule = AskRule(name="r", **criteria)

    assert rule.fits(contract(), "acme") is fits
    assert AskRules(rules=(rule,)).fitting(contract(), "acme") == (rule if fits else None)


def test_the_first_rule_that_fits_counts() -> None:
    narrow = AskRule(name="narrow", tools=frozenset({"pay"}))
    rules = AskRules(rules=(AskRule(name="other", tools=frozenset({"x"})), narrow, EVERYTHING))

    assert rules.fitting(contract(), "acme") is narrow
    assert rules.fitting(contract("refund"), "acme") is EVERYTHING
    assert rules.named("narrow") is narrow
    assert rules.named("nothing") is None


SETS = st.sampled_from([frozenset(), frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})])
ANY_RULE = st.builds(
    AskRule,
    name=st.just("r"),
    tools=SETS,
    risks=st.sampled_from([frozenset(), frozenset({Risk.LOW}), frozenset({Risk.HIGH}), frozenset(Risk)]),
    effects=st.sampled_from([frozenset(), frozenset({EffectClass.WRITE}), frozenset({EffectClass.READ})]),
    tenants=SETS,
)
ALL_CALLS = [
    (contract(tool, risk, effect), tenant)
    for tool in ("a", "b", "c")
    for risk in ("low", "high", "critical")
    for effect in ("write", "read")
    for tenant in ("a", "b", "c")
]


@given(first=ANY_RULE, second=ANY_RULE)
def test_a_rule_behind_one_that_fits_all_it_fits_is_never_reached(first: AskRule, second: AskRule) -> None:
    if first.fits_all_of(second):
        assert all(first.fits(*call) for call in ALL_CALLS if second.fits(*call))
    elif first.risks != frozenset(Risk):  # all there are, written out, is more than it looks
        assert any(second.fits(*call) and not first.fits(*call) for call in ALL_CALLS)


# ---------------------------------------------------------------- what it says


def test_a_rule_is_a_requirement_with_its_terms() -> None:
    rule = AskRule(
        name="refunds", needs=RequirementKind.QUORUM, votes=3, usable_for_seconds=60, decide_within_seconds=120,
        reason_to_approve=True, reason_to_deny=False, may_edit=False,
    )  # fmt: skip

    assert rule.requirement == Requirement(
        kind=RequirementKind.QUORUM,
        lifetime_seconds=60.0,
        decide_within_seconds=120.0,
        terms=Terms(rule="refunds", votes=3, reason_to_approve=True, reason_to_deny=False, may_edit=False),
    )
    assert EVERYTHING.requirement == Requirement(terms=Terms(rule="everything"))


WHO: list[tuple[Approvers, Principal, bool]] = [
    (ANYBODY, person(), True),
    (Approvers(subjects=frozenset({"mara"})), person(), True),
    (Approvers(subjects=frozenset({"mara"})), person("Mara"), False),
    (Approvers(roles=frozenset({Role.ADMIN})), person(roles=("admin",)), True),
    (Approvers(roles=frozenset({Role.ADMIN})), person(roles=("operator",)), False),
    (Approvers(roles=frozenset({Role.ADMIN, Role.OPERATOR})), person(roles=("operator",)), True),
    (Approvers(roles=frozenset({Role.ADMIN}), subjects=frozenset({"mara"})), person(), True),
    (Approvers(roles=frozenset({Role.ADMIN}), subjects=frozenset({"omar"})), person(), False),
    (Approvers(scopes=frozenset({"a"})), person(scopes=("a", "b")), True),
    (Approvers(scopes=frozenset({"a", "b"})), person(scopes=("a",)), False),
    (Approvers(scopes=frozenset({"a"}), subjects=frozenset({"mara"})), person(), False),
    (Approvers(scopes=frozenset({"a"}), roles=frozenset({Role.ADMIN})), person(scopes=("a",)), False),
]


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize(("approvers", "who", "answer"), WHO)
def test_who_may_approve(approvers: Approvers, who: Principal, answer: bool) -> None:
    rules = AskRules(rules=(AskRule(name="r", approvers=approvers),))

    assert approvers.include(who) is answer
    expected = Entitled() if answer else NotEntitled(code="not_an_approver")
    assert entitlement(rules, Terms(rule="r"), who) == expected


def test_of_a_rule_that_is_not_here_nobody_may_decide() -> None:
    for rules in (None, AskRules(rules=()), AskRules(rules=(EVERYTHING,))):
        assert entitlement(rules, Terms(rule="r"), person()) == NotEntitled(code="rule_not_here")
        assert entitlement(rules, None, person()) == Entitled()


def asked(terms: Terms | None, version: str) -> Question:
    question = a_question(asked_at=datetime(2026, 1, 1, tzinfo=UTC), terms=terms)
    return dataclasses.replace(question, policy_version=PolicyVersion(version))


def test_what_policy_asks_for_where_no_rule_does_is_anybodys() -> None:
    terms = Terms(rule="two", votes=2)
    policy = Matrix(requirement=Requirement(kind=RequirementKind.QUORUM, terms=terms))

    assert policy.entitlement(asked(terms, policy.version), person()) == Entitled()
    other = dataclasses.replace(terms, votes=3)
    assert policy.entitlement(asked(other, policy.version), person()) == NotEntitled(code="rule_not_here")
    assert policy.version != Matrix().version


def test_a_rule_of_the_same_name_says_who_may() -> None:
    terms = Terms(rule="two", votes=2)
    rule = AskRule(name="two", needs=RequirementKind.QUORUM, votes=2, approvers=Approvers(subjects=frozenset({"omar"})))
    requirement = Requirement(kind=RequirementKind.QUORUM, terms=terms)
    policy = Matrix(requirement=requirement, asks=AskRules(rules=(rule,)))

    assert policy.entitlement(asked(terms, policy.version), person()) == NotEntitled(code="not_an_approver")
    assert policy.entitlement(asked(terms, policy.version), person("omar")) == Entitled()


# ---------------------------------------------------------------- what is none


WRONG: dict[str, dict[str, Any]] = {
    "no name": {"name": ""},
    "a name in capitals": {"name": "R"},
    "a name too long": {"name": "r" * 65},
    "a name with a newline": {"name": "r\n"},
    "a name that is none": {"name": None},
    "tools in a list": {"tools": ["pay"]},
    "a tool that is no name": {"tools": frozenset({"pay me"})},
    "risks as texts": {"risks": frozenset({"high"})},
    "effects as texts": {"effects": frozenset({"write"})},
    "an empty tenant": {"tenants": frozenset({""})},
    "approvers that are none": {"approvers": "mara"},
    "a quorum of one": {"needs": RequirementKind.QUORUM},
    "a review of two": {"votes": 2},
    "a confirmation of two": {"needs": RequirementKind.CONFIRM, "votes": 2},
    "no votes": {"needs": RequirementKind.QUORUM, "votes": 0},
    "too many votes": {"needs": RequirementKind.QUORUM, "votes": 17},
    "votes as a float": {"needs": RequirementKind.QUORUM, "votes": 2.0},
    "a kind as a text": {"needs": "review"},
    "no time to decide": {"decide_within_seconds": 0},
    "time without end": {"decide_within_seconds": float("inf")},
    "too long to decide": {"decide_within_seconds": LONGEST_SECONDS + 1},
    "usable for ever": {"usable_for_seconds": float("nan")},
    "a reason that may be": {"reason_to_deny": 1},
    "a reason that may be, too": {"reason_to_approve": "yes"},
    "an edit that may be": {"may_edit": None},
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_no_rule_is_none(what: str) -> None:
    with pytest.raises(MisuseError):
        AskRule(**({"name": "r"} | WRONG[what]))


@pytest.mark.parametrize(
    "wrong",
    [{"roles": frozenset({"admin"})}, {"roles": [Role.ADMIN]}, {"scopes": ("a",)}, {"subjects": frozenset({""})}],
)
def test_what_are_no_approvers_are_none(wrong: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        Approvers(**wrong)


def test_rules_are_a_tuple_of_rules_with_names_of_their_own() -> None:
    most = tuple(AskRule(name=f"r{n}") for n in range(MOST_RULES))
    assert len(AskRules(rules=most).rules) == MOST_RULES
    for rules in ([EVERYTHING], ("r",), (EVERYTHING, EVERYTHING), (*most, EVERYTHING)):
        with pytest.raises(MisuseError):
            AskRules(rules=rules)  # type: ignore[arg-type]


# ---------------------------------------------------------------- its version


RULE = AskRule(name="r", tools=frozenset({"a", "b"}), needs=RequirementKind.QUORUM, votes=2)
OTHERWISE: dict[str, Any] = {
    "name": "s",
    "tools": frozenset({"a"}),
    "risks": frozenset({Risk.HIGH}),
    "effects": frozenset({EffectClass.WRITE}),
    "tenants": frozenset({"acme"}),
    "votes": 3,
    "usable_for_seconds": 301,
    "decide_within_seconds": 86_401,
    "reason_to_approve": True,
    "reason_to_deny": True,
    "may_edit": False,
    "approvers": Approvers(roles=frozenset({Role.ADMIN})),
    "reminders": AskReminders(remind_after_seconds=(60.0,)),
}


@pytest.mark.req("H014")
@pytest.mark.parametrize(
    "name", [f.name for f in dataclasses.fields(AskRule) if f.init and f.name not in ("needs", "grants")]
)
def test_whatever_changes_in_a_rule_changes_the_version_of_the_policy(name: str) -> None:
    changed = dataclasses.replace(RULE, **{name: OTHERWISE[name]})

    assert Matrix(asks=AskRules(rules=(changed,))).version != Matrix(asks=AskRules(rules=(RULE,))).version


def test_all_that_a_rule_or_a_file_says_of_waiting_changes_the_version() -> None:
    """A rule, and a file, that says nothing of it is spelled as before there was any."""
    admins, cleo = Approvers(roles=frozenset({Role.ADMIN})), Approvers(subjects=frozenset({"cleo"}))
    escalating: dict[str, Any] = {"escalate_after_seconds": 60.0, "escalate_to": admins}
    said = [
        None,
        AskReminders(remind_after_seconds=(60.0,)),
        AskReminders(remind_after_seconds=(60.0, 61.0)),
        AskReminders(**escalating),
        AskReminders(**{**escalating, "escalate_to": cleo}),
        AskReminders(**{**escalating, "escalate_after_seconds": 61.0}),
        AskReminders(**escalating, widens=True),
    ]
    of_a_rule = [AskRules(rules=(AskRule(name="r", reminders=each),)) for each in said]
    of_the_file = [AskRules(rules=(AskRule(name="r"),), reminders=each) for each in said[:-1]]
    versions = {Matrix(asks=each).version for each in (*of_a_rule, *of_the_file)}
    assert len(versions) == len(of_a_rule) + len(of_the_file) - 1, "the one that says nothing is in both"
    assert of_a_rule[0].digest == "7df225e360a5b96a7ebc5d588b3357dd5b62ba6759cbdf216ece743443742b43"


def test_only_a_rule_widens_who_may_decide_and_no_confirmation_is_widened() -> None:
    widening = AskReminders(
        escalate_after_seconds=60.0, escalate_to=Approvers(roles=frozenset({Role.ADMIN})), widens=True
    )
    with pytest.raises(MisuseError):
        AskRules(rules=(), reminders=widening)
    with pytest.raises(MisuseError):
        AskRule(name="r", needs=RequirementKind.CONFIRM, reminders=widening)
    with pytest.raises(MisuseError):
        AskReminders(escalate_after_seconds=60.0, widens=True)
    with pytest.raises(MisuseError):
        AskReminders(remind_after_seconds=(60.0,), escalate_to="everybody")  # type: ignore[arg-type]


def test_whether_grants_may_be_given_and_the_most_of_one_change_the_version() -> None:
    """A rule without them is spelled as before there were any."""
    terms = [None, GrantTerms(max_uses=5, max_seconds=60.0)]
    terms += [GrantTerms(max_uses=6, max_seconds=60.0), GrantTerms(max_uses=5, max_seconds=61.0)]
    asks = [AskRules(rules=(AskRule(name="r", grants=each),)) for each in terms]
    assert len({Matrix(asks=each).version for each in asks}) == 4
    assert asks[0].digest == "7df225e360a5b96a7ebc5d588b3357dd5b62ba6759cbdf216ece743443742b43"


def test_grants_are_for_reviews_alone() -> None:
    terms = GrantTerms(max_uses=5, max_seconds=60.0)
    for changes in ({"needs": RequirementKind.CONFIRM}, {"needs": RequirementKind.QUORUM, "votes": 2}):
        with pytest.raises(MisuseError):
            AskRule(name="r", grants=terms, **changes)  # type: ignore[arg-type]
    with pytest.raises(MisuseError):
        Requirement(grants=terms)
    for uses, seconds in ((0, 1.0), (1_001, 1.0), (True, 1.0), (1, 0.0), (1, 31 * 86_400.0 + 1)):
        with pytest.raises(MisuseError):
            GrantTerms(max_uses=uses, max_seconds=seconds)


async def test_the_matrix_says_what_may_be_granted_of_which_tool_in_which_tenant() -> None:
    terms = GrantTerms(max_uses=5, max_seconds=60.0)
    rule = AskRule(name="r", tools=frozenset({"pay"}), tenants=frozenset({"acme"}), grants=terms)
    matrix = Matrix(asks=AskRules(rules=(rule,)))
    assert await matrix.grantable(contract("pay"), "acme") == rule.requirement
    assert await matrix.grantable(contract("pay"), "globex") is None
    assert await matrix.grantable(contract("send"), "acme") is None
    assert await Matrix().grantable(contract("pay"), "acme") is None


def test_the_kind_of_approval_and_each_part_of_approvers_change_the_version() -> None:
    rules = [
        AskRule(name="r"),
        AskRule(name="r", needs=RequirementKind.CONFIRM),
        *(
            AskRule(name="r", approvers=approvers)
            for approvers in (
                Approvers(scopes=frozenset({"a"})),
                Approvers(subjects=frozenset({"a"})),
                Approvers(subjects=frozenset({"b"})),
            )
        ),
    ]
    versions = {Matrix(asks=AskRules(rules=(rule,))).version for rule in rules}

    assert len(versions) == len(rules)


def test_the_order_of_rules_is_part_of_the_version_and_the_order_in_a_set_is_not() -> None:
    one, two = AskRule(name="one"), AskRule(name="two")

    assert Matrix(asks=AskRules(rules=(one, two))).version != Matrix(asks=AskRules(rules=(two, one))).version
    first = AskRules(rules=(AskRule(name="r", tools=frozenset(("a", "b"))),))
    second = AskRules(rules=(AskRule(name="r", tools=frozenset(("b", "a"))),))
    assert first.digest == second.digest
    assert hash(first) == hash(second)


def test_rules_and_their_absence_are_different_policies() -> None:
    assert Matrix().version != Matrix(asks=AskRules(rules=())).version
    as_before_there_were_files = "160c61e7d4f3799203d64f1dc423ce9ee6a4ffee8608e2b9df24b41c3cb8bdbd"
    assert Matrix().version == as_before_there_were_files
