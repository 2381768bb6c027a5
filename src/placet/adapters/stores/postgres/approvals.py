"""Questions and what becomes of them, in a PostgreSQL store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from placet.adapters.stores import rows, verbs
from placet.adapters.stores.postgres.orders import How
from placet.adapters.stores.postgres.overlay import PredictedTables
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
from placet.model.audit import AuditEvent
from placet.model.identifiers import ApprovalId, CallId, OperationKey
from placet.model.ledger import RecordAnswer, SameAsk, Step, Withdrawal


class PostgresApprovals(ABC):
    """The verbs of `ports.store.Approvals`."""

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
        answer: Approval | RecordAnswer = await self._write(
            lambda tables: verbs.ask(tables, question, mac, same, step, events, tables.now, closing), How.LOCKED
        )
        return answer

    async def same_ask(self, ask: SameAsk) -> tuple[Approval, ...]:
        found = await self._read("same_ask", *_same_ask_bindings(ask))
        return tuple(rows.approval_from(row[:-1]) for row in found)

    async def closed_ask(
        self, ask: SameAsk, *, call_id: CallId, fingerprint: str, own_key: OperationKey
    ) -> tuple[Approval, ...]:
        bindings = (*_same_ask_bindings(ask)[:5], call_id, fingerprint, own_key)
        return tuple(map(rows.approval_from, await self._read("closed_ask", *bindings)))

    async def approval(self, tenant: str, approval_id: ApprovalId) -> Approval | None:
        found = await self._read("approvals_at", [tenant], [approval_id])
        return rows.approval_from(found[0][:-1]) if found else None

    async def approvals(self, tenant: str, *, states: Sequence[ApprovalState], limit: int) -> tuple[Approval, ...]:
        found = await self._read("approvals_of_tenant", tenant, [state.value for state in states], limit)
        return tuple(map(rows.approval_from, found))

    async def overdue_approvals(self, *, limit: int) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, await self._read("overdue_approvals", limit)))

    async def answer(
        self, approval: Approval, answer: Answer, signature: Mac, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        decided: Approval = await self._write(lambda tables: verbs.answer(tables, approval, answer, signature, events))
        return decided

    async def edit(
        self, approval: Approval, question: Question, mac: Mac, same: SameAsk, *, events: tuple[AuditEvent, ...]
    ) -> Approval:
        edited: Approval = await self._write(
            lambda tables: verbs.edit(tables, approval, question, mac, same, events), How.LOCKED
        )
        return edited

    async def edits(self, ask: SameAsk) -> tuple[Approval, ...]:
        return tuple(map(rows.approval_from, await self._read("edits", *_same_ask_bindings(ask)[:5])))

    async def votes(self, tenant: str, approval_id: ApprovalId) -> tuple[SignedVote, ...]:
        return tuple(map(rows.vote_from, await self._read("votes", tenant, approval_id)))

    async def vote(
        self,
        approval: Approval,
        vote: SignedVote,
        *,
        among: tuple[SignedVote, ...],
        closing: SignedAnswer | None,
        events: tuple[AuditEvent, ...],
    ) -> Approval | OtherVotes:
        answer: Approval | OtherVotes = await self._write(
            lambda tables: verbs.vote(tables, approval, vote, among, closing, events), How.LOCKED
        )
        return answer

    async def retire(self, approval: Approval, state: ApprovalState, *, events: tuple[AuditEvent, ...]) -> Approval:
        closed: Approval = await self._write(lambda tables: verbs.retire(tables, approval, state, events))
        return closed

    @abstractmethod
    async def _read(self, name: str, *bindings: Any) -> list[tuple[Any, ...]]: ...

    @abstractmethod
    async def _write(self, verb: Callable[[PredictedTables], Any], how: How = How.TOGETHER) -> Any: ...


def _same_ask_bindings(ask: SameAsk) -> tuple[Any, ...]:
    return (
        ask.tenant,
        ask.subject,
        ask.run_id,
        ask.tool,
        ask.argument_digest,
        ask.policy_version,
        ask.operation_key,
    )
