"""The durable truth: ledger, approvals, runs and audit, one unit of work.

Every verb is one transaction: the state and the events that describe it are durable together when it returns, or
neither is. All instants a verb writes are the store's clock. Every verb may raise:

    StoreUnavailable: nothing was committed.
    StoreInDoubt: a commit was asked for and its answer lost. Repeat the verb with the same token, or read back.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from placet.model.approval import (
    Answer,
    Approval,
    ApprovalState,
    Mac,
    OtherVotes,
    Question,
    SignedAnswer,
    SignedVote,
)
from placet.model.audit import AuditEvent, ChainedEvent, ChainHead, ChainTombstone
from placet.model.custody import KeyUse
from placet.model.effect import BrokenEffect, Effect, EffectState, UnknownEffects
from placet.model.identifiers import ApprovalId, CallId, OperationKey, OwnerId, Token, WriterId
from placet.model.ledger import (
    Claim,
    ClaimAnswer,
    CoCommitAnswer,
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
    Withdrawal,
)
from placet.model.stopping import StopLeave, StopNote, StopRecord
from placet.ports.archive import Archive
from placet.ports.credentials import Credentials
from placet.ports.grants import Grants
from placet.ports.outbox import Outbox
from placet.ports.pages import Pages
from placet.ports.reminders import ReminderRows
from placet.ports.runs import RunRows
from placet.ports.wakeups import Wakeups

__all__ = [
    "Approvals",
    "Archive",
    "AuditSnapshot",
    "Credentials",
    "Custody",
    "Grants",
    "Heard",
    "Journal",
    "Ledger",
    "Outbox",
    "Pages",
    "RunRows",
    "Store",
    "nobody",
]

Heard = Callable[[tuple[AuditEvent, ...]], None]
"""Hears every event once it is durable, in the event loop of the verb that wrote it, before that verb's caller goes
on. The one exception is a commit whose own answer was lost: what it wrote is on record and is not announced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSnapshot:
    """Heads, tombstones and events that belong together, by writer and sequence. Events are read when asked for."""

    heads: tuple[ChainHead, ...]
    count: int
    events: AsyncIterator[ChainedEvent]
    tombstones: tuple[ChainTombstone, ...] = ()


def nobody(events: tuple[AuditEvent, ...]) -> None:
    """For stores that nobody listens to."""


