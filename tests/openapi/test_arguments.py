"""Parameters and body become one strict object, and which argument goes where is never in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from placet.errors import ContractError, InvalidArguments
from placet.model.openapi import Operation, Style
from placet.rules.contracts import Tool, tool_from_schema
from tests.openapi.conftest import a_body, carried, in_header, in_path, in_query, why_unfit

pytestmark = pytest.mark.req("B035")


async def never(arguments: dict[str, Any]) -> object:
    raise AssertionError(arguments)


def a_tool(operation: Operation, **options: Any) -> Tool:
    given: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": "x", "description": "x", **options}
    return tool_from_schema(never, name="desk.op", arguments=operation.arguments_schema, **given)


def refused(tool: Tool, arguments: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    with pytest.raises(InvalidArguments) as broken:
        tool.read_arguments(arguments)
    return broken.value.problems


# ---------------------------------------------------------------- names

BODY = a_body(
    {"type": "object", "required": ["title"], "properties": {"title": {"type": "string"}, "n": {"type": "integer"}}}
)


def test_a_plain_body_that_must_be_sent_gives_its_members_as_arguments() -> None:
    found = carried("post", parameters=[in_query("q")], requestBody=BODY)
    assert found.arguments_schema["required"] == ["title"]
    assert found.body is not None
    assert found.body.members == (("title", "title"), ("n", "n"))
    assert a_tool(found).read_arguments({"title": "a", "q": "b"}).arguments == {"title": "a", "q": "b"}


@pytest.mark.case("A14")
def test_whatever_the_document_leaves_open_unknown_arguments_are_refused() -> None:
    open_body = a_body({"type": "object", "properties": {"a": {"type": "object"}}, "additionalProperties": True})
    tool = a_tool(carried("post", parameters=[in_query("q")], requestBody=open_body))
    assert refused(tool, {"r": "1"}) == (("/r", "extra_forbidden"),)
    assert refused(tool, {"a": {"b": 1}}) == (("/a/b", "extra_forbidden"),)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "string"}},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]},
        {"type": "object", "properties": {"a": {"type": "string"}}, "minProperties": 1},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}},
        {"type": ["object", "null"], "properties": {"a": {"type": "string"}}},
        {"type": "object", "properties": {}},
    ],
)
def test_any_other_body_is_one_argument(schema: Any) -> None:
    found = carried("post", requestBody=a_body(schema))
    assert found.body is not None
    assert (found.body.members, found.body.member) == (None, "body")
    assert found.arguments_schema["required"] == ["body"]


def test_a_body_that_may_be_left_out_is_one_argument_that_may_be_left_out() -> None:
    found = carried("post", requestBody={**BODY, "required": False})
    assert found.body is not None
    assert (found.body.member, found.arguments_schema["required"]) == ("body", [])


def test_who_shares_a_name_has_its_place_before_it() -> None:
    found = carried(
        "post",
        "/things/{id}",
        parameters=[in_path("id"), in_query("id"), in_header("id"), in_query("title"), in_query("other")],
        requestBody=BODY,
    )
    names = ["path_id", "query_id", "header_id", "query_title", "other", "body_title", "n"]
    assert list(found.arguments_schema["properties"]) == names  # type: ignore[arg-type]


def test_a_parameter_called_body_makes_way() -> None:
    found = carried("post", parameters=[in_query("body")], requestBody=a_body({"type": "array"}))
    assert list(found.arguments_schema["properties"]) == ["query_body", "body_body"]  # type: ignore[arg-type]


def test_names_that_still_collide_are_refused() -> None:
    why = why_unfit("get", "/{id}", parameters=[in_path("id"), in_query("id"), in_query("path_id")])
    assert why == "two of its arguments would have one name"


def test_the_operations_own_parameter_replaces_that_of_its_path() -> None:
    from placet.rules.openapi.documents import document_from, operations_of
    from tests.openapi.conftest import FINE, a_document

    item = {
        "parameters": [in_query("n", {"type": "integer"}), in_header("X-A")],
        "get": {
            "responses": FINE,
            "parameters": [in_query("n", {"type": "boolean"}), in_header("x-a", {"type": "integer"})],
        },
    }
    (found,) = operations_of(document_from(a_document({"/a": item})))
    assert isinstance(found, Operation)
    properties: Any = found.arguments_schema["properties"]
    assert {name: each["type"] for name, each in properties.items()} == {"n": "boolean", "x-a": "integer"}


# ---------------------------------------------------------------- what is not the model's to say


@pytest.mark.req("B037")
def test_the_key_is_never_an_argument() -> None:
    found = carried("post", parameters=[in_header("IDEMPOTENCY-key", required=True)], requestBody=BODY)
    assert found.key_header == "IDEMPOTENCY-key"
    assert "IDEMPOTENCY-key" not in found.arguments_schema["properties"]  # type: ignore[operator]


@pytest.mark.req("B037")
@pytest.mark.parametrize("name", ["tenant", "Tenant-Id", "X-Tenant-ID", "operation_key"])
def test_what_only_the_server_says_cannot_be_registered_as_an_argument(name: str) -> None:
    with pytest.raises(ContractError, match="server's to say"):
        a_tool(carried("post", parameters=[in_query(name)], requestBody=BODY))


@pytest.mark.parametrize("name", ["Authorization", "authorization", "Accept", "Content-Type"])
def test_header_parameters_that_say_nothing_are_not_offered(name: str) -> None:
    found = carried(parameters=[in_header(name, required=True)])
    assert (found.arguments_schema["properties"], found.left_out) == ({}, ())


@pytest.mark.parametrize("name", ["Host", "Content-Length", "Transfer-Encoding", "Cookie", "X Y", "X:Y", "X\r\nY", "é"])
def test_a_header_that_no_argument_may_set_is_left_out_or_refused(name: str) -> None:
    found = carried(parameters=[in_header(name), in_query("q")])
    assert list(found.arguments_schema["properties"]) == ["q"]  # type: ignore[arg-type]
    assert len(found.left_out) == 1
    assert (
        why_unfit(parameters=[in_header(name, required=True)])
        == "a required header is not one that an argument may set"
    )


# ---------------------------------------------------------------- values that can be written


@pytest.mark.parametrize(
    ("parameter", "style"),
    [
        (in_query(schema={"type": "array", "items": {"type": "string"}}), Style.FORM_EXPLODED),
        (in_query(schema={"type": "array", "items": {"type": "string"}}, explode=False), Style.FORM),
        (in_query(schema={"type": "array", "items": {"type": "string"}}, style="pipeDelimited"), Style.PIPE),
        (in_query(schema={"type": "array", "items": {"type": "string"}}, style="spaceDelimited"), Style.SPACE),
        (in_query(schema={"type": "object", "properties": {"a": {}}}, style="deepObject", explode=True), Style.DEEP),
        ({"name": "q", "in": "query", "content": {"application/json": {"schema": {"type": "object"}}}}, Style.JSON),
    ],
)
def test_styles_are_read(parameter: Any, style: Style) -> None:
    assert carried(parameters=[parameter]).parameters[0].style is style


@pytest.mark.parametrize(
    ("parameter", "word"),
    [
        (in_query(schema={}), "no single type"),
        (in_query(schema={"type": ["string", "array"]}), "no single type"),
        (in_query(schema=True), "no schema"),
        (in_query(schema={"type": "array"}, style="deepObject"), "style that cannot carry it"),
        (in_query(schema={"type": "object"}, explode=False), "style that cannot carry it"),
        (in_header(schema={"type": "object"}), "style that cannot carry it"),
        (in_query(schema={"type": "null"}), "style that cannot carry it"),
        (in_query(schema={"type": "object", "additionalProperties": {"type": "string"}}), "mapping"),
        (in_query(schema={"type": "object", "patternProperties": {"^a": {"type": "string"}}}), "mapping"),
        ({"name": "q", "in": "header", "content": {"application/json": {"schema": {}}}}, "content"),
        ({"name": "q", "in": "query", "content": {"text/xml": {"schema": {}}}}, "content"),
        ({"name": "q", "in": "query"}, "no schema"),
    ],
)  # fmt: skip
def test_a_parameter_that_cannot_be_written_is_refused(parameter: Any, word: str) -> None:
    assert word in why_unfit(parameters=[parameter])


def test_two_parameters_of_the_query_never_write_one_name() -> None:
    spread = in_query("filter", {"type": "object", "properties": {"page": {"type": "integer"}}})
    assert "one name" in why_unfit(parameters=[spread, in_query("page")])
    assert carried(parameters=[spread, in_query("filter_page")])
    deep = {**spread, "style": "deepObject", "explode": True}
    assert "one name" in why_unfit(parameters=[deep, in_query("filter[page]")])
    assert carried(parameters=[deep, in_query("page")])


def test_what_cannot_be_written_is_no_argument() -> None:
    """Null, and what is deeper than the style."""
    nullable = {"anyOf": [{"type": "string"}, {"type": "null"}]}
    nested = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"type": "string"}}}}}
    tool = a_tool(
        carried(
            parameters=[
                in_query("n", nullable),
                in_query("deep", nested, style="deepObject", explode=True),
                in_query("many", {"type": "array", "items": {}}),
            ]
        )
    )
    assert tool.read_arguments({"n": "a", "many": [1, "b", True]}).arguments["n"] == "a"
    assert refused(tool, {"n": None})
    assert refused(tool, {"deep": {"a": {"b": "c"}}})
    assert refused(tool, {"many": [["a"]]})
    assert refused(tool, {"many": [None]})


ESCAPES = ["..", ".", "", "a/b", "/", "../x", "a\\b", "%2e%2e", "a%2fb", "a?b", "a#b", "a\r\nb", "a\x7fb"]


@pytest.mark.parametrize("value", ESCAPES)
def test_no_text_leaves_its_segment_of_a_path(value: str) -> None:
    tool = a_tool(carried("delete", "/things/{id}", parameters=[in_path("id")]))
    assert refused(tool, {"id": value})
    listed = a_tool(carried("delete", "/things/{ids}", parameters=[in_path("ids", {"type": "array", "items": {}})]))
    assert refused(listed, {"ids": [value]})
    assert refused(listed, {"ids": []})


@pytest.mark.parametrize("value", ["a", "...", ".a", "OPS-1", "ü", "a b", "a;b", "a=b&c", "~"])
def test_other_text_may_stand_in_a_path(value: str) -> None:
    tool = a_tool(carried("delete", "/things/{id}", parameters=[in_path("id", {"type": "string", "pattern": "^."})]))
    assert tool.read_arguments({"id": value}).arguments == {"id": value}


@pytest.mark.parametrize("value", ["a\r\nX-Admin: 1", "a\nb", "a\x00b", "ü", " a", "a ", "", "a\tb"])
def test_no_text_begins_a_line_in_a_header(value: str) -> None:
    tool = a_tool(carried(parameters=[in_header()]))
    assert refused(tool, {"X-Mark": value})
    assert tool.read_arguments({"X-Mark": "a b=c; d"}).arguments == {"X-Mark": "a b=c; d"}
