"""What is known when one invocation of a handler is over."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.model.making import quick


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Returned:
    """The handler returned; the value is not checked yet."""

    value: object = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenResult:
    """Stands for a returned value that broke its contract in the process that returned it, and stayed there.

    Attributes:
        reason: how it broke the contract, as that process says; a word to be held against those we know.
    """

    reason: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejected:
    """The remote refused and changed nothing. `message` is model-safe, at most 500 characters."""

    message: str = field(repr=False)


UNSENT_CODES = frozenset({"not_sent", "schema_drift", "upstream_unavailable"})
"""Why nothing was sent: no more is known; the tool is described otherwise than it was accepted; its server is away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsent:
    """Nothing left this process.

    Attributes:
        is_handlers_word: the handler said so itself, which speaks of its remote; otherwise it was not called, or kept
            back by us, and nothing is said of the remote.
        code: why, as the proposer is told; one of `UNSENT_CODES`.
        is_late: its time was over before a first byte could leave, which is up to the remote only if it had all of it.
    """

    is_handlers_word: bool = False
    code: str = "not_sent"
    is_late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """The remote answered with a status that is not success."""

    status: int
    retry_after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """The handler raised something else.

    Attributes:
        error_type: a safe name, never foreign text.
    """

    error_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlinePassed:
    """Our own deadline passed.

    Attributes:
        has_ended: the handler stopped within its grace.
        late: what it said within its grace; it never turns the missed deadline into a success.
    """

    has_ended: bool
    late: Returned | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerLeft:
    """The caller was cancelled while the handler ran. `has_ended`: the handler stopped within its grace."""

    has_ended: bool


Report = Returned | Rejected | Unsent | Answered | Raised | DeadlinePassed | CallerLeft
