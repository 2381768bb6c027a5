"""Wrapping that some models put around or inside the JSON they mean, undone where it has one meaning only.

    refused text ── as a whole one code fence, or one JSON string ── its inside
                └── an object ── texts where its contract takes an object or array and no text ── their insides

A contract opts in, never at risk high or critical, and only text that was refused as it stands is looked at, so what
is valid is never changed. One step is undone and no more; what comes out is decoded and checked like any other text,
so repeated members, depth and size are held inside and in total. The repaired form is digested, shown and run.

Source: DESIGN section 6; CASES A03, A04, A18.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from placet.errors import InvalidArguments
from placet.model.contract import Contract, Repair
from placet.model.json import JsonObject, JsonValue
from placet.rules.declared import Declared
from placet.rules.decoding import DecodingLimits, Path, decode_object, wide_path_matches
from placet.rules.encoding import encode_foreign

_WHITESPACE: Final = " \t\n\r"
_FENCE: Final = "```"
_FENCE_WORDS: Final = frozenset({"", "json", "JSON"})
_NAME: Final = "text"
_OPENS: Final = f'{{"{_NAME}":'
_CLOSES: Final = "}"
_CONTAINERS: Final = frozenset({"object", "array"})


def repaired_text(text: bytes | str, contract: Contract, *, limits: DecodingLimits) -> bytes | str | None:
    """What a refused argument text says once one step of wrapping is undone; None if there is nothing to undo.

    What comes back has not been checked, and may be refused as well.
    """
    document = _document(text, limits)
    if document is None:
        return None
    if Repair.CODE_FENCE in contract.repair and (fenced := _inside_fence(document)) is not None:
        return fenced
    if Repair.DOUBLE_ENCODED not in contract.repair:
        return None
    if document.startswith('"'):
        inside = _decoded(document, limits, wide=frozenset())
        return inside if isinstance(inside, str) else None
    return _with_containers(document, contract, limits)


def _document(text: bytes | str, limits: DecodingLimits) -> str | None:
    if len(text) > limits.max_bytes:
        return None
    try:
        document = text.decode() if isinstance(text, bytes) else text
    except UnicodeDecodeError:
        return None
    return document.strip(_WHITESPACE)


def _inside_fence(document: str) -> str | None:
    """What stands between the first line and the last fence, if the text is nothing else."""
    if not document.startswith(_FENCE) or not document.endswith(_FENCE):
        return None
    first_line, _, inside = document[len(_FENCE) :].partition("\n")
    return inside.removesuffix(_FENCE) if first_line.strip(_WHITESPACE) in _FENCE_WORDS else None


def _with_containers(document: str, contract: Contract, limits: DecodingLimits) -> bytes | None:
    try:
        decoded = decode_object(document, limits=limits, wide=contract.wide_fields)
        unwrapping = _Unwrapping(contract, limits)
        repaired = unwrapping.members(decoded, contract.arguments_schema, ())
        return encode_foreign(repaired, limits=limits) if unwrapping.has_undone else None
    except InvalidArguments:  # as a whole it is too large, or no object at all: the first refusal stands
        return None


class _Unwrapping:
    """Goes through decoded arguments beside their schema. What it undoes it does not look into again."""

    def __init__(self, contract: Contract, limits: DecodingLimits) -> None:
        self._declared = Declared(contract.arguments_schema)
        self._wide = contract.wide_fields
        self._limits = limits
        self.has_undone = False

    def members(self, value: JsonObject, schema: JsonValue, path: Path) -> JsonObject:
        return {
            name: self._value(child, self._declared.member(schema, name), (*path, name))
            for name, child in value.items()
        }

    def _value(self, value: JsonValue, schema: JsonValue, path: Path) -> JsonValue:
        match value:
            case str():
                return self._undone(value, schema, path)
            case dict():
                return self.members(value, schema, path)
            case list():
                return [
                    self._value(child, self._declared.item(schema, index), (*path, str(index)))
                    for index, child in enumerate(value)
                ]
            case _:
                return value

    def _undone(self, text: str, schema: JsonValue, path: Path) -> JsonValue:
        types = self._declared.types(schema)
        if "string" in types or types.isdisjoint(_CONTAINERS):
            return text
        inside = _decoded(text, self._limits, wide=_below(self._wide, path))
        if not isinstance(inside, dict if "array" not in types else list if "object" not in types else dict | list):
            return text
        self.has_undone = True
        return inside


def _decoded(text: str, limits: DecodingLimits, *, wide: frozenset[Path]) -> JsonValue:
    """The one JSON value that a text is, read as strictly as arguments are; None if it is none."""
    around = replace(limits, max_bytes=limits.max_bytes + len(_OPENS) + len(_CLOSES))
    try:
        members = decode_object(_OPENS + text + _CLOSES, limits=around, wide={(_NAME, *path) for path in wide})
    except InvalidArguments:
        return None
    return members[_NAME] if len(members) == 1 else None  # a text such as `1,"a":2` is no value


def _below(wide: frozenset[Path], path: Path) -> frozenset[Path]:
    """The wide fields inside this place, named from there."""
    depth = len(path)
    return frozenset(pattern[depth:] for pattern in wide if wide_path_matches(path, {pattern[:depth]}))
