"""Forgets what is old: in small transactions, each on record, none of what is held, none of what does not hold.

Every transaction compares what was seen, so it may run beside calls, other rounds and other processes, be killed at any
point and be begun again. What was altered by hand is evidence, and stays. Source: DESIGN sections 9, 10, 14; ADR-0031.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile
from typing import TypeVar

from placet.engine.approving import verify
from placet.engine.chronicle import NOBODY, Chronicle
from placet.engine.registry import Registry
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.approval import Approval
from placet.model.audit import AuditEvent, ChainHead, ChainTombstone, EventKind
from placet.model.effect import Effect
from placet.model.identifiers import WriterId
from placet.model.principal import Principal, Standing, is_principal
from placet.model.retention import (
    ALL_SCOPE,
    ChainCut,
    FinishedKind,
    Grave,
    Hold,
    Kept,
    OldApproval,
    OldRows,
    Purge,
    Retention,
    is_hold_scope,
)
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import retention as rules
from placet.rules.approvals import Misfit
from placet.rules.audit import ChainCheck, Linker, tombstone_message

Row = TypeVar("Row")

_ROWS_AT_ONCE = 100
_RUNS_AT_ONCE = 10
_EVENTS_AT_ONCE = 1_000
_ROUND_ROWS = 2_000
"""How many rows of a kind one round of a worker forgets; the next round goes on."""
_MOST_MISSES = 5
"""How often in a row something may have moved before a kind of rows is left for another time."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What was forgotten, by kind, and what was left for a person to look at.

    Attributes:
        broken: rows that cannot be read, approvals whose signatures do not hold, chains that do not; nothing of them
            is forgotten.
    """

    purged: dict[Kept, int]
    broken: int

    @property
    def count(self) -> int:
        return sum(self.purged.values())


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
        for kept in (Kept.RUNS, Kept.APPROVALS, Kept.TOKENS, Kept.EVENTS):
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
        work = _Work(self, word=word, now=await self._store.now(), most=most)
        for kind in await self._store.finished_kinds():
            seconds, is_known = self._seconds_of(kind, retention)
            if seconds is not None and (is_known or is_everything):
                await work.operations(kind, seconds)
        if retention.seconds is not None:
            await work.runs(retention.seconds)
            await work.approvals(retention.seconds)
            await work.tokens(retention.seconds)
        if retention.audit_seconds is not None:
            await work.events(retention.audit_seconds)
        return work.report()

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


class _Work:
    """One round, on one word, as of one instant."""

    def __init__(self, purger: Purger, *, word: str, now: datetime, most: int | None) -> None:
        self._store = purger._store
        self._keys = purger._keys
        self._linker = purger._linker
        self._chronicle = purger._chronicle
        self._word = word
        self._now = now
        self._left = Counter[Kept](dict.fromkeys(Kept, 2**62 if most is None else most))
        self._purged: Counter[Kept] = Counter()
        self._broken = 0

    def report(self) -> PurgeReport:
        return PurgeReport(purged={kept: self._purged[kept] for kept in Kept}, broken=self._broken)

    async def operations(self, kind: FinishedKind, seconds: float) -> None:
        before, skip, misses = self._now - timedelta(seconds=seconds), 0, 0
        while (limit := self._room(Kept.OPERATIONS, _ROWS_AT_ONCE)) and misses < _MOST_MISSES:
            found = await self._store.finished(kind, before=before, limit=limit, skip=skip)
            graves = tuple(self._grave(effect) for effect in found if isinstance(effect, Effect))
            skip += self._left_alone(len(found) - len(graves))
            if not found:
                return
            purge = Purge(
                holds=await self._holds(),
                graves=graves,
                idle_before=before,
                events=(self._told(Kept.OPERATIONS, len(graves), kind.tenant),),
            )
            misses = await self._forget(Kept.OPERATIONS, purge, len(graves), misses)

    async def runs(self, seconds: float) -> None:
        before, misses = self._now - timedelta(seconds=seconds), 0
        while (limit := self._room(Kept.RUNS, _RUNS_AT_ONCE)) and misses < _MOST_MISSES:
            found = await self._store.old_runs(before=before, limit=limit)
            if not found:
                return
            runs = _first_tenants(found, lambda run: run.tenant)
            told = self._told(Kept.RUNS, len(runs), runs[0].tenant)
            purge = Purge(holds=await self._holds(), runs=runs, idle_before=before, events=(told,))
            misses = await self._forget(Kept.RUNS, purge, len(runs), misses)

    async def approvals(self, seconds: float) -> None:
        """A denial whose run goes on stands, and what does not verify is evidence: both are passed over."""
        before, skip, misses = self._now - timedelta(seconds=seconds), 0, 0
        while (limit := self._room(Kept.APPROVALS, _ROWS_AT_ONCE)) and misses < _MOST_MISSES:
            found = await self._store.old_approvals(before=before, limit=limit, skip=skip)
            if not found:
                return
            tenant = found[0].question.tenant
            mine = _first_tenants(found, lambda approval: approval.question.tenant)
            going = [approval for approval in mine if self._may_go(approval)]
            purge = Purge(
                holds=await self._holds(),
                approvals=tuple(OldApproval(tenant=tenant, approval_id=a.question.approval_id) for a in going),
                idle_before=before,
                events=(self._told(Kept.APPROVALS, len(going), tenant),),
            )
            if await self._forget(Kept.APPROVALS, purge, len(going), 0):
                going = [approval for approval in going if await self._alone(approval, before)]
            skip += len(mine) - len(going)

    async def _alone(self, approval: Approval, before: datetime) -> bool:
        """One approval by itself; False if it has to stay, because its denial stands or because it is held."""
        seen = OldApproval(tenant=approval.question.tenant, approval_id=approval.question.approval_id)
        told = self._told(Kept.APPROVALS, 1, seen.tenant)
        purge = Purge(holds=await self._holds(), approvals=(seen,), idle_before=before, events=(told,))
        return await self._forget(Kept.APPROVALS, purge, 1, 0) == 0

    async def tokens(self, seconds: float) -> None:
        before, misses = self._now - timedelta(seconds=seconds), 0
        while (limit := self._room(Kept.TOKENS, _ROWS_AT_ONCE)) and misses < _MOST_MISSES:
            tokens = await self._store.old_tokens(before=before, limit=limit)
            if not tokens:
                return
            told = self._told(Kept.TOKENS, len(tokens), NOBODY)
            purge = Purge(holds=await self._holds(), tokens=tokens, idle_before=before, events=(told,))
            misses = await self._forget(Kept.TOKENS, purge, len(tokens), misses)

    async def events(self, seconds: float) -> None:
        before = self._now - timedelta(seconds=seconds)
        while await self._store.chain_waiting():  # what is older than a cut and comes after it is taken for a copy
            pass
        for head in await self._store.heads():
            await self._chain(head, before)

    async def _chain(self, head: ChainHead, before: datetime) -> None:
        """Cut one chain's beginning, piece by piece, each of which is held against its links first."""
        misses = 0
        while (limit := self._room(Kept.EVENTS, _EVENTS_AT_ONCE)) and misses < _MOST_MISSES:
            tombstones = [each for each in await self._store.tombstones() if each.writer == head.writer]
            check = ChainCheck((head,), self._linker, tombstones=tombstones)
            found = await self._store.oldest_events(head.writer, limit=limit)
            for event in found:
                check.see(event)
            if check.problems:
                self._left_alone(1)
                return
            holds = await self._holds()
            length = rules.cut_length(found, before=before, holds=holds)
            if length == 0:
                return
            tombstone = self._tombstone(head.writer, found[length - 1].sequence, found[length - 1].link, length)
            told = self._chronicle.event(
                EventKind.AUDIT_CUT,
                self._chronicle.of_store(self._word),
                reasons=(f"events:{length}", f"first_kept:{tombstone.first_kept}"),
                model_suggested=False,
            )
            cut = ChainCut(first_kept=found[0].sequence, tombstone=tombstone)
            purge = Purge(holds=holds, cut=cut, idle_before=before, events=(told,))
            misses = await self._forget(Kept.EVENTS, purge, length, misses)

    def _tombstone(self, writer: WriterId, last: int, link: str, removed: int) -> ChainTombstone:
        bare = ChainTombstone(
            writer=writer,
            first_kept=last + 1,
            link=link,
            removed=removed,
            cut_by=self._word,
            cut_at=self._now,
            key_id="",
            mac="",
        )
        mac = self._keys.mac(KeyPurpose.AUDIT_CHAIN, tombstone_message(bare))
        return replace(bare, key_id=mac.key_id, mac=mac.value)

    def _grave(self, effect: Effect) -> Grave:
        mark = self._keys.seal(b"purged", bound_to=rules.mark_binding(effect, effect.result_digest))
        return Grave(
            tenant=effect.tenant,
            operation_key=effect.operation_key,
            state=effect.state,
            fence=effect.fence,
            updated_at=effect.updated_at,
            sealed_mark=mark,
        )

    def _may_go(self, approval: Approval) -> bool:
        altered = verify(approval, self._keys)
        if altered not in (None, Misfit.KEY_RETIRED):
            self._left_alone(1)
            return False
        return rules.may_be_forgotten(approval, now=self._now)

    def _told(self, kept: Kept, count: int, tenant: str) -> AuditEvent:
        facts = self._chronicle.of_store(self._word) | {"tenant": tenant}
        reasons = (f"{kept.value}:{count}",)
        return self._chronicle.event(EventKind.RECORDS_PURGED, facts, reasons=reasons, model_suggested=False)

    async def _holds(self) -> frozenset[str]:
        return frozenset(hold.scope for hold in await self._store.holds())

    async def _forget(self, kept: Kept, purge: Purge, count: int, misses: int) -> int:
        """How often in a row nothing was forgotten because something had moved."""
        if count == 0:
            return misses
        if not await self._store.purge(purge):
            return misses + 1
        self._purged[kept] += count
        self._left[kept] -= count
        return 0

    def _room(self, kept: Kept, most: int) -> int:
        return max(0, min(most, self._left[kept]))

    def _left_alone(self, count: int) -> int:
        self._broken += count
        return count


def _first_tenants(rows: tuple[Row, ...], tenant_of: Callable[[Row], str]) -> tuple[Row, ...]:
    """Rows from the front that are one tenant's, so that each event is in the audit of whom it is about."""
    first = tenant_of(rows[0])
    return tuple(takewhile(lambda row: tenant_of(row) == first, rows))


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
