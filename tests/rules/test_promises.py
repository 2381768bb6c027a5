"""What a contract may say and its owner will regret: each finding whole, and the contracts that have none."""

from __future__ import annotations

import json
from typing import Any

import pytest

import placet
from placet import Principal, Remote
from placet.model.contract import Contract, Origin
from placet.model.identifiers import Digest
from placet.rules.promises import Finding, lint

AGENT = Principal.agent("bot", tenant="acme", roles=("operator",), scopes=("p",))


async def probe(key: str) -> None: ...


SOUND: dict[str, Any] = {
    "name": "pay",
    "description": "Pays an order.",
    "effect": "write",
    "risk": "medium",
    "permission": "p",
    "probe": probe,
    "operation_key": "pay:{order}",
    "remote": Remote(honours_key=True),
}
"""Promises that nobody regrets; each test changes what it is about."""


def contract(**changes: Any) -> Contract:
    async def pay(order: str, password: str = "", note: str = "") -> str:
        return "paid"

    return placet.tool(**(SOUND | {"redact": ("password",)} | changes))(pay).contract


def a_read(**changes: Any) -> Contract:
    async def look(order: str) -> str:
        return "paid"

    options = {"name": "look", "effect": "read", "risk": "low", "description": "Looks an order up."} | changes
    return placet.tool(**options)(look).contract


def findings(of: Contract, *, agent: Principal | None = None) -> list[Finding]:
    return list(lint(of, agent=agent))


def warning(code: str, message: str, fix: str, *, tool: str = "pay") -> Finding:
    return Finding(severity="warning", code=code, tool=tool, message=message, fix=fix)


@pytest.mark.parametrize("effect", ["idempotent_write", "write", "irreversible"])
def test_a_contract_that_keeps_its_promises_has_no_finding(effect: str) -> None:
    approval = "always" if effect == "irreversible" else "by_policy"

    assert findings(contract(effect=effect, approval=approval), agent=AGENT) == []


@pytest.mark.parametrize("effect", ["read", "sensitive_read"])
def test_a_read_needs_neither_probe_nor_key_nor_remote(effect: str) -> None:
    options = {"permission": "p"} if effect == "sensitive_read" else {}

    assert findings(a_read(effect=effect, **options)) == []


@pytest.mark.parametrize("description", ["", " \n\t"])
def test_a_tool_that_says_nothing_of_itself_is_found(description: str) -> None:
    expected = warning("no_description", "neither the model nor the approver is told what it does", "write a docstring")

    assert findings(contract(description=description)) == [expected]


NO_PROBE = warning("no_probe", "only a person can settle an unknown outcome", "probe=")
NO_KEY = warning(
    "no_operation_key", "a new call id is a new operation, so asking twice may act twice", "operation_key="
)
UNPROVEN = warning(
    "absence_unproven", "after an unknown outcome only a person may order it again", "remote=Remote(...)"
)
THREAD = warning(
    "thread_write", "a missed deadline cannot stop it", 'make it a coroutine function, or isolation="process"'
)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"probe": None}, [NO_PROBE]),
        ({"operation_key": None}, [NO_KEY]),
        ({"remote": None}, [UNPROVEN]),
        ({"remote": Remote(honours_key=True, key_retention_seconds=3600.0)}, [UNPROVEN]),
        ({"remote": Remote(refuses_late=True)}, []),
        ({"probe": None, "operation_key": None, "remote": None}, [NO_PROBE, NO_KEY, UNPROVEN]),
    ],
)
def test_a_write_is_found_that_cannot_be_settled_or_asked_again(
    changes: dict[str, Any], expected: list[Finding]
) -> None:
    assert findings(contract(**changes)) == expected


def test_a_write_in_a_thread_is_found_for_no_deadline_stops_it() -> None:
    def pay(order: str) -> str:
        return "paid"

    assert findings(placet.tool(**SOUND)(pay).contract) == [THREAD]


@pytest.mark.parametrize("risk", ["low", "medium", "high", "critical"])
@pytest.mark.parametrize("approval", ["by_policy", "always"])
@pytest.mark.parametrize("effect", ["write", "irreversible"])
def test_what_cannot_be_taken_back_is_found_where_nobody_is_asked(effect: str, approval: str, risk: str) -> None:
    unasked = warning(
        "irreversible_unasked",
        f"it cannot be taken back, and at risk {risk} the built-in policy asks nobody",
        'approval="always"',
    )
    is_unasked = effect == "irreversible" and approval == "by_policy" and risk in ("low", "medium")

    assert findings(contract(effect=effect, approval=approval, risk=risk)) == ([unasked] if is_unasked else [])


