"""What an operator does next about a call that was refused: whose word it is, and where to change it.

An agent is told none of this. Whoever has the project's folder may read it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from placet.cli.screen import shown
from placet.model.outcome import Outcome

if TYPE_CHECKING:
    from placet.model.contract import Contract
    from placet.rules.contracts import Tool


def next_step(outcome: Outcome, tools: Sequence[Tool], *, there: str = "") -> str | None:
    """
    Args:
        tools: of the project here; none where a server was asked.
        there: the words that name that server on the command line.
    """
    contract = next((each.contract for each in tools if each.contract.name == outcome.tool), None)
    match outcome.code:
        case "denied" if contract is not None:
            return _of_denial(contract, getattr(outcome, "reasons", ()))
        case "quarantined" if contract is not None and contract.origin is not None:
            server = shown(contract.origin.server)
            return f"placet mcp list {server} says by whom or why; placet mcp diff {server} how to end it"
        case "schema_drift" if contract is not None and contract.origin is not None:
            return f"placet mcp diff {shown(contract.origin.server)} shows what its server says now"
        case "stopped":
            return f"placet stop --list{there}"
        case _:
            return None


def _of_denial(contract: Contract, reasons: Sequence[str]) -> str | None:
    if "scope_missing" in reasons and contract.permission is not None:
        return f'"{shown(contract.permission)}" among the scopes of [agent] in placet.toml, if it may'
    if "no_role" in reasons or any(each.startswith("matrix_") for each in reasons):
        return "placet tools lint says what [agent] lacks, if it may"
    return None
