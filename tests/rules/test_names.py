"""Names that only the server may say, names that mark a generic executor, and members of any name, in any words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import RootModel, StringConstraints

import placet
from placet import Tool
from placet.errors import ContractError, InvalidArguments
from placet.rules.contracts.names import (
    GENERIC_FIELD_PARTS,
    GENERIC_FIELDS,
    GENERIC_NAME_PARTS,
    SERVER_NAMES,
    fits_any_address,
    fits_names_at_large,
    is_generic_member,
    is_generic_tool,
    is_server_name,
    names_generic_member,
    names_server_name,
)

READ: dict[str, Any] = {"effect": "read", "name": "look"}
TEXT: dict[str, Any] = {"type": "string"}


def handle(arguments: dict[str, Any]) -> Any:
    """What a schema describes."""
    return arguments


def of_schema(schema: dict[str, Any], **options: Any) -> Tool:
    return placet.tool_from_schema(handle, **(READ | {"arguments": {"type": "object", **schema}} | options))


def why_refused(schema: dict[str, Any], **options: Any) -> str:
    with pytest.raises(ContractError) as caught:
        of_schema(schema, **options)
    return str(caught.value)


def problems(tool: Tool, arguments: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    try:
        tool.check_arguments(arguments)
    except InvalidArguments as refusal:
        return refusal.problems
    return ()


# ---------------------------------------------------------------- the server's names

AT_REGISTRATION: dict[str, dict[str, Any]] = {
    "a pattern for one": {"patternProperties": {"^tenant$": TEXT}},
    "a pattern for several": {"patternProperties": {"^(tenant_id|principal)$": TEXT}},
    "a pattern for another spelling": {"patternProperties": {"^[xX]-Tenant-(Id|ID)$": TEXT}},
    "a pattern without its ends": {"patternProperties": {"tenant": TEXT}},
    "a pattern further inside": {"properties": {"o": {"patternProperties": {"^approvalId$": TEXT}}}},
    "a pattern of names": {"additionalProperties": TEXT, "propertyNames": {"pattern": "^tenant"}},
    "a required name": {"additionalProperties": TEXT, "required": ["tenant"]},
    "a name that another requires": {"additionalProperties": TEXT, "dependentRequired": {"a": ["operationKey"]}},
    "a name that requires another": {"additionalProperties": TEXT, "dependentRequired": {"tenant": ["a"]}},
    "a name with a schema of its own": {"additionalProperties": TEXT, "dependentSchemas": {"tenant": {}}},
    "a listed name": {"additionalProperties": TEXT, "propertyNames": {"enum": ["a", "X-Tenant-ID"]}},
    "the one name": {"additionalProperties": TEXT, "propertyNames": {"anyOf": [{"const": "call_context"}]}},
    "a member of a constant": {"properties": {"o": {"enum": [{"tenant": "a"}]}}},
}


@pytest.mark.req("B028")
@pytest.mark.parametrize("schema", AT_REGISTRATION.values(), ids=AT_REGISTRATION)
def test_a_schema_that_says_a_name_of_the_servers_is_refused(schema: dict[str, Any]) -> None:
    assert "the server's to say; take " in why_refused(schema)


AT_THE_CALL: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a mapping": ({"additionalProperties": TEXT}, {}),
    "a mapping by what is left": ({"unevaluatedProperties": TEXT}, {}),
    "patterns of names at large": ({"patternProperties": {"^[a-zA-Z_-]+$": TEXT}}, {}),
    "a pattern of first letters": ({"patternProperties": {"^t": TEXT, "^[A-Za-z]": TEXT}}, {}),
    "opened on purpose": ({"properties": {"a": TEXT}}, {"open_members": ("",)}),
}


@pytest.mark.req("B028")
@pytest.mark.parametrize(("schema", "options"), AT_THE_CALL.values(), ids=AT_THE_CALL)
@pytest.mark.parametrize("name", ["tenant", "Tenant_ID", "x-tenant-id", "operationKey", "principal"])
def test_no_argument_has_a_name_of_the_servers_however_it_was_let_in(
    schema: dict[str, Any], options: dict[str, Any], name: str
) -> None:
    tool = of_schema(schema, **options)

    assert problems(tool, {"tint": "a"}) == ()
    assert problems(tool, {"tint": "a", name: "evil"}) == ((f"/{name}", "extra_forbidden"),)


@pytest.mark.req("B028")
def test_a_spelling_that_unicode_calls_the_same_is_the_same() -> None:
    assert problems(of_schema({"additionalProperties": TEXT}), {"\uff54enant": "evil"}) != ()


class Labels(RootModel[dict[str, str]]):
    """A typed tool whose arguments are a mapping."""


Address = Annotated[str, StringConstraints(pattern="^https?://")]


@pytest.mark.req("B028")
def test_typed_arguments_that_are_a_mapping_are_held_to_the_same() -> None:
    @placet.tool(effect="read")
    def file(arguments: Labels) -> str:
        return "filed"

    assert problems(file, {"room": "7"}) == ()
    assert problems(file, {"tenant": "evil"}) == (("/tenant", "extra_forbidden"),)


@pytest.mark.req("B028")
def test_members_of_a_mapping_further_inside_are_data_in_both_kinds_of_tool() -> None:
    @placet.tool(effect="read")
    def file(labels: dict[str, str]) -> str:
        return "filed"

    described = of_schema({"properties": {"labels": {"type": "object", "additionalProperties": TEXT}}})
    assert problems(file, {"labels": {"tenant": "a label"}}) == ()
    assert problems(described, {"labels": {"tenant": "a label"}}) == ()


@pytest.mark.req("B028")
@pytest.mark.parametrize(
    "pattern",
    [
        "^a",
        "^x-",
        "_id$",
        "_key$",
        "^[a-z_]{1,32}$",
        "^[A-Z]",
        "^[A-Z_]+$",
        "^op",
        ".",
        "",
        "^tenants$",
        "^app\\.[a-z]+$",
    ],
)
def test_a_pattern_that_is_there_for_no_such_name_is_accepted(pattern: str) -> None:
    of_schema({"properties": {"o": {"patternProperties": {pattern: TEXT}}}})


@pytest.mark.parametrize(
    ("name", "is_the_servers"),
    [
        ("tenant", True),
        ("X-TENANT", True),
        ("approval id", True),
        ("tenants", False),
        ("tenant_name", False),
        ("x", False),
    ],
)
def test_a_name_is_the_servers_however_it_is_written(name: str, is_the_servers: bool) -> None:
    assert is_server_name(name) is is_the_servers


# ---------------------------------------------------------------- generic executors

GENERIC: dict[str, dict[str, Any]] = {
    "a hump": {"properties": {"sqlQuery": TEXT}},
    "a part": {"properties": {"shell_command": TEXT}},
    "no separator": {"properties": {"sqlquery": TEXT}},
    "a whole name in capitals": {"properties": {"_URL_": TEXT}},
    "several of them": {"properties": {"preCommands": {"type": "array", "items": TEXT}}},
    "a wide letter": {"properties": {"\uff43ommand": TEXT}},
    "a pattern for one": {"patternProperties": {"^command$": TEXT}},
    "a pattern for some": {"patternProperties": {"^(url|uri)$": TEXT}},
    "a required name": {"additionalProperties": TEXT, "required": ["command"]},
    "a listed name": {"additionalProperties": TEXT, "propertyNames": {"enum": ["argv"]}},
    "any web address": {"properties": {"target": {"type": "string", "pattern": "^https?://"}}},
    "any secure address": {"properties": {"target": {"type": "string", "pattern": "^https://.+$"}}},
    "any address at all": {"properties": {"target": {"type": "string", "pattern": "^[a-z]+://"}}},
}


@pytest.mark.req("B035")
@pytest.mark.parametrize("schema", GENERIC.values(), ids=GENERIC)
def test_a_generic_executor_is_known_however_it_is_written(schema: dict[str, Any]) -> None:
    assert "it looks like a generic executor" in why_refused(schema)
    of_schema(schema, generic_executor="reviewed")


@pytest.mark.req("B035")
@pytest.mark.parametrize("name", ["runShell", "SQLQuery", "exec2", "run.bash", "EvalCode", "powershell_run"])
def test_a_tool_is_one_by_any_part_of_its_name(name: str) -> None:
    assert is_generic_tool(name)
    assert "it looks like a generic executor" in why_refused({"properties": {"a": TEXT}}, name=name)


@pytest.mark.req("B035")
def test_typed_tools_are_held_to_the_same() -> None:
    def fetch(target: Address) -> str:
        return "fetched"

    def run(shellCommand: str) -> str:
        return "run"

    for function in (fetch, run):
        with pytest.raises(ContractError, match="looks like a generic executor"):
            placet.tool(effect="read", name="look")(function)


@pytest.mark.req("B035")
@pytest.mark.parametrize(
    "name",
    [
        "country_code",
        "end_point",
        "zipCode",
        "image_url",
        "subscription",
        "transcript",
        "description",
        "statements_of",
        "recommanded",
    ],
)
def test_a_member_that_only_looks_like_one_is_none(name: str) -> None:
    assert not is_generic_member(name)


@pytest.mark.req("B035")
@pytest.mark.parametrize("pattern", [r"^https://api\.acme\.example/", "^refs/(heads|tags)/", r"^\S+$", "^[^:]+$", ""])
def test_a_pattern_that_lets_in_no_address_of_any_host_or_any_text_is_none(pattern: str) -> None:
    of_schema({"properties": {"target": {"type": "string", "pattern": pattern}}})


# ---------------------------------------------------------------- what a pattern is there for


def only(*names: str) -> Callable[[str], bool]:
    """A pattern that fits these names and no other."""
    return lambda name: name in names


def test_the_words_are_these() -> None:
    assert {
        "tenant", "tenantid", "operationkey", "idempotencykey", "approvalid", "principal", "callcontext",
    } == SERVER_NAMES  # fmt: skip
    assert {
        "shell", "bash", "exec", "execute", "eval", "sql", "psql", "subprocess", "powershell", "cmd", "curl", "wget",
    } == GENERIC_NAME_PARTS  # fmt: skip
    assert {
        "command", "cmd", "shell", "script", "sql", "sql_query", "sqlquery", "statement", "code", "url", "uri",
        "endpoint", "argv",
    } == GENERIC_FIELDS  # fmt: skip
    assert {
        "command", "cmd", "shell", "bash", "powershell", "script", "sql", "psql", "subprocess", "argv",
    } == GENERIC_FIELD_PARTS  # fmt: skip


SPELLINGS = [
    "approvalid", "APPROVALID", "approval_id", "APPROVAL_ID", "Approval_Id", "approval-id", "APPROVAL-ID",
    "Approval-Id", "approvalId", "approvalID", "ApprovalId", "xapprovalid", "XAPPROVALID", "x_approval_id",
    "X_APPROVAL_ID", "X_Approval_Id", "x-approval-id", "X-APPROVAL-ID", "X-Approval-Id", "X-Approval-ID", "xApprovalId",
    "XApprovalId",
]  # fmt: skip


@pytest.mark.req("B028")
@pytest.mark.parametrize("name", SPELLINGS)
def test_a_pattern_for_one_spelling_of_a_server_name_is_there_for_it(name: str) -> None:
    assert names_server_name(only(name))
    assert is_server_name(name)
    assert not names_generic_member(only(name))


@pytest.mark.req("B028")
@pytest.mark.parametrize(
    "name",
    [
        "tenant",
        "TENANT",
        "tenant_id",
        "operation_key",
        "idempotencyKey",
        "X-Idempotency-Key",
        "principal",
        "callContext",
    ],
)
def test_a_pattern_for_any_server_name_is_there_for_it(name: str) -> None:
    assert names_server_name(only(name))
    assert names_server_name(only("something_else", name))


@pytest.mark.parametrize("name", ["tenants", "ID", "id", "key", "X-", "x", "approval", "approvalXXid", "idapproval"])
def test_a_pattern_for_another_name_is_there_for_no_server_name(name: str) -> None:
    assert not names_server_name(only(name))


@pytest.mark.req("B035")
@pytest.mark.parametrize(
    "name", [*sorted(GENERIC_FIELDS | GENERIC_FIELD_PARTS), "sqlQuery", "SQL_QUERY", "Sql-Query", "X-Url", "xScript"]
)
def test_a_pattern_for_a_generic_member_is_there_for_it(name: str) -> None:
    assert names_generic_member(only(name))
    assert not names_server_name(only(name))


MEANINGLESS = [
    "zqxj", "Zqxj", "ZQXJ", "zqxj_wvk", "zqxj-wvk", "zqxjWvk", "ZQXJ_WVK", "Zqxj-Wvk", "x-zqxj", "X-Zqxj-Wvk", "q",
    "q7",
]  # fmt: skip


@pytest.mark.parametrize("nothing", MEANINGLESS)
def test_a_pattern_that_fits_a_name_without_meaning_is_there_for_no_name(nothing: str) -> None:
    assert names_server_name(only("tenant", nothing)) is False
    assert names_generic_member(only("command", nothing)) is False


@pytest.mark.parametrize("left_out", MEANINGLESS)
def test_names_at_large_are_of_every_usual_spelling(left_out: str) -> None:
    assert fits_names_at_large(only(*MEANINGLESS))
    assert not fits_names_at_large(only(*(name for name in MEANINGLESS if name != left_out)))


@pytest.mark.parametrize("alike", ["tzqxj", "tezqxj", "tenzqxj", "zqxjt", "zqxjnt", "zqxjant", "zqxjnant"])
def test_a_pattern_of_beginnings_or_endings_is_there_for_no_single_name(alike: str) -> None:
    assert not names_server_name(only("tenant", alike))


@pytest.mark.parametrize("longer", ["tenazqxj", "zqxjenant", "tenantzqxj", "zqxjtenant", "zqxj" + "tenant" * 2])
def test_a_pattern_of_more_of_the_name_than_that_is(longer: str) -> None:
    assert names_server_name(only("tenant", longer))


def test_of_a_long_name_no_more_letters_than_that_are_a_beginning_or_an_ending() -> None:
    for alike in ("prizqxj", "zqxjipal"):
        assert not names_server_name(only("principal", alike))
    for longer in ("prinzqxj", "zqxjcipal"):
        assert names_server_name(only("principal", longer))


def test_of_a_short_name_fewer_letters_are_a_beginning_or_an_ending() -> None:
    assert not names_generic_member(only("url", "uzqxj"))
    assert not names_generic_member(only("url", "zqxjl"))
    for longer in ("urzqxj", "urlzqxj", "zqxjrl", "zqxjurl"):
        assert names_generic_member(only("url", longer))
    for alike in ("cozqxj", "zqxjde"):
        assert not names_generic_member(only("code", alike))
    for longer in ("codzqxj", "zqxjode"):
        assert names_generic_member(only("code", longer))


@pytest.mark.req("B035")
@pytest.mark.parametrize("address", ["https://zqxj.example/wvk", "http://wvk.test/zqxj?q=1", "ftp://zqxj.example/wvk"])
def test_a_pattern_that_lets_in_an_address_of_any_host_and_asks_for_one_is_of_addresses(address: str) -> None:
    assert fits_any_address(only(address))
    for none in ("zqxj", "zqxj wvk", "/zqxj/wvk", "zqxj.wvk", "7"):
        assert not fits_any_address(only(address, none))
        assert not fits_any_address(only(none))


@pytest.mark.parametrize("length", [61, 62, 63, 64, 65, 66, 1000])
def test_a_name_of_any_length_is_compared(length: int) -> None:
    assert is_server_name("-" * (length - 6) + "tenant")
    assert not is_server_name("a" * (length - 6) + "tenant")


# ---------------------------------------------------------------- members of any name

ANYTHING: dict[str, Any] = {
    "all of anything": {"allOf": [{}]},
    "one that is anything": {"anyOf": [True]},
    "not nothing": {"not": False},
    "not not anything": {"not": {"not": {}}},
    "if anything": {"if": True},
    "all types": {"type": ["array", "boolean", "integer", "null", "number", "object", "string"]},
    "all types, integers among numbers": {"type": ["array", "boolean", "null", "number", "object", "string"]},
    "each type": {"anyOf": [{"type": kind} for kind in ("array", "boolean", "null", "number", "object", "string")]},
    "said elsewhere": {"$ref": "#/$defs/any"},
}


@pytest.mark.case("A14")
@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
@pytest.mark.parametrize("anything", ANYTHING.values(), ids=ANYTHING)
def test_members_of_any_kind_are_declared_by_no_word_for_it(keyword: str, anything: Any) -> None:
    tool = of_schema({"properties": {"a": TEXT}, keyword: anything, "$defs": {"any": {"anyOf": [{}]}}})

    assert problems(tool, {"a": "1"}) == ()
    assert problems(tool, {"a": "1", "unknown": "x"}) == (("/unknown", "extra_forbidden"),)


VAGUE: dict[str, Any] = {
    "no length": {"minLength": 0},
    "no members needed": {"minProperties": 0},
    "a bound of texts": {"minLength": 3},
    "a form of objects": {"properties": {"b": TEXT}},
    "not a text": {"not": {"type": "string"}},
    "exactly one of two": {"oneOf": [{"type": "string"}, {"minLength": 3}]},
    "a bound among alternatives": {"anyOf": [{"type": "string"}, {"minimum": 3}]},
    "types with a bound": {
        "anyOf": [{"type": "string"}, {"type": ["array", "boolean", "null", "number", "object"], "minimum": 3}]
    },
    "if a text, then": {"if": {"type": "string"}, "then": {"minLength": 3}},
}


@pytest.mark.case("A14")
@pytest.mark.parametrize("keyword", ["additionalProperties", "unevaluatedProperties"])
@pytest.mark.parametrize("vague", VAGUE.values(), ids=VAGUE)
def test_members_of_any_name_without_a_type_are_refused_at_registration(keyword: str, vague: Any) -> None:
    why = why_refused({"properties": {"a": TEXT}, keyword: vague})

    assert f"at /{keyword} its schema lets in members of any name and of any type" in why


@pytest.mark.case("A14")
@pytest.mark.parametrize("pattern", ["", ".", ".*", "^.", "^[A-Za-z0-9_-]+$"])
def test_a_pattern_of_any_name_declares_none_without_a_type(pattern: str) -> None:
    assert "lets in members of any name and of any type" in why_refused({"patternProperties": {pattern: True}})
    assert problems(of_schema({"patternProperties": {pattern: TEXT}}), {"b": "c"}) == ()
    assert problems(of_schema({"patternProperties": {"^x-": True}}), {"x-b": "c"}) == ()


DECLARING: dict[str, tuple[Any, Any, Any]] = {
    "a type": (TEXT, "b", 1),
    "types": ({"type": ["string", "null"]}, None, 1),
    "constants": ({"enum": ["b", 1]}, 1, 2),
    "a constant": ({"const": 1}, 1, 2),
    "alternatives": ({"anyOf": [TEXT, {"type": "integer"}]}, 1, None),
    "one of two": ({"oneOf": [TEXT, {"const": 1}]}, 1, None),
    "with more beside it": ({"allOf": [TEXT, {"minLength": 1}]}, "b", ""),
    "said elsewhere": ({"$ref": "#/$defs/text"}, "b", 1),
}


@pytest.mark.case("A14")
@pytest.mark.parametrize(("mapped", "good", "bad"), DECLARING.values(), ids=DECLARING)
def test_a_mapping_that_names_types_or_constants_declares_its_members(mapped: Any, good: Any, bad: Any) -> None:
    tool = of_schema({"additionalProperties": mapped, "$defs": {"text": TEXT}})

    assert problems(tool, {"b": good}) == ()
    assert problems(tool, {"b": bad}) != ()
