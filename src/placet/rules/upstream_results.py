"""What a tool of an MCP server came back with, in a form that a contract can hold it to.

With a pinned output schema the result is its structured part, and nothing else. Without one it is its content, in a
closed form of our own: texts, pictures, sounds and resources as they came, whole, with the members that the protocol
knows. A block of another kind is not let through. Source: MCP, server tools; CASES K05 to K07.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from placet.model.attempt import BrokenResult
from placet.model.json import JsonObject, JsonValue
from placet.rules.contracts.schema_closing import CLOSED_BY_ANNOTATION

MOST_BLOCKS: Final = 256
_TEXT: Final[JsonObject] = {"type": "string"}
_NOTES: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "audience": {"type": "array", "items": {"enum": ["user", "assistant"]}, "maxItems": 2},
        "priority": {"type": "number", "minimum": 0, "maximum": 1},
        "lastModified": _TEXT,
    },
}


def _block(kind: str, required: JsonObject, optional: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": {"type": {"const": kind}, **required, **optional, "annotations": _NOTES},
        "required": ["type", *required],
    }


def _resource(part: str) -> JsonObject:
    return {
        "type": "object",
        "properties": {"uri": _TEXT, "mimeType": _TEXT, part: _TEXT},
        "required": ["uri", part],
    }


CONTENT_RESULT: Final[JsonObject] = {
    "type": "object",
    "properties": {
        "content": {
            "type": "array",
            "maxItems": MOST_BLOCKS,
            "items": {
                "anyOf": [
                    _block("text", {"text": _TEXT}, {}),
                    _block("image", {"data": _TEXT, "mimeType": _TEXT}, {}),
                    _block("audio", {"data": _TEXT, "mimeType": _TEXT}, {}),
                    _block(
                        "resource_link",
                        {"uri": _TEXT, "name": _TEXT},
                        {"title": _TEXT, "description": _TEXT, "mimeType": _TEXT, "size": {"type": "integer"}},
                    ),
                    _block("resource", {"resource": {"anyOf": [_resource("text"), _resource("blob")]}}, {}),
                ]
            },
        }
    },
    "required": ["content"],
}
"""The result schema of a tool whose definition has none."""

_MEMBERS: Final = {
    "text": ("text",),
    "image": ("data", "mimeType"),
    "audio": ("data", "mimeType"),
    "resource_link": ("uri", "name", "title", "description", "mimeType", "size"),
    "resource": ("resource",),
}
_RESOURCE_MEMBERS: Final = ("uri", "mimeType", "text", "blob")
_NOTE_MEMBERS: Final = ("audience", "priority", "lastModified")
_BROKEN: Final = BrokenResult(reason="result_broken")


def is_content(schema: JsonObject | None) -> bool:
    """Whether a contract holds its results to `CONTENT_RESULT`; there it bears the mark of a schema that was closed."""
    return (
        schema is not None and {name: schema[name] for name in schema if name != CLOSED_BY_ANNOTATION} == CONTENT_RESULT
    )


def is_error(result: JsonObject) -> bool | None:
    """Whether the tool says that it failed; None where what it says of it is neither yes nor no.

    Prose is not read: without the mark it is a success, whatever its text says (CASES K06).
    """
    mark = result.get("isError", False)
    return mark if type(mark) is bool else None


def is_unfinished(result: JsonObject) -> bool:
    """Whether it does not say that the tool has done its work: it wants to know something, has only been queued as a
    task, or is of a kind that nobody knows, which the protocol has us hold for invalid."""
    kind = result.get("resultType", "complete")
    return kind != "complete" or ("task" in result and "content" not in result)


def wants_input(result: JsonObject) -> bool:
    return result.get("resultType") == "input_required"


def result_of(result: JsonObject, *, schema: JsonObject | None) -> JsonValue | BrokenResult:
    """What a call returns that succeeded; not yet held against its contract.

    Args:
        schema: the pinned output schema; None if there is none.
    """
    if schema is not None:
        return result.get("structuredContent", _BROKEN)
    content = result.get("content")
    if type(content) is not list:
        return _BROKEN
    blocks = [_known(block) for block in content]
    return {"content": list[JsonValue](blocks)} if all(block is not None for block in blocks) else _BROKEN


def _known(block: JsonValue) -> JsonObject | None:
    """A block's members that the protocol knows; None for one of no known kind."""
    if type(block) is not dict or type(kind := block.get("type")) is not str or kind not in _MEMBERS:
        return None
    known = {"type": kind, **_only(block, _MEMBERS[kind])}
    if type(resource := known.get("resource")) is dict:
        known["resource"] = _only(resource, _RESOURCE_MEMBERS)
    if type(notes := block.get("annotations")) is dict:
        known["annotations"] = _only(notes, _NOTE_MEMBERS)
    return known


def _only(said: JsonObject, members: tuple[str, ...]) -> JsonObject:
    return {name: said[name] for name in members if said.get(name) is not None}


def error_words(result: JsonObject) -> str:
    """The tool's own words about its failure, as they came: its texts, each in a line. They are data, and untrusted."""
    return "\n".join(_texts(result))


def _texts(result: JsonObject) -> Iterator[str]:
    content = result.get("content")
    for block in content if type(content) is list else ():
        if type(block) is dict and block.get("type") == "text" and type(text := block.get("text")) is str:
            yield text
