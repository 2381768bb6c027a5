"""The durable truth: ledger, approvals, runs and audit, one unit of work.

Every verb is one transaction: the state and the events that describe it are durable together when it returns, or
neither is. All instants a verb writes are the store's clock. Every verb may raise:

    StoreUnavailable: nothing was committed.
    StoreInDoubt: a commit was asked for and its answer lost. Repeat the verb with the same token, or read back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from placet.model.approval import Answer, Approval, ApprovalState, Mac, Question
from placet.model.audit import AuditEvent, ChainedEvent, ChainHead
from placet.model.custody import KeyUse
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects
from placet.model.identifiers import ApprovalId, OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    LostRead,
    MoveAnswer,
    OpenRead,
    Place,
    Reconciliation,
    RecordAnswer,
    SameAsk,
    Settlement,
    Step,
    Turn,
)

Heard = Callable[[tuple[AuditEvent, ...]], None]
"""Hears every event once it is durable, in the event loop of the verb that wrote it, before that verb's caller goes
on. The one exception is a commit whose own answer was lost: what it wrote is on record and is not announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSnapshot:
    """Heads and events that belong together, by writer and sequence. The events are read as they are asked for."""

    heads: tuple[ChainHead, ...]
    count: int
    events: Iterator[ChainedEvent]


def nobody(events: tuple[AuditEvent, ...]) -> None:
    """For stores that nobody listens to."""


class Ledger(Protocol):
    """Durable record of effects. Only the transitions of `rules.lifecycle` can be written."""

    async def claim(self, claim: Claim) -> ClaimAnswer: ...

    async def turn(self, turn: Turn) -> MoveAnswer: ...

    async def settle(self, settlement: Settlement) -> MoveAnswer: ...

    async def void(self, tenant: str, operation_key: OperationKey, token: Token) -> bool:
        """Make sure a claim with this token never lands; False if it has landed already."""
        ...

    async def effect(self, tenant: str, operation_key: OperationKey) -> Effect | None: ...

    async def effects(
        self, *, tenant: str | None, states: Sequence[EffectState], limit: int, subject: str | None = None
    ) -> tuple[Effect | BrokenEffect, ...]:
        """Newest change first; all tenants with None, for workers only.

        With a subject, only effects it has a part in: those it asked for, and those somebody asked for on its behalf.
        """
        ...

    async def unknown_effects(self) -> UnknownEffects:
        """Counted over all rows; for the gauges."""
        ...

    async def heartbeat(self, owner: OwnerId, *, lease_seconds: float) -> int:
        """Extend the leases of an owner's reads and dispatched effects, never a `send_by`; how many effects it has."""
        ...

    async def stranded(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """Dispatched effects whose lease is over."""
        ...

    async def take_over(self, effect: Effect, events: tuple[AuditEvent, ...]) -> MoveAnswer:
        """Dispatched → unknown, if the lease is still over and the fence still the same."""
        ...

    async def due_for_probe(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """Unknown effects whose next probe is due."""
        ...

    async def probed_in_vain(self, effect: Effect, *, next_probe_seconds: float) -> None: ...

    async def owner_died(self, effect: Effect) -> None:
        """Record, with proof, that the attempt of an unknown effect has ended."""
        ...

    async def reconcile(self, reconciliation: Reconciliation) -> MoveAnswer: ...


class Approvals(Protocol):
    """Questions and answers. Authority is in the signatures, which the engine makes and checks."""

    async def ask(
        self, question: Question, mac: Mac, same: SameAsk, *, step: Step, events: tuple[AuditEvent, ...]
    ) -> Approval | RecordAnswer:
        """Store the question, unless the same is pending or approved: then answer with that one, events aside."""
        ...

    async def same_ask(self, ask: SameAsk) -> tuple[Approval, ...]:
        """Approvals given for the same question, newest first: pending, approved and denied ones."""
        ...

    async def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None: ...

    async def approvals(self, tenant: str, *, states: Sequence[ApprovalState], limit: int) -> tuple[Approval, ...]: ...

    async def answer(
        self, approval: Approval, answer: Answer, signature: Mac, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        """Pending → approved or denied, if it is still pending; the approval as it is afterwards."""
        ...

    async def retire(self, approval: Approval, state: ApprovalState, *, events: tuple[AuditEvent, ...]) -> Approval:
        """Pending or approved → expired, withdrawn or revoked; the approval as it is afterwards."""
        ...


class Journal(Protocol):
    """Runs, stops and audit."""

    async def record(
        self,
        events: tuple[AuditEvent, ...],
        *,
        step: Step | None = None,
        starts_tool: str | None = None,
        denies_tool: str | None = None,
        opens: OpenRead | None = None,
        closes: Place | None = None,
    ) -> RecordAnswer:
        """Make events (at least one) durable, in one transaction.

        With a step, count it; before a tool starts, check stops. With `denies_tool`, count one more refusal of the
        tool in the step's run; a person's denial is counted by `answer`. A tool that has been refused too often is
        closed: it starts no more in that run, is asked for no more and denied no more. `opens`: the last event starts
        a read that its owner will close; `closes`: the place of the started event whose read these events complete.

        Raises:
            StoreUnavailable: with the code READ_GIVEN_UP, the read to be closed has been completed already.
        """
        ...

    async def lost_reads(self, *, limit: int) -> tuple[LostRead, ...]:
        """Reads that were started and whose owners' leases are over."""
        ...

    async def close_lost_read(self, lost: LostRead, event: AuditEvent) -> bool:
        """Complete a lost read, if nobody has done so meanwhile."""
        ...

    async def pending_count(self) -> int:
        """How many approvals wait for a decision, over all tenants; for the gauge."""
        ...

    async def stop(self, scope: str, events: tuple[AuditEvent, ...]) -> int:
        """Halt `all`, `tenant:…`, `tool:…` or `run_scope(...)`; how many effects of it are still dispatched."""
        ...

    async def resume(self, scope: str, events: tuple[AuditEvent, ...]) -> None: ...

    async def stops(self) -> tuple[str, ...]: ...

    async def now(self) -> datetime:
        """The store's clock."""
        ...

    def chained(self, *, tenant: str | None = None, newest: int | None = None) -> Iterator[ChainedEvent]:
        """Events by writer and sequence; the `newest` ones of a tenant for display."""
        ...

    def heads(self) -> tuple[ChainHead, ...]: ...

    def snapshot(self, *, tenant: str | None = None) -> AbstractContextManager[AuditSnapshot]:
        """All of the audit at one moment; `tenant` says whose events are counted, not whose are given."""
        ...

    @property
    def writer(self) -> WriterId: ...


class Custody(Protocol):
    """Which keys the store was told of, and what depends on them."""

    async def adopt_key(self, check: Mac, *, events: tuple[AuditEvent, ...]) -> None:
        """From now on the store opens with this key's check alone, and every writer looks at its keys again first."""
        ...

    async def adopted_key(self) -> str:
        """The id of the key that the store opens with."""
        ...

    async def key_uses(self) -> tuple[KeyUse, ...]:
        """Counted over all rows, so it takes time; one for every key id that any row names."""
        ...


class Store(Ledger, Approvals, Journal, Custody, Protocol):
    """Ledger, approvals, runs and audit in one database."""

    @property
    def commits(self) -> int:
        """Durable commits made by this process so far."""
        ...

    async def close(self) -> None: ...
