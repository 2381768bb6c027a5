"""What a provider is told of a tool: a hint made from its contract. The contract alone decides what is accepted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from placet.model.json import JsonObject


class Provider(StrEnum):
    """Whose tool definition it is. `openai` is Chat Completions, `openai_responses` the Responses API."""

    OPENAI = "openai"
    OPENAI_RESPONSES = "openai_responses"
    ANTHROPIC = "anthropic"
    MCP = "mcp"


class Why(StrEnum):
    """Why a provider cannot be told what the contract says at one place."""

    KEYWORD_UNSUPPORTED = "keyword_unsupported"
    ABSENCE_IS_NOT_NULL = "absence_is_not_null"
    """Every member has to be sent, and null would not mean to this contract what leaving it out means."""
    MEMBERS_OPEN = "members_open"
    TYPE_NOT_SAID = "type_not_said"
    VALUE_NOT_SCALAR = "value_not_scalar"
    RECURSIVE = "recursive"
    REFERENCE_NOT_FOLLOWED = "reference_not_followed"
    TOO_LARGE = "too_large"
    REQUEST_TOO_LARGE = "request_too_large"
    """It would fit alone; together with the tools before it, it does not."""
    NAME_NOT_TAKEN = "name_not_taken"
    ROOT_NOT_PLAIN = "root_not_plain"


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One thing the contract says and the provider cannot be told.

    Attributes:
        pointer: JSON Pointer into the contract's `arguments_schema` (where its root is a reference, into what that
            leads to); empty for the whole of it.
        keyword: the keyword concerned, or the limit that is passed.
    """

    pointer: str
    keyword: str
    why: Why


@dataclass(frozen=True, slots=True, kw_only=True)
class Strict:
    """The definition says the whole contract but for `left_out`, and a provider with a strict mode is to hold to it.

    Attributes:
        definition: as the provider's API takes it; the caller's own copy.
        left_out: bounds that the contract enforces and the definition does not mention.
    """

    provider: Provider
    definition: JsonObject = field(hash=False)
    left_out: tuple[Gap, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Loose:
    """The model is told this definition, and the provider does not hold it to it.

    Attributes:
        reasons: why there is no strict one; never empty.
    """

    provider: Provider
    definition: JsonObject = field(hash=False)
    reasons: tuple[Gap, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NoProjection:
    """This provider would refuse the tool, and with it the whole request. Leave it out there."""

    provider: Provider
    reasons: tuple[Gap, ...]


Projection = Strict | Loose | NoProjection
