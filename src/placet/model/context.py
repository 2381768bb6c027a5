"""What a handler, a probe and a precondition may know, and what those that look may answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar, overload

from placet.errors import MisuseError
from placet.model.identifiers import CallId, OperationKey, RunId
from placet.model.json import JsonValue
from placet.model.making import quick
from placet.model.principal import Principal

Result = TypeVar("Result")


class BlockingConnection(Protocol):
    """A connection to a SQLite file, as apsw has them."""

    @property
    def in_transaction(self) -> bool: ...


class AwaitingConnection(Protocol):
    """A connection to PostgreSQL, as asyncpg has them."""

    def is_in_transaction(self) -> bool: ...


def not_heard(done: float, total: float | None, message: str | None) -> None:
    """Where nobody waits for a word of it."""


def not_declared(connection: object, result: object) -> object:
    """What co-committing is for a tool that does not say it does."""
    raise MisuseError(
        "The tool does not say that it co-commits, so nothing was settled.",
        hint="Declare it: placet.tool(..., remote=placet.Remote(co_commits=True)).",
    )


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """What a handler may know besides its arguments. Nothing in it changes what was authorised.

    Attributes:
        operation_key: send it downstream as the idempotency key; the same in every attempt.
        attempt: number of this attempt.
        deadline_at: when placet stops waiting, UTC.
        is_approved: it runs on a person's word, an approval or a standing grant. Nothing may then be asked for on the
            way that adds to what was approved.
        precondition: the state of the world that was approved, as the tool's precondition read it right before; plain
            JSON, a fresh copy in each attempt. Hand it to the resource, which alone can refuse another one. None where
            nobody was asked, or the tool has no precondition.
    """

    tenant: str
    principal: Principal
    run_id: RunId
    call_id: CallId
    operation_key: OperationKey
    attempt: int
    deadline_at: datetime
    is_approved: bool = False
    precondition: JsonValue = field(default=None, repr=False, hash=False)
    _remaining: Callable[[], float]
    _guard: Callable[[], None]
    _co_commit: Callable[[Any, Any], Any] = not_declared
    _progress: Callable[[float, float | None, str | None], None] = not_heard

    def remaining_seconds(self) -> float:
        """Seconds until the deadline, never negative; a good timeout for the downstream request."""
        return self._remaining()

    def guard(self) -> None:
        """Call it right before the first byte leaves.

        Raises:
            NotSent: it is too late to send; let it pass through.
        """
        self._guard()

    @property
    def is_progress_heard(self) -> bool:
        """Whether saying how far it is reaches anybody, or keeps the attempt from being ended as silent."""
        return self._progress is not not_heard

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Say how far the attempt is, to whoever made the call and wants to hear it: `ctx.progress(3, 10, "pages")`.

        It is told at once or not at all, about ten times a second; of more, some fall away. It is kept nowhere and
        proves nothing. Each word begins the contract's `silence_seconds` anew; the deadline stays where it is. From
        any thread; in a process of its own (`isolation="process"`) it is not heard. Never raises.

        Args:
            done: how far, in any unit, rising.
            total: how much there is in all, if that is known.
            message: a line for a person, of which 200 characters are passed on; left out where it has characters that
                cannot be seen. Nothing secret belongs in it.
        """
        self._progress(done, total, message)

    @overload
    def co_commit(self, connection: AwaitingConnection, result: Result) -> Awaitable[Result]: ...

    @overload
    def co_commit(self, connection: BlockingConnection, result: Result) -> Result: ...

    def co_commit(self, connection: Any, result: Any) -> Any:
        """Settle the effect in the handler's own transaction, as its last act before the commit; the result as given.

        What the handler wrote in the transaction, the state of the effect and its result commit together, or none of
        them does. A further call in a further transaction is allowed where the one before was rolled back.

        Args:
            connection: has a transaction open that wrote to the store's own database: of apsw for a SQLite store, of
                asyncpg for PostgreSQL; there the answer is awaited.
            result: what the call answers with; what the handler returns afterwards is not looked at.

        Raises:
            CoCommitRefused: the effect is not this attempt's to settle any more, the result breaks its contract, or the
                store did not take it. Nothing was settled, and none of the transaction may commit: let it pass. On
                PostgreSQL the connection may be closed: after a co-commit inside a savepoint it always is.
            CoCommitNotCovered: there is no such transaction; what was written before may be durable already.
            NotSent: it is too late; let it pass.
            MisuseError: the tool's contract does not say that it co-commits; nothing was settled.
        """
        self._guard()
        return self._co_commit(connection, result)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeContext:
    """What a probe or a precondition may know: whose effect it is about, and under which key it is, or was, sent."""

    tenant: str
    operation_key: OperationKey
    arguments: JsonValue = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The probe found the effect. `result` becomes the recorded result if it keeps the contract."""

    result: object = field(repr=False)
    external_reference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Absent:
    """The probe looked and the effect is not there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CannotTell:
    """The probe could not find out."""


ProbeAnswer = Found | Absent | CannotTell


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What a precondition answered, not looked at yet."""

    state: object = field(repr=False)
