"""Somebody else's OpenAPI document: refused, or operations whose requests stay where the document has them."""

from __future__ import annotations

from typing import Any

from fuzz.checks import check_fault
from placet.adapters.transports.http.documents import yaml_as_json
from placet.errors import ContractError, DocumentRefused, InvalidArguments, ToolRejected
from placet.model.json import JsonObject
from placet.model.openapi import Operation
from placet.rules.contracts import Tool, tool_from_schema
from placet.rules.openapi.documents import document_from, operations_of
from placet.rules.openapi.effects import definition_of
from placet.rules.openapi.requests import request_of
from placet.rules.pins import definition_digest

SEPARATOR = b"\0"
MOST_OPERATIONS = 8


def check(data: bytes) -> None:
    """Up to the first zero byte a document, JSON or YAML; each part behind another one is arguments."""
    text, *rest = data.split(SEPARATOR)
    found = _operations(text)
    assert found == _operations(text), "two readings of one document"
    for operation in found[:MOST_OPERATIONS]:
        definition_digest(definition_of("s", operation))
        tool = _tool(operation)
        if tool is not None:
            for line in rest[:4]:
                _check_request(tool, operation, line)


def _operations(text: bytes) -> list[Operation]:
    try:
        given = text.decode("utf-8", "replace")
        document = document_from(given if given.lstrip()[:1] == "{" else yaml_as_json(given))
        found = operations_of(document)
    except DocumentRefused as fault:
        check_fault(fault)
        assert fault.code in ("openapi_invalid", "extra_missing")
        return []
    for each in found:
        if not isinstance(each, Operation):
            assert each.why and each.why.isascii() and len(each.why) < 200, each.why
    return [each for each in found if isinstance(each, Operation)]


async def _handler(arguments: dict[str, Any]) -> None:
    """Does nothing."""


def _tool(operation: Operation) -> Tool | None:
    try:
        return tool_from_schema(
            _handler,
            name="t",
            arguments=operation.arguments_schema,
            result=operation.result_schema,
            effect="write",
            risk="high",
            permission="p",
            description="d",
        )
    except ContractError as fault:
        check_fault(fault)
        return None


def _check_request(tool: Tool, operation: Operation, line: bytes) -> None:
    try:
        arguments = tool.read_arguments(line).arguments
    except InvalidArguments as fault:
        check_fault(fault)
        return
    try:
        request = request_of(operation, arguments, key=("idempotency-key", str(arguments)))
    except ToolRejected as fault:
        check_fault(fault)
        assert fault.code == "request_unfit"
        return
    path = request.target.partition("?")[0]
    assert request.target.isascii() and request.target.isprintable() and " " not in request.target
    assert path.count("/") == operation.path.count("/"), "an argument left its segment"
    assert not {".", ".."} & set(path.split("/")) and "%2f" not in path.lower() and "%2e%2e" not in path.lower()
    assert all(name.isascii() and value.isascii() and value.isprintable() for name, value in request.headers)
    assert _known(arguments, operation), "an argument went nowhere"


def _known(arguments: JsonObject, operation: Operation) -> bool:
    body = operation.body
    placed = {each.member for each in operation.parameters}
    if body is not None:
        placed |= {member for _, member in body.members or ()} | ({body.member} if body.member else set())
    return set(arguments) <= placed
