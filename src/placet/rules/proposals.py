"""The protocol gate: is this a proposal at all? Runs no method of the proposer's objects.

Source: REQUIREMENTS B001 to B018.
"""

from __future__ import annotations

import re

from placet.errors import ProtocolRejected
from placet.model.contract import MAX_ATTEMPTS_PER_CALL
from placet.model.identifiers import CallId
from placet.model.proposal import Proposal

CALL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
SUBSTITUTE_CALL_ID = CallId("invalid")
MAX_BATCH = 128
"""Proposals in one batch; the smallest cap of the known providers."""

_REQUIRED = frozenset({"call_id", "tool", "arguments"})
_KNOWN = _REQUIRED | {"version", "attempt"}
_MAX_NAME_CHARACTERS = 256


def read_proposal(raw: object) -> Proposal:
    """Turn a `Proposal` or a plain dict with exactly its members into a checked proposal.

    Raises:
        ProtocolRejected: anything else; nothing ran, and no method of a foreign object did.
    """
    members: dict[object, object] | None = None
    is_truncated = False
    if type(raw) is Proposal:
        members = _fields_of(raw)
        is_truncated = members is not None and members.pop("is_truncated") is not False
    elif type(raw) is dict:
        members = _plain_members(raw)
    if members is None:
        raise ProtocolRejected("a proposal is a mapping of call_id, tool and arguments")
    call_id, tool = members["call_id"], members["tool"]
    if not is_call_id(call_id):
        raise ProtocolRejected("the call id is 1 to 128 characters of A-Z a-z 0-9 . _ : -")
    if type(tool) is not str or not 0 < len(tool) <= _MAX_NAME_CHARACTERS:
        raise ProtocolRejected("the tool name is text of 1 to 256 characters")
    version = members.get("version")
    if version is not None and (type(version) is not str or not 0 < len(version) <= _MAX_NAME_CHARACTERS):
        raise ProtocolRejected("the version is text")
    attempt = members.get("attempt", 1)
    if type(attempt) is not int or not 1 <= attempt <= MAX_ATTEMPTS_PER_CALL:
        raise ProtocolRejected("the attempt is an integer from 1 to 100")
    return Proposal(
        call_id=CallId(str(call_id)),
        tool=tool,
        arguments=members["arguments"],
        version=version,
        attempt=attempt,
        is_truncated=is_truncated,
    )


def read_batch(raw: list[object]) -> tuple[list[Proposal], dict[int, ProtocolRejected]]:
    """The proposals of one model turn, or, by index, why members of it are none; two of one call id are none either.

    If anything is rejected, nothing of the batch may run. Source: B006, B008.
    """
    if len(raw) > MAX_BATCH:  # asked first, so that a flood costs one rejection
        return [], {MAX_BATCH: ProtocolRejected(f"a batch has at most {MAX_BATCH} calls")}
    checked: list[Proposal] = []
    rejected: dict[int, ProtocolRejected] = {}
    seen: set[CallId] = set()
    for index, item in enumerate(raw):
        try:
            proposal = read_proposal(item)
        except ProtocolRejected as error:
            rejected[index] = error
            continue
        if proposal.call_id in seen and not rejected:
            rejected[index] = ProtocolRejected("two calls share one id", error_type="DuplicateToolCallId")
        seen.add(proposal.call_id)
        checked.append(proposal)
    return checked, rejected


def is_call_id(value: object) -> bool:
    """Whether `value` is an exact str that is a call id as a whole."""
    return type(value) is str and CALL_ID.fullmatch(value) is not None


def audit_substitutes(raw: object) -> tuple[CallId, str | None, int]:
    """What the audit may say of a rejected proposal: call id, name to fingerprint, attempt.

    Source: B010, B015. Only exact values of valid form survive.
    """
    members: dict[object, object] | None = None
    if type(raw) is Proposal:
        members = _fields_of(raw)
    elif type(raw) is dict and all(type(key) is str for key in raw):
        members = raw
    if members is None:
        return SUBSTITUTE_CALL_ID, None, 1
    call_id, tool, attempt = members.get("call_id"), members.get("tool"), members.get("attempt")
    return (
        CallId(str(call_id)) if is_call_id(call_id) else SUBSTITUTE_CALL_ID,
        tool if type(tool) is str else None,
        attempt if type(attempt) is int and 1 <= attempt <= MAX_ATTEMPTS_PER_CALL else 1,
    )


def _fields_of(raw: Proposal) -> dict[object, object] | None:
    """What a `Proposal` holds; None if it was made without its constructor and lacks a field."""
    try:
        return {
            "call_id": raw.call_id,
            "tool": raw.tool,
            "arguments": raw.arguments,
            "version": raw.version,
            "attempt": raw.attempt,
            "is_truncated": raw.is_truncated,
        }
    except AttributeError:
        return None


def _plain_members(raw: dict[object, object]) -> dict[object, object]:
    for key in raw:  # before a copy could compare a hostile key
        if type(key) is not str:
            raise ProtocolRejected("the members of a proposal have text names")
    members = dict(raw)  # from here on the caller's mapping may change without effect
    if not members.keys() >= _REQUIRED:
        raise ProtocolRejected("a proposal has call_id, tool and arguments")
    if not members.keys() <= _KNOWN:
        raise ProtocolRejected("a proposal has no members besides call_id, tool, arguments, version and attempt")
    return members
