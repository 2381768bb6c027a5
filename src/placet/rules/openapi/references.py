"""The parts of a document, found by their place in it. Nothing outside of it is looked for, or fetched."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from placet.model.json import JsonObject, JsonValue

MAX_CHAIN: Final = 16
"""References that lead to a reference, in a row."""


class Unfit(Exception):
    """What is described cannot be carried; `why` names the word of the document, and repeats no text of it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


def at(root: JsonObject, reference: JsonValue) -> JsonValue:
    """The part that `#/...` names.

    Raises:
        Unfit: it is not in the document.
    """
    if type(reference) is not str:
        raise Unfit("a $ref is not text")
    if not reference.startswith("#/"):
        raise Unfit("a $ref leads out of the document; nothing is fetched")
    found: JsonValue = root
    for token in reference[2:].split("/"):
        name = unquote(token).replace("~1", "/").replace("~0", "~")
        if isinstance(found, dict) and name in found:
            found = found[name]
        elif isinstance(found, list) and name.isascii() and name.isdigit() and int(name[:9]) < len(found):
            found = found[int(name[:9])]
        else:
            raise Unfit("a $ref leads to nothing")
    return found


def resolved(root: JsonObject, part: JsonValue, what: str) -> JsonObject:
    """A part that is described in place, or by a reference; what stands beside the reference says nothing.

    Raises:
        Unfit: it is no object, or references lead in a circle.
    """
    for _ in range(MAX_CHAIN):
        if not isinstance(part, dict):
            raise Unfit(f"{what} is not an object")
        if "$ref" not in part:
            return part
        part = at(root, part["$ref"])
    raise Unfit(f"{what} is a $ref that leads from one to the next without end")


def members_of(part: JsonObject, name: str) -> JsonObject:
    """A member that is an object; empty where it is not there.

    Raises:
        Unfit: it is something else.
    """
    found = part.get(name, {})
    if not isinstance(found, dict):
        raise Unfit(f"{name} is not an object")
    return found


def items_of(part: JsonObject, name: str) -> list[JsonValue]:
    """A member that is a list; empty where it is not there.

    Raises:
        Unfit: it is something else.
    """
    found = part.get(name, [])
    if not isinstance(found, list):
        raise Unfit(f"{name} is not a list")
    return found


def text_of(part: JsonObject, name: str) -> str | None:
    """A member that is text; None where it is not there.

    Raises:
        Unfit: it is something else.
    """
    found = part.get(name)
    if found is not None and type(found) is not str:
        raise Unfit(f"{name} is not text")
    return found


def truth_of(part: JsonObject, name: str, *, usual: bool) -> bool:
    """A member that is true or false.

    Raises:
        Unfit: it is something else.
    """
    found = part.get(name, usual)
    if type(found) is not bool:
        raise Unfit(f"{name} is neither true nor false")
    return found
