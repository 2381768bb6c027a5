"""The state of the world that an approval is bound to: what may be one, and what its digest covers.

Source: CASES E12; ADR-0059.
"""

from __future__ import annotations

from typing import Final

from placet.errors import InvalidArguments
from placet.model.call import Call
from placet.model.json import JsonValue
from placet.rules.canonical import canonical_bytes
from placet.rules.contracts.limits import LIMITS, result_limits
from placet.rules.decoding import decode_object
from placet.rules.encoding import encode_foreign

STATE_CHANGED: Final = "state_changed"
"""Among the reasons of a question that stands in for an approval of another state, and why that one is void."""
MAX_STATE_BYTES: Final = 8_192
SHOWN_CHARACTERS: Final = 12
"""Of the digest, to people: enough to tell two states apart."""

_LIMITS: Final = result_limits(LIMITS.max_depth, MAX_STATE_BYTES)
_EVERYWHERE: Final = frozenset(("*",) * depth for depth in range(1, LIMITS.max_depth + 2))
"""Versions and instants are often integers beyond 2^53-1; each is taken as it is."""


def state_of(answered: object) -> bytes:
    """What a precondition answered, as canonical bytes that `read_state` reads.

    Raises:
        InvalidArguments: it is null, no plain JSON, or larger than `MAX_STATE_BYTES`.
    """
    if answered is None:
        raise InvalidArguments("unsupported_value")
    state = decode_object(encode_foreign({"state": answered}, limits=_LIMITS), limits=_LIMITS, wide=_EVERYWHERE)
    canonical = canonical_bytes(state)
    if len(canonical) > MAX_STATE_BYTES:
        raise InvalidArguments("too_long")
    return canonical


def read_state(canonical: bytes) -> JsonValue:
    """A fresh copy of a state."""
    return decode_object(canonical, limits=_LIMITS, wide=_EVERYWHERE)["state"]


def state_form(call: Call, state: bytes) -> bytes:
    """The bytes that a state's digest covers: this state, seen of this call's tool with its arguments."""
    return canonical_bytes(
        {
            "v": "precondition/1",  # no question, answer or vote is of this form
            "tenant": call.principal.tenant,
            "tool": call.contract.name,
            "argument_digest": call.argument_digest,
            "state": state.decode(),
        }
    )


def because_it_changed(reasons: tuple[str, ...]) -> tuple[str, ...]:
    """The reasons of the question that is asked anew."""
    return reasons if STATE_CHANGED in reasons else (*reasons, STATE_CHANGED)
