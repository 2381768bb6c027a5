"""Workflows driven step by step, each step between two durable checkpoints, by any driver.

    advance:  take (lease, fence) ── step ── rest (checkpoint, events, lease let go)
                │                     │        └─ somebody else has it: nothing of the step is written
                │                     └─ its calls go through the gate, and are in the ledger whatever becomes of us
                └─ another driver has it, it is over or paused, or no definition fits: nothing is done

A resumed step never infers from its checkpoint what was done: it proposes its calls again under the same ids, and the
ledger answers. So a driver may die anywhere, and a wake-up, whoever made it, is nothing but an `advance`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from placet.engine import checkpoints
from placet.engine.checkpoints import Resting
from placet.engine.gate import Gate
from placet.engine.moves import POSTPONED_SECONDS, UNKNOWN_POLICY, Moves, PrincipalOf
from placet.engine.precedence import Patience, Precedence
from placet.errors import MisuseError, NotFound, RunConflict
from placet.model.identifiers import OwnerId, PolicyVersion, RunId
from placet.model.json import JsonValue
from placet.model.principal import Principal, is_principal
from placet.model.progress import Busy, Ended, Progress, Ready, Unserved, Waiting
from placet.model.run import Run, RunCheckpoint, RunLimits, RunRest, RunStatus, RunTake
from placet.model.workflow import End, Workflow
from placet.rules import workflows as rules
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts import step_inputs

_WAKES_FIRST_SECONDS: Final = 30.0
_WAKES_SECONDS: Final = 60.0
_WAKES_LONGEST_SECONDS: Final = 3_600.0
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Workflows:
    """Definitions on one gate. The same definitions, on a gate of the same store, go on with each other's runs."""

    def __init__(self, gate: Gate, definitions: Iterable[Workflow], *, principal_of: PrincipalOf | None = None) -> None:
        """
        Raises:
            MisuseError: two definitions have one name.
        """
        self._gate = gate
        self._around = gate.runs.around
        self._definitions: dict[str, Workflow] = {}
        for definition in definitions:
            if type(definition) is not Workflow or definition.name in self._definitions:
                raise MisuseError("Each workflow is a Workflow with a name of its own.")
            self._definitions[definition.name] = definition
        self._moves = Moves(gate, self._definitions, principal_of=principal_of)
        self._precedence = Precedence(self._around.clock)
        self._woken_for: PolicyVersion | None = None
        self._wakes, self._wakes_at = 0, 0.0

    @property
    def gate(self) -> Gate:
        return self._gate

    def definition(self, name: str) -> Workflow | None:
        return self._definitions.get(name)

    # ------------------------------------------------------------ begin, look

    async def start(
        self,
        workflow: str,
        *,
        run: str,
        inputs: object,
        principal: Principal,
        limits: RunLimits | None = None,
    ) -> Progress:
        """Begin a run in the workflow's first state; nothing of it is done yet.

        Starting the same once more, at once or later, starts nothing, and tells how far it has come.

        Args:
            limits: what it may spend. It has the definition's tools, or those of them that `limits` allows.

        Raises:
            RunConflict: a run of this name was begun otherwise.
            MisuseError: there is no such workflow, or `inputs` is not what its first state takes.
        """
        definition = self._definitions.get(workflow)
        if definition is None or not is_principal(principal):
            raise MisuseError("There is no such workflow here, or principal= is no Principal.")
        first = definition.state(definition.start)
        assert first is not None  # noqa: S101 - the definition was checked
        try:
            plain = step_inputs.written(first.inputs, inputs)
        except step_inputs.InputBroken:
            plain = None
            is_broken = True
        else:
            is_broken = False
        if is_broken:
            raise MisuseError(f"inputs= is not what {first.name} takes.")
        declared = limits or RunLimits()
        limits = replace(declared, workflow_tools=definition.tools)
        resting = Resting(
            workflow=definition.name,
            version=definition.version,
            shape=rules.shape_of(definition),
            state=first.name,
            visits={first.name: 1},
            inputs=plain,
            principal=principal,
            origin=_origin(definition.name, plain, declared),
            policies=() if self._gate.policy_version is None else (self._gate.policy_version,),
            voucher=await self._moves.voucher_of(principal),
        )
        row = self._first_row(resting, run)
        await self._gate.runs.begin_resting(run, by=principal, limits=limits, start=row)
        found, rests = await self._rows(principal.tenant, RunId(run))
        known = checkpoints.unseal(rests, self._around.keys) if rests is not None else None
        if rests is None or (known is not None and known.origin != resting.origin):
            raise RunConflict("A run of this name is there, and was not begun so.")
        return self._progress(found, rests, await self._around.store.now())

    async def look(self, tenant: str, run: str) -> Progress:
        """How far it has come; changes nothing.

        Raises:
            NotFound: there is no such run of a workflow.
        """
        found, rests = await self._rows(tenant, RunId(run))
        if rests is None:
            raise NotFound("There is no such run of a workflow.")
        return self._progress(found, rests, await self._around.store.now())

    async def result(self, tenant: str, run: str) -> object:
        """What the end that the run has come to was given, as the type that the end declares.

        Raises:
            NotFound: there is no such run of a workflow; or it has come to no end, or none that can be read here.
        """
        _, rests = await self._rows(tenant, RunId(run))
        found = None if rests is None else self._moves.read(rests)
        if isinstance(found, tuple):
            definition, resting = found
            end = definition.state(resting.state)
            if isinstance(end, End):
                with suppress(step_inputs.InputBroken):
                    return step_inputs.read(end.inputs, resting.inputs)
        raise NotFound("There is no such run of a workflow, or it has come to no end that can be read here.")

    async def due(self, *, limit: int = 100) -> tuple[tuple[str, str], ...]:
        """Tenants and names of runs at which somebody has to look now, the longest due first."""
        return tuple((tenant, str(run)) for tenant, run in await self._around.store.due_runs(limit=limit))

    async def waiting(self, *, after: tuple[str, str] | None = None, limit: int = 100) -> tuple[Progress, ...]:
        """Runs that are not over and nobody drives, by tenant and name, after that one."""
        mark = None if after is None else (after[0], RunId(after[1]))
        now = await self._around.store.now()
        found = await self._around.store.waiting_runs(after=mark, limit=limit)
        return tuple(_of_row(row, now) for row in found)

    async def ask_anew(self) -> None:
        """Wake what waits for the answer to a question of another policy: nobody can give one that counts any more.

        Looked for when the policy here has changed, and again and again, since a process that still has the older one
        may lay runs down for as long as it is there; less and less often by one that has met a newer policy than its
        own. Two processes that keep two policies do not have people asked in turns: see `Precedence`. What nobody here
        can go on with is left to those who can: they may have a policy of their own, for good.
        """
        policy, now = self._gate.policy_version, self._around.clock.monotonic()
        if policy is None:
            return
        if policy != self._woken_for:
            self._woken_for, self._wakes, self._wakes_at = policy, 0, now
        if now >= self._wakes_at:
            served = [(each.name, version) for each in self._definitions.values() for version in _versions_of(each)]
            await self._around.store.wake_runs(policy, of=served)
            seconds = self._wakes_after_seconds()
            self._wakes = self._wakes + 1 if self._precedence.has_met_a_newer else 1
            self._wakes_at = now + seconds

    def _wakes_after_seconds(self) -> float:
        if self._wakes == 0:
            return _WAKES_FIRST_SECONDS
        if not self._precedence.has_met_a_newer:
            return _WAKES_SECONDS
        return min(_WAKES_LONGEST_SECONDS, 5.0 * _WAKES_SECONDS * 2.0 ** min(16, self._wakes - 1))

    # ------------------------------------------------------------ advance

    async def advance(self, tenant: str, run: str, *, expecting: int | None = None) -> Progress:
        """Do at most one step of the run, and lay it down. Asked again, twice at once or in vain, it does no harm.

        Args:
            expecting: the `state_version` whose step is meant; if it was done already, nothing is.

        Raises:
            NotFound: there is no such run of a workflow.
            StoreError: the step may be done; nothing of the checkpoint is, or, in doubt, all of it.
            asyncio.CancelledError: the run is taken until its lease is over, and then goes on.
        """
        store, run_id = self._around.store, RunId(run)
        found, rests = await self._rows(tenant, run_id)
        if rests is None:
            raise NotFound("There is no such run of a workflow.")
        if found.status.is_over:
            return await self._over(found, rests)
        served = self._moves.served(rests)
        if isinstance(served, str):
            return self._progress(found, rests, await store.now(), unserved=served)
        now = await store.now()
        if (patience := self._left_to_others(rests, served[1], now)) is not None:
            if patience.is_noted_in_the_row:
                await self._lay_aside(rests, rests.code, patience.seconds)
            return Busy(**_names_of(rests), retry_after_seconds=patience.seconds)
        if self._waits_for_a_person(rests, now):
            return self._progress(found, rests, now)
        take = RunTake(
            tenant=tenant,
            run_id=run_id,
            driver=OwnerId(self._around.ids.new_id("driver")),
            lease_seconds=self._around.settings.lease_seconds,
            expecting=expecting,
        )
        taken = await store.take_run(take)
        if taken is None or taken.driver != take.driver:
            return await self.look(tenant, run)
        with self._around.driven.step(take, taken.fence):
            rest, events = await self._moves.step(found, taken, take)
        rest = replace(rest, fence=taken.fence)
        closing = (
            () if rest.ends is None else await self._gate.runs.questions_to_close(replace(found, status=rest.ends))
        )
        laid_down = await store.rest_run(rest, events=events, closing=closing)
        if laid_down is None:
            return await self._not_laid_down(taken)
        return await self._after(found, laid_down, rest)

    async def _not_laid_down(self, taken: RunCheckpoint) -> Progress:
        """Another driver has it, which is counted; or it was paused or cancelled while its step was under way."""
        run, rests = await self._rows(taken.tenant, taken.run_id)
        if rests is not None and rests.fence != taken.fence:
            self._around.meter.run_write_refused()
        return self._progress(run, rests or taken, await self._around.store.now())

    async def postpone(self, progress: Unserved) -> None:
        """Note why nobody here goes on with it, and have it looked at again in a while; whoever can goes on before."""
        await self._lay_aside(progress, progress.code, POSTPONED_SECONDS)

    async def _lay_aside(self, of: Unserved | RunCheckpoint, code: str | None, seconds: float) -> None:
        take = RunTake(
            tenant=of.tenant,
            run_id=RunId(of.run_id),
            driver=OwnerId(self._around.ids.new_id("driver")),
            lease_seconds=self._around.settings.lease_seconds,
            expecting=of.state_version,
        )
        taken = await self._around.store.take_run(take)
        if taken is not None and taken.driver == take.driver:
            await self._around.store.rest_run(self._moves.unmoved(taken, take, code, after=seconds), events=())

    async def _over(self, run: Run, row: RunCheckpoint) -> Progress:
        """Nobody is asked any more about what nobody will do. What was asked before its end was closed with it; this
        finds what somebody else asked at that very moment, or what was left of very many."""
        await self._gate.runs.withdraw_questions(run)
        return self._progress(run, row, _EPOCH)

    async def _after(self, run: Run, row: RunCheckpoint, rest: RunRest) -> Progress:
        if rest.ends is not None:
            return await self._over(replace(run, status=rest.ends), row)
        if rest.code is None:  # no clock is needed to say so
            return self._progress(run, row, _EPOCH)
        return self._progress(run, row, await self._around.store.now())

    # ------------------------------------------------------------ small things

    def _waits_for_a_person(self, row: RunCheckpoint, now: datetime) -> bool:
        """Whether nothing has happened that its step waits for: an answer makes it due, in its own transaction.

        Then whoever wakes it, and however often, costs a look, and no step.
        """
        is_early = row.due_at is not None and row.due_at > now
        is_of_now = row.policy_version == (self._gate.policy_version or UNKNOWN_POLICY)
        return bool(row.waits) and row.driver is None and is_early and is_of_now

    def _left_to_others(self, row: RunCheckpoint, resting: Resting, now: datetime) -> Patience | None:
        """How long those who have its policy, which came after the one here, are to go on with it."""
        mine = self._gate.policy_version
        is_held = row.lease_until is not None and row.lease_until > now
        if mine is None or is_held:  # whoever holds it is waited for anyhow; once that is dead, for others of its kind
            return None
        is_due = row.due_at is not None and row.due_at <= now
        return self._precedence.patience(row, resting, mine, is_due=is_due)

    def _first_row(self, resting: Resting, run: str) -> RunCheckpoint:
        tenant = resting.principal.tenant
        return RunCheckpoint(
            tenant=tenant,
            run_id=RunId(run),
            workflow=resting.workflow,
            version=resting.version,
            state=resting.state,
            visit=1,
            sealed=checkpoints.seal(resting, self._around.keys, tenant=tenant, run_id=run),
            state_version=1,
            driver=None,
            lease_until=None,
            fence=0,
            due_at=_EPOCH,
            code=None,
            waits=(),
            policy_version=self._gate.policy_version or UNKNOWN_POLICY,
        )

    async def _rows(self, tenant: str, run_id: RunId) -> tuple[Run, RunCheckpoint | None]:
        store = self._around.store
        found, rests = await store.run(tenant, run_id), await store.run_checkpoint(tenant, run_id)
        if found is None:
            raise NotFound("There is no such run of a workflow.")
        return found, rests

    def _progress(self, run: Run, row: RunCheckpoint, now: datetime, *, unserved: str | None = None) -> Progress:
        names = _names_of(row)
        if run.status.is_over:
            return Ended(**names, status=run.status.value, code=row.code)
        if run.status is RunStatus.PAUSED:
            return Unserved(**names, code="paused")
        if unserved is not None:
            return Unserved(**names, code=unserved)
        return _of_row(row, now)


