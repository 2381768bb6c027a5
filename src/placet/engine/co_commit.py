"""An effect that its handler settles in the transaction that makes it: both commit, or neither does.

    claim ── handler: begin ─ write ─ co_commit ─ commit ──── settle: did it?
                                      │ lock the row             │ still dispatched: nothing committed, and from here
                                      │ dispatched, ours?        │   on nothing can: failed
                                      └ row, result, event       └ committed: the row's own result is the answer

What the handler returns or raises decides nothing but which word a failure bears. Two things stay uncertain, and are
`unknown`: a handler that returns without having co-committed, and one whose writes were in no transaction of the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from inspect import isawaitable
from typing import TypeVar

from placet.engine import replies
from placet.engine.afterwards import Afterwards
from placet.engine.attempts import Dispatch
from placet.engine.endings import Endings, row_reason
from placet.engine.results import Results, result_digest
from placet.errors import CoCommitNotCovered, CoCommitRefused, PlacetError
from placet.model.attempt import CallerLeft, DeadlinePassed, Raised, Report, Returned
from placet.model.effect import EffectState
from placet.model.ledger import (
    CoCommitAnswer,
    CoCommitted,
    MoveAnswer,
    Moved,
    NotCovered,
    NotMoved,
    NotSettled,
    Settlement,
)
from placet.model.outcome import Outcome
from placet.ports.store import Store
from placet.rules import retry
from placet.rules.retry import Knowledge

Result = TypeVar("Result")

CO_COMMITTED = "co_committed"
NOT_CO_COMMITTED = "not_co_committed"
ROLLED_BACK = "rolled_back"
_NOT_CO_COMMITTED = Raised(error_type="NotCoCommitted")
_ROLLED_BACK = Raised(error_type="RolledBack")
_HINTS = {
    "in_a_savepoint": "Co-commit outside of every savepoint, as the last act of the transaction. This connection was "
    "closed, as nothing else ends all of the transaction: let the refusal pass, and take a new one.",
}
"""Next steps that are the reason's own."""
_NOTHING_DONE = frozenset({EffectState.FAILED, EffectState.RECONCILED_ABSENT})


class Stage(StrEnum):
    """How far the handler of one attempt has come, as we see it; only the ledger knows what was committed.

    refused: nothing of its transaction may commit. not_covered: what it wrote was not in a transaction of the store.
    """

    NOT_ASKED = "not_asked"
    WRITTEN = "written"
    REFUSED = "refused"
    NOT_COVERED = "not_covered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What is written if the row is still dispatched. `report`: as the audit words it."""

    state: EffectState
    reason: str
    report: Report


class CoCommits:
    """Makes what handlers settle with."""

    def __init__(self, *, store: Store, results: Results, endings: Endings, afterwards: Afterwards) -> None:
        self.store = store
        self.results = results
        self.endings = endings
        self._afterwards = afterwards
        self._is_chaining_due = False

    def of(self, dispatch: Dispatch) -> CoCommit | None:
        """What the handler of this dispatch settles with; None unless its contract says that it does."""
        return CoCommit(self, dispatch) if dispatch.call.contract.remote.co_commits else None

    def chain_soon(self) -> None:
        """Have what was co-committed chained now, and not with whatever the store writes next; nobody waits for it."""
        if not self._is_chaining_due:
            self._is_chaining_due = True
            self._afterwards.begin(self._chain())

    async def _chain(self) -> None:
        self._is_chaining_due = False
        with suppress(PlacetError):  # recovery asks again
            await self.store.chain_waiting()