@pytest.mark.parametrize("risk", ["low", "medium", "high", "critical"])
def test_a_contract_that_forbids_the_question_its_risk_brings_is_found(risk: str) -> None:
    never = warning("never_asks", "policy asks for this risk, and the contract then refuses", 'approval="by_policy"')

    assert findings(contract(approval="never", risk=risk)) == ([never] if risk in ("high", "critical") else [])


def test_a_generic_executor_that_was_let_in_stays_in_sight() -> None:
    let_in = warning(
        "generic_executor", "it was let in although it looks like a generic executor", "wrap the operation", tool="sql"
    )

    assert findings(contract(name="sql", generic_executor="an old replica")) == [let_in]


def test_what_only_an_admin_may_ask_for_names_that_role() -> None:
    agent = Principal.agent("bot", tenant="acme", roles=("operator",), scopes=("p",))
    found = {each.code: each.fix for each in findings(contract(risk="high"), agent=agent)}
    assert found["out_of_reach"] == "give [agent] the role admin"


@pytest.mark.parametrize(("redact", "is_shown"), [((), True), (("note",), True), (("password", "note"), False)])
def test_an_argument_that_sounds_secret_is_found_where_the_approver_would_see_it(
    redact: tuple[str, ...], is_shown: bool
) -> None:
    shown = warning("secret_shown", "the approver sees 'password', which sounds secret", "redact=('password',)")

    assert findings(contract(redact=redact)) == ([shown] if is_shown else [])


@pytest.mark.parametrize(
    ("agent", "reasons"),
    [
        (None, None),
        (AGENT, None),
        (Principal.agent("bot", tenant="acme", roles=("operator",)), "scope_missing"),
        (Principal.agent("bot", tenant="acme", roles=("viewer",), scopes=("p",)), "matrix_viewer_medium"),
        (
            Principal.agent(
                "bot",
                tenant="acme",
                roles=("viewer",),
                scopes=("p",),
                on_behalf_of=Principal.agent("uma", tenant="acme", roles=("viewer",), scopes=("p",)),
            ),
            "matrix_viewer_medium, matrix_viewer_medium",
        ),
    ],
)
def test_what_the_configured_agent_may_never_call_is_found_with_the_reasons(
    agent: Principal | None, reasons: str | None
) -> None:
    lacks = "the scope p" if reasons == "scope_missing" else "the role operator"
    unreachable = warning("out_of_reach", f"[agent] may never call it: {reasons}", f"give [agent] {lacks}")

    assert findings(contract(), agent=agent) == ([] if reasons is None else [unreachable])


@pytest.mark.parametrize(
    ("tool", "manifest", "table", "file"),
    [
        ("create", None, "tools.create", "upstreams/desk.toml"),
        ("a.b", "terms/desk.toml", 'tools."a.b"', "terms/desk.toml"),
    ],
    ids=["usual", "elsewhere"],
)
def test_of_a_tool_that_lives_elsewhere_it_is_said_what_to_write_in_its_manifest(
    tool: str, manifest: str | None, table: str, file: str
) -> None:
    async def carried(arguments: dict[str, Any]) -> object:
        return None

    made = placet.tool_from_schema(
        carried,
        name="desk.create",
        arguments={"type": "object", "properties": {"password": {"type": "string"}}},
        effect="irreversible",
        risk="low",
        permission="p",
        origin=Origin(server="desk", tool=tool, pin=Digest("a" * 64)),
    )

    found = {each.code: each.fix for each in lint(made.contract, agent=None, manifest=manifest)}

    assert found == {
        "no_description": "its server, or its document, has to say",
        "no_probe": f"[{table}.probe] in {file}",
        "no_operation_key": f'operation_key = "..." in [{table}] of {file}',
        "absence_unproven": f"remote = {{ ... }} in [{table}] of {file}",
        "irreversible_unasked": f'approval = "always" in [{table}] of {file}',
        "secret_shown": f'redact = ["password"] in [{table}] of {file}',
    }


@pytest.mark.parametrize("name", ["password", "user's password", "password',)"])
def test_the_field_to_hide_is_named_as_it_is_called(name: str) -> None:
    async def carried(arguments: dict[str, Any]) -> object:
        return None

    made = placet.tool_from_schema(
        carried,
        name="desk.create",
        arguments={"type": "object", "properties": {name: {"type": "string"}}},
        effect="read",
        origin=Origin(server="desk", tool="create", pin=Digest("a" * 64)),
    )

    (found,) = (each.fix for each in lint(made.contract, agent=None) if each.code == "secret_shown")

    assert found == f"redact = [{json.dumps(name)}] in [tools.create] of upstreams/desk.toml"
