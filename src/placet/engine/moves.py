"""What the step of a run leads to: where it rests next, and what is said of that in the audit."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from placet.engine import checkpoints
from placet.engine.checkpoints import Resting, Voucher
from placet.engine.faults import told
from placet.engine.gate import Gate
from placet.engine.holders import KeyHolders
from placet.engine.precedence import with_policy
from placet.engine.stepping import Broke, Context, Left, Said, step
from placet.errors import NotFound
from placet.model import workflow as model
from placet.model.approval import ApprovalState
from placet.model.audit import AuditEvent, EventKind
from placet.model.identifiers import ApprovalId, PolicyVersion
from placet.model.principal import Principal, Standing, is_principal
from placet.model.run import Run, RunCheckpoint, RunRest, RunStatus, RunTake
from placet.model.workflow import End, Failure, State, Workflow
from placet.rules import workflows as rules
from placet.rules.contracts import step_inputs
from placet.rules.workflows import Goes

PrincipalOf = Callable[[Principal], Awaitable[Principal | None]]
"""Who a run's principal is by now; None for one that may not go on."""
UNKNOWN_POLICY: Final = PolicyVersion("unavailable")
_UNDER_WAY: Final = frozenset({"effect_unknown", "in_progress"})
"""What a step waits for that is done already, or being done: a deadline makes nothing of it undone."""
_log = logging.getLogger("placet.workflow")
_LONGEST_WAIT_SECONDS: Final = 86_400.0
_LONGEST_ASKING_SECONDS: Final = 30.0
_NO_ANSWER: Final = object()
POSTPONED_SECONDS: Final = 30.0


