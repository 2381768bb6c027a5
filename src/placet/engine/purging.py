"""On whose word what is old is forgotten, and what is held against that. What one round does is in `forgetting`.

Source: DESIGN sections 10, 14; ADR-0031.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import timedelta

from placet.engine.chronicle import Chronicle
from placet.engine.forgetting import Forgetting, PurgeReport
from placet.engine.registry import Registry
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.audit import AuditEvent, EventKind
from placet.model.principal import Principal, Standing, is_principal
from placet.model.retention import ALL_SCOPE, FinishedKind, Hold, Kept, OldRows, Retention, is_hold_scope
from placet.ports.keys import Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import retention as rules
from placet.rules.chains import Linker

_log = logging.getLogger("placet.purging")

_ROUND_ROWS = 2_000
"""How many rows of a kind one round of a worker forgets; the next round goes on."""
BY_RETENTION = "retention"
"""Whose word a round goes by that nobody asked for: the settings'."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldKind:
    """What is old enough to be forgotten of one kind. `tenant` and `tool` are those of operations, None for the rest.

    Attributes:
        retention_seconds: what was counted by.
        is_left: operations of a tool that is not registered here, whose contract may keep them longer.
    """

    kept: Kept
    tenant: str | None
    tool: str | None
    retention_seconds: float
    rows: OldRows
    is_left: bool = False


