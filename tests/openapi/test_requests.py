"""What is sent is exactly what the arguments say, and stays where the operation has it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl, unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.errors import ToolRejected
from placet.model.openapi import HttpRequest
from placet.rules.openapi.requests import key_text, request_of
from tests.openapi.conftest import a_body, carried, in_header, in_path, in_query

pytestmark = pytest.mark.req("B035")


def sent(operation: Any, arguments: dict[str, Any], **more: Any) -> HttpRequest:
    return request_of(operation, arguments, **more)


SCALARS = {"type": "array", "items": {}}
OBJECT = {"type": "object", "properties": {"a": {}, "b": {}}}


@pytest.mark.parametrize(
    ("parameter", "value", "query"),
    [
        (in_query(), "a b&c=d#e+ü/?", "q=a%20b%26c%3Dd%23e%2B%C3%BC%2F%3F"),
        (in_query("a[b]:="), "x", "a%5Bb%5D%3A%3D=x"),
        (in_query(schema={"type": "integer"}), 7, "q=7"),
        (in_query(schema={"type": "number"}), 1.5, "q=1.5"),
        (in_query(schema={"type": "boolean"}), True, "q=true"),
        (in_query(schema=SCALARS), ["a", 1, False], "q=a&q=1&q=false"),
        (in_query(schema=SCALARS), [], ""),
        (in_query(schema=SCALARS, explode=False), ["a,b", "c"], "q=a%2Cb,c"),
        (in_query(schema=SCALARS, style="pipeDelimited"), ["a|b", "c"], "q=a%7Cb%7Cc"),
        (in_query(schema=SCALARS, style="spaceDelimited"), ["a", "c"], "q=a%20c"),
        (in_query(schema=OBJECT), {"a": "1&2", "b": "x"}, "a=1%262&b=x"),
        (in_query(schema=OBJECT, style="deepObject"), {"a": "1", "b": "]="}, "q%5Ba%5D=1&q%5Bb%5D=%5D%3D"),
        (
            {"name": "q", "in": "query", "content": {"application/json": {"schema": {}}}},
            {"a": [None, 1.0]},
            "q=%7B%22a%22%3A%5Bnull%2C1.0%5D%7D",
        ),
    ],
)  # fmt: skip
def test_a_query_is_written_in_its_style(parameter: Any, value: Any, query: str) -> None:
    operation = carried(parameters=[parameter])
    wanted = sent(operation, {operation.parameters[0].member: value}, base_path="/api")
    assert wanted.target == ("/api/things?" + query if query else "/api/things")


def test_body_headers_and_key_are_written() -> None:
    body = a_body({"type": "object", "properties": {"title": {"type": "string"}}}, media_type="application/vnd.x+json")
    operation = carried("post", parameters=[in_header("X-Mark"), in_header("Idempotency-Key")], requestBody=body)
    wanted = sent(operation, {"title": "ü", "X-Mark": "a"}, key=("Idempotency-Key", 'k%"\r\nü'), headers={"X-By": "b"})
    assert wanted == HttpRequest(
        method="POST",
        target="/things",
        headers=(
            ("accept", "application/json"),
            ("x-by", "b"),
            ("x-mark", "a"),
            ("idempotency-key", 'k%25"%0D%0A%C3%BC'),
            ("content-type", "application/vnd.x+json"),
        ),
        body='{"title":"ü"}'.encode(),
    )


def test_an_argument_never_replaces_the_key() -> None:
    operation = carried("post", parameters=[in_header("X-Key")])
    wanted = sent(operation, {"X-Key": "the model's"}, key=("x-key", "ours"))
    assert dict(wanted.headers)["x-key"] == "ours"


def test_a_body_that_is_left_out_is_not_sent() -> None:
    operation = carried("post", requestBody=a_body({"type": "array"}, required=False))
    assert sent(operation, {}).body is None
    assert sent(operation, {"body": []}).body == b"[]"
    assert json.loads(sent(operation, {"body": [1.0]}).body or b"") == [1.0]


@given(st.text())
def test_whatever_the_text_a_path_keeps_its_segments(text: str) -> None:
    """Values that the server puts in were not seen by the contract."""
    operation = carried("delete", "/things/{id}/parts", parameters=[in_path("id")])
    try:
        target = sent(operation, {"id": text}).target
    except ToolRejected:
        return
    segments = target.split("/")
    assert len(segments) == 4
    assert unquote(segments[2]) == text
    assert not any(each in unquote(segments[2]) for each in "/\\?#%")
    assert unquote(segments[2]) not in ("", ".", "..")
    assert target.isascii()
    assert " " not in target


@pytest.mark.parametrize("value", ["..", "a/b", "%2f", "", "a\nb", None, {}, [], ["..", "a"]])
def test_a_value_that_does_not_fit_a_path_sends_nothing(value: Any) -> None:
    operation = carried("delete", "/things/{id}", parameters=[in_path("id", SCALARS)])
    with pytest.raises(ToolRejected) as refused:
        sent(operation, {"id": value})
    assert refused.value.code == "request_unfit"
    assert not refused.value.may_have_acted


@given(st.text(alphabet="./ax") | st.text())
def test_a_value_beside_other_text_never_makes_a_segment_that_climbs(text: str) -> None:
    operation = carried("get", "/things/.{id}", parameters=[in_path("id")])
    try:
        target = sent(operation, {"id": text}).target
    except ToolRejected:
        return
    assert unquote(target.split("/")[2]) == f".{text}"
    assert target.split("/")[2] not in (".", "..")


@given(st.text(), st.text())
def test_whatever_the_text_a_query_holds_it_and_nothing_else(one: str, other: str) -> None:
    operation = carried(parameters=[in_query("a&b"), in_query("c")])
    query = sent(operation, {"a&b": one, "c": other}).target.partition("?")[2]
    assert parse_qsl(query, keep_blank_values=True, strict_parsing=True, errors="surrogatepass") == [
        ("a&b", one),
        ("c", other),
    ]


@given(st.text())
def test_whatever_the_text_a_header_is_one_line(text: str) -> None:
    operation = carried(parameters=[in_header()])
    try:
        value = dict(sent(operation, {"X-Mark": text}).headers)["x-mark"]
    except ToolRejected:
        return
    assert value.isascii()
    assert value.isprintable()
    assert value == value.strip()
    assert unquote(value) == text or value == text


@given(st.text())
def test_a_key_is_written_without_loss(key: str) -> None:
    assert unquote(key_text(key)) == key
    assert key_text(key).isascii()
    assert key_text(key).isprintable() or key == ""


def test_too_long_an_address_is_not_sent() -> None:
    operation = carried(parameters=[in_query()])
    with pytest.raises(ToolRejected):
        sent(operation, {"q": "a" * 8_000})
