"""Reads without a record: their started event is durable before the handler runs, their completed event after it.

No effect is kept. A read that cannot be put on record is not shown.
"""

from __future__ import annotations

import logging

from placet.engine import replies
from placet.engine.afterwards import Afterwards
from placet.engine.attempts import OUR_FAULT, Attempts, Dispatch, Warrant
from placet.engine.chronicle import Chronicle
from placet.engine.endings import Endings
from placet.engine.faults import told
from placet.engine.herald import Herald
from placet.engine.performing import Performing
from placet.engine.refusals import Refusals
from placet.engine.results import Results
from placet.engine.settings import GateSettings
from placet.errors import StoreError
from placet.model.attempt import Report, Returned, Unsent
from placet.model.call import Call
from placet.model.identifiers import OwnerId, Token
from placet.model.ledger import OpenRead, Recorded, Step
from placet.model.outcome import Outcome
from placet.ports.store import Store

_log = logging.getLogger("placet.reads")
_NO_TOKEN = Token("")


class Reads:
    """Runs reads that have been decided."""

    def __init__(
        self,
        *,
        store: Store,
        attempts: Attempts,
        endings: Endings,
        results: Results,
        chronicle: Chronicle,
        herald: Herald,
        refusals: Refusals,
        afterwards: Afterwards,
        performing: Performing,
        settings: GateSettings,
        owner: OwnerId,
    ) -> None:
        self._store = store
        self._attempts = attempts
        self._endings = endings
        self._results = results
        self._chronicle = chronicle
        self._herald = herald
        self._refusals = refusals
        self._afterwards = afterwards
        self._performing = performing
        self._opens = OpenRead(owner=owner, lease_seconds=settings.lease_seconds)

    async def read(self, call: Call, warrant: Warrant) -> Outcome:
        """Record, attempt, record.

        Raises:
            StoreError: the started event could not be made durable; nothing ran.
        """
        facts = self._chronicle.of_call(call, warrant.decision, warrant.approval)
        started = self._chronicle.started(facts, attempt=call.first_attempt)
        answer = await self._store.record(
            (started,), step=warrant.step, starts_tool=call.contract.name, opens=self._opens
        )
        if not isinstance(answer, Recorded):
            return await self._refusals.step_refused(call, answer)
        dispatch = self._attempts.submitted_now(
            call, warrant, facts=facts, started=started, token=_NO_TOKEN, fence=0, place=answer.place
        )
        self._performing.begin_read(answer.place)
        try:
            if not await self._herald.before_dispatch(started):
                await self._outcome(dispatch, Unsent())
                return replies.refused_call(call, "boundary_unavailable", reasons=("sink_failed",))
            return await self._outcome(dispatch, await self._until_certain(dispatch, warrant.step))
        except StoreError:
            raise
        except Exception as fault:  # one of our own; a read changed nothing, and its pair is closed all the same
            _log.error("read failed", extra={"tool": call.contract.name, **told(fault)})
            return await self._outcome(dispatch, OUR_FAULT)
        finally:
            self._performing.end_read(dispatch.place or answer.place)

    async def _until_certain(self, dispatch: Dispatch, step: Step) -> Report:
        """Attempt until something is certain or patience ends; each further attempt is on record before it runs.

        None begins after a stop: the transaction that would record its beginning looks for one. It is the same step.
        """
        while True:
            report = await self._attempts.attempt(dispatch, when_late=_ignored)
            wait = self._attempts.wait_before_next(dispatch, report, has_doubt=False)
            if wait is None or not await self._attempts.may_go_on(dispatch, after_seconds=wait):
                return report
            closing = self._endings.closing(dispatch, report)
            opening = self._chronicle.started(dispatch.facts, attempt=dispatch.attempt + 1)
            try:
                answer = await self._store.record(
                    (closing, opening),
                    step=step,
                    starts_tool=dispatch.call.contract.name,
                    opens=self._opens,
                    closes=dispatch.place,
                )
            except StoreError:
                return report
            if not isinstance(answer, Recorded):
                return report
            if dispatch.place is not None:
                self._performing.move_read(dispatch.place, answer.place)
                dispatch.place = answer.place
            dispatch.attempt += 1
            submitted, dispatch.submitted_at, dispatch.window = self._attempts.next_window(dispatch)
            dispatch.began = dispatch.submitted = submitted
            if not await self._herald.before_dispatch(opening):
                return Unsent()

    async def _outcome(self, dispatch: Dispatch, report: Report) -> Outcome:
        call = dispatch.call
        result, canonical, broken = (None, None, None)
        if isinstance(report, Returned):
            result, canonical, broken = self._results.checked(call, report.value)
        completed = self._endings.closing(dispatch, report, reason=broken, result=result, canonical=canonical)
        try:
            await self._store.record((completed,), closes=dispatch.place)
        except StoreError:
            self._afterwards.insist(lambda: self._store.record((completed,), closes=dispatch.place))
            return replies.unknown(call)  # nothing was changed, but what was read is not on record, so it is not shown
        if broken is not None:
            return replies.failed(call, code="result_broken", words=None)
        if isinstance(report, Returned):
            return replies.succeeded(call, result)
        return self._endings.failure(call, report)


def _ignored(report: Report) -> None:
    """A read changed nothing, so what it says too late is no evidence of anything."""