@dataclass(slots=True)
class CoCommit:
    """One dispatch whose handler settles it. Called from the handler's thread, or in its coroutine."""

    _parts: CoCommits
    _dispatch: Dispatch
    stage: Stage = Stage.NOT_ASKED
    refusal: str | None = None

    def begin_attempt(self) -> Callable[[object, Result], Result | Awaitable[Result]]:
        """What `CallContext.co_commit` of the attempt that begins does."""
        self.stage, self.refusal = Stage.NOT_ASKED, None
        return partial(self._write, self._dispatch.attempt)

    def _write(self, attempt: int, connection: object, result: Result) -> Result | Awaitable[Result]:
        """Settle in the open transaction of this connection.

        Raises:
            CoCommitRefused: nothing was settled; the transaction is to be rolled back.
        """
        answer = self._in_the_store(connection, self._settlement(attempt, result))
        if isawaitable(answer):
            return self._written_later(answer, result)
        self._note(answer)
        return result

    async def _written_later(self, asked: Awaitable[CoCommitAnswer], result: Result) -> Result:
        refusal = None
        try:
            answer = await asked
        except PlacetError as fault:
            refusal = fault.code
        if refusal is not None:
            raise self._refused(refusal)
        self._note(answer)
        return result

    def _settlement(self, attempt: int, result: object) -> Settlement:
        """The whole settle, with the result held against its contract first, while all can still be taken back."""
        dispatch = replace(self._dispatch, attempt=attempt)
        call = dispatch.call
        plain, canonical, broken = self._parts.results.checked(call, result)
        if broken is not None or canonical is None:
            raise self._refused(broken or "result_broken")
        completed = self._parts.endings.closing(
            dispatch,
            Returned(value=plain),
            state=EffectState.COMMITTED,
            reason=CO_COMMITTED,
            result=plain,
            canonical=canonical,
        )
        return Settlement(
            tenant=call.principal.tenant,
            operation_key=call.operation_key,
            fence=dispatch.fence,
            token=dispatch.token,
            attempt=attempt,
            state=EffectState.COMMITTED,
            reason=CO_COMMITTED,
            attempt_has_ended=False,
            sealed_result=self._parts.results.sealed(call, canonical),
            result_digest=result_digest(canonical),
            external_reference=None,
            events=(completed,),
            late_events=(),
        )

    def _in_the_store(self, connection: object, settlement: Settlement) -> CoCommitAnswer | Awaitable[CoCommitAnswer]:
        refusal = None
        try:
            return self._parts.store.co_commit(connection, settlement)
        except PlacetError as fault:
            refusal = fault.code
        raise self._refused(refusal)

    def _note(self, answer: CoCommitAnswer) -> None:
        match answer:
            case CoCommitted():
                self._reach(Stage.WRITTEN, None)
            case NotSettled(reason=reason):
                raise self._refused(reason)
            case NotCovered(reason=reason):
                self._reach(Stage.NOT_COVERED, reason)
                raise CoCommitNotCovered(
                    f"Nothing was settled: {reason.replace('_', ' ')}.", tool=self._dispatch.call.contract.name
                )

    def _reach(self, stage: Stage, refusal: str | None) -> None:
        if self.stage is not Stage.NOT_COVERED:  # what was written then is there, whatever the handler does next
            self.stage, self.refusal = stage, refusal

    def _refused(self, reason: str) -> CoCommitRefused:
        self._reach(Stage.REFUSED, reason)
        return CoCommitRefused(
            f"Nothing was settled: {reason.replace('_', ' ')}.",
            hint=_HINTS.get(reason),
            tool=self._dispatch.call.contract.name,
        )

    # ------------------------------------------------------------ what an attempt's end proves

    def leaves_doubt(self, report: Report) -> bool:
        """Whether the attempt may have acted and the row does not tell; a further one compares the row again."""
        if self.stage is not Stage.NOT_COVERED:
            return False
        return retry.knowledge(self._dispatch.call.contract.effect_class, report) is Knowledge.CANNOT_TELL

    def ending(self, report: Report, *, has_doubt: bool) -> Ending:
        """What is put on record of a row that is still dispatched, from where on nothing of the attempt can commit."""
        if isinstance(report, Returned) and self.stage is not Stage.WRITTEN:
            reason = self.refusal or NOT_CO_COMMITTED
            return Ending(state=EffectState.UNKNOWN, reason=reason, report=_NOT_CO_COMMITTED)
        if has_doubt:
            return Ending(state=EffectState.UNKNOWN, reason=row_reason(report), report=report)
        if isinstance(report, Returned):
            return Ending(state=EffectState.FAILED, reason=ROLLED_BACK, report=_ROLLED_BACK)
        return Ending(state=EffectState.FAILED, reason=self.refusal or row_reason(report), report=report)

    def outcome(self, answer: MoveAnswer | None, ending: Ending) -> Outcome:
        """The answer follows the row, as it is once the ending was written, or could not be."""
        call = self._dispatch.call
        match answer:
            case NotMoved(effect=effect) if effect.token != self._dispatch.token:
                return replies.in_progress(call)  # another dispatch of the operation; ours did nothing
            case NotMoved(effect=effect) if effect.state.is_committed:
                result, unavailable = self._parts.results.recorded(call, effect)
                if unavailable is not None:
                    return replies.performed_without_result(call, unavailable)
                return replies.succeeded(call, result)
            case Moved(effect=effect) | NotMoved(effect=effect) if (
                ending.state is EffectState.FAILED and effect.state in _NOTHING_DONE
            ):
                return self._failure(ending.report)
            case _:
                return replies.unknown(call)

    def _failure(self, report: Report) -> Outcome:
        call = self._dispatch.call
        if self.refusal is not None and self.refusal.startswith("result_"):
            return replies.failed(call, code="result_broken")
        is_ours = self.refusal is not None or isinstance(report, DeadlinePassed | CallerLeft)
        if is_ours or report == _ROLLED_BACK:
            return replies.failed(call, code="rolled_back")
        return self._parts.endings.failure(call, report)
