"""What part of JSON Schema each provider holds a model to, as of November 2026.

OpenAI: guide "Structured outputs", section "Supported schemas". Length bounds of text are left out although the
service takes them: backends that speak its protocol refuse them.
Anthropic: guide "Structured outputs", sections "JSON Schema limitations" and "Schema complexity limits". `const`,
`default` and `pattern` are left out although the guide lists them: the provider's own SDK takes them away.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from placet.model.json import JsonValue

_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"})
_NOT_PLAIN = re.compile(r"\(\?|\\[1-9kpPbBGAzZQ]|\[\[:|&&|--|~~")
"""Look-around, flags, back-references, classes of Unicode, anchors and set operations: dialects differ on them."""


_INSIDE_GROUPS = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|\([^()]*\)")


class Absence(StrEnum):
    """How a model says that a member is not there."""

    LEFT_OUT = "left_out"
    NULL = "null"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """What one provider's strict mode takes.

    Attributes:
        keywords: bounds that may be said, beside types, members, items, choices and references.
        formats: values of `format` that may be said.
        absence: whether a member may be left out.
        may_recur: whether a definition may lead back to itself.
        most: the most there may be of each thing that `sizes` counts.
        most_in_request: the same for all strict tools of one request.
    """

    keywords: frozenset[str]
    formats: frozenset[str]
    absence: Absence
    may_recur: bool
    most: Mapping[str, int]
    most_in_request: Mapping[str, int]

    def takes(self, keyword: str, value: JsonValue) -> bool:
        """Whether this bound may be said."""
        match keyword:
            case _ if keyword not in self.keywords:
                return False
            case "format":
                return value in self.formats
            case "pattern":
                return type(value) is str and _is_portable(value)
            case "minItems":
                return "maxItems" in self.keywords or value in (0, 1)
            case _:
                return True


OPENAI = Subset(
    keywords=frozenset(
        {
            "pattern",
            "format",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
        }
    ),
    formats=_FORMATS,
    absence=Absence.NULL,
    may_recur=True,
    most=MappingProxyType(
        {
            "levels": 10,
            "members": 5_000,
            "name_characters": 120_000,
            "enum_values": 1_000,
            "long_enum_characters": 15_000,
        }
    ),
    most_in_request=MappingProxyType({}),
)

_ANTHROPIC_MOST = MappingProxyType({"optional_members": 24, "unions": 16})

ANTHROPIC = Subset(
    keywords=frozenset({"format", "minItems"}),
    formats=_FORMATS | {"uri"},
    absence=Absence.LEFT_OUT,
    may_recur=False,
    most=_ANTHROPIC_MOST,
    most_in_request=MappingProxyType({"strict_tools": 20, **_ANTHROPIC_MOST}),
)


def _is_portable(pattern: str) -> bool:
    """Whether every dialect reads it alike, searched for or matched from end to end."""
    if not (pattern.startswith("^") and pattern.endswith("$")) or _NOT_PLAIN.search(pattern) is not None:
        return False
    outside, rest = pattern, ""
    while outside != rest:
        outside, rest = _INSIDE_GROUPS.sub("", outside), outside
    return outside.endswith("$") and "|" not in outside
