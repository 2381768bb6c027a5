"""What passes between the states of a workflow: typed values, as JSON while they rest.

Held strictly, without coercion and without unknown members; error texts repeat the input, so none leaves this module.
"""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter

from placet.model.json import JsonValue
from placet.rules.canonical import canonical_bytes, sha256_hex

_ADAPTERS: Final[WeakKeyDictionary[type[Any], TypeAdapter[Any]]] = WeakKeyDictionary()
_DESCRIBED: Final[WeakKeyDictionary[type[Any], str]] = WeakKeyDictionary()


MAX_INPUT_BYTES: Final = 262_144
"""Of one state's input, in canonical form: it is sealed and written anew with each step."""


class InputBroken(Exception):
    """It is not what the state takes, or does not come back as it was."""


def written(kind: type[Any], value: object) -> JsonValue:
    """The JSON that `read` makes the same value of.

    Raises:
        InputBroken: the value is not of this kind, or too large.
    """
    try:
        adapter = _adapter(kind)
        held = adapter.validate_python(value, strict=True)
        plain: JsonValue = adapter.dump_python(held, mode="json", by_alias=True, warnings="none")
        if len(canonical_bytes(plain)) > MAX_INPUT_BYTES:
            raise InputBroken
        again = adapter.dump_python(_read(adapter, plain), mode="json", by_alias=True, warnings="none")
        if canonical_bytes(again) == canonical_bytes(plain):
            return plain
    except Exception:  # noqa: S110 - a validator of the user's type may raise anything; its text stays here
        pass
    raise InputBroken


def read(kind: type[Any], plain: JsonValue) -> Any:
    """The value of a JSON that `written` made, perhaps of another version of the kind.

    Raises:
        InputBroken: it is none of this kind.
    """
    try:
        return _read(_adapter(kind), plain)
    except Exception:  # noqa: S110 - as above
        pass
    raise InputBroken


def described(kind: type[Any]) -> str:
    """The digest of what the kind takes; of its name alone where that cannot be described."""
    try:
        known = _DESCRIBED.get(kind)  # it takes a millisecond to make, and each step of each run asks for all states'
        if known is None:
            schema: JsonValue = _adapter(kind).json_schema(by_alias=True)
            known = _DESCRIBED[kind] = sha256_hex("placet/step-input/1", canonical_bytes(schema))
        return known
    except Exception:  # a user's type, whose schema may be none
        return ""


def _read(adapter: TypeAdapter[Any], plain: JsonValue) -> Any:
    return adapter.validate_json(canonical_bytes(plain), strict=True, extra="forbid")


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    known = _ADAPTERS.get(kind)
    if known is None:
        known = _ADAPTERS[kind] = TypeAdapter(kind)
    return known
