"""How an attempt ended, in the words of the audit, of the ledger row and of the proposer."""

from __future__ import annotations

from placet.engine import replies
from placet.engine.attempts import Attempts, Dispatch
from placet.engine.chronicle import Chronicle
from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.audit import AuditEvent, AuditOutcome
from placet.model.call import Call
from placet.model.effect import EffectState
from placet.model.json import JsonValue
from placet.model.outcome import Outcome
from placet.ports.clock import Clock, elapsed_seconds
from placet.rules import retry


class Endings:
    """Says what a report means, to whoever has to hear it."""

    def __init__(self, *, chronicle: Chronicle, attempts: Attempts, clock: Clock) -> None:
        self._chronicle = chronicle
        self._attempts = attempts
        self._clock = clock

    def closing(
        self,
        dispatch: Dispatch,
        report: Report,
        *,
        state: EffectState | None = None,
        reason: str | None = None,
        result: JsonValue = None,
        canonical: bytes | None = None,
    ) -> AuditEvent:
        """The completed event of the attempt that just ended."""
        outcome, error_type = _audit_word(report)
        if isinstance(report, Returned) and canonical is None and state is None:
            outcome, error_type = AuditOutcome.ERROR, "InvalidArguments"  # a read whose result broke its contract
        return self._chronicle.completed(
            dispatch.facts,
            outcome,
            attempt=dispatch.attempt,
            fence=dispatch.fence,
            seconds=elapsed_seconds(self._clock, dispatch.began),
            detail=reason,
            error_type=error_type,
            effect_state=state.value if state is not None else None,
            result=result,
            has_result=canonical is not None,
        )

    def failure(self, call: Call, report: Report) -> Outcome:
        """The outcome of a call that certainly changed nothing."""
        match report:
            case Rejected(message=words):
                return replies.failed(call, code="tool_rejected", words=words)
            case Unsent():
                return replies.failed(call, code=report.code)
            case Answered(status=status) if status in retry.TRANSIENT_STATUSES:
                wait = self._attempts.asked_to_wait(report)
                return replies.failed(call, code="remote_busy", retry_after_seconds=wait)
            case DeadlinePassed():
                return replies.timed_out(call)
            case _:
                return replies.failed(call, code="tool_failed")


def row_reason(report: Report) -> str:
    """The fixed word that says why a row is where it is."""
    match report:
        case Returned():
            return "returned"
        case Rejected():
            return "rejected"
        case Unsent(code=code):
            return code
        case Answered(status=status):
            return f"status_{status}"
        case Raised(error_type=error_type):
            return f"raised_{error_type}"
        case DeadlinePassed():
            return "deadline_passed"
        case CallerLeft():
            return "caller_left"


def _audit_word(report: Report) -> tuple[AuditOutcome, str | None]:
    """Only our own deadline is a timeout; whatever a handler raised is an error (B102)."""
    match report:
        case Returned():
            return AuditOutcome.SUCCESS, None
        case Rejected():
            return AuditOutcome.ERROR, "ToolRejected"
        case Unsent():
            return AuditOutcome.ERROR, "NotSent"
        case Answered():
            return AuditOutcome.ERROR, "RemoteStatus"
        case Raised(error_type=error_type):
            return AuditOutcome.ERROR, error_type
        case DeadlinePassed():
            return AuditOutcome.TIMEOUT, "DeadlinePassed"
        case CallerLeft():
            return AuditOutcome.ERROR, "CancelledError"
