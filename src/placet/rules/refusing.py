"""What a refused decision says about whoever wanted it, for doors that tell the two kinds of no apart."""

from __future__ import annotations

NOT_ENTITLED = frozenset(
    {
        "not_a_person",
        "not_an_approver",
        "not_listed_any_more",
        "not_the_requesting_user",
        "other_environment",
        "own_edit",
        "own_request",
        "scope_missing",
        "stopped_with_more_leave",
    }
)
"""Codes that say: not you, whatever you decide. Every other one says how the thing stands."""
