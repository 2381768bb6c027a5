"""What a state takes is described once, however many runs go through it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, GetJsonSchemaHandler
from pydantic_core import CoreSchema

from placet.rules.contracts import step_inputs


def test_a_kind_is_described_once() -> None:
    asked: list[str] = []

    class Order(BaseModel):
        order: str

        @classmethod
        def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
            asked.append("")
            return handler(schema)

    first = step_inputs.described(Order)
    assert step_inputs.described(Order) == first != ""
    assert len(asked) == 1


def test_a_kind_that_could_not_be_described_is_asked_again() -> None:
    faults = [ValueError("not yet")]

    class Order(BaseModel):
        order: str

        @classmethod
        def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
            if faults:
                raise faults.pop()
            return handler(schema)

    assert step_inputs.described(Order) == ""
    assert step_inputs.described(Order) != ""