def _of_row(row: RunCheckpoint, now: datetime) -> Progress:
    names = _names_of(row)
    if row.driver is not None and row.lease_until is not None and row.lease_until > now:
        return Busy(**names, retry_after_seconds=(row.lease_until - now).total_seconds())
    if row.code is None or row.due_at is None or row.due_at <= now:
        return Ready(**names)
    seconds = (row.due_at - now).total_seconds()
    return Waiting(**names, code=row.code, approvals=tuple(row.waits), check_after_seconds=seconds)


def _names_of(row: RunCheckpoint) -> dict[str, Any]:
    return {
        "tenant": row.tenant,
        "run_id": str(row.run_id),
        "workflow": row.workflow,
        "version": row.version,
        "state": row.state,
        "visit": row.visit,
        "state_version": row.state_version,
    }


def _versions_of(definition: Workflow) -> tuple[str, ...]:
    """Those of a workflow in which a run may rest that goes on here."""
    return definition.version, *definition.accepts


def _origin(workflow: str, inputs: JsonValue, declared: RunLimits) -> str:
    """What a run was begun with, whatever became of its limits or of the definition since."""
    deadline, tools = declared.deadline, declared.allowed_tools
    form: JsonValue = [
        workflow,
        inputs,
        declared.max_steps,
        declared.max_attempts,
        None if deadline is None else deadline.astimezone(UTC).isoformat(),
        None if tools is None else list[JsonValue](sorted(tools)),
        dict(declared.per_tool),
        declared.max_cost,
        dict(declared.costs),
    ]
    return hashlib.sha256(canonical_bytes(form)).hexdigest()
