"""What is said in a question to the server, beside what stands in its address."""

from __future__ import annotations

from collections.abc import Sequence

from placet.errors import MisuseError
from placet.model.approval import ApprovalDecision, Chosen
from placet.model.grant import GrantWish
from placet.model.json import JsonObject


def wish_body(wish: GrantWish) -> JsonObject:
    """A wish for a standing grant."""
    named: JsonObject = {} if wish.run_id is None else {"run": wish.run_id}
    return {
        "tool": wish.tool,
        "subjects": list(wish.subjects),
        "limits": wish.limits,
        "seconds": wish.seconds,
        "max_uses": wish.max_uses,
        "reason": wish.reason,
        **named,
    }


def chosen_body(decision: ApprovalDecision, chosen: Sequence[Chosen], reason: str) -> JsonObject:
    """One answer to several questions."""
    return {
        "decision": decision.value,
        "reason": reason,
        "approvals": [{"approval_id": each.approval_id, "digest": each.digest} for each in chosen],
    }


def quoted_key(key: str) -> str:
    """A key as the header has it.

    Raises:
        MisuseError: it cannot stand there.
    """
    if key.isascii() and key.isprintable():
        return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise MisuseError("idempotency_key= is text of 1 to 128 printable ASCII characters.")