class Ledger(Protocol):
    """Durable record of effects. Only the transitions of `rules.lifecycle` can be written."""

    async def claim(self, claim: Claim) -> ClaimAnswer: ...

    async def turn(self, turn: Turn) -> MoveAnswer: ...

    async def settle(self, settlement: Settlement) -> MoveAnswer: ...

    def co_commit(self, connection: object, settlement: Settlement) -> CoCommitAnswer | Awaitable[CoCommitAnswer]:
        """Dispatched → committed inside a transaction that the handler has open, and will commit or roll back.

        At once where such connections block, awaitable where they do not. The event waits, under its MAC, to be
        chained. A store may close the handler's connection to end its transaction, where nothing milder does.

        Raises:
            StoreUnavailable: the database did not take it, and nothing of the transaction can commit any more.
        """
        ...

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

    async def longest_unknown(
        self, *, tenant: str, subject: str | None, limit: int, skip: int = 0
    ) -> tuple[Effect | BrokenEffect, ...]:
        """Unknown effects of a tenant, the longest unknown first, by key within an instant, after `skip` of them.

        With a subject, as `effects` picks them.
        """
        ...

    async def unknown_effects(self) -> UnknownEffects:
        """Counted over all rows, by tool and looks in vain; for the gauges."""
        ...

    async def broken_effects(self, *, tenant: str | None, subject: str | None, limit: int) -> tuple[BrokenEffect, ...]:
        """Rows that cannot be read any more, found by reading every one, so it takes time; as `effects` picks them."""
        ...

    async def heartbeat(self, owner: OwnerId, *, lease_seconds: float) -> int:
        """Extend the leases of an owner's reads and dispatched effects, never a `send_by`; how many effects it has."""
        ...

    async def stranded(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """Dispatched effects whose lease is over."""
        ...

    async def take_over(self, effect: Effect, events: tuple[AuditEvent, ...]) -> MoveAnswer:
        """Dispatched → unknown, if the lease is still over and the fence still the same; a co-commit row → absent."""
        ...

    async def due_for_probe(self, *, limit: int) -> tuple[Effect | BrokenEffect, ...]:
        """Unknown effects whose next probe is due."""
        ...

    async def begin_probe(self, effect: Effect, *, seconds: float) -> bool:
        """Take an unknown effect for one look, if nobody has looked, or begun to, since it was seen.

        For so long it is not due for anybody else; a look that nobody ends is due again then.
        """
        ...

    async def probed_in_vain(self, effect: Effect, *, next_probe_seconds: float) -> None: ...

    async def owner_died(self, effect: Effect) -> None:
        """Record, with proof, that the attempt of an unknown effect has ended."""
        ...

    async def reconcile(self, reconciliation: Reconciliation) -> MoveAnswer: ...


class Approvals(Protocol):
    """Questions and answers. Authority is in the signatures, which the engine makes and checks."""

    async def ask(
        self,
        question: Question,
        mac: Mac,
        same: SameAsk,
        *,
        step: Step,
        events: tuple[AuditEvent, ...],
        closing: tuple[Withdrawal, ...] = (),
    ) -> Approval | RecordAnswer:
        """Store the question, unless the same is pending or approved: then answer with that one, events aside.

        Args:
            closing: those whose place it takes, closed with it in one transaction; if it is not asked, none is.
        """
        ...

    async def same_ask(self, ask: SameAsk) -> tuple[Approval, ...]:
        """Approvals given for the same question, newest first: pending, approved and denied ones."""
        ...

    async def closed_ask(
        self, ask: SameAsk, *, call_id: CallId, fingerprint: str, own_key: OperationKey
    ) -> tuple[Approval, ...]:
        """The spent and withdrawn ones of the same question under any policy, newest first, a few, for a call that was
        counted in this run under this id and fingerprint and never had a question under its own key; otherwise none.
        """
        ...

    async def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None: ...

    async def approvals(self, tenant: str, *, states: Sequence[ApprovalState], limit: int) -> tuple[Approval, ...]: ...

    async def overdue_approvals(self, *, limit: int) -> tuple[Approval, ...]:
        """Pending questions of every tenant that nobody decided in time, the oldest first; as rows say, unverified."""
        ...

    async def answer(
        self, approval: Approval, answer: Answer, signature: Mac, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        """Pending → approved or denied, if it is still pending; the approval as it is afterwards."""
        ...

    async def edit(
        self, approval: Approval, question: Question, mac: Mac, same: SameAsk, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        """Withdraw a question that is still pending, and store the one that a person made of it; the latter as asked.

        If the first is closed, it is answered with as it is. If the same as the second is pending or approved, that
        one is. Either way nothing is written.
        """
        ...

    async def edits(self, ask: SameAsk) -> tuple[Approval, ...]:
        """What was made of questions by editing them that were the same as this, newest first, in any state; what rows
        say, unverified. The policy and the key of `ask` do not matter."""
        ...

    async def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        """All votes on a question, withdrawn and withdrawing ones too, by voter and kind; what rows say, unverified."""
        ...

    async def vote(
        self,
        approval: Approval,
        vote: SignedVote,
        *,
        among: tuple[SignedVote, ...],
        closing: SignedAnswer | None,
        events: tuple[AuditEvent, ...],
    ) -> Approval | OtherVotes:
        """Add a vote to a question that is still pending; the approval as it is afterwards.

        Args:
            among: the votes that were seen; if others are there, nothing is written.
            closing: with the vote that makes the quorum, the answer: pending → approved in the same transaction.
        """
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

    async def chain_waiting(self) -> int:
        """Chain events that co-commits wrote, as every other verb that writes does in passing; how many had waited.

        0 says that none did: all that were committed before are in the audit, also those that another process was
        chaining. So many are chained at a time; ask again for the rest.

        One that nobody of ours wrote, or that is in the audit already, is not chained but told of by an alarm, once.
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

    async def stop(self, scope: str, events: tuple[AuditEvent, ...], *, note: StopNote | None = None) -> int:
        """Halt one of `model.ledger.scopes_of`; how many of it are still dispatched.

        Claims that were there before are through when this returns; none of the scope comes after. Of a scope that is
        stopped already the first instant stands, and the note with the stronger leave.
        """
        ...

    async def resume(
        self, scope: str, events: tuple[AuditEvent, ...], *, leave: StopLeave = StopLeave.DEPLOYMENT
    ) -> bool:
        """Lift a stop; False, and nothing written, where it was given with more leave, or is none."""
        ...

    async def stops(self) -> tuple[str, ...]: ...

    async def stop_records(self) -> tuple[StopRecord, ...]:
        """The stops in force, the oldest first."""
        ...

    async def now(self) -> datetime:
        """The store's clock."""
        ...

    def chained(self, *, tenant: str | None = None, newest: int | None = None) -> AsyncIterator[ChainedEvent]:
        """Events by writer and sequence; the `newest` ones of a tenant for display."""
        ...

    async def heads(self) -> tuple[ChainHead, ...]: ...

    def snapshot(self, *, tenant: str | None = None) -> AbstractAsyncContextManager[AuditSnapshot]:
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


class Store(
    Ledger,
    Approvals,
    Journal,
    Pages,
    Custody,
    Archive,
    Credentials,
    Grants,
    Outbox,
    ReminderRows,
    RunRows,
    Wakeups,
    Protocol,
):
    """Ledger, approvals, runs, audit and credentials in one database."""

    @property
    def commits(self) -> int:
        """Durable commits made by this process so far."""
        ...

    async def close(self) -> None: ...
