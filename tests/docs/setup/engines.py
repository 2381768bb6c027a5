"""A workflow of one state for the drivers that the page shows."""

from dataclasses import dataclass

from placet import End, Failure, Next, Principal, State, Workflow

AGENT = Principal.agent("agent", tenant="acme", roles=("operator",))
DATABASE = "sqlite:///dbos.db"


@dataclass(frozen=True)
class Order:
    order: str
    amount: int


async def done(inputs, context):
    return Next("DONE", inputs)


ORDER = Workflow(
    name="order",
    version="1",
    start="CHECK",
    states=(
        State(name="CHECK", inputs=Order, step=done, next=("DONE",), tools=(), on_failure="FAILED"),
        End(name="DONE", inputs=Order),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)
