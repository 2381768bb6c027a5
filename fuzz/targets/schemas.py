"""Somebody else's JSON Schema: refused, or a tool whose contract accepts no more than the schema said."""

from __future__ import annotations

import json
from typing import Any

from fuzz.checks import check_fault, exactly
from placet.errors import ContractError, InvalidArguments
from placet.model.json import JsonObject
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts import Tool, tool_from_schema
from placet.rules.decoding import decode_object

SEPARATOR = b"\n"
LONGEST_MESSAGE = 2_000


def check(data: bytes) -> None:
    """The first line is a schema, every other one is arguments."""
    schema, *rest = data.split(SEPARATOR)
    tool = _imported(_text(schema))
    if tool is None:
        return
    canonical_bytes(tool.contract.arguments_schema)
    again = _imported(_text(schema))
    assert again is not None and again.contract.digest == tool.contract.digest, "two digests for one schema"
    for line in rest[:8]:
        _check_arguments(tool, line, schema)


async def _handler(arguments: dict[str, Any]) -> None:
    """Does nothing."""


def _imported(schema: Any) -> Tool | None:
    try:
        return tool_from_schema(_handler, name="t", arguments=schema, effect="read")
    except ContractError as fault:
        check_fault(fault)
        assert fault.code == "contract_invalid"
        assert len(str(fault)) <= LONGEST_MESSAGE and str(fault).isprintable(), str(fault)[:200]
        return None


def _check_arguments(tool: Tool, line: bytes, schema: bytes) -> None:
    try:
        read = tool.read_arguments(line)
    except InvalidArguments as fault:
        check_fault(fault)
        assert 1 <= len(fault.problems) <= 16
        assert all(len(pointer) <= 128 and (pointer + problem).isascii() for pointer, problem in fault.problems)
        return
    assert not read.is_repaired
    assert exactly(read.arguments) == exactly(decode_object(line, wide=tool.contract.wide_fields)), "converted"
    assert read.canonical == canonical_bytes(read.arguments)
    assert exactly(tool.read_arguments(read.canonical).arguments) == exactly(read.arguments)
    assert _original_accepts(schema, read.arguments), "accepted what the schema as it was given refuses"


def _original_accepts(schema: bytes, arguments: JsonObject) -> bool:
    """The schema as it came, in the same validator without our tightening; True where it cannot say."""
    import jsonschema_rs

    try:
        given = json.loads(schema)
        draft = jsonschema_rs.validator_cls_for(given)
        return bool(draft(given, offline=True, validate_formats=False).is_valid(arguments))
    except ValueError:
        return True


def _text(schema: bytes) -> Any:
    try:
        return schema.decode()
    except UnicodeDecodeError:
        return schema
