"""Runs begun with limits, paused, resumed and cancelled. What was counted in a run stays counted through all of it.

    (begun, or opened by its first proposal) open <--pause, resume--> paused
                                              |                          |
                                              +------- cancelled <-------+       for good
                                              +------- done | failed             by its workflow

Every claim compares its run's status and limits in its own transaction, so when a verb here returns, nothing of the
run is dispatched that this does not allow. What was claimed before goes on; the report counts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from placet.engine.chronicle import Chronicle
from placet.engine.deciding import Decider
from placet.engine.driven import Driven
from placet.engine.run_views import RunDetails, RunLooks, reason_binding
from placet.engine.settings import GateSettings
from placet.errors import DecisionRefused, MisuseError, NotFound, RunConflict
from placet.model.approval import Approval, ApprovalState
from placet.model.audit import AuditEvent, EventKind
from placet.model.effect import Effect, EffectState
from placet.model.exact import MOST_LISTED
from placet.model.identifiers import ApprovalId, PolicyVersion, RunId
from placet.model.ledger import Withdrawal
from placet.model.principal import Principal, is_identity, is_principal
from placet.model.run import CallsUnderWay, Run, RunChange, RunCheckpoint, RunLimits, RunNote, RunStatus
from placet.ports.clock import Clock, IdSource
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.approvals import CLOSED_AS
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.run_leave import refusal_of_change
from placet.rules.stopping import STOP_SCOPE

MAX_REASON_CHARACTERS: Final = 500
_MOST_AT_ONCE: Final = 100
"""Questions closed with the end of their run, in its transaction."""
_UNKNOWN_POLICY: Final = PolicyVersion("unavailable")
_SOON: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands where the store writes its own now."""
_KINDS: Final = {
    RunStatus.OPEN: EventKind.RUN_RESUMED,
    RunStatus.PAUSED: EventKind.RUN_PAUSED,
    RunStatus.CANCELLED: EventKind.RUN_CANCELLED,
}
_FOLLOWS: Final = {
    RunStatus.OPEN: frozenset({RunStatus.PAUSED}),
    RunStatus.PAUSED: frozenset({RunStatus.OPEN}),
    RunStatus.CANCELLED: frozenset({RunStatus.OPEN, RunStatus.PAUSED}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningCall:
    """An effect of the run that was claimed before and has not ended. It may still act."""

    call_id: str
    tool: str
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RunReport:
    """What a change of a run came to.

    Attributes:
        status: as it is afterwards.
        is_news: false where it had that status before.
        withdrawn: questions and unspent approvals that were taken back.
        running: what was claimed before and had not ended.
    """

    run_id: str
    status: RunStatus
    is_news: bool
    withdrawn: int
    running: tuple[RunningCall, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What whoever drives runs needs of the gate."""

    store: Store
    keys: Keys
    chronicle: Chronicle
    settings: GateSettings
    clock: Clock
    ids: IdSource
    driven: Driven
    meter: Meter


class Runs(RunLooks):
    """The runs of one store: looked at, begun, and changed on purpose.

    Attributes:
        around: for those who drive them.
    """

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        decider: Decider,
        chronicle: Chronicle,
        settings: GateSettings,
        clock: Clock,
        ids: IdSource,
        driven: Driven,
        meter: Meter,
    ) -> None:
        super().__init__(store=store, keys=keys, decider=decider, settings=settings)
        self._chronicle = chronicle
        self.around = Around(
            store=store,
            keys=keys,
            chronicle=chronicle,
            settings=settings,
            clock=clock,
            ids=ids,
            driven=driven,
            meter=meter,
        )

    @paying
    async def begin(self, run: str, *, by: Principal, limits: RunLimits) -> RunDetails:
        """Begin a run with what it may spend. Beginning the same run again begins nothing, and answers the same.

        Raises:
            RunConflict: one of this name is there, with other limits, or opened by a proposal, or somebody else's.
            MisuseError: an argument is not of its kind.
        """
        if type(limits) is RunLimits and limits.workflow_tools is not None:
            raise MisuseError("workflow_tools= is said by the workflow itself: start it with Workflows.start.")
        await self.begin_resting(run, by=by, limits=limits, start=None)
        return await self.show(run, by=by)

    async def begin_resting(
        self, run: str, *, by: Principal, limits: RunLimits, start: RunCheckpoint | None
    ) -> tuple[Run, bool]:
        """As `begin`, with where its workflow starts; the run, and whether it was begun now."""
        if not is_principal(by) or not is_identity(run) or type(limits) is not RunLimits:
            raise MisuseError("A run is begun by a Principal, under a name of 1 to 128 characters, with RunLimits.")
        row = Run(
            tenant=by.tenant,
            run_id=RunId(run),
            subject=by.identity,
            policy_version=self._decider.policy_version or _UNKNOWN_POLICY,
            max_steps=limits.max_steps or self._settings.max_steps,
            steps=0,
            opened_at=_SOON,
            limits=limits,
            terms=1,
        )
        facts = self._chronicle.of_principal(by) | {"run_id": run, "policy_version": row.policy_version}
        workflow = () if start is None else (f"workflow:{start.workflow}", f"version:{start.version}")
        event = self._chronicle.event(EventKind.RUN_BEGUN, facts, reasons=workflow, model_suggested=False)
        found, is_new = await self._store.begin_run(row, start, events=(event,))
        is_same = found.subject == row.subject and (start is not None or found.limits == row.limits)
        if not is_new and not is_same:  # what a workflow was begun with, its checkpoint keeps
            raise RunConflict("A run of this name is there, and was not begun so.")
        return found, is_new

    @paying
    async def pause(self, run: str, *, by: Principal, reason: str = "") -> RunReport:
        """Let nothing more of it be dispatched until it is resumed. Questions stay, and may be answered.

        Raises:
            NotFound: there is no such run for this principal.
            DecisionRefused: it is not this principal's to pause; on record.
            MisuseError: an argument is not of its kind.
        """
        return await self._change(run, by, RunStatus.PAUSED, reason, None)

    @paying
    async def resume(self, run: str, *, by: Principal, reason: str = "", limits: RunLimits | None = None) -> RunReport:
        """Let a paused run go on where it was. It goes on counting; `limits`, if given, are what it has from here on,
        with the tools that it had where they name none. A workflow's run keeps to the tools of its workflow anyhow.

        Raises: as `pause`, and
            RunConflict: calls of it are under way (`calls_under_way`), and would take something else from now on.
        """
        return await self._change(run, by, RunStatus.OPEN, reason, limits)

    @paying
    async def cancel(self, run: str, *, by: Principal, reason: str = "") -> RunReport:
        """End it for good. Its questions are withdrawn and its unspent approvals revoked; cancelling again goes on with
        whatever of that was not done yet.

        Raises: as `pause`.
        """
        return await self._change(run, by, RunStatus.CANCELLED, reason, None)

    # ------------------------------------------------------------ within

    async def _change(
        self, name: str, by: Principal, status: RunStatus, reason: str, limits: RunLimits | None
    ) -> RunReport:
        _require_change(by, reason, limits)
        run = await self._visible(name, by)
        if limits is not None:
            limits = _with_tools_of(run.limits, limits)
        if (code := refusal_of_change(by, run, status)) is not None:
            raise await self._refusal(run, by, status, code)
        sealed = self._keys.seal(reason.encode(), bound_to=reason_binding(run)) if reason else None
        change = RunChange(
            tenant=run.tenant,
            run_id=run.run_id,
            status=status,
            follows=_FOLLOWS[status],
            note=RunNote(changed_by=by.subject, sealed_reason=sealed),
            limits=limits,
        )
        answer = await self._store.change_run(change, events=(self._event(_KINDS[status], run, by),))
        if answer is None:
            raise NotFound("There is no such run in your tenant.")
        if isinstance(answer, CallsUnderWay):
            raise RunConflict(
                f"{answer.count} calls of this run are under way, and would give back what they took by other limits.",
                code="calls_under_way",
                hint="Resume it when they have ended, or with the same costs and the same tools in per_tool.",
            )
        changed, is_news = answer
        withdrawn = await self.withdraw_questions(changed)
        return RunReport(
            run_id=run.run_id,
            status=changed.status,
            is_news=is_news,
            withdrawn=withdrawn,
            running=await self._running(changed),
        )

    async def withdraw_questions(self, run: Run) -> int:
        """Of a run that is over, take back what is asked and revoke what nobody used; how many.

        Nothing more can be asked or claimed in it by now, so whoever begins this again finds what is left. What
        somebody edits or answers meanwhile is found by the next look.
        """
        if not run.status.is_over:
            return 0
        count, seen = 0, set[tuple[ApprovalId, ApprovalState]]()
        while True:
            found = await self._store.open_approvals_of_run(run.tenant, run.run_id, limit=MOST_LISTED)
            fresh = [each for each in found if (each.question.approval_id, each.state) not in seen]
            if not fresh:
                return count
            for approval in fresh:
                closed, ends = self._withdrawal(approval, run), CLOSED_AS[approval.state]
                count += (await self._store.retire(approval, ends, events=(closed.event,))).state is ends
            seen.update((each.question.approval_id, each.state) for each in fresh)

    async def questions_to_close(self, run: Run) -> tuple[Withdrawal, ...]:
        """What is asked or approved in a run that is about to end, to be closed with its end. What somebody asks
        meanwhile, or is left of very many, `withdraw_questions` finds.
        """
        found = await self._store.open_approvals_of_run(run.tenant, run.run_id, limit=_MOST_AT_ONCE)
        return tuple(self._withdrawal(each, run) for each in found)

    def _withdrawal(self, approval: Approval, run: Run) -> Withdrawal:
        facts = self._chronicle.of_question(approval.question)
        detail = "run_cancelled" if run.status is RunStatus.CANCELLED else "run_over"
        event = self._chronicle.event(EventKind.APPROVAL_WITHDRAWN, facts, detail=detail)
        return Withdrawal(approval=approval, event=event)

    async def _running(self, run: Run) -> tuple[RunningCall, ...]:
        states = (EffectState.DISPATCHED,)  # few in any tenant, whatever the run has done before
        found = await self._store.effects(tenant=run.tenant, states=states, limit=MOST_LISTED)
        now = await self._store.now()
        return tuple(
            RunningCall(
                call_id=each.call_id, tool=each.tool, age_seconds=max(0.0, (now - each.updated_at).total_seconds())
            )
            for each in found
            if isinstance(each, Effect) and each.run_id == run.run_id
        )

    async def _refusal(self, run: Run, by: Principal, status: RunStatus, code: str) -> DecisionRefused:
        event = self._event(EventKind.RUN_CHANGE_REFUSED, run, by, detail=code, reasons=(status.value,))
        await self._store.record((event,))
        hint = "" if code == "not_a_person" else f"Somebody with the scope {STOP_SCOPE} has to do it."
        return DecisionRefused(_REFUSALS[code], code=code, hint=hint)

    def _event(self, kind: EventKind, run: Run, by: Principal, **more: object) -> AuditEvent:
        facts = self._chronicle.of_principal(by) | {"run_id": run.run_id}
        return self._chronicle.event(kind, facts, decided_by=by.subject, model_suggested=False, **more)


def _with_tools_of(had: RunLimits | None, limits: RunLimits) -> RunLimits:
    """With the tools it was allowed before, where it says nothing of any; and with those of its workflow, always."""
    if had is None:
        return replace(limits, workflow_tools=None)
    allowed = had.allowed_tools if limits.allowed_tools is None else limits.allowed_tools
    return replace(limits, allowed_tools=allowed, workflow_tools=had.workflow_tools)


def _require_change(by: object, reason: object, limits: object) -> None:
    if not is_principal(by):
        raise MisuseError("by= is the signed-in Principal.")
    is_text = type(reason) is str and LONE_SURROGATE.search(reason) is None and "\x00" not in reason
    if not is_text or len(reason) > MAX_REASON_CHARACTERS:  # type: ignore[arg-type]  # a text by now
        raise MisuseError(f"reason= is text of at most {MAX_REASON_CHARACTERS} characters.")
    if limits is not None and type(limits) is not RunLimits:
        raise MisuseError("limits= is a RunLimits.")


_REFUSALS: Final = {
    "not_a_person": "Only a person's own sign-in pauses and resumes a run, or cancels another's.",
    "scope_missing": f"Changing somebody else's run needs the scope {STOP_SCOPE}.",
}
