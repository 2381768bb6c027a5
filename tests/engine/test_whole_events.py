"""The audit of one story, every event of it whole: what an auditor reads, and nothing that anybody said in clear."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import placet
from placet import Principal
from placet.errors import DecisionRefused
from placet.model.audit import AuditEvent
from placet.model.identifiers import WriterId
from placet.model.ledger import LostRead, Place
from placet.rules.audit import event_body
from tests.engine.conftest import SCOPE, OpenWorld, Spy, World, acting, looked_up, written

UTE = Principal.person("ute", tenant="acme", roles=("admin",), scopes=(SCOPE,))
AGENT = Principal.agent("agent-7", tenant="acme", roles=("operator", "admin"), scopes=(SCOPE,), on_behalf_of=UTE)
PAULA = Principal.person("paula", tenant="acme", scopes=("approvals.decide", "effects.reconcile", "effects.read"))
ZOE = Principal.person("zoe", tenant="acme", scopes=("effects.reconcile",))

Event = dict[str, Any]


def counted(scalars: int) -> Event:
    """The summary of an object with so many plain members, or one with nothing in it."""
    return {
        "collection_count": 1,
        "content_field_count": 0,
        "field_count": scalars,
        "identifier_field_count": 0,
        "redacted_field_count": 0,
        "scalar_count": scalars,
    }


NOTHING = counted(0) | {"collection_count": 0}
ALWAYS = {"schema": 1, "key_id": "k", "tenant": "acme", "subject": "agent-7", "duration_ms": 0.0, "fence": 0}
ALWAYS |= {"model_suggested": True}
ASKED = ALWAYS | {
    "roles": ["admin", "operator"],
    "on_behalf_of": "ute",
    "environment": "production",
    "request_id": "q1",
    "run_id": "r1",
}
LOOK = {"tool": "look", "tool_version": "1", "risk": "low", "effect_class": "read", "purpose": "look"}
PAY = {"tool": "pay", "tool_version": "3", "risk": "high", "effect_class": "write", "permission": SCOPE}
PAY |= {"purpose": "to settle a bill"}
ACT = {"tool": "act", "tool_version": "1", "risk": "medium", "effect_class": "write", "permission": SCOPE}
ACT |= {"purpose": "act"}
CALLED = {"operation": "#", "arguments_fingerprint": "#", "policy_version": "#"}
ALLOWED = CALLED | {"decision": "allow", "reasons": ["matrix_admin_medium", "matrix_admin_medium"]}
WHY_ASKED = ["matrix_admin_high", "matrix_admin_high", "contract_always_asks"]
TO_ASK = CALLED | {"decision": "ask", "reasons": WHY_ASKED}


@pytest.fixture
async def world(open_world: OpenWorld, spy: Spy, where: str) -> World:
    async def fails() -> None:
        raise RuntimeError("s3cr3t")

    asked = {"name": "pay", "approval": "always", "risk": "high", "version": "3", "purpose": "to settle a bill"}
    return await open_world(looked_up(spy), written(spy, **asked), acting(fails, breaker=None), store=where)


async def asks(world: World, tool: str, call_id: str, **arguments: object) -> Any:
    return await world.submit(tool, arguments, call_id=call_id, principal=AGENT, request_id="q1")


def seen(world: World) -> list[Event]:
    """The events without their instants; what is keyed or a digest is a #, and the name of the key a k."""
    return [{name: _plain(name, value) for name, value in event.items() if name != "at"} for event in world.events()]


def _plain(name: str, value: object) -> object:
    if name == "key_id":
        return re.sub(r"^k-[0-9a-f]{8}$", "k", str(value))
    return "#" if type(value) is str and re.fullmatch("[0-9a-f]{64}", value) else value


def pair(facts: Event, **ends: object) -> list[Event]:
    started = {name: value for name, value in facts.items() if name not in ends}
    return [started | {"kind": "started", "attempt": 1}, facts | {"kind": "completed", "attempt": 1} | ends]


async def test_of_a_read(world: World) -> None:
    await asks(world, "look", "c1", word="s3cr3t")

    facts = ASKED | LOOK | ALLOWED | {"call_id": "c1", "arguments": counted(1)}
    facts |= {"reasons": ["matrix_admin_low", "matrix_admin_low"]}
    assert seen(world) == pair(facts, outcome="success", result=counted(1), result_fingerprint="#")


