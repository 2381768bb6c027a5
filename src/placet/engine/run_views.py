"""Runs as those see them who may: how far each has come, what is left open of it, and what its calls came to.

Who may see what, and nothing beyond it:

- A run is its opener's: the very identity that made its first proposal, with whom it acts for and where.
- Everybody's runs of a tenant are for its people, who see every question that waits there anyway, and for whoever may
  read the tenant's audit or its ledger: `audit.read`, `effects.read`, `effects.reconcile`. To others there is no run.
- What the ledger knows of a run, its effects and its calls, is for its opener and for those three scopes alone. Other
  people are told of its steps, its budget and its questions.

Arguments and results are nowhere in it, nor operation keys, which may be made of arguments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, Literal

from placet.engine.deciding import Decider
from placet.engine.pages import MOST_IN_A_PAGE, read_page
from placet.engine.results import row_binding
from placet.engine.settings import GateSettings
from placet.engine.verifying import verify
from placet.errors import DecisionRefused, KeyMaterialError, MisuseError, NotFound
from placet.model.approval import Approval
from placet.model.effect import Effect, EffectState
from placet.model.exact import is_limit
from placet.model.identifiers import CallId, OperationKey, PolicyVersion, RunId
from placet.model.ledger import run_scope
from placet.model.listing import Mark, Page
from placet.model.principal import Principal, Standing, is_identity, is_principal, subjects_of
from placet.model.retention import BrokenRun
from placet.model.run import LeftOpen, Run, RunCheckpoint, RunLimits, RunNote, RunStanding, RunStatus
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.access import READ_AUDIT_SCOPE, has_scope
from placet.rules.listing import mark_of_run
from placet.rules.policy import READ_EFFECTS_SCOPE, RECONCILE_SCOPE
from placet.rules.runs import budgets_of

MOST_WAITING: Final = 100
"""Questions that are named of one run; all of them are counted."""
_MOST_LOOKS: Final = 3
"""At one run that counts a step while it is looked at, so that its steps and its calls belong together."""
_OF_EFFECTS = (LeftOpen.UNKNOWN, LeftOpen.IN_PROGRESS)
_OF_THE_LEDGER = (READ_AUDIT_SCOPE, READ_EFFECTS_SCOPE, RECONCILE_SCOPE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEffects:
    """How many effects of a run the ledger has, by state; those that are dispatched are in progress."""

    prepared: int = 0
    in_progress: int = 0
    committed: int = 0
    failed: int = 0
    unknown: int = 0
    reconciled_committed: int = 0
    reconciled_absent: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A run, to be looked at. All instants are the store's clock.

    Attributes:
        requested_by: whose it is: who acts, then for whom, and for whom that one does.
        stepped_at: when it last counted a step; None where nobody knows.
        steps: proposals counted so far, refused ones too, of at most `max_steps`.
        policy_version: what was in force when it began.
        is_policy_todays: whether that is what this server decides by now; None where its policy does not say.
        left_open: why it is not over. A run of which nothing is left open may still go on.
        stopped_by: the stops that halt all of it: `all`, `tenant` or `run`.
        closed_tools: tools it was refused so often that it is answered nothing else any more.
        waiting: questions of it that wait for a person, the oldest 100 of `waiting_count`.
        status: whether it may go on, whatever is left open of it.
        deadline: from when on nothing of it is dispatched; None without one.
        allowed_tools: the only ones it has; None where nobody said.
        effects: None where the ledger is not the reader's to see.
    """

    run_id: str
    tenant: str
    requested_by: tuple[str, ...]
    opened_at: datetime
    stepped_at: datetime | None
    steps: int
    max_steps: int
    policy_version: str
    is_policy_todays: bool | None
    left_open: tuple[LeftOpen, ...]
    stopped_by: tuple[Literal["all", "tenant", "run"], ...]
    closed_tools: tuple[str, ...]
    waiting_count: int
    waiting: tuple[str, ...]
    status: RunStatus
    deadline: datetime | None
    allowed_tools: tuple[str, ...] | None
    effects: RunEffects | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """A declared budget: `attempts`, `cost`, or `tool:NAME`."""

    name: str
    taken: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRests:
    """Where a run of a workflow is.

    Attributes:
        code: why it waits, or why it failed; None otherwise.
        is_driven: whether somebody has taken it for a step at this moment.
        look_at: when it is looked at next in any case; None when there is nothing to be done.
        stale_writes: checkpoints that were refused, because whoever wrote them had lost the run to another driver.
    """

    workflow: str
    version: str
    state: str
    visit: int
    code: str | None
    is_driven: bool
    look_at: datetime | None
    stale_writes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCall:
    """What came of one proposal of a run.

    Attributes:
        tool: None, with all that follows, where the ledger has no row of it: a read, a refusal, or an answer from the
            record of another run; the audit tells which.
        state: of its effect, or else of its question.
        reason: the code its effect ended with.
        approval_id: the question it led to, or was approved by.
    """

    call_id: str
    tool: str | None = None
    state: str | None = None
    reason: str | None = None
    approval_id: str | None = None
    began_at: datetime | None = None
    changed_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails(RunView):
    """A run and its calls, the last to change first, then those without a row by name.

    Attributes:
        calls: None where the ledger is not the reader's to see.
        has_more_calls: whether there are more than these.
        budgets: what was declared, besides steps, and what is taken of each.
        rests: None for one that is no workflow's.
        changed_by, reason: who paused, resumed or cancelled it last, and why; None where nobody did. Why is for people.
    """

    budgets: tuple[RunBudget, ...]
    rests: RunRests | None
    changed_by: str | None
    reason: str | None
    calls: tuple[RunCall, ...] | None
    has_more_calls: bool


