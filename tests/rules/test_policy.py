"""The matrix, scopes, delegation, and the strictest of several answers."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import placet
from placet import Allow, Ask, Deny, Matrix, Principal, Requirement, RequirementKind, Risk, Role
from placet.model.call import Call
from placet.model.contract import ApprovalMode, Contract
from placet.model.decision import Decision
from placet.rules import policy

VERSION = Matrix().version


def contract(**options: Any) -> Contract:
    async def act() -> str: ...

    settings: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "p", "name": "act"}
    return placet.tool(**(settings | options))(act).contract


def principal(*roles: str, scopes: tuple[str, ...] = ("p",), giver: Principal | None = None) -> Principal:
    return Principal.agent("agent", tenant="acme", roles=roles, scopes=scopes, on_behalf_of=giver)


def word(of: Contract, who: Principal) -> str:
    return type(Matrix().word(of, who)).__name__.lower()


def call_of(of: Contract, who: Principal | None = None) -> Call:
    return Call(
        contract=of, principal=who or principal("operator"), request_id="q", run_id="r", call_id="c", reply_to="c",
        first_attempt=1, arguments={}, canonical_arguments=b"{}", argument_digest="d", fingerprint="f",
        operation_key="k", resource=None, is_recorded=True,
    )  # type: ignore[arg-type]  # fmt: skip


READ, SENSITIVE = ("read",), ("sensitive_read",)
WRITES = ("idempotent_write", "write", "irreversible")
ROWS: dict[tuple[str, str], dict[tuple[str, ...], str]] = {
    ("viewer", "low"): {READ: "allow", SENSITIVE: "deny", WRITES: "deny"},
    ("operator", "low"): {READ + SENSITIVE + WRITES: "allow"},
    ("admin", "low"): {READ + SENSITIVE + WRITES: "allow"},
    ("viewer", "medium"): {READ + SENSITIVE + WRITES: "deny"},
    ("operator", "medium"): {READ + SENSITIVE + WRITES: "allow"},
    ("admin", "medium"): {READ + SENSITIVE + WRITES: "allow"},
    ("viewer", "high"): {READ + SENSITIVE + WRITES: "deny"},
    ("operator", "high"): {READ + SENSITIVE + WRITES: "deny"},
    ("admin", "high"): {READ + SENSITIVE + WRITES: "ask"},
    ("viewer", "critical"): {READ + SENSITIVE + WRITES: "deny"},
    ("operator", "critical"): {READ + SENSITIVE + WRITES: "deny"},
    ("admin", "critical"): {READ + SENSITIVE + WRITES: "ask"},
}
CELLS = [
    (role, risk, effect, answer)
    for (role, risk), row in ROWS.items()
    for effects, answer in row.items()
    for effect in effects
]


@pytest.mark.req("C016", "C017", "C018", "C019", "H012")
@pytest.mark.parametrize(("role", "risk", "effect", "answer"), CELLS)
def test_the_whole_matrix(role: str, risk: str, effect: str, answer: str) -> None:
    assert word(contract(effect=effect, risk=risk), principal(role)) == answer


def test_the_table_above_is_whole() -> None:
    cells = {(role, risk, effect) for role, risk, effect, _ in CELLS}

    assert cells == set(itertools.product(Role, Risk, placet.EffectClass))
    assert len(CELLS) == len(cells) == 60


@pytest.mark.req("H009", "C016")
@pytest.mark.parametrize("role", ["viewer", "operator", "admin"])
@pytest.mark.parametrize("scopes", [(), ("P",), ("p.more",), ("q", "pp")])
def test_without_the_tools_scope_every_role_is_denied(role: str, scopes: tuple[str, ...]) -> None:
    decision = Matrix().word(contract(effect="read", risk="low"), principal(role, scopes=scopes))

    assert decision == Deny(reasons=("scope_missing",), policy_version=VERSION)


def test_a_tool_without_permission_needs_no_scope() -> None:
    assert word(contract(effect="read", risk="low", permission=None), principal("viewer", scopes=())) == "allow"


@pytest.mark.req("C015")
def test_a_principal_without_a_role_is_a_viewer() -> None:
    assert principal().roles == {Role.VIEWER}
    assert word(contract(risk="medium"), principal()) == "deny"


def test_of_several_roles_the_most_permissive_counts() -> None:
    assert word(contract(risk="medium"), principal("viewer", "operator")) == "allow"
    assert word(contract(risk="high"), principal("viewer", "operator", "admin")) == "ask"
    decision = Matrix().word(contract(risk="medium"), principal("viewer", "operator"))
    assert decision.reasons == ("matrix_operator_medium",)


@pytest.mark.parametrize(("mine", "givers"), list(itertools.product(["viewer", "operator", "admin"], repeat=2)))
@pytest.mark.parametrize("risk", ["low", "medium", "high"])
def test_delegation_only_narrows(mine: str, givers: str, risk: str) -> None:
    of = contract(effect="read", risk=risk)
    giver = Principal.person("user", tenant="acme", roles=(givers,), scopes=("p",))
    order = ("allow", "ask", "deny")
    alone = (word(of, principal(mine)), word(of, giver))

    assert word(of, principal(mine, giver=giver)) == max(alone, key=order.index)


def test_delegation_needs_the_scope_of_both() -> None:
    unscoped = Principal.person("user", tenant="acme", roles=("admin",))

    assert word(contract(), principal("admin", giver=unscoped)) == "deny"


def test_delegation_through_several_hands_is_as_strong_as_its_weakest() -> None:
    user = Principal.person("user", tenant="acme", scopes=("p",))
    service = Principal.agent("service", tenant="acme", roles=("admin",), scopes=("p",), on_behalf_of=user)

    assert word(contract(), principal("admin", giver=service)) == "deny"


# ---------------------------------------------------------------- strictest of


def decisions() -> dict[str, Decision]:
    return {
        "allow": Allow(reasons=("a",), policy_version=VERSION),
        "ask": Ask(reasons=("b",), policy_version=VERSION, requirement=Requirement()),
        "deny": Deny(reasons=("c",), policy_version=VERSION),
    }


@pytest.mark.case("D02")
@pytest.mark.parametrize("names", list(itertools.product(["allow", "ask", "deny"], repeat=3)))
def test_deny_beats_ask_beats_allow_in_any_order(names: tuple[str, ...]) -> None:
    order = ("allow", "ask", "deny")
    strictest = policy.strictest(*(decisions()[name] for name in names))

    winner = max(names, key=order.index)
    assert type(strictest) is type(decisions()[winner])
    assert strictest.reasons == decisions()[winner].reasons * names.count(winner)


def test_no_decision_at_all_is_a_deny() -> None:
    assert policy.strictest() == Deny(reasons=("no_policy",), policy_version="none")  # type: ignore[arg-type]


@pytest.mark.req("H010")
@pytest.mark.parametrize(
    ("approval", "engine", "answer"),
    [
        ("never", "allow", "allow"),
        ("never", "ask", "deny"),
        ("never", "deny", "deny"),
        ("by_policy", "allow", "allow"),
        ("by_policy", "ask", "ask"),
        ("by_policy", "deny", "deny"),
        ("always", "allow", "ask"),
        ("always", "ask", "ask"),
        ("always", "deny", "deny"),
    ],
)
def test_the_contracts_own_word_and_the_engines_make_the_stricter(approval: str, engine: str, answer: str) -> None:
    decision = policy.effective(decisions()[engine], call_of(contract(approval=ApprovalMode(approval))))

    assert type(decision).__name__.lower() == answer


def test_the_engines_requirement_is_the_one_a_contract_asks_with() -> None:
    requirement = Requirement(kind=RequirementKind.CONFIRM, lifetime_seconds=7.0)
    engine = Ask(reasons=("b",), policy_version=VERSION, requirement=requirement)

    decision = policy.effective(engine, call_of(contract(approval="always")))

    assert decision == Ask(reasons=("b", "contract_always_asks"), policy_version=VERSION, requirement=requirement)


@pytest.mark.req("H008")
def test_a_tenant_outside_the_contracts_list_is_denied() -> None:
    limited = contract(allowed_tenants=("globex",))

    decision = policy.effective(decisions()["allow"], call_of(limited))

    assert decision == Deny(reasons=("tenant_not_allowed",), policy_version=VERSION)
    assert type(policy.effective(decisions()["allow"], call_of(contract(allowed_tenants=("acme",))))) is Allow


@pytest.mark.req("H014")
def test_the_version_is_a_digest_of_table_and_requirement() -> None:
    assert Matrix().version == VERSION
    assert len(VERSION) == 64
    changes = [
        Requirement(kind=RequirementKind.CONFIRM),
        Requirement(lifetime_seconds=301.0),
        Requirement(decide_within_seconds=1.0),
    ]
    assert len({Matrix(requirement=change).version for change in changes} | {VERSION}) == 4


async def test_the_matrix_answers_without_waiting_and_lists_what_it_would_not_deny() -> None:
    matrix = Matrix()

    assert matrix.timeout_seconds is None
    assert type(await matrix.decide(call_of(contract()))) is Allow
    assert matrix.is_listed(contract(risk="high"), principal("admin"))
    assert not matrix.is_listed(contract(risk="high"), principal("operator"))


async def test_a_contract_that_always_asks_is_asked_for_as_the_policy_requires() -> None:
    requirement = Requirement(kind=RequirementKind.CONFIRM, lifetime_seconds=60.0)
    call = call_of(contract(approval="always"))

    decision = policy.effective(await Matrix(requirement=requirement).decide(call), call)

    assert isinstance(decision, Ask)
    assert decision.requirement == requirement