class Moves:
    """Does steps of runs that were taken, and says where they rest. It writes nothing itself but through the gate."""

    def __init__(self, gate: Gate, definitions: Mapping[str, Workflow], *, principal_of: PrincipalOf | None) -> None:
        self._gate = gate
        self._around = gate.runs.around
        self._definitions = definitions
        self._principal_of = principal_of
        around = self._around
        self._asking: set[asyncio.Future[object]] = set()
        self._holders = KeyHolders(store=around.store, keys=around.keys, chronicle=around.chronicle)

    async def voucher_of(self, principal: Principal) -> Voucher:
        """Who is asked before each step what it may by now."""
        if self._principal_of is not None:
            return Voucher.PROGRAM
        return Voucher.KEYS if await self._holders.has_keys(principal) else Voucher.NOBODY

    def served(self, row: RunCheckpoint) -> tuple[Workflow, Resting] | str:
        """What does its next step; or why this process does not: whoever began it may ask somebody what its principal
        may by now whom this process does not know.
        """
        found = self.read(row)
        is_unasked = self._principal_of is None and not isinstance(found, str) and found[1].voucher is Voucher.PROGRAM
        return "principal_unavailable" if is_unasked else found

    def read(self, row: RunCheckpoint) -> tuple[Workflow, Resting] | str:
        """Where it rests, in the workflow as it is here; or why nobody here can tell."""
        definition = self._definitions.get(row.workflow)
        if definition is None:
            return "workflow_unknown"
        resting = checkpoints.unseal(row, self._around.keys)
        if resting is None or resting.workflow != row.workflow:
            return "checkpoint_unreadable"
        if resting.version == definition.version:
            return (definition, resting) if _is_of_this(definition, resting) else "workflow_changed"
        upgrade = definition.accepts.get(resting.version)
        if upgrade is None:
            return "workflow_version"
        upgraded = _upgraded(definition, resting, upgrade)
        return "upgrade_broken" if upgraded is None else (definition, upgraded)

    async def step(self, run: Run, row: RunCheckpoint, take: RunTake) -> tuple[RunRest, tuple[AuditEvent, ...]]:
        """Do the step of a run that was taken: where it rests after it, and what is said of that in the audit."""
        served = self.served(row)
        if isinstance(served, str):  # the key went between two looks
            return self.unmoved(row, take, served), ()
        definition, resting = served
        resting = _under(resting, self._gate.policy_version)
        if resting.version != row.version:
            return self._upgraded(definition, resting, row, take)
        principal = await self._principal(resting)
        if isinstance(principal, str):
            return self.unmoved(row, take, principal), ()
        at = definition.state(resting.state)
        assert isinstance(at, State)  # noqa: S101 - nothing rests in an end, nor in what is no state
        if resting.then is not None and row.policy_version == (resting.under or UNKNOWN_POLICY):
            return await self._waited(definition, resting, at, run, take)
        resting = replace(resting, then=None)  # what it asked last time is not what it waits for now
        said = await self._said(resting, at, row, principal)
        match said:
            case Left(code=code) if code not in _UNDER_WAY and await self._is_late(run, at):
                return self._gone(definition, resting, rules.fails(definition, at, "deadline_passed"), take)
            case Left():
                return await self._laid_aside(resting, run, take, said)
            case Broke(code=code):
                return self._gone(definition, resting, rules.fails(definition, at, code), take)
            case Said(move=move):
                led = rules.follows(definition, at, move)
        if isinstance(led, Goes):
            return self._gone(definition, resting, led, take)
        wait, goes = led
        resting = replace(resting, then=(goes.state.name, goes.inputs))
        asked = (wait.question.approval_id,)
        left = Left(code=wait.question.code, approvals=asked, after_seconds=None)
        return await self._laid_aside(resting, run, take, left)

    async def _said(
        self, resting: Resting, at: State[Any], row: RunCheckpoint, principal: Principal
    ) -> Said | Left | Broke:
        """As whoever its principal is by now. What is laid down is who it was when it began: rights come back too."""
        try:
            value = step_inputs.read(at.inputs, resting.inputs)
        except step_inputs.InputBroken:
            return Broke(code="input_broken")
        context = Context(gate=self._gate, principal=principal, run_id=row.run_id, at=at, visit=resting.visit)
        return await step(context, value)

    async def _principal(self, resting: Resting) -> Principal | str:
        """Who it is by now; or why nobody knows."""
        was = resting.principal
        if self._principal_of is not None:
            by_now = self._principal_of
        elif resting.voucher is Voucher.KEYS:
            by_now = self._holders.by_now
        else:
            return was
        found = await self._answered(by_now, was)
        if found is _NO_ANSWER:
            return "principal_unavailable"
        is_same = is_principal(found) and _who(found) == _who(was)
        return found if is_same else "principal_gone"  # type: ignore[return-value]  # one, by now

    async def _answered(self, by_now: PrincipalOf, was: Principal) -> object:
        """It is asked in a task of its own, so that a directory which does not end when it is cancelled is left behind.

        Raises:
            asyncio.CancelledError: whoever drives the run was cancelled.
        """
        asking = asyncio.ensure_future(_said(by_now, was))
        self._asking.add(asking)
        asking.add_done_callback(self._asking.discard)
        try:
            await asyncio.wait((asking,), timeout=_LONGEST_ASKING_SECONDS)
        finally:
            if not asking.done():
                asking.cancel()
        return asking.result() if asking.done() else _NO_ANSWER

    async def _is_late(self, run: Run, at: State[Any]) -> bool:
        """Past its deadline, and not in its failure exit. What was dispatched before is asked for all the same: the
        ledger answers first, and the claim refuses what is new."""
        deadline = None if run.limits is None else run.limits.deadline
        if deadline is None or at.inputs is Failure:
            return False
        return await self._around.store.now() >= deadline

    # ------------------------------------------------------------ what a step leads to

    async def _waited(
        self, definition: Workflow, resting: Resting, at: State[Any], run: Run, take: RunTake
    ) -> tuple[RunRest, tuple[AuditEvent, ...]]:
        """Woken while a question was open: it still is, or it was answered, however.

        Under another policy than the one it was asked under, nobody can answer it any more: then the step asks anew.
        """
        assert resting.then is not None  # noqa: S101 - by its caller
        if waits := await self._open(resting):
            if await self._is_late(run, at):
                return self._gone(definition, resting, rules.fails(definition, at, "deadline_passed"), take)
            left = Left(code=resting.code or "approval_required", approvals=waits, after_seconds=None)
            return await self._laid_aside(resting, run, take, left)
        name, inputs = resting.then
        target = definition.state(name)
        goes = (
            Goes(state=target, inputs=inputs)
            if target is not None and name in at.next
            else rules.fails(definition, at, "state_outside")
        )
        return self._gone(definition, replace(resting, then=None), goes, take)

    async def _open(self, resting: Resting) -> tuple[ApprovalId, ...]:
        """The questions it still waits for; what a person made of one by editing it, in its place."""
        found: list[ApprovalId] = []
        for approval_id in resting.waits:
            with suppress(NotFound):
                view = await self._gate.questions.show_last(approval_id, by=resting.principal)
                if view.state is ApprovalState.PENDING:
                    found.append(ApprovalId(view.approval_id))
        return tuple(found)

    async def _laid_aside(
        self, resting: Resting, run: Run, take: RunTake, left: Left
    ) -> tuple[RunRest, tuple[AuditEvent, ...]]:
        is_same = (resting.code, resting.waits) == (left.code, left.approvals)
        tries = resting.tries + 1 if is_same else 0
        resting = replace(resting, tries=tries, code=left.code, waits=left.approvals)
        seconds = await self._patience(resting, run, left, tries)
        event = self._event(EventKind.RUN_WAITS, resting, take, detail=left.code)
        rest = self._rest(resting, take, code=left.code, waits=left.approvals, after=seconds)
        return rest, () if is_same else (event,)

    async def _patience(self, resting: Resting, run: Run, left: Left, tries: int) -> float:
        """Until the question runs out, the run's deadline, or the next look; an answer makes the run due before."""
        now = await self._around.store.now()
        ends = [now + timedelta(seconds=_LONGEST_WAIT_SECONDS)]
        deadline = None if run.limits is None else run.limits.deadline
        if deadline is not None and deadline > now:  # past it, only what a failure exit does is waited for
            ends.append(deadline)
        if not left.approvals:
            ends.append(now + timedelta(seconds=left.after_seconds or rules.pause_seconds(tries)))
        for approval_id in left.approvals:
            try:
                ends.append((await self._gate.questions.show(approval_id, by=resting.principal)).decide_by)
            except NotFound:
                ends.append(now + timedelta(seconds=rules.pause_seconds(tries)))
        return max(0.0, (min(ends) - now).total_seconds())

    def _upgraded(
        self, definition: Workflow, resting: Resting, row: RunCheckpoint, take: RunTake
    ) -> tuple[RunRest, tuple[AuditEvent, ...]]:
        """Into this version of the workflow, with its tools; the step is done after that."""
        more = (f"from:{row.state}", f"from_version:{row.version}")
        moved = self._event(EventKind.RUN_MOVED, resting, take, detail=resting.state, more=more)
        rest = self._rest(resting, take, code=None, waits=(), after=0.0)
        return replace(rest, workflow_tools=definition.tools), (moved,)

    def _gone(
        self, definition: Workflow, resting: Resting, goes: Goes, take: RunTake
    ) -> tuple[RunRest, tuple[AuditEvent, ...]]:
        """Into the next state; into the failure exit instead, where the run has entered too many."""
        at = definition.state(resting.state)
        is_full = resting.entries >= definition.max_entries and goes.code is None and isinstance(goes.state, State)
        if is_full and isinstance(at, State):
            goes = rules.fails(definition, at, "too_many_states")
        state = goes.state
        visits = resting.visits | {state.name: resting.visits.get(state.name, 0) + 1}
        reached = replace(
            resting,
            version=definition.version,
            shape=rules.shape_of(definition),
            state=state.name,
            visits=visits,
            inputs=goes.inputs,
            then=None,
            waits=(),
            tries=0,
            code=goes.code,
        )
        moved = self._event(EventKind.RUN_MOVED, reached, take, detail=state.name, more=(f"from:{resting.state}",))
        if isinstance(state, State):
            return self._rest(reached, take, code=None, waits=(), after=0.0), (moved,)
        status = RunStatus.FAILED if state.is_failure else RunStatus.DONE
        reached = replace(reached, code=_failure_code(state, goes))
        ended = self._event(EventKind.RUN_ENDED, reached, take, detail=reached.code or status.value)
        rest = self._rest(reached, take, code=reached.code, waits=(), after=None)
        return replace(rest, ends=status), (moved, ended)

    def unmoved(
        self, row: RunCheckpoint, take: RunTake, code: str | None, *, after: float = POSTPONED_SECONDS
    ) -> RunRest:
        return RunRest(
            tenant=row.tenant,
            run_id=row.run_id,
            driver=take.driver,
            fence=row.fence,
            version=row.version,
            state=row.state,
            visit=row.visit,
            sealed=row.sealed,
            code=code,
            waits=(),  # one that is answered by now would have it looked at again at once
            policy_version=row.policy_version,
            due_after_seconds=after,
        )

    def _rest(
        self, resting: Resting, take: RunTake, *, code: str | None, waits: tuple[ApprovalId, ...], after: float | None
    ) -> RunRest:
        return RunRest(
            tenant=take.tenant,
            run_id=take.run_id,
            driver=take.driver,
            fence=0,
            version=resting.version,
            state=resting.state,
            visit=resting.visit,
            sealed=checkpoints.seal(resting, self._around.keys, tenant=take.tenant, run_id=take.run_id),
            code=code,
            waits=waits,
            policy_version=resting.under or UNKNOWN_POLICY,
            due_after_seconds=after,
        )

    def _event(
        self, kind: EventKind, resting: Resting, take: RunTake, *, detail: str, more: tuple[str, ...] = ()
    ) -> AuditEvent:
        chronicle = self._around.chronicle
        facts = chronicle.of_principal(resting.principal) | {"run_id": take.run_id}
        about = (f"workflow:{resting.workflow}", f"version:{resting.version}", f"visit:{resting.visit}", *more)
        return chronicle.event(kind, facts, detail=detail, reasons=about, model_suggested=False)


