"""What every target holds answers to."""

from __future__ import annotations

from placet.errors import InvalidArguments, PlacetError
from placet.model.json import JsonValue

MARKER = "marker-3f1c-never-shown"
"""Stands in every place whose content must not come out."""

MAX_POINTER_CHARACTERS = 128


def exactly(value: object) -> object:
    """The value with its types, so that 1, 1.0 and True differ, and 0.0 and -0.0; the order of names does not."""
    if type(value) is dict:
        return "object", tuple(sorted((name, exactly(member)) for name, member in value.items()))
    if type(value) is list:
        return "array", tuple(exactly(item) for item in value)
    return type(value).__name__, value.hex() if type(value) is float else value


def check_refusal(fault: InvalidArguments, reasons: frozenset[str]) -> None:
    """A documented reason, a printable place, and nothing else: no cause, no value, no foreign text."""
    assert type(fault) is InvalidArguments
    assert fault.reason in reasons, f"undocumented reason {fault.reason!r}"
    check_fault(fault)
    assert str(fault) == f"The arguments were refused: {fault.reason.replace('_', ' ')}."
    assert len(fault.problems) == 1
    for pointer, problem in fault.problems:
        assert problem == fault.reason
        assert len(pointer) <= MAX_POINTER_CHARACTERS and pointer.isascii() and (pointer + "x").isprintable()


def check_fault(fault: PlacetError) -> None:
    """One of ours, alone, which has not acted."""
    assert fault.__cause__ is None and fault.__context__ is None, "a fault carries a foreign one"
    assert not fault.may_have_acted
    assert MARKER not in f"{fault}{fault!r}{vars(fault)}"


def depth_of(value: JsonValue) -> int:
    """Containers inside one another, the outermost included."""
    depth, level = 0, [value]
    while level := [node for node in level if type(node) is dict or type(node) is list]:
        depth += 1
        level = [member for node in level for member in (node.values() if isinstance(node, dict) else node)]
    return depth