async def test_of_a_write_that_a_person_approves_and_of_its_replay(world: World) -> None:
    waiting = await asks(world, "pay", "c2", word="s3cr3t", count=2)
    world.clock.advance(1)
    await world.approve(waiting, by=PAULA)
    world.clock.advance(1)
    await asks(world, "pay", "c2", word="s3cr3t", count=2)
    await asks(world, "pay", "c2", word="s3cr3t", count=2)

    facts = ASKED | PAY | TO_ASK | {"call_id": "c2", "arguments": counted(2)}
    approval = {"approval_id": waiting.approval_id}
    decided = {"decided_by": "paula", "decided_at": at(1), "expires_at": at(301)}
    spent = facts | approval | decided | {"decision": "allow_after_approval", "fence": 1}
    assert seen(world) == [
        *pair(facts | approval, outcome="approval_required"),
        facts | approval | {"kind": "approval_asked", "expires_at": at(86_400)},
        of_approval(waiting, "c2") | decided | {"kind": "approval_approved"},
        spent | {"kind": "started", "attempt": 1},
        spent | {"kind": "approval_spent"},
        pair(
            spent,
            outcome="success",
            effect_state="committed",
            detail="returned",
            result=counted(1),
            result_fingerprint="#",
        )[1],
        *pair(facts, outcome="replayed", detail="replayed"),
    ]


async def test_of_a_question_that_is_denied_and_one_that_is_taken_back(world: World) -> None:
    denied = await asks(world, "pay", "c3", word="s3cr3t", count=2)
    await world.deny(denied, reason="s3cr3t", by=PAULA)
    await asks(world, "pay", "c3", word="s3cr3t", count=2)
    withdrawn = await asks(world, "pay", "c4", word="s3cr3t", count=3)
    await world.gate.desk.withdraw(withdrawn.approval_id, by=PAULA)

    refused = ASKED | PAY | TO_ASK | {"call_id": "c3", "arguments": counted(2)}
    decided = {"decided_by": "paula", "decided_at": at(0), "expires_at": at(300)}
    told = [event for event in seen(world) if event.get("outcome") != "approval_required"]
    assert [event for event in told if "denied" in str(event) or "withdrawn" in str(event)] == [
        of_approval(denied, "c3") | decided | {"kind": "approval_denied"},
        pair(refused, outcome="denied", detail="approval_denied")[1],
        of_approval(withdrawn, "c4") | {"decided_by": "paula", "kind": "approval_withdrawn"},
    ]


async def test_of_a_person_who_may_not_decide(world: World) -> None:
    waiting = await asks(world, "pay", "c5", word="s3cr3t", count=2)
    before = len(seen(world))

    with pytest.raises(DecisionRefused):
        await world.gate.desk.approve(waiting.approval_id, digest="another", by=PAULA)

    assert seen(world)[before:] == [
        of_approval(waiting, "c5") | {"kind": "decision_refused", "detail": "other_digest", "decided_by": "paula"}
    ]


async def test_of_what_never_became_a_call(world: World) -> None:
    await asks(world, "pay", "c6", word="s3cr3t", count="s3cr3t")
    await asks(world, "s3cr3t", "c7")

    told = ASKED | {"arguments": NOTHING}
    listed = {name: value for name, value in PAY.items() if name != "purpose"}
    assert seen(world) == [
        *pair(
            told | listed | {"call_id": "c6"},
            outcome="validation",
            detail="invalid_arguments",
            error_type="ValidationError",
        ),
        *pair(
            told | {"call_id": "c7", "tool": "unknown", "rejected_name": "#"},
            outcome="validation",
            detail="unknown_tool",
            error_type="UnknownTool",
        ),
    ]


async def test_of_a_version_that_is_not_here(world: World) -> None:
    proposal = {"call_id": "c7", "tool": "pay", "version": "2", "arguments": {"word": "s3cr3t", "count": 2}}
    await world.gate.submit(proposal, principal=AGENT, run="r1")

    told = [(event["tool"], event.get("detail"), event.get("error_type")) for event in seen(world)]
    assert told == [("pay", None, None), ("pay", "unknown_tool_version", "UnknownTool")]