class Purger:
    """Looks after the age of one store. `retention` is what its own rounds go by."""

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        linker: Linker,
        chronicle: Chronicle,
        registry: Registry,
        retention: Retention,
    ) -> None:
        self._store = store
        self._keys = keys
        self._linker = linker
        self._chronicle = chronicle
        self._registry = registry
        self._retention = retention

    # ------------------------------------------------------------ purging

    @paying
    async def purge_round(self) -> PurgeReport:
        """One bounded round by the settings; nothing where they keep everything.

        Raises:
            StoreError: the store did not serve; what was forgotten before stays forgotten.
        """
        return await self._purged(self._retention, BY_RETENTION, most=_ROUND_ROWS, is_everything=False)

    @paying
    async def purge(self, retention: Retention, *, by: Principal, includes_unregistered: bool = False) -> PurgeReport:
        """Everything that is old enough, on a person's word.

        Args:
            retention: for contracts that have none of their own.
            by: a person with `ops.purge`, which reaches every tenant of the store.
            includes_unregistered: whether operations of tools that are not registered here go by it too.

        Raises:
            MisuseError: an argument is not of its kind; nothing was forgotten.
            DecisionRefused: not a person, or without the scope; `code` says which. It is on record.
            StoreError: the store did not serve; what was forgotten before stays forgotten.
        """
        await self._require(by, rules.PURGE_SCOPE)
        return await self._purged(_sound(retention), by.subject, most=None, is_everything=includes_unregistered is True)

    @paying
    async def old(self, retention: Retention, *, by: Principal) -> tuple[OldKind, ...]:
        """What `purge` would look at, counted; it may leave some of it. Nothing is changed.

        Raises:
            MisuseError, DecisionRefused: as `purge`.
        """
        await self._require(by, rules.PURGE_SCOPE)
        now, found = await self._store.now(), list[OldKind]()
        for kind in await self._store.finished_kinds():
            seconds, is_known = self._seconds_of(kind, _sound(retention))
            if seconds is not None:
                before = now - timedelta(seconds=seconds)
                rows = await self._store.old_rows(Kept.OPERATIONS, before=before, kind=kind)
                found.append(
                    OldKind(
                        kept=Kept.OPERATIONS,
                        tenant=kind.tenant,
                        tool=kind.tool,
                        retention_seconds=seconds,
                        rows=rows,
                        is_left=not is_known,
                    )
                )
        for kept in (Kept.RUNS, Kept.APPROVALS, Kept.TOKENS, Kept.API_KEYS, Kept.EVENTS):
            seconds = retention.audit_seconds if kept is Kept.EVENTS else retention.seconds
            if seconds is not None:
                rows = await self._store.old_rows(kept, before=now - timedelta(seconds=seconds))
                found.append(OldKind(kept=kept, tenant=None, tool=None, retention_seconds=seconds, rows=rows))
        return tuple(found)

    # ------------------------------------------------------------ holds

    @paying
    async def hold(self, scope: str, *, by: Principal) -> bool:
        """Keep everything (`all`) or what is one tenant's (`tenant:NAME`), however old, until the hold is lifted.

        When this returns, nothing of the scope is forgotten any more. False if it was held already.

        Raises:
            MisuseError: the scope means nothing; nothing was held.
            DecisionRefused: not a person, or without `ops.hold`. It is on record.
        """
        await self._require(by, rules.HOLD_SCOPE)
        hold = Hold(scope=_scope(scope), held_by=by.subject, held_at=await self._store.now())
        return await self._store.hold(hold, events=(self._hold_event(EventKind.HOLD_SET, scope, by),))

    @paying
    async def lift(self, scope: str, *, by: Principal) -> None:
        """Lift a hold. Only this one: another that covers the same things stays. Raises what `hold` raises.

        Raises:
            NotFound: this scope is not held.
        """
        await self._require(by, rules.HOLD_SCOPE)
        event = self._hold_event(EventKind.HOLD_LIFTED, _scope(scope), by)
        if not await self._store.lift(scope, events=(event,)):
            raise NotFound("This scope is not held.", hint="placet holds list shows what is.")

    @paying
    async def holds(self, *, by: Principal) -> tuple[Hold, ...]:
        """The holds in force, the oldest first, for whoever may set them or purge. Raises what `hold` raises."""
        _require_principal(by)
        await self._require(by, rules.PURGE_SCOPE if rules.PURGE_SCOPE in by.scopes else rules.HOLD_SCOPE)
        return await self._store.holds()

    # ------------------------------------------------------------ within

    async def _purged(self, retention: Retention, word: str, *, most: int | None, is_everything: bool) -> PurgeReport:
        """Operations, then runs, then the approvals that stood for those runs, then the rest."""
        work = Forgetting(
            store=self._store,
            keys=self._keys,
            linker=self._linker,
            chronicle=self._chronicle,
            word=word,
            now=await self._store.now(),
            heads=await self._store.heads() if retention.audit_seconds is not None else (),
            most=most,
        )
        for kind in await self._store.finished_kinds():
            seconds, is_known = self._seconds_of(kind, retention)
            if seconds is not None and (is_known or is_everything):
                await work.operations(kind, seconds)
        if retention.seconds is not None:
            await work.runs(retention.seconds)
            await work.approvals(retention.seconds)
            await work.tokens(retention.seconds)
            await work.api_keys(retention.seconds)
        if retention.audit_seconds is not None:
            await work.events(retention.audit_seconds)
        report = work.report()
        if report.is_audit_waiting:
            _log.warning("the audit was not cut: events wait to be chained")
        return report

    def _seconds_of(self, kind: FinishedKind, retention: Retention) -> tuple[float | None, bool]:
        """How long operations of a kind are kept, and whether their contract is here to say so."""
        tool = self._registry.tools.get(kind.tool)
        if tool is None:
            return retention.seconds, False
        own = tool.contract.retention_seconds
        return (own if own is not None else retention.seconds), True

    async def _require(self, by: Principal, scope: str) -> None:
        _require_principal(by)
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, "not_a_person", "Only a person's own sign-in purges, holds and lifts.")
        if scope not in by.scopes:
            raise await self._refusal(by, "scope_missing", f"This needs the scope {scope}.")

    async def _refusal(self, by: Principal, code: str, message: str) -> DecisionRefused:
        facts = self._chronicle.of_principal(by)
        event = self._chronicle.event(
            EventKind.PURGE_REFUSED, facts, detail=code, decided_by=by.subject, model_suggested=False
        )
        await self._store.record((event,))
        return DecisionRefused(message, code=code)

    def _hold_event(self, kind: EventKind, scope: str, by: Principal) -> AuditEvent:
        """In the audit of the tenant that is held; in that of none where everything is."""
        facts = self._chronicle.of_store(by.subject)
        if scope != ALL_SCOPE:
            facts["tenant"] = scope.partition(":")[2]
        return self._chronicle.event(kind, facts, decided_by=by.subject, model_suggested=False)


def _sound(retention: object) -> Retention:
    if type(retention) is Retention:
        retention.__post_init__()
        return retention
    raise MisuseError("retention= is a placet.Retention.")


def _scope(scope: object) -> str:
    if is_hold_scope(scope):
        return str(scope)
    raise MisuseError("A hold is of all, or of tenant:NAME.")


def _require_principal(by: object) -> None:
    if not is_principal(by):
        raise MisuseError("by= is the signed-in Principal.")
