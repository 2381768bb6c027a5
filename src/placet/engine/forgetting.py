"""One round of forgetting: small transactions, each on record, none of what is held, none of what does not hold.

Every transaction compares what was seen, so a round may run beside calls, other rounds and other processes, be killed
at any point and be begun again. A row that has moved, or that somebody's transaction holds, is passed over
and keeps no other; what was altered by hand is evidence, and stays. Source: DESIGN sections 9, 10, 14; ADR-0031.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import groupby, takewhile
from typing import Generic, TypeVar

from placet.engine.chronicle import NOBODY, Chronicle
from placet.engine.credentials import CredentialRows, Trust
from placet.engine.verifying import verify
from placet.errors import StoreUnavailable
from placet.model.approval import Approval
from placet.model.audit import AuditEvent, ChainHead, ChainTombstone, EventKind
from placet.model.credentials import CredentialKind, StoredCredential
from placet.model.effect import BrokenEffect, Effect
from placet.model.identifiers import WriterId
from placet.model.retention import BrokenRun, ChainCut, FinishedKind, Grave, Kept, OldApproval, OldRun, Purge
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.rules import retention as rules
from placet.rules.approvals import Misfit
from placet.rules.chain_check import ChainCheck
from placet.rules.chains import Linker, tombstone_message

Row = TypeVar("Row")
OfTenant = TypeVar("OfTenant", OldRun, OldApproval, StoredCredential)

_ROWS_AT_ONCE = 100
_RUNS_AT_ONCE = 10
_EVENTS_AT_ONCE = 1_000
_MOST_MISSES = 5
"""How often in a row something may have moved before tokens or a chain are left for another time."""
_MOST_HELD = 10
"""How often in a round a row may be held by somebody's transaction, each of which is waited for some seconds."""
_MOST_CHAININGS = 64
"""How often what co-commits left is chained before a cut; each time it is some hundred events."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeReport:
    """What was forgotten, by kind, and what was left for a person to look at.

    Attributes:
        broken: rows that cannot be read, approvals whose signatures do not hold, chains that do not; nothing of them
            is forgotten.
        is_audit_waiting: no event was looked at, because others still wait to be chained: what is older than a cut and
            is chained after it would pass for a copy. Ask again; if it stays so, the store cannot chain them.
    """

    purged: dict[Kept, int]
    broken: int
    is_audit_waiting: bool = False

    @property
    def count(self) -> int:
        return sum(self.purged.values())


class Forgetting:
    """One round, on one word, as of one instant. `most` bounds how many rows of a kind it forgets; None does not.

    `heads` are the chains as they stood before it: what it says itself is never cut by it. By a host's clock that is
    behind the database's it may be old when it is said, and a round that cut it would say so, and have no end.
    """

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        linker: Linker,
        chronicle: Chronicle,
        word: str,
        now: datetime,
        heads: tuple[ChainHead, ...],
        most: int | None,
    ) -> None:
        self._store = store
        self._keys = keys
        self._linker = linker
        self._chronicle = chronicle
        self._word = word
        self._now = now
        self._heads = heads
        self._credentials = CredentialRows(store=store, keys=keys, chronicle=chronicle)
        self._left = Counter[Kept](dict.fromkeys(Kept, 2**62 if most is None else most))
        self._purged: Counter[Kept] = Counter()
        self._broken = 0
        self._held = 0
        self._is_audit_waiting = False

    def report(self) -> PurgeReport:
        purged = {kept: self._purged[kept] for kept in Kept}
        return PurgeReport(purged=purged, broken=self._broken, is_audit_waiting=self._is_audit_waiting)

    async def operations(self, kind: FinishedKind, seconds: float) -> None:
        before = self._now - timedelta(seconds=seconds)

        def purge_of(graves: tuple[Grave, ...], holds: frozenset[str], told: AuditEvent) -> Purge:
            return Purge(holds=holds, graves=graves, idle_before=before, events=(told,))

        rows = RowsInTurn(
            lambda limit, skip: self._store.finished(kind, before=before, limit=limit, skip=skip),
            _operation_name,
        )
        while limit := self._room(Kept.OPERATIONS, _ROWS_AT_ONCE):
            found = await rows.next(limit)
            if found is None:
                return
            broken = [effect for effect in found if isinstance(effect, BrokenEffect)]
            self._broken += len(broken)
            graves = tuple(self._grave(effect) for effect in found if isinstance(effect, Effect))
            left = await self._forget_rows(Kept.OPERATIONS, kind.tenant, graves, purge_of)
            rows.pass_over(map(_operation_name, broken))
            rows.pass_over(map(_operation_name, left))

    async def runs(self, seconds: float) -> None:
        before = self._now - timedelta(seconds=seconds)

        def purge_of(runs: tuple[OldRun, ...], holds: frozenset[str], told: AuditEvent) -> Purge:
            return Purge(holds=holds, runs=runs, idle_before=before, events=(told,))

        rows = RowsInTurn(
            lambda limit, skip: self._store.old_runs(before=before, limit=limit, skip=skip),
            _run_name,
        )
        while limit := self._room(Kept.RUNS, _RUNS_AT_ONCE):
            found = await rows.next(limit)
            if found is None:
                return
            broken = [run for run in found if isinstance(run, BrokenRun)]
            self._broken += len(broken)
            rows.pass_over(map(_run_name, broken))
            for tenant, mine in _by_tenant([run for run in found if isinstance(run, OldRun)]):
                rows.pass_over(map(_run_name, await self._forget_rows(Kept.RUNS, tenant, mine, purge_of)))

    async def approvals(self, seconds: float) -> None:
        """A denial whose run goes on stands, and what does not verify is evidence: both are passed over."""
        before = self._now - timedelta(seconds=seconds)

        def purge_of(approvals: tuple[OldApproval, ...], holds: frozenset[str], told: AuditEvent) -> Purge:
            return Purge(holds=holds, approvals=approvals, idle_before=before, events=(told,))

        rows = RowsInTurn(
            lambda limit, skip: self._store.old_approvals(before=before, limit=limit, skip=skip),
            lambda approval: _approval_name(_seen(approval)),
        )
        while limit := self._room(Kept.APPROVALS, _ROWS_AT_ONCE):
            found = await rows.next(limit)
            if found is None:
                return
            going = [_seen(approval) for approval in found if self._may_go(approval)]
            rows.pass_over({_approval_name(_seen(each)) for each in found}.difference(map(_approval_name, going)))
            for tenant, mine in _by_tenant(going):
                rows.pass_over(map(_approval_name, await self._forget_rows(Kept.APPROVALS, tenant, mine, purge_of)))

    async def tokens(self, seconds: float) -> None:
        before, misses = self._now - timedelta(seconds=seconds), 0
        while (limit := self._room(Kept.TOKENS, _ROWS_AT_ONCE)) and misses < _MOST_MISSES:
            tokens = await self._store.old_tokens(before=before, limit=limit)
            if not tokens:
                return
            told = self._told(Kept.TOKENS, len(tokens), NOBODY)
            purge = Purge(holds=await self._holds(), tokens=tokens, idle_before=before, events=(told,))
            misses = 0 if await self._forget(Kept.TOKENS, purge, len(tokens)) else misses + 1

    async def api_keys(self, seconds: float) -> None:
        """Those that have ended. What somebody altered is evidence, and is passed over."""
        before = self._now - timedelta(seconds=seconds)

        async def ended(limit: int, skip: int) -> tuple[StoredCredential, ...]:
            found = await self._store.ended_credentials(CredentialKind.API_KEY, limit=limit + skip)
            return tuple(row for row in found[skip:] if row.ends_at < before)

        def purge_of(rows: tuple[StoredCredential, ...], holds: frozenset[str], told: AuditEvent) -> Purge:
            return Purge(holds=holds, credentials=rows, idle_before=before, events=(told,))

        rows, holds = RowsInTurn(ended, _credential_name), await self._holds()
        while limit := self._room(Kept.API_KEYS, _ROWS_AT_ONCE):
            found = await rows.next(limit)
            if found is None:
                return
            broken = [row for row in found if not self._may_be_dropped(row)]
            self._broken += len(broken)
            held = [row for row in found if rules.is_held(row.tenant, holds)]
            rows.pass_over(map(_credential_name, (*broken, *held)))
            going = [row for row in found if row not in broken and row not in held]
            for tenant, mine in _by_tenant(going):
                rows.pass_over(map(_credential_name, await self._forget_rows(Kept.API_KEYS, tenant, mine, purge_of)))

    def _may_be_dropped(self, row: StoredCredential) -> bool:
        """Whether it says what was signed, or what signed it is worth nothing any more."""
        return self._credentials.api_key(row) is not None or self._credentials.trust(row) is Trust.KEY_RETIRED

    async def events(self, seconds: float) -> None:
        before = self._now - timedelta(seconds=seconds)
        self._is_audit_waiting = not await self._is_chained()
        if self._is_audit_waiting:
            return
        for head in self._heads:
            await self._chain(head, before)

    async def _is_chained(self) -> bool:
        """Whether nothing waits to be chained: what is older than a cut and is chained after it passes for a copy."""
        for _ in range(_MOST_CHAININGS):
            if not await self._store.chain_waiting():
                return True
        return False

    async def _chain(self, head: ChainHead, before: datetime) -> None:
        """Cut what stood of one chain, piece by piece, each of which is held against its links first."""
        misses = 0
        while (limit := self._room(Kept.EVENTS, _EVENTS_AT_ONCE)) and misses < _MOST_MISSES:
            tombstones = [each for each in await self._store.tombstones() if each.writer == head.writer]
            check = ChainCheck((head,), self._linker, tombstones=tombstones)
            oldest = await self._store.oldest_events(head.writer, limit=limit)
            found = tuple(event for event in oldest if event.sequence <= head.sequence)
            for event in found:
                check.see(event)
            if check.problems:
                self._broken += 1
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
            misses = 0 if await self._forget(Kept.EVENTS, purge, length) else misses + 1

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
            self._broken += 1
            return False
        return rules.may_be_forgotten(approval, now=self._now)

    def _told(self, kept: Kept, count: int, tenant: str) -> AuditEvent:
        facts = self._chronicle.of_store(self._word) | {"tenant": tenant}
        reasons = (f"{kept.value}:{count}",)
        return self._chronicle.event(EventKind.RECORDS_PURGED, facts, reasons=reasons, model_suggested=False)

    async def _holds(self) -> frozenset[str]:
        return frozenset(hold.scope for hold in await self._store.holds())

    async def _forget_rows(
        self,
        kept: Kept,
        tenant: str,
        rows: tuple[Row, ...],
        purge_of: Callable[[tuple[Row, ...], frozenset[str], AuditEvent], Purge],
    ) -> tuple[Row, ...]:
        """Forget rows of a tenant together, or, if any of them has moved, each by itself; those that had to stay."""

        async def is_forgotten(several: tuple[Row, ...]) -> bool:
            told = self._told(kept, len(several), tenant)
            return await self._forget(kept, purge_of(several, await self._holds(), told), len(several))

        if not rows or await is_forgotten(rows):
            return ()
        return tuple([row for row in rows if not await is_forgotten((row,))])

    async def _forget(self, kept: Kept, purge: Purge, count: int) -> bool:
        """False, and nothing forgotten, if something has moved, or is held by somebody's transaction.

        Raises:
            StoreError: the store did not serve, or so much is held that waiting for each would have no end.
        """
        try:
            is_forgotten = await self._store.purge(purge)
        except StoreUnavailable as fault:
            self._held += 1
            if not fault.is_row_held or self._held > _MOST_HELD:
                raise
            is_forgotten = False
        if not is_forgotten:
            return False
        self._purged[kept] += count
        self._left[kept] -= count
        return True

    def _room(self, kept: Kept, most: int) -> int:
        return max(0, min(most, self._left[kept]))


class RowsInTurn(Generic[Row]):
    """Rows of one kind, while those that are forgotten leave the list that they come from.

    Each of the others has to be passed over. It comes no second time, and is counted only where it is still listed: one
    that has left the list as well would be counted for another.
    """

    def __init__(
        self, listed: Callable[[int, int], Awaitable[tuple[Row, ...]]], name: Callable[[Row], Hashable]
    ) -> None:
        self._listed = listed
        self._name = name
        self._left: set[Hashable] = set()
        self._skip = 0

    async def next(self, limit: int) -> tuple[Row, ...] | None:
        """The next of them, at most `limit`; None if there are no more."""
        while found := await self._listed(limit, self._skip):
            self._skip += len(tuple(takewhile(self._is_left, found)))
            fresh = tuple(row for row in found if not self._is_left(row))
            if fresh:
                return fresh
        return None

    def pass_over(self, names: Iterable[Hashable]) -> None:
        self._left.update(names)

    def _is_left(self, row: Row) -> bool:
        return self._name(row) in self._left


def _operation_name(row: Effect | BrokenEffect | Grave) -> Hashable:
    return row.operation_key


def _credential_name(row: StoredCredential) -> Hashable:
    return row.name


def _run_name(run: OldRun | BrokenRun) -> Hashable:
    return run.tenant, run.run_id


def _approval_name(approval: OldApproval) -> Hashable:
    return approval.tenant, approval.approval_id


def _seen(approval: Approval) -> OldApproval:
    return OldApproval(tenant=approval.question.tenant, approval_id=approval.question.approval_id)


def _by_tenant(rows: list[OfTenant]) -> list[tuple[str, tuple[OfTenant, ...]]]:
    """Tenant by tenant, so that each event is in the audit of whom it is about."""
    return [(tenant, tuple(several)) for tenant, several in groupby(rows, lambda row: row.tenant)]