def _under(resting: Resting, policy: PolicyVersion | None) -> Resting:
    """Under the policy as it is before anything is asked: a question of one that it becomes meanwhile is asked anew."""
    if policy is None:  # one that cannot be told came after none
        return replace(resting, under=None)
    return replace(resting, under=policy, policies=with_policy(resting.policies, policy))


async def _said(by_now: PrincipalOf, was: Principal) -> object:
    """What somebody's directory says, whatever it raises; its text stays here."""
    try:
        return await by_now(was)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:
        _log.warning("the principal of a run cannot be looked up", extra=told(fault))
        return _NO_ANSWER


def _who(principal: Principal) -> tuple[str, str, Standing]:
    return principal.tenant, principal.identity, principal.standing


def _is_of_this(definition: Workflow, resting: Resting) -> bool:
    """Whether it rests in a state of this very definition, with an input that this state takes."""
    at = definition.state(resting.state)
    if resting.shape != rules.shape_of(definition) or at is None:
        return False
    try:
        step_inputs.read(at.inputs, resting.inputs)
    except step_inputs.InputBroken:
        return False
    return True


def _upgraded(definition: Workflow, resting: Resting, upgrade: model.Upgrade) -> Resting | None:
    """Where an older version's rest is in this one; None where the upgrade says nothing that can be gone on with."""
    try:
        reached = upgrade(model.Resting(state=resting.state, inputs=resting.inputs))
        target = definition.state(reached.state)
        if not isinstance(target, State):
            return None
        step_inputs.read(target.inputs, reached.inputs)
    except KeyboardInterrupt:
        raise
    except BaseException as fault:  # a user's function, whatever it raises; its text stays here
        _log.warning("an upgrade raised", extra={"workflow": definition.name, **told(fault)})
        return None
    is_same = reached.state == resting.state
    visits = resting.visits if is_same else resting.visits | {target.name: resting.visits.get(target.name, 0) + 1}
    return replace(
        resting,
        version=definition.version,
        shape=rules.shape_of(definition),
        state=target.name,
        visits=visits,
        inputs=reached.inputs,
        then=None,
        waits=(),
    )


def _failure_code(state: End[Any], goes: Goes) -> str | None:
    if goes.code is not None or not state.is_failure:
        return goes.code if state.is_failure else None
    code = goes.inputs.get("code") if isinstance(goes.inputs, dict) else None
    return code if type(code) is str and model.is_code(code) else "failed"
