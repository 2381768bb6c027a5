"""Which documents are read, what of them is carried, and that nothing outside of them is looked for."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest

from placet.errors import DocumentRefused
from placet.model.openapi import Operation, UnfitOperation
from placet.rules.openapi import documents
from placet.rules.openapi.documents import document_from, operations_of
from tests.openapi.conftest import FINE, a_body, a_document, answers, carried, in_path, in_query, why_unfit

pytestmark = pytest.mark.req("B035")
NOTHING: dict[str, Any] = {}


@pytest.mark.parametrize("version", ["3.0.0", "3.0.4", "3.1.1", "3.1.0-rc1"])
def test_documents_of_3_0_and_3_1_are_read(version: str) -> None:
    (found,) = operations_of(document_from(a_document({"/a": {"get": {"responses": FINE}}}, version=version)))
    assert isinstance(found, Operation)
    assert found.tool == "GET:/a"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        '{"swagger": "2.0"}',
        '{"openapi": "3.2.0", "paths": {}}',
        '{"openapi": 3.1, "paths": {}}',
        '{"openapi": "3.1.0", "openapi": "3.0.0", "paths": {}}',
        '{"openapi": "3.1.0", "jsonSchemaDialect": "http://json-schema.org/draft-07/schema", "paths": {}}',
        '{"openapi": "3.1.0", "paths": ' + '{"a":' * 70 + "{}" + "}" * 70 + "}",
    ],
    ids=["empty", "list", "broken", "2.0", "3.2", "number", "twice", "dialect", "deep"],
)
def test_what_is_no_such_document_is_refused_whole(text: str) -> None:
    with pytest.raises(DocumentRefused) as refused:
        operations_of(document_from(text))
    assert refused.value.code == "openapi_invalid"
    assert not refused.value.may_have_acted
    assert refused.value.__cause__ is None
    assert refused.value.__context__ is None


def test_a_document_that_is_too_large_is_refused_before_it_is_parsed() -> None:
    with pytest.raises(DocumentRefused, match="too long"):
        document_from('{"openapi": "3.1.0", "x": "' + "a" * documents.MAX_DOCUMENT_BYTES + '"}')


def test_there_are_so_many_operations_and_no_more() -> None:
    paths = {f"/p{number}": {"get": {"responses": FINE}} for number in range(documents.MAX_OPERATIONS)}
    assert len(operations_of(document_from(a_document(paths)))) == documents.MAX_OPERATIONS
    with pytest.raises(DocumentRefused, match="more than 1000 operations"):
        operations_of(document_from(a_document({**paths, "/one-more": {"get": {"responses": FINE}}})))


def test_two_operations_of_one_name_are_refused_and_the_name_is_shown() -> None:
    operation = {"operationId": "twice", "responses": FINE}
    with pytest.raises(DocumentRefused, match="twice"):
        operations_of(document_from(a_document({"/a": {"get": operation}, "/b": {"get": operation}})))


def test_one_operation_that_is_not_carried_keeps_none_of_the_others() -> None:
    paths = {
        "/good": {"get": {"operationId": "good", "responses": FINE}},
        "/bad": {"post": {"operationId": "bad", "responses": FINE, "requestBody": a_body({}, media_type="text/xml")}},
    }
    good, bad = operations_of(document_from(a_document(paths)))
    assert isinstance(good, Operation)
    assert bad == UnfitOperation(tool="bad", method="POST", path="/bad", why="its body is not JSON")


# ---------------------------------------------------------------- references


@pytest.mark.parametrize(
    "reference",
    ["http://127.0.0.1:{port}/s.json", "//127.0.0.1:{port}/s", "other.json#/A", "file:///etc/passwd", "", "#"],
)
def test_a_reference_out_of_the_document_is_refused_and_nothing_is_fetched(reference: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        said = {"$ref": reference.format(port=listening.getsockname()[1])}
        assert "out of the document" in why_unfit(parameters=[said])
        assert "out of the document" in why_unfit(parameters=[in_query(schema=said)])
        assert "out of the document" in why_unfit(
            "post", requestBody=a_body({"type": "object", "properties": {"a": said}})
        )
        assert "out of the document" in why_unfit(responses=answers(("200", {"type": "array", "items": said})))
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_references_within_are_followed_wherever_they_may_stand() -> None:
    components = {
        "parameters": {"Q": {"$ref": "#/components/parameters/R"}, "R": in_query("wanted")},
        "requestBodies": {"B": a_body({"$ref": "#/components/schemas/S"})},
        "responses": {"A": answers(("200", {"$ref": "#/components/schemas/S"}))["200"]},
        "schemas": {"S": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    }  # fmt: skip
    found = carried(
        "post",
        parameters=[{"$ref": "#/components/parameters/Q"}],
        requestBody={"$ref": "#/components/requestBodies/B"},
        responses={"200": {"$ref": "#/components/responses/A"}},
        components=components,
    )
    assert list(found.arguments_schema["properties"]) == ["wanted", "name"]  # type: ignore[arg-type]
    assert found.result_schema["$defs"] == {"S": components["schemas"]["S"]}


@pytest.mark.parametrize("where", ["parameters", "schemas"])
def test_references_that_lead_in_a_circle_end(where: str) -> None:
    if where == "parameters":
        circle = {"A": {"$ref": "#/components/parameters/B"}, "B": {"$ref": "#/components/parameters/A"}}
        why = why_unfit(parameters=[{"$ref": "#/components/parameters/A"}], components={"parameters": circle})
        assert "without end" in why
    else:
        circle = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
        why = why_unfit(
            parameters=[in_query(schema={"$ref": "#/components/schemas/A"})], components={"schemas": circle}
        )
        assert why == "the schema of a parameter cannot be enforced"


def test_schemas_may_be_so_large_all_in_all_and_no_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    schemas = {f"S{n}": {"allOf": [{"$ref": f"#/components/schemas/S{n + 1}"}] * 2} for n in range(20)}
    components = {"schemas": {**schemas, "S20": {"type": "string"}}}
    monkeypatch.setattr(documents, "MAX_SCHEMA_PARTS", 50)
    why = why_unfit("post", requestBody=a_body({"$ref": "#/components/schemas/S0"}), components=components)
    assert "too large" in why


# ---------------------------------------------------------------- what is not carried


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"method": "options"}, "OPTIONS"),
        ({"method": "get", "requestBody": a_body({})}, "GET with a body"),
        ({"method": "get", "servers": [{"url": "https://elsewhere.example"}]}, "servers of its own"),
        ({"method": "get", "responses": {"400": {"description": ""}}}, "no answer of success"),
        ({"method": "get", "responses": {"20": {"description": ""}}}, "a status that is none"),
        ({"method": "get", "responses": {"200": {"content": {"image/png": {}}}}}, "neither JSON nor text"),
        ({"method": "get", "parameters": [{"name": "s", "in": "cookie", "required": True, "schema": {}}]}, "cookie"),
        ({"method": "get", "parameters": [{"name": "q", "in": "matrix", "schema": {}}]}, "no known place"),
        ({"method": "get", "parameters": [in_query(style="matrix")]}, "style"),
        ({"method": "get", "parameters": [in_query(), in_query()]}, "declared twice"),
        ({"method": "get", "parameters": [in_path("other")]}, "do not name the same"),
        ({"method": "post", "requestBody": {"content": {"application/json": {}}}}, "no schema"),
    ],
)  # fmt: skip
def test_what_cannot_be_said_is_refused_with_a_word_for_it(said: dict[str, Any], word: str) -> None:
    assert word in why_unfit(said.pop("method"), **said)


@pytest.mark.parametrize(
    "path",
    ["things", "/a/../b", "/a/./b", "/a//b", "/a?b=c", "/a#b", "/a\\b", "/%2e%2e/b", "/a b", "/{x}{y}"],
)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    names = [name for name in ("x", "y") if f"{{{name}}}" in path]
    assert "path" in why_unfit("get", path, parameters=[in_path(name) for name in names])


def test_what_the_document_says_of_servers_is_told_and_used_for_nothing() -> None:
    document = document_from(
        a_document({"/a": {"get": {"responses": FINE}}}, servers=[{"url": "http://169.254.169.254"}])
    )
    assert document.servers == ("http://169.254.169.254",)
    (found,) = operations_of(document)
    assert "169.254" not in json.dumps([str(found)])
