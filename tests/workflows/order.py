"""An order: looked at, paid for when a person agrees, shipped; refunded where shipping fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import placet
from placet import (
    AwaitingApproval,
    End,
    Fail,
    Failure,
    Move,
    Next,
    Principal,
    Replayed,
    State,
    StepContext,
    Succeeded,
    Wait,
    Workflow,
)
from tests.engine.conftest import SCOPE, Spy

AGENT = Principal.agent("agent-operator", tenant="acme", roles=("operator",), scopes=(SCOPE,))
BOSS = Principal.person("paula", tenant="acme", roles=("operator",), scopes=("approvals.decide", "ops.stop"))


@dataclass(frozen=True)
class Order:
    order: str
    amount: int


async def check(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("stock.look", {"word": inputs.order})
    if not isinstance(outcome, Succeeded | Replayed):
        return Fail("no_stock")
    return Next("CONFIRM", inputs)


async def confirm(inputs: Order, context: StepContext) -> Move:
    outcome = await context.propose("pay", _payment(inputs), name="payment")
    then = Next("PAY", inputs)
    return Wait(outcome, then) if isinstance(outcome, AwaitingApproval) else then


async def pay(inputs: Order, context: StepContext) -> Move:
    outcome = await context.call("pay", _payment(inputs), name="payment")
    return Next("SHIP", inputs) if outcome.is_success else Fail("not_paid")


async def ship(inputs: Order, context: StepContext) -> Move:
    first = await context.call("ship", {"word": inputs.order})
    second = await context.call("ship", {"word": inputs.order, "count": 2})
    return Next("DONE", inputs) if first.is_success and second.is_success else Fail("not_shipped")


async def refund(inputs: Failure, context: StepContext) -> Move:
    await context.call("ship", {"word": "refund"})
    return Next("REFUNDED", inputs)


def _payment(inputs: Order) -> dict[str, Any]:
    return {"word": inputs.order, "count": inputs.amount}


ORDER = Workflow(
    name="order",
    version="1",
    start="CHECK",
    states=(
        State(name="CHECK", inputs=Order, step=check, next=("CONFIRM",), tools=("stock.look",), on_failure="FAILED"),
        State(name="CONFIRM", inputs=Order, step=confirm, next=("PAY",), tools=("pay",), on_failure="FAILED"),
        State(name="PAY", inputs=Order, step=pay, next=("SHIP",), tools=("pay",), on_failure="FAILED"),
        State(name="SHIP", inputs=Order, step=ship, next=("DONE",), tools=("ship",), on_failure="REFUND"),
        State(name="REFUND", inputs=Failure, step=refund, next=("REFUNDED",), tools=("ship",), on_failure="FAILED"),
        End(name="DONE", inputs=Order),
        End(name="REFUNDED", inputs=Failure, is_failure=True),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)


def with_step(name: str, step: Any, **more: Any) -> Workflow:
    """The order, with another step in one state."""
    states = tuple(
        replace(state, step=step, **more) if isinstance(state, State) and state.name == name else state
        for state in ORDER.states
    )
    return replace(ORDER, states=states)


def tools(
    looks: Spy,
    payments: Spy,
    shipments: Spy,
    *,
    pay: dict[str, Any] | None = None,
    ship: dict[str, Any] | None = None,
) -> list[placet.Tool]:
    write: dict[str, Any] = {"effect": "write", "risk": "medium", "permission": SCOPE, "breaker": None}

    @placet.tool(effect="read", name="stock.look")
    async def look(word: str) -> str:
        """Whether it is there."""
        looks(word)
        return word

    @placet.tool(**write | {"approval": "always"} | (pay or {}), name="pay")
    async def take(word: str, count: int) -> str:
        """Take the money."""
        payments((word, count))
        return word

    @placet.tool(**write | (ship or {}), name="ship")
    async def send(word: str, count: int = 1) -> str:
        """Send it."""
        shipments((word, count))
        if (meanwhile := getattr(shipments, "meanwhile", None)) is not None:
            await meanwhile()
        return word

    return [look, take, send]
