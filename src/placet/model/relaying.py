"""What passes between a client and an upstream besides tool calls and results. Data, never decisions."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from placet.model.json import JsonObject
from placet.model.making import quick


class Ability(StrEnum):
    """What a client declares that it can be asked."""

    FORM = "elicitation.form"
    URL = "elicitation.url"
    SAMPLING = "sampling"
    SAMPLING_TOOLS = "sampling.tools"
    ROOTS = "roots"


NO_ABILITIES: frozenset[Ability] = frozenset()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that an upstream wants to know.

    Attributes:
        key: the upstream's own name of it.
        method: how a client is asked it.
    """

    key: str
    method: str
    params: JsonObject = field(repr=False)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What an upstream wants to know before it goes on.

    Attributes:
        questions: none: it only wants to be asked again.
        state: what it wants back, unread; None if nothing.
    """

    questions: tuple[Question, ...]
    state: str | None = field(repr=False)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Resumption:
    """What a client brings when it comes back with answers.

    Attributes:
        responses: its answers by the upstream's keys; None if it has none.
        state: what the upstream gave along with its question.
    """

    responses: JsonObject | None = field(repr=False)
    state: str | None = field(repr=False)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """An error of the protocol, as it goes to the other side.

    Attributes:
        code: of JSON-RPC.
        message: a fixed sentence of ours; the upstream's own words stay behind.
        data: what the other side needs to go on, such as the capability that is missing.
    """

    code: int
    message: str
    data: JsonObject | None = field(default=None, repr=False)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """One notification of an upstream."""

    method: str
    params: JsonObject = field(repr=False)
