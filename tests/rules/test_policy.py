"""The matrix, scopes, delegation, and the strictest of several answers."""

from __future__ import annotations

import itertools
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

import placet
from placet import Allow, Ask, Deny, Matrix, Principal, Requirement, RequirementKind, Risk, Role
from placet.model.call import Call
from placet.model.contract import ApprovalMode, Contract, EffectClass
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


def test_what_a_contract_never_asks_for_is_denied_with_the_reason_beside_the_engines() -> None:
    decision = policy.effective(decisions()["ask"], call_of(contract(approval="never")))

    assert decision == Deny(reasons=("b", "contract_never_asks"), policy_version=VERSION)


def test_the_engines_requirement_is_the_one_a_contract_asks_with() -> None:
    requirement = Requirement(kind=RequirementKind.CONFIRM, lifetime_seconds=7.0)
    engine = Ask(reasons=("b",), policy_version=VERSION, requirement=requirement)

    decision = policy.effective(engine, call_of(contract(approval="always")))

    assert decision == Ask(reasons=("b", "contract_always_asks"), policy_version=VERSION, requirement=requirement)


@pytest.mark.parametrize(("approval", "kind", "reasons"), [("by_policy", Allow, ()), ("never", Allow, ()),
                                                       ("always", Ask, ("contract_always_asks",))])  # fmt: skip
def test_a_contracts_own_word_keeps_the_requirement_it_is_given(
    approval: str, kind: type[Allow | Ask], reasons: tuple[str, ...]
) -> None:
    requirement = Requirement(kind=RequirementKind.CONFIRM, lifetime_seconds=7.0)
    word = policy.contract_word(
        contract(approval=approval), principal("admin"), requirement=requirement, version=VERSION
    )

    assert word == kind(reasons=reasons, policy_version=VERSION, requirement=requirement)


@pytest.mark.req("H008")
def test_a_tenant_outside_the_contracts_list_is_denied() -> None:
    limited = contract(allowed_tenants=("globex",))

    decision = policy.effective(decisions()["allow"], call_of(limited))

    assert decision == Deny(reasons=("tenant_not_allowed",), policy_version=VERSION)
    assert type(policy.effective(decisions()["allow"], call_of(contract(allowed_tenants=("acme",))))) is Allow


# ---------------------------------------------------------------- what an engine may answer

YEAR = 366 * 86_400.0


class Text(str):
    def __len__(self) -> int:
        raise AssertionError("a method of a foreign object ran")


class Reasons(tuple[str, ...]):
    def __iter__(self) -> Any:
        raise AssertionError("a method of a foreign object ran")


def answers(**changes: Any) -> list[Any]:
    """An allow, an ask and a deny with these changes."""
    requirement = Requirement()
    for name in set(changes) & {"kind", "lifetime_seconds", "decide_within_seconds"}:
        object.__setattr__(requirement, name, changes.pop(name))
    fields: dict[str, Any] = {"reasons": ("a",), "policy_version": "v1", **changes}
    with_requirement = {"requirement": requirement, **fields}
    return [Allow(**with_requirement), Ask(**with_requirement), Deny(**fields)]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"policy_version": "v"},
        {"policy_version": "v" * 200},
        {"reasons": ()},
        {"reasons": ("A", "b0_.:-", "c" * 128)},
        {"kind": RequirementKind.CONFIRM},
        {"lifetime_seconds": 1},
        {"lifetime_seconds": 0.001, "decide_within_seconds": 0.001},
        {"lifetime_seconds": YEAR, "decide_within_seconds": YEAR},
    ],
)
def test_a_whole_decision_is_sound(changes: dict[str, Any]) -> None:
    assert [policy.is_sound(decision) for decision in answers(**changes)] == [True, True, True]