class RunLooks:
    """The runs of one store, as one principal may see them. Looking changes nothing and is not recorded."""

    def __init__(self, *, store: Store, keys: Keys, decider: Decider, settings: GateSettings) -> None:
        self._store = store
        self._keys = keys
        self._decider = decider
        self._settings = settings

    @paying
    async def page(
        self,
        *,
        by: Principal,
        left: LeftOpen | None = None,
        status: RunStatus | None = None,
        limit: int = 100,
        after: Mark | None = None,
    ) -> Page[RunView]:
        """Runs that `by` may see, the last to be opened first, a page of at most 1,000 at a time.

        Rows that cannot be read are left out.

        Args:
            left: only those of which this is left open.
            status: only those that have it. Where few of many have, a page may hold fewer than there is room for, or
                none, and still go on.

        Raises:
            DecisionRefused: what became of others' effects is not this principal's to know.
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        _require(by, left, limit, status)
        if not _sees_all(by):
            return await self.own_page(by=by, left=left, status=status, limit=limit, after=after)
        if left in _OF_EFFECTS and not _reads_ledger(by):
            raise DecisionRefused(
                f"What became of others' effects needs one of the scopes {', '.join(_OF_THE_LEDGER)}.",
                code="scope_missing",
                hint="Ask for your own runs, or for those that wait for a person.",
            )
        return await self._page(by, None, left, status, limit, after)

    @paying
    async def own_page(
        self,
        *,
        by: Principal,
        left: LeftOpen | None = None,
        status: RunStatus | None = None,
        limit: int = 100,
        after: Mark | None = None,
    ) -> Page[RunView]:
        """The principal's own runs, as `page` lists them, whatever else it may see."""
        _require(by, left, limit, status)
        return await self._page(by, by.identity, left, status, limit, after)

    @paying
    async def show(self, run_id: str, *, by: Principal, limit: int = 100) -> RunDetails:
        """One run, with so many of its calls, at most 1,000.

        Raises:
            NotFound: there is none of this name in the principal's tenant, or it is not this principal's to see.
            MisuseError: `by` is not a principal, or an argument is not of its kind.
        """
        _require(by, None, limit)
        run = await self._visible(run_id, by)
        for _ in range(_MOST_LOOKS):
            details = await self._details(run, by, limit)
            seen, run = run, await self._visible(run_id, by)
            if run == seen:
                break
        return details

    # ------------------------------------------------------------ within

    async def _visible(self, run_id: str, by: Principal) -> Run:
        run = await self._store.run(by.tenant, RunId(run_id)) if is_identity(run_id) else None
        if run is None or not (_is_own(run, by) or _sees_all(by)):
            raise NotFound("There is no such run in your tenant.")
        return run

    async def _details(self, run: Run, by: Principal, limit: int) -> RunDetails:
        (view,) = await self._views((run,), by)
        calls = await self._calls(run, limit + 1) if _is_own(run, by) or _reads_ledger(by) else None
        members = {field.name: getattr(view, field.name) for field in fields(view)}
        note = await self._store.run_note(run.tenant, run.run_id)
        return RunDetails(
            **members,
            budgets=await self._budgets(run),
            rests=_rests(await self._store.run_checkpoint(run.tenant, run.run_id), await self._store.now()),
            changed_by=note.changed_by,
            reason=self._reason(run, note) if by.standing is Standing.PERSON else None,
            calls=None if calls is None else calls[:limit],
            has_more_calls=calls is not None and len(calls) > limit,
        )

    async def _page(
        self,
        by: Principal,
        whose: str | None,
        left: LeftOpen | None,
        status: RunStatus | None,
        limit: int,
        after: Mark | None,
    ) -> Page[RunView]:
        def shown(row: Run | BrokenRun) -> Run | None:
            return row if isinstance(row, Run) and status in (None, row.status) else None

        async def fetch(mark: Mark | None, count: int) -> tuple[Run | BrokenRun, ...]:
            return await self._store.runs_after(by.tenant, mark, subject=whose, left=left, limit=count)

        found = await read_page(fetch, mark_of=_mark_of, shown=shown, after=after, limit=limit)
        return Page(rows=await self._views(found.rows, by), after=found.after)

    async def _views(self, runs: tuple[Run, ...], by: Principal) -> tuple[RunView, ...]:
        if not runs:
            return ()
        stops = frozenset(await self._store.stops())
        standings = await self._store.run_standings(by.tenant, [run.run_id for run in runs])
        today, reads_ledger = self._decider.policy_version, _reads_ledger(by)
        return tuple(
            self._view(run, standing, today, stops, shows_effects=reads_ledger or _is_own(run, by))
            for run, standing in zip(runs, standings, strict=True)
        )

    def _view(
        self,
        run: Run,
        standing: RunStanding,
        today: PolicyVersion | None,
        stops: frozenset[str],
        *,
        shows_effects: bool,
    ) -> RunView:
        effects = _effects_of(standing) if shows_effects else None
        closed = (tool for tool, count in standing.denials.items() if count >= self._settings.max_denials)
        return RunView(
            run_id=run.run_id,
            tenant=run.tenant,
            requested_by=subjects_of(run.subject),
            opened_at=run.opened_at,
            stepped_at=run.stepped_at,
            steps=run.steps,
            max_steps=run.max_steps,
            policy_version=run.policy_version,
            is_policy_todays=None if today is None else run.policy_version == today,
            left_open=tuple(_left_open(effects, standing)),
            stopped_by=tuple(word for word, scope in _scopes_of(run).items() if scope in stops),
            closed_tools=tuple(sorted(closed)),
            waiting_count=len(standing.waiting),
            waiting=standing.waiting[:MOST_WAITING],
            status=run.status,
            deadline=None if run.limits is None else run.limits.deadline,
            allowed_tools=_tools_of(run.limits),
            effects=effects,
        )

    async def _budgets(self, run: Run) -> tuple[RunBudget, ...]:
        declared = dict(budgets_of(run.limits))
        taken = await self._store.run_tallies(run.tenant, run.run_id) if declared else {}
        return tuple(RunBudget(name=name, taken=taken.get(name, 0), most=most) for name, most in declared.items())

    def _reason(self, run: Run, note: RunNote) -> str | None:
        if note.sealed_reason is None:
            return None
        try:
            return self._keys.unseal(note.sealed_reason, bound_to=reason_binding(run)).decode()
        except (KeyMaterialError, UnicodeDecodeError):
            return None

    async def _calls(self, run: Run, most: int) -> tuple[RunCall, ...]:
        """So many, of rows as they stand; of questions only those that hold."""
        effects = await self._store.effects_of_run(run.tenant, run.run_id, limit=most)
        asked = await self._store.approvals_of_run(run.tenant, run.run_id, limit=most)
        steps = await self._store.steps_of_run(run.tenant, run.run_id, limit=MOST_IN_A_PAGE + most)
        return _told(
            [effect for effect in effects if isinstance(effect, Effect)],
            [each for each in asked if verify(each, self._keys) is None],
            steps,
        )[:most]


