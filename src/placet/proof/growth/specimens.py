"""What years consist of: one governed write, one that a person approved, one read; done once, for real.

A ledger that has grown is made of many more like them, so they are looked at as they lie in the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from placet.bootstrap.opening import Opening, Recovery, open_gate
from placet.engine.gate import Gate
from placet.engine.settings import GateSettings
from placet.model.approval import Answer, Approval, ApprovalState, Question
from placet.model.outcome import AwaitingApproval, Outcome
from placet.model.principal import Principal
from placet.proof.workloads import NotMeasured
from placet.rules.contracts import Tool, tool

TENANT = "young"
_RUN = "run-0"
MOST_STEPS = 1_000
_SETTINGS = GateSettings(
    lease_seconds=3600.0, max_steps=MOST_STEPS
)  # no heartbeat, so that a lone write's commits are its own
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Raw = Mapping[str, Any]


@tool(effect="write", risk="low", permission="growth.write", operation_key="ticket:{number}")
async def open_ticket(number: str, body: str) -> dict[str, str]:
    """Open a ticket."""
    return result_of("open_ticket", number)


@tool(effect="write", risk="low", permission="growth.write", operation_key="close:{number}", approval="always")
async def close_ticket(number: str) -> dict[str, str]:
    """Close a ticket, once a person says so."""
    return result_of("close_ticket", number)


@tool(effect="read")
async def show_ticket(number: str) -> dict[str, str]:
    """Show a ticket."""
    return {"ticket_id": number, "state": "open"}


TOOLS = (open_ticket, close_ticket, show_ticket)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A store, as a gate is opened with it."""

    store: str | Path
    key: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """One operation as it lies in the tables.

    Attributes:
        began: microseconds since 1970; its other instants are told from here.
        effect: its row in the ledger, by column; empty for a read, which has none.
        events: bodies of its audit events, in order.
    """

    tool: Tool
    began: int
    effect: Raw
    events: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimens:
    """One of each. `approval` is the row that was spent on the approved one; `question` and `answer` are its words."""

    write: Specimen
    approved: Specimen
    read: Specimen
    approval: Raw
    question: Question
    answer: Answer

    @property
    def policy_version(self) -> str:
        return self.question.policy_version


def arguments_of(name: str, number: str) -> dict[str, str]:
    """What a tool of ours is called with for the ticket of that number."""
    return {"number": number, "body": "The printer is on fire again."} if name == "open_ticket" else {"number": number}


def result_of(name: str, number: str) -> dict[str, str]:
    """What it answers."""
    return {"ticket_id": number, "state": "open" if name == "open_ticket" else "closed"}


@cache
def agent_of(tenant: str) -> Principal:
    return Principal.agent("growth-agent", tenant=tenant, roles=("operator",), scopes=("growth.write",))


def opened(store: str | Path, key: Path | None = None) -> Opening:
    """A gate on the store whose rounds do not mix in."""
    return open_gate(tools=TOOLS, store=store, key=key, settings=_SETTINGS, recovery=Recovery.MANUAL)


async def submit(gate: Gate, name: str, number: str, *, tenant: str, run: str, call: str) -> Outcome:
    proposal = {"call_id": call, "tool": name, "arguments": arguments_of(name, number)}
    return await gate.submit(proposal, principal=agent_of(tenant), run=run)


async def perform(gate: Gate) -> Approval:
    """Do all three in the tenant of specimens; the approval that was spent on the second."""
    person = Principal.person("growth-person", tenant=TENANT, roles=("admin",), scopes=("approvals.decide",))
    for index, each in enumerate(TOOLS):
        about: dict[str, Any] = {"tenant": TENANT, "run": _RUN, "call": f"call-{index}"}
        outcome = await submit(gate, each.contract.name, "n-0", **about)
        if isinstance(outcome, AwaitingApproval):
            view = await gate.desk.show(outcome.approval_id, by=person)
            await gate.desk.approve(outcome.approval_id, digest=view.digest, by=person)
            outcome = await submit(gate, each.contract.name, "n-0", **about)
        if not outcome.is_success:
            raise NotMeasured(f"a specimen came out as {outcome.code}")
    (approval,) = await gate.store.approvals(TENANT, states=(ApprovalState.SPENT,), limit=2)
    return approval


def looked_at(rows: Callable[[str], list[Raw]], approval: Approval) -> Specimens:
    """The specimens as they lie in a store in which `perform` has been, and nobody else.

    Args:
        rows: all rows of a table, by column; events in their order.
    """
    if approval.answer is None:
        raise NotMeasured("the specimen's approval was not answered")
    bodies = [orjson.loads(row["body"]) for row in rows("audit_events")]
    effects = {row["tool"]: row for row in rows("effects")}
    (approval_row,) = rows("approvals")

    def specimen(each: Tool) -> Specimen:
        events = tuple(body for body in bodies if body["tool"] == each.contract.name)
        began = microseconds(datetime.fromisoformat(events[0]["at"]))
        return Specimen(tool=each, began=began, effect=effects.get(each.contract.name, {}), events=events)

    write, approved, read = (specimen(each) for each in TOOLS)
    return Specimens(
        write=write,
        approved=approved,
        read=read,
        approval=approval_row,
        question=approval.question,
        answer=approval.answer,
    )


def microseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1)


def instant(at: int) -> datetime:
    return _EPOCH + timedelta(microseconds=at)