@pytest.mark.parametrize(
    "changes",
    [
        {"policy_version": ""},
        {"policy_version": "v" * 201},
        {"policy_version": "v\n"},
        {"policy_version": None},
        {"policy_version": b"v1"},
        {"policy_version": Text("v1")},
        {"reasons": ["a"]},
        {"reasons": Reasons(("a",))},
        {"reasons": None},
        {"reasons": ("a", "")},
        {"reasons": ("a", "0a")},
        {"reasons": ("two words", "a")},
        {"reasons": ("a\n",)},
        {"reasons": ("a" * 129,)},
        {"reasons": ("é",)},
        {"reasons": ("a", 1)},
        {"reasons": ("a", Text("b"))},
    ],
)
def test_a_decision_with_a_version_or_a_reason_that_is_none_is_not_sound(changes: dict[str, Any]) -> None:
    assert [policy.is_sound(decision) for decision in answers(**changes)] == [False, False, False]


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "review"},
        {"kind": None},
        *(
            {name: seconds}
            for name in ("lifetime_seconds", "decide_within_seconds")
            for seconds in (0, 0.0, -1.0, YEAR + 1, float("inf"), float("nan"), True, "300", None)
        ),
        {"requirement": None},
        {"requirement": {"kind": "review"}},
        {
            "requirement": SimpleNamespace(
                kind=RequirementKind.REVIEW, lifetime_seconds=300.0, decide_within_seconds=300.0
            )
        },
    ],
)
def test_a_decision_whose_requirement_is_none_is_not_sound_unless_it_denies(changes: dict[str, Any]) -> None:
    allow, ask, deny = answers(**{name: value for name, value in changes.items() if name != "requirement"})
    if "requirement" in changes:
        allow, ask = (replace(decision, **changes) for decision in (allow, ask))

    assert [policy.is_sound(decision) for decision in (allow, ask, deny)] == [False, False, True]


def test_what_is_no_decision_is_not_sound_and_no_method_of_it_runs() -> None:
    class Pretender(Deny):
        __slots__ = ()

        def __getattribute__(self, name: str) -> Any:
            raise AssertionError("a method of a foreign object ran")

    for answer in (
        None,
        True,
        "allow",
        {"allow": True},
        Allow,
        object(),
        Pretender(reasons=(), policy_version=VERSION),
    ):
        assert policy.is_sound(answer) is False


@pytest.mark.parametrize("role", list(Role))
@pytest.mark.parametrize("risk", list(Risk))
@pytest.mark.parametrize("effect", list(EffectClass))
def test_only_a_viewers_low_risk_beyond_plain_reads_counts_as_medium(
    role: Role, risk: Risk, effect: EffectClass
) -> None:
    is_raised = role is Role.VIEWER and risk is Risk.LOW and effect is not EffectClass.READ

    assert policy.risk_for(role, risk, effect) is (Risk.MEDIUM if is_raised else risk)


def test_the_reason_names_the_mildest_role_the_first_by_name_of_equals_and_the_risk_as_it_counts() -> None:
    def reasons(risk: str, *roles: str, effect: str = "read") -> tuple[str, ...]:
        return Matrix().word(contract(effect=effect, risk=risk), principal(*roles)).reasons

    assert reasons("low", "viewer") == ("matrix_viewer_low",)
    assert reasons("low", "viewer", effect="sensitive_read") == ("matrix_viewer_medium",)
    assert reasons("low", "viewer", effect="write") == ("matrix_viewer_medium",)
    assert reasons("low", "operator", effect="write") == ("matrix_operator_low",)
    assert reasons("high", "viewer", "admin") == ("matrix_admin_high",)
    for roles in itertools.permutations(("admin", "operator", "viewer")):
        assert reasons("low", *roles) == ("matrix_admin_low",)
        assert reasons("low", *roles[:2]) == (f"matrix_{min(roles[:2])}_low",)


@pytest.mark.parametrize("kind", [Allow, Ask, Deny])
@pytest.mark.parametrize("missing", ["reasons", "policy_version", "requirement", "shadow"])
def test_a_decision_made_without_its_constructor_is_not_sound(kind: Any, missing: str) -> None:
    bare = kind.__new__(kind)
    whole = {"reasons": ("a",), "policy_version": "v1", "requirement": Requirement(), "shadow": None}
    for name, value in whole.items():
        if name != missing and hasattr(kind, name):
            object.__setattr__(bare, name, value)

    assert policy.is_sound(bare) is (kind is Deny and missing == "requirement")


@pytest.mark.parametrize("reasons", [64, 65])
def test_an_engine_gives_at_most_64_reasons(reasons: int) -> None:
    sound = [policy.is_sound(decision) for decision in answers(reasons=("a",) * reasons)]

    assert sound == [reasons == 64] * 3


def test_whoever_has_no_role_is_denied() -> None:
    nobody = replace(principal("viewer"), roles=frozenset())

    assert Matrix().word(contract(effect="read", risk="low"), nobody) == Deny(
        reasons=("no_role",), policy_version=VERSION
    )


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
