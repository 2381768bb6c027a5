"""What in a store was written under which key, and so depends on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """Rows that need one key.

    Attributes:
        key_id: as the rows name it; a row altered by hand may name anything.
        approvals: questions that are open, approvals that were not used, and denials that are remembered.
        arguments: sealed arguments of effects that are not settled; a probe may need them.
        results: sealed results that answer repeats.
        checkpoints: where runs rest that are not over; without the key they go no further.
        events: audit events. They stay verifiable when their key is retired.
        api_keys: of agents, that are neither revoked nor over; signed under it, and worth nothing without it.
    """

    key_id: str
    approvals: int = 0
    arguments: int = 0
    results: int = 0
    checkpoints: int = 0
    events: int = 0
    api_keys: int = 0
