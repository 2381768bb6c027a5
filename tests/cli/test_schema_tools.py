"""Tools of a JSON Schema at the command line: shown as they are enforced, beside what their author wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest

SCHEMA: dict[str, Any] = {
    "$id": "https://a.example/refund",
    "type": "object",
    "properties": {"order": {"type": "string"}, "note": {"type": "object"}},
    "required": ["order"],
    "additionalProperties": True,
}
TOOL = '''

async def refund(arguments: dict) -> dict:
    """Refund an order."""
    return {{"refunded": arguments["order"]}}


TOOLS.append(
    placet.tool_from_schema(
        refund, name="refund", arguments={schema!r}, effect="write", risk="medium", permission="things.write",
        operation_key="refund:{{order}}", open_members=("/note",), {more}
    )
)
'''


def add(project: Any, schema: dict[str, Any], more: str = "") -> None:
    with (project.folder / "tools.py").open("a") as file:
        file.write(TOOL.format(schema=schema, more=more))


@pytest.mark.case("A14")
def test_show_prints_what_is_enforced_and_what_was_written(project: Any) -> None:
    add(project, SCHEMA)
    data = project.run("tools", "show", "refund", "--json").data
    text = project.run("tools", "show", "refund").out

    enforced = {key: value for key, value in SCHEMA.items() if key != "$id"} | {"additionalProperties": False}
    assert data["arguments_schema"] == enforced
    assert data["authored_schema"] == SCHEMA
    assert (data["open_members"], data["open_result_members"], data["max_depth"]) == (["/note"], [], 32)
    assert (data["description"], data["result_schema"]) == ("Refund an order.", {})
    assert "open_members" in text
    assert "authored_schema\n" in text
    assert "  additionalProperties: false\n" in text
    assert "  additionalProperties: true\n" in text


def test_lint_tells_why_a_schema_cannot_be_enforced(project: Any) -> None:
    add(project, {**SCHEMA, "properties": {**SCHEMA["properties"], "x": {"$ref": "https://198.51.100.1/x"}}})
    lint = project.run("tools", "lint", "--json")

    (finding,) = lint.data["findings"]
    assert (finding["severity"], finding["tool"]) == ("error", "refund")
    assert "placet fetches nothing" in finding["message"]
    assert lint.code != 0


def test_lint_looks_at_tools_of_both_kinds(project: Any) -> None:
    add(project, SCHEMA)

    found = project.run("tools", "lint", "--json").data["findings"]
    assert {each["severity"] for each in found if each["tool"] == "refund"} == {"warning"}


def test_a_call_is_refused_and_carried_out_as_with_any_tool(project: Any) -> None:
    add(project, SCHEMA)
    refused = project.call("refund", json.dumps({"order": "o-1", "amount": 3}))
    done = project.call("refund", json.dumps({"order": "o-1", "note": {"any": ["thing"]}}))

    assert refused.data["problems"] == [{"path": "/amount", "problem": "extra_forbidden"}]
    assert (done.data["status"], done.data["result"]) == ("succeeded", {"refunded": "o-1"})
    assert "o-1" in done.data["operation_key"]
