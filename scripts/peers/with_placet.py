"""placet: contract, default policy, ledger, chained audit and log sink on SQLite, through its facade for threads."""

import logging

from measure import BODY, PRIORITY, TICKET, chosen, measure

import placet


@placet.tool(effect="write", risk="low", permission="bench.write", operation_key="ticket:{title}")
async def open_ticket(title: str, body: str, priority: int) -> dict[str, str]:
    """Open a ticket."""
    return TICKET


AGENT = placet.Principal.agent("bench-agent", tenant="bench", roles=("operator",), scopes=("bench.write",))


def main() -> None:
    folder, callers, seconds = chosen()
    logging.disable(logging.CRITICAL)
    with placet.open(tools=[open_ticket], store=folder / "placet.db") as gate:

        def call(title: str) -> None:
            proposal = {
                "call_id": title.replace(" ", "-"),
                "tool": "open_ticket",
                "arguments": {"title": title, "body": BODY, "priority": PRIORITY},
            }
            caller, _, number = title.rpartition("-")
            outcome = gate.submit(proposal, principal=AGENT, run=f"{caller} {int(number) // 100}")
            if not outcome.is_success:
                raise RuntimeError(outcome.code)

        measure(call, callers=callers, seconds=seconds)


if __name__ == "__main__":
    main()
