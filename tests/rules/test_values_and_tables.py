"""What every module of the rules holds: values that cannot be changed, and tables nobody adds to."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from types import ModuleType

import pytest

from placet import rules

MODULES = [importlib.import_module(found.name) for found in pkgutil.walk_packages(rules.__path__, "placet.rules.")]
WORKING_STATE = {"Budget", "Node", "_Found", "_Ways", "_Writer"}
"""Classes that are filled in while one question is worked out; they never leave it."""
BY_POSITION = {"TypedFunction", "Voice", *WORKING_STATE}


def names_of_values(module: ModuleType) -> list[str]:
    return [
        name
        for name, thing in vars(module).items()
        if isinstance(thing, type) and dataclasses.is_dataclass(thing) and thing.__module__ == module.__name__
    ]


@pytest.mark.parametrize(("module", "name"), [(module, name) for module in MODULES for name in names_of_values(module)])
def test_a_value_is_frozen_slotted_and_made_by_keyword(module: ModuleType, name: str) -> None:
    value = getattr(module, name)

    if name not in WORKING_STATE:
        assert value.__dataclass_params__.frozen
    assert "__slots__" in vars(value)
    if name not in BY_POSITION:
        assert all(field.kw_only for field in dataclasses.fields(value))


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_table_of_a_module_is_a_set_that_somebody_could_add_to(module: ModuleType) -> None:
    assert [name for name, thing in vars(module).items() if type(thing) is set] == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_no_value_of_a_module_holds_a_set_that_somebody_could_add_to(module: ModuleType) -> None:
    values = [
        thing for thing in vars(module).values() if dataclasses.is_dataclass(thing) and not isinstance(thing, type)
    ]
    held = [(value, field.name) for value in values for field in dataclasses.fields(value)]

    assert [name for value, name in held if type(getattr(value, name)) is set] == []
