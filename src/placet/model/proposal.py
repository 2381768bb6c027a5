"""A tool call a model asks for. Nothing has happened, and nothing in it is trusted."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.model.identifiers import CallId
from placet.model.making import quick


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A proposal whose outer form has been checked; its arguments have not.

    Attributes:
        call_id: the provider's id of the call, 1 to 128 characters of `[A-Za-z0-9._:-]`.
        tool: the name as proposed.
        arguments: JSON text, or a plain dict of plain values.
        version: the contract version the proposer believes in; None accepts the registered one.
        attempt: number of the first attempt, for callers that count their own.
        is_truncated: it comes from a turn that the model did not finish, so it may be the start of another call.
    """

    call_id: CallId
    tool: str
    arguments: object = field(repr=False)
    version: str | None = None
    attempt: int = 1
    is_truncated: bool = False