def _mark_of(row: Run | BrokenRun) -> Mark | None:
    return mark_of_run(row) if isinstance(row, Run) else None


def _told(effects: list[Effect], asked: list[Approval], steps: Iterable[CallId]) -> tuple[RunCall, ...]:
    """A call for each effect, for each question that came to none, and for each id that has neither."""
    used = {effect.approval_id for effect in effects}
    calls = [
        *map(_of_effect, effects),
        *(_of_question(each) for each in asked if each.question.approval_id not in used),
    ]
    calls.sort(key=lambda call: (call.changed_at, call.call_id), reverse=True)
    named = {call.call_id for call in calls}
    return (*calls, *(RunCall(call_id=step) for step in steps if step not in named))


def _of_effect(effect: Effect) -> RunCall:
    return RunCall(
        call_id=effect.call_id,
        tool=effect.tool,
        state=effect.state.value,
        reason=effect.reason,
        approval_id=effect.approval_id,
        began_at=effect.created_at,
        changed_at=effect.updated_at,
    )


def _of_question(approval: Approval) -> RunCall:
    question, answer = approval.question, approval.answer
    return RunCall(
        call_id=question.call_id,
        tool=question.tool,
        state=approval.state.value,
        approval_id=question.approval_id,
        began_at=question.asked_at,
        changed_at=question.asked_at if answer is None else answer.decided_at,
    )


