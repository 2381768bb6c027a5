"""The values JSON can carry, as Python types.

Always the exact built-in types, never subclasses. `bool` is not a number here, and `1` is not `1.0`.
"""

from __future__ import annotations

from typing import TypeAlias

JsonScalar: TypeAlias = str | int | float | bool | None
JsonValue: TypeAlias = "JsonScalar | list[JsonValue] | dict[str, JsonValue]"
JsonObject: TypeAlias = dict[str, JsonValue]
