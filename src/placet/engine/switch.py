"""The stop switch: an operator halts a tool, an upstream, a tenant, a run or everything, and lifts it again.

Every claim, every further attempt and every read that begins looks for stops in its own transaction, and a stop is a
transaction of the same store: whatever was there before it is through when it returns, and nothing of its scope is
dispatched after it. What was claimed before goes on; the report names it. Asking, approving, refusing, reconciling and
looking go on meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.engine.chronicle import NOBODY, Chronicle
from placet.engine.results import row_binding
from placet.errors import DecisionRefused, KeyMaterialError, MisuseError, NotFound, StoreError
from placet.model.audit import AuditEvent, EventKind
from placet.model.effect import Effect, EffectState
from placet.model.exact import MOST_LISTED
from placet.model.principal import Principal, Standing, is_principal
from placet.model.stopping import (
    StopKind,
    StopLeave,
    StopNote,
    StopRecord,
    StopScope,
    is_stop_scope,
    scope_of_key,
)
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import stopping
from placet.rules.decoding import LONE_SURROGATE

MAX_REASON_CHARACTERS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningEffect:
    """An effect of a stopped scope that was claimed before the stop and has not ended. It may still act.

    Attributes:
        age_seconds: since its attempt was claimed, by the store's clock.
    """

    tenant: str
    tool: str
    run_id: str
    age_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StopReport:
    """What a stop left running. Plain reads have no ledger row and are not among it; they change nothing.

    Attributes:
        running_count: effects of the scope that were claimed before the stop and had not ended when it took hold.
        running: those of them that have not ended since, the newest first, at most 10,000; none where the store could
            not list them.
    """

    scope: StopScope
    running_count: int
    running: tuple[RunningEffect, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StopView:
    """A stop in force, as one person may see it.

    Attributes:
        stopped_by: None where that is not for this person to know, or nobody left a note.
        reason: free text of whoever stopped, for those who may lift it; None if there is none, or its key is gone.
        lifted_with: the leave it needs.
        may_lift: whether this person has it.
    """

    scope: StopScope
    stopped_at: datetime
    stopped_by: str | None
    reason: str | None
    lifted_with: StopLeave
    may_lift: bool


class Switch:
    """Stops and resumes. Needs a person's own sign-in; an agent never has a say in it."""

    def __init__(self, *, store: Store, keys: Keys, chronicle: Chronicle) -> None:
        self._store = store
        self._keys = keys
        self._chronicle = chronicle

    @paying
    async def stop(self, scope: StopScope | str, *, by: Principal, reason: str = "") -> StopReport:
        """Halt a scope until it is resumed. When this returns, nothing of it is dispatched any more.

        A second stop of the same scope changes nothing, unless it is given with more leave.

        Args:
            scope: a `StopScope`, or `all`, `tenant`, `tool:NAME`, `upstream:NAME`, `run:ID` of the person's own
                tenant, `tenant:NAME`.
            by: a person with `ops.stop` for its own tenant, with `ops.stop.all` for everything else.
            reason: free text of at most 500 characters for those who may lift it; it is kept encrypted.

        Raises:
            MisuseError: an argument is not of its kind; nothing was stopped.
            DecisionRefused: not a person, or without the scope; `code` says which. It is on record.
            StoreError: nothing was stopped, or, in doubt, it may be: stop again.
        """
        wanted = self._scope(scope, by)
        is_text = type(reason) is str and LONE_SURROGATE.search(reason) is None and "\x00" not in reason
        if not is_text or len(reason) > MAX_REASON_CHARACTERS:
            raise MisuseError(f"reason= is text of at most {MAX_REASON_CHARACTERS} characters.")
        leave = await self._leave(wanted, by, stopping.leave_to_stop(by, wanted))
        sealed = self._keys.seal(reason.encode(), bound_to=_binding(wanted)) if reason else None
        note = StopNote(subject=by.subject, tenant=by.tenant, leave=leave, sealed_reason=sealed)
        event = self._event(EventKind.STOPPED, wanted, by, leave)
        count = await self._store.stop(wanted.key, (event,), note=note)
        try:
            running = await self._running(wanted) if count else ()
        except StoreError:  # it is stopped, and whoever stops has to hear that
            running = ()
        return StopReport(scope=wanted, running_count=count, running=running)

    @paying
    async def resume(self, scope: StopScope | str, *, by: Principal) -> None:
        """Lift a stop. Only this one: another that halts the same calls stays.

        Raises:
            MisuseError: an argument is not of its kind; nothing was lifted.
            NotFound: this scope is not stopped.
            DecisionRefused: not a person, without the scope, or stopped with more leave than this person has.
        """
        wanted = self._scope(scope, by)
        leave = await self._leave(wanted, by, stopping.leave_to_resume(by, wanted))
        event = self._event(EventKind.RESUMED, wanted, by, leave)
        if await self._store.resume(wanted.key, (event,), leave=leave):
            return
        if wanted.key not in await self._store.stops():
            raise NotFound("This scope is not stopped.", hint="placet stop --list shows what is.")
        raise await self._refusal(by, wanted, "stopped_with_more_leave")

    @paying
    async def stops(self, *, by: Principal) -> tuple[StopView, ...]:
        """The stops in force that halt anything of the person's tenant, the oldest first; with `ops.stop.all`, all.

        Quarantines are no stops: they are told beside what is accepted of a tool.

        Raises:
            MisuseError: `by` is not a principal.
            DecisionRefused: not a person.
        """
        _require_principal(by)
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, None, "not_a_person")
        found = [(scope_of_key(record.scope), record) for record in await self._store.stop_records()]
        return tuple(
            self._view(scope, record, by)
            for scope, record in found
            if scope is not None and scope.kind is not StopKind.QUARANTINE and stopping.may_see(by, scope)
        )

    # ------------------------------------------------------------ within

    def _scope(self, scope: StopScope | str, by: Principal) -> StopScope:
        _require_principal(by)
        return stopping.require_liftable(scope) if is_stop_scope(scope) else stopping.scope_of_words(scope, by)

    async def _leave(self, scope: StopScope, by: Principal, leave: StopLeave | None) -> StopLeave:
        """Refused before anything was looked up, so that nobody learns which tenants, tools or runs there are."""
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, scope, "not_a_person")
        if leave is None:
            raise await self._refusal(by, scope, "scope_missing")
        return leave

    async def _refusal(self, by: Principal, scope: StopScope | None, code: str) -> DecisionRefused:
        facts = self._chronicle.of_principal(by)
        kind = (scope.kind.value,) if scope is not None else ()
        event = self._chronicle.event(
            EventKind.STOP_REFUSED, facts, detail=code, reasons=kind, decided_by=by.subject, model_suggested=False
        )
        await self._store.record((event,))
        is_own = code == "scope_missing" and scope is not None and scope.tenant == by.tenant
        needed = stopping.STOP_SCOPE if is_own else stopping.STOP_ALL_SCOPE
        hint = "" if code == "not_a_person" else f"Somebody with the scope {needed} has to do it."
        return DecisionRefused(_REFUSALS[code].format(scope=needed), code=code, hint=hint)

    def _event(self, kind: EventKind, scope: StopScope, by: Principal, leave: StopLeave) -> AuditEvent:
        """In the audit of the tenant that is halted; in that of none where it is every tenant."""
        facts = self._chronicle.of_store(by.subject) | {"tenant": scope.tenant or NOBODY}
        if scope.kind is StopKind.TOOL:
            facts["tool"] = scope.name
        if scope.kind is StopKind.RUN:
            facts["run_id"] = scope.name
        named = (f"upstream:{scope.name}",) if scope.kind is StopKind.UPSTREAM else ()
        return self._chronicle.event(
            kind,
            facts,
            detail=scope.kind.value,
            reasons=(f"leave:{leave.value}", *named),
            decided_by=by.subject,
            model_suggested=False,
        )

    async def _running(self, scope: StopScope) -> tuple[RunningEffect, ...]:
        found = await self._store.effects(tenant=scope.tenant, states=(EffectState.DISPATCHED,), limit=MOST_LISTED)
        now = await self._store.now()
        return tuple(
            RunningEffect(
                tenant=effect.tenant,
                tool=effect.tool,
                run_id=effect.run_id,
                age_seconds=max(0.0, (now - effect.updated_at).total_seconds()),
            )
            for effect in found
            if isinstance(effect, Effect)
            and scope.holds_for(tenant=effect.tenant, tool=effect.tool, run_id=effect.run_id)
        )

    def _view(self, scope: StopScope, record: StopRecord, by: Principal) -> StopView:
        note = record.note
        given_with = note.leave if note is not None else StopLeave.DEPLOYMENT
        may_lift = stopping.may_lift(by, scope, given_with)
        is_known = note is not None and (may_lift or note.tenant == by.tenant)
        return StopView(
            scope=scope,
            stopped_at=record.stopped_at,
            stopped_by=note.subject if note is not None and is_known else None,
            reason=self._reason(scope, note) if note is not None and may_lift else None,
            lifted_with=given_with,
            may_lift=may_lift,
        )

    def _reason(self, scope: StopScope, note: StopNote) -> str | None:
        if note.sealed_reason is None:
            return None
        try:
            return self._keys.unseal(note.sealed_reason, bound_to=_binding(scope)).decode()
        except (KeyMaterialError, UnicodeDecodeError):
            return None


def _binding(scope: StopScope) -> bytes:
    return row_binding("", scope.key, "stop_reason")


def _require_principal(by: object) -> None:
    if not is_principal(by):
        raise MisuseError("by= is the signed-in Principal.")


_REFUSALS = {
    "not_a_person": "Only a person's own sign-in stops and resumes.",
    "scope_missing": "This needs the scope {scope}.",
    "stopped_with_more_leave": "It was stopped for the whole deployment's sake; lifting it needs the scope {scope}.",
}