async def test_of_a_write_that_is_lost_and_settled_by_a_person(world: World) -> None:
    await asks(world, "act", "c8")
    world.clock.advance(60)
    effect = await world.effect()
    await world.gate.reconciler.settle_by_person(
        effect.operation_key, "committed", by=ZOE, looked_at=world.clock.now(), reason="seen_in_desk"
    )

    facts = ASKED | ACT | ALLOWED | {"call_id": "c8", "arguments": counted(0), "fence": 1}
    lost = pair(
        facts,
        outcome="error",
        effect_state="unknown",
        detail="raised_RuntimeError",
        error_type="RuntimeError",
    )
    settled = {
        "kind": "effect_reconciled",
        "decided_by": "zoe",
        "decided_at": at(60),
        "detail": "seen_in_desk",
        "effect_state": "reconciled_committed",
        "model_suggested": False,
    }
    assert seen(world) == [*lost, of_row("act", "c8") | settled]


async def test_of_a_write_whose_worker_was_lost(world: World) -> None:
    """What the dead worker itself could not write is written for it, and says so."""
    settle, world.gate.store.settle = world.gate.store.settle, down  # type: ignore[method-assign]
    await asks(world, "act", "c9")
    for task in list(world.gate._path._dispatcher._afterwards.tasks):
        task.cancel()
    world.gate.store.settle = settle  # type: ignore[method-assign]
    world.clock.advance(120)
    await world.gate.reconciler.recover()

    told = seen(world)[1:]
    lost = {"kind": "completed", "outcome": "unknown", "detail": "owner_lost", "effect_state": "unknown"}
    assert told == [of_row("act", "c9") | lost]


async def test_of_a_read_whose_worker_was_lost(world: World) -> None:
    """The end says of the call what the beginning said, but for what is known by its shape and prints alone."""
    await world.submit("look", {"word": "s3cr3t"}, call_id="c10", principal=AGENT, request_id="q1")
    opening = world.bodies().splitlines()[0]

    async def lost_reads(*, limit: int) -> tuple[LostRead, ...]:
        return (LostRead(place=Place(writer=WriterId("w-1"), sequence=1), started=opening),)

    closed: list[Event] = []

    async def close_lost_read(lost: LostRead, event: AuditEvent) -> bool:
        closed.append(json.loads(event_body(event)))
        return True

    world.gate.store.lost_reads = lost_reads  # type: ignore[method-assign]
    world.gate.store.close_lost_read = close_lost_read  # type: ignore[method-assign]
    await world.gate.reconciler.recover()

    left_out = ("at", "kind", "arguments", "arguments_fingerprint", "roles", "reasons")
    facts = {name: value for name, value in json.loads(opening).items() if name not in left_out}
    ends = {"kind": "completed", "outcome": "error", "error_type": "OwnerLost", "detail": "owner_lost"}
    assert [{name: value for name, value in event.items() if name != "at"} for event in closed] == [facts | ends]


async def down(*args: object, **more: object) -> Any:
    raise placet.errors.StoreUnavailable()


def at(seconds: int) -> str:
    """An instant of the story, which begins with the year 2026."""
    days, rest = divmod(seconds, 86_400)
    return f"2026-01-{1 + days:02}T00:{rest // 60:02}:{rest % 60:02}.000000+00:00"


def of_approval(waiting: Any, call_id: str) -> Event:
    """What every event about an approval says of the question."""
    return ALWAYS | {
        "environment": "production",
        "on_behalf_of": "ute",
        "request_id": "q1",
        "run_id": "r1",
        "call_id": call_id,
        "tool": "pay",
        "tool_version": "3",
        "policy_version": "#",
        "purpose": "to settle a bill",
        "operation": "#",
        "reasons": WHY_ASKED,
        "approval_id": waiting.approval_id,
        "model_suggested": False,
    }


def of_row(tool: str, call_id: str) -> Event:
    """What every event about a row of the ledger says of it."""
    return ALWAYS | {
        "run_id": "r1",
        "call_id": call_id,
        "tool": tool,
        "tool_version": "1",
        "policy_version": "#",
        "decision": "allow",
        "operation": "#",
        "attempt": 1,
        "fence": 1,
    }


async def test_nothing_that_was_said_is_in_any_of_it(world: World) -> None:
    waiting = await asks(world, "pay", "c1", word="s3cr3t", count=2)
    await world.deny(waiting, reason="s3cr3t", by=PAULA)
    await asks(world, "pay", "c2", word="s3cr3t", count="s3cr3t")
    await asks(world, "s3cr3t", "c3")
    await asks(world, "act", "c4")
    await asks(world, "look", "c5", word="s3cr3t")

    assert len(world.events()) >= 12
    assert b"s3cr3t" not in world.bodies()