def reason_binding(run: Run) -> bytes:
    """What a reason is bound to: moved to another run it does not open."""
    return row_binding(run.tenant, OperationKey(run.run_id), "run_reason")


def _rests(row: RunCheckpoint | None, now: datetime) -> RunRests | None:
    if row is None:
        return None
    return RunRests(
        workflow=row.workflow,
        version=row.version,
        state=row.state,
        visit=row.visit,
        code=row.code,
        is_driven=row.lease_until is not None and row.lease_until > now,
        look_at=row.due_at,
        stale_writes=row.stale_writes,
    )


def _tools_of(limits: RunLimits | None) -> tuple[str, ...] | None:
    return None if limits is None or limits.tools is None else tuple(sorted(limits.tools))


def _effects_of(standing: RunStanding) -> RunEffects:
    counts = standing.effects
    return RunEffects(
        prepared=counts.get(EffectState.PREPARED, 0),
        in_progress=counts.get(EffectState.DISPATCHED, 0),
        committed=counts.get(EffectState.COMMITTED, 0),
        failed=counts.get(EffectState.FAILED, 0),
        unknown=counts.get(EffectState.UNKNOWN, 0),
        reconciled_committed=counts.get(EffectState.RECONCILED_COMMITTED, 0),
        reconciled_absent=counts.get(EffectState.RECONCILED_ABSENT, 0),
    )


def _left_open(effects: RunEffects | None, standing: RunStanding) -> Iterable[LeftOpen]:
    if effects is not None and effects.unknown:
        yield LeftOpen.UNKNOWN
    if effects is not None and effects.in_progress:
        yield LeftOpen.IN_PROGRESS
    if standing.waiting:
        yield LeftOpen.WAITING


def _scopes_of(run: Run) -> dict[Literal["all", "tenant", "run"], str]:
    return {"all": "all", "tenant": f"tenant:{run.tenant}", "run": run_scope(run.tenant, run.run_id)}


def _is_own(run: Run, by: Principal) -> bool:
    return run.subject == by.identity


def _sees_all(by: Principal) -> bool:
    return by.standing is Standing.PERSON or _reads_ledger(by)


def _reads_ledger(by: Principal) -> bool:
    return any(has_scope(by, scope) for scope in _OF_THE_LEDGER)


def _require(by: object, left: object, limit: object, status: object = None) -> None:
    if not is_principal(by):
        raise MisuseError("by= is the signed-in Principal.")
    if left is not None and type(left) is not LeftOpen:
        raise MisuseError("left= is a LeftOpen.")
    if status is not None and type(status) is not RunStatus:
        raise MisuseError("status= is a RunStatus.")
    if not is_limit(limit) or limit > MOST_IN_A_PAGE:
        raise MisuseError(f"limit= is a whole number from 1 to {MOST_IN_A_PAGE}.")
