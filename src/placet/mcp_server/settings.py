"""The limits of one MCP front door."""

from __future__ import annotations

from dataclasses import dataclass, fields

from placet.errors import ConfigurationError
from placet.model.exact import is_seconds
from placet.model.serving import ResumedTraces

_COUNTS = (
    "max_body_bytes",
    "max_waiting",
    "max_waiting_each",
    "max_rounds",
    "max_sessions",
    "max_sessions_each",
    "page_size",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class McpSettings:
    """Every number is finite and positive.

    Attributes:
        max_body_bytes: of one message, before anything in it is read; over HTTP and on standard input.
        body_seconds: how long a client may take to send one over HTTP.
        wait_seconds: how long a call that is asked for again waits for a person's answer before it says again that
            there is none.
        poll_seconds: how often whoever waits looks by itself; a store that wakes it makes it look sooner.
        max_waiting: calls that wait, of everybody; more are answered at once.
        max_waiting_each: the same of one principal.
        max_rounds: how often one call sends its client to the approver's page before it answers that it is pending;
            clients give up by themselves after ten.
        progress_seconds: a client that wants to hear of progress hears this often that a call still runs.
        page_size: tools on one page of the list.
        max_sessions: open sessions of clients of the older revisions, of everybody.
        max_sessions_each: the same of one principal.
        session_idle_seconds: how long a session may go without a request before it ends.
        resumed_traces: where the span of a call belongs that goes on after a person has decided: in the trace it was
            asked for in, or in that of the message that came back. It is linked to the other one either way.
        state_seconds: how long what a client carries between the rounds of a call is good for.
    """

    max_body_bytes: int = 1_048_576
    body_seconds: float = 15.0
    wait_seconds: float = 25.0
    poll_seconds: float = 1.0
    max_waiting: int = 1_000
    max_waiting_each: int = 32
    max_rounds: int = 8
    progress_seconds: float = 5.0
    page_size: int = 100
    max_sessions: int = 1_000
    max_sessions_each: int = 32
    session_idle_seconds: float = 1_800.0
    state_seconds: float = 367 * 86_400.0
    resumed_traces: ResumedTraces = ResumedTraces.SAME_TRACE

    def __post_init__(self) -> None:
        if type(self.resumed_traces) is not ResumedTraces:
            raise ConfigurationError("The setting 'resumed_traces' is a ResumedTraces.")
        for field in fields(self):
            if field.name == "resumed_traces":
                continue
            value = getattr(self, field.name)
            if not is_seconds(value):
                raise ConfigurationError(f"The setting {field.name!r} is a finite number above zero.")
            if field.name in _COUNTS and type(value) is not int:
                raise ConfigurationError(f"The setting {field.name!r} is a whole number.")
