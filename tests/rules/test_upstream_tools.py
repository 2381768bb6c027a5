"""A pinned definition and the deployment's terms become a tool: what was pinned is part of its contract."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from placet.errors import ContractError, InvalidArguments
from placet.model.context import CallContext
from placet.model.contract import ApprovalMode, Bound, BoundSource, EffectClass, Isolation, Origin, Remote, Risk
from placet.model.pins import Definition, Pins
from placet.model.upstreams import Manifest
from placet.rules.contracts import Tool
from placet.rules.upstream_results import is_content
from placet.rules.upstream_tools import described, refuse_unservable, served, tool_of, unfit
from tests.rules.definitions import a_definition, a_pin, some_terms


async def carry(arguments: dict[str, Any], context: CallContext) -> object:
    return arguments


def made(definition: Definition | None = None, **terms: Any) -> Tool:
    return tool_of(a_pin(definition), some_terms(**terms), name="desk.create", handler=carry)


@pytest.mark.req("H053")
def test_the_contract_says_where_the_tool_lives_and_which_definition_was_accepted() -> None:
    contract = made().contract

    assert contract.name == "desk.create"
    assert contract.origin == Origin(server="desk", tool="create", pin=a_pin().digest)
    assert contract.isolation is Isolation.ASYNC
    assert (contract.effect_class, contract.risk, contract.permission) == (
        EffectClass.WRITE,
        Risk.MEDIUM,
        "desk.create",
    )


@pytest.mark.req("H053")
@pytest.mark.case("L01")
@pytest.mark.parametrize(
    "change",
    [
        {"title": "Other"},
        {"description": "Other."},
        {"annotations": {"destructiveHint": False, "title": "Other"}},
        {"output_schema": {"type": "object", "properties": {}}},
        {"input_schema": {**a_definition().input_schema, "required": ["title", "queue"]}},
    ],
    ids=str,
)
def test_another_definition_makes_another_contract_which_voids_what_was_approved(change: dict[str, Any]) -> None:
    assert made(a_definition(**change)).contract.digest != made().contract.digest


@pytest.mark.case("L03")
def test_terms_are_the_deployments_and_hints_only_raise_them() -> None:
    well = made(a_definition(annotations={"readOnlyHint": True}), effect=EffectClass.IRREVERSIBLE, risk=Risk.CRITICAL)
    ill = made(a_definition(annotations={"destructiveHint": True}), effect=EffectClass.READ, risk=Risk.LOW)

    assert (well.contract.effect_class, well.contract.risk) == (EffectClass.IRREVERSIBLE, Risk.CRITICAL)
    assert (ill.contract.effect_class, ill.contract.risk) == (EffectClass.IRREVERSIBLE, Risk.HIGH)


def test_every_term_reaches_the_contract() -> None:
    contract = made(
        version="7", approval=ApprovalMode.ALWAYS, operation_key="k:{title}", resource="t:{title}", purpose="tickets",
        timeout_seconds=3.0, remote=Remote(honours_key=True), max_concurrent=2, breaker=None, redact=("queue",),
        max_argument_bytes=100, max_result_bytes=200, max_depth=9, allowed_tenants=frozenset({"b", "a"}),
        retention_seconds=86_400.0, open_members=("",), open_result_members=("",),
    ).contract  # fmt: skip

    assert (contract.version, contract.approval, contract.purpose) == ("7", ApprovalMode.ALWAYS, "tickets")
    assert contract.operation_key is not None and contract.operation_key.text == "k:{title}"
    assert contract.resource is not None and contract.resource.text == "t:{title}"
    assert (contract.timeout_seconds, contract.remote, contract.max_concurrent) == (3.0, Remote(honours_key=True), 2)
    assert (contract.breaker, contract.redact, contract.allowed_tenants) == (None, {"queue"}, {"a", "b"})
    assert (contract.max_argument_bytes, contract.max_result_bytes, contract.max_depth) == (100, 200, 9)
    assert (contract.retention_seconds, contract.open_members, contract.open_result_members) == (86_400.0, ("",), ("",))


def test_unknown_members_are_refused_even_where_the_upstream_leaves_its_schema_open() -> None:
    open_schema = a_definition().input_schema | {"additionalProperties": True}

    tool = made(a_definition(input_schema=open_schema))

    with pytest.raises(InvalidArguments) as caught:
        tool.read_arguments({"title": "x", "also_delete": True})
    assert caught.value.problems == (("/also_delete", "extra_forbidden"),)


def test_nothing_is_fetched_for_a_schema() -> None:
    remote = {"type": "object", "properties": {"title": {"$ref": "https://evil.example/schema.json"}}}

    with pytest.raises(ContractError, match="placet fetches nothing"):
        made(a_definition(input_schema=remote))


def test_what_the_server_binds_is_hidden_and_an_argument_of_the_server_says_what_to_do() -> None:
    schema = {"type": "object", "properties": {"tenant_id": {"type": "string"}, "title": {"type": "string"}}}
    bound = made(a_definition(input_schema=schema), bind=(Bound(member="tenant_id", source=BoundSource.TENANT),))

    assert bound.contract.argument_names == ("title",)
    with pytest.raises(ContractError, match="the server's to say; bind it, so that the server says it"):
        made(a_definition(input_schema=schema))


def test_an_mcp_tool_without_an_output_schema_promises_its_content_in_our_form_and_a_service_nothing() -> None:
    assert is_content(made(a_definition(output_schema=None)).contract.result_schema)
    assert made(a_definition(output_schema=None, binding={"method": "GET"})).contract.result_schema == {}
    assert made().contract.result_schema["properties"] == {"id": {"type": "string"}}


@pytest.mark.parametrize(
    ("title", "description", "told"),
    [
        ("Create", "Makes one.", "Create\n\nMakes one."),
        (None, "Makes one.", "Makes one."),
        ("create", "Makes one.", "Makes one."),
        ("Create", None, "Create"),
        (None, None, ""),
    ],
)
def test_the_model_is_told_the_pinned_title_and_description(title: Any, description: Any, told: str) -> None:
    definition = a_definition(title=title, description=description)

    assert described(definition) == told
    assert made(definition).contract.description == told


# ---------------------------------------------------------------- what is served


@pytest.mark.req("B186")
@pytest.mark.case("B06")
def test_only_what_is_accepted_and_has_terms_is_served() -> None:
    pins = Pins(
        pins={
            ("desk", "both"): a_pin(a_definition("both")),
            ("desk", "accepted_only"): a_pin(a_definition("accepted_only")),
            ("files", "both"): a_pin(a_definition("both", server="files")),
        }
    )
    manifest = Manifest(server="desk", terms={tool: some_terms(tool) for tool in ("both", "terms_only")})

    assert [(each.name, each.pin.definition.server) for each in served(pins, manifest)] == [("desk.both", "desk")]


def test_two_accepted_tools_that_are_called_alike_are_both_hidden() -> None:
    names = ("repos/get", "repos_get-4b1f2259", "other")
    pins = Pins(pins={("desk", tool): a_pin(a_definition(tool)) for tool in names})
    manifest = Manifest(server="desk", terms={tool: some_terms(tool) for tool in names})

    assert [each.name for each in served(pins, manifest)] == ["desk.other"]


@pytest.mark.case("L04")
def test_what_was_accepted_and_says_what_nobody_sees_is_hidden_alone() -> None:
    odd = a_definition("odd", description="10\u2009km")
    pins = Pins(pins={("desk", each.tool): a_pin(each) for each in (odd, a_definition("good"))})
    manifest = Manifest(server="desk", terms={tool: some_terms(tool) for tool in ("good", "odd")})

    assert [each.name for each in served(pins, manifest)] == ["desk.good"]
    assert unfit(pins, manifest) == ("odd",)


def test_whether_a_tool_can_be_made_is_known_before_it_is_accepted() -> None:
    refuse_unservable(a_definition(), some_terms(), name="desk.create")

    for definition, terms in (
        (a_definition(input_schema={"type": "array"}), some_terms()),
        (a_definition(), some_terms(permission=None)),
        (a_definition(), some_terms(operation_key="k:{nothing}")),
        (replace(a_definition(), description="\u202e"), some_terms()),
    ):
        with pytest.raises(ContractError):
            refuse_unservable(definition, terms, name="desk.create")
