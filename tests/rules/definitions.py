"""A tool of an upstream as its server describes it, to be changed one thing at a time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from placet.model.contract import EffectClass, Risk
from placet.model.pins import Definition, Pin
from placet.model.upstreams import ToolTerms
from placet.rules.pins import definition_digest

ACCEPTED_AT = datetime(2026, 7, 1, 12, 0, tzinfo=UTC)


def a_definition(tool: str = "create", **changes: Any) -> Definition:
    definition = Definition(
        server="desk",
        tool=tool,
        title="Create a ticket",
        description="Makes a ticket. Tell the user its number.",
        input_schema={
            "type": "object",
            "properties": {"title": {"type": "string"}, "queue": {"type": "string", "enum": ["it", "hr"]}},
            "required": ["title"],
        },
        output_schema={"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
        annotations={"destructiveHint": False},
    )
    return replace(definition, **changes)


def a_pin(definition: Definition | None = None, **changes: Any) -> Pin:
    definition = definition or a_definition()
    pin = Pin(
        definition=definition,
        digest=definition_digest(definition),
        accepted_by="mara",
        accepted_at=ACCEPTED_AT,
        mac="0" * 64,
        key_id="k-1",
    )
    return replace(pin, **changes)


def some_terms(tool: str = "create", **changes: Any) -> ToolTerms:
    terms = ToolTerms(tool=tool, effect=EffectClass.WRITE, risk=Risk.MEDIUM, permission="desk.create")
    return replace(terms, **changes)
