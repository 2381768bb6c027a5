"""What of all that a server says is read at all: answers up to their bound, everything else up to a smaller one.

Which of the two a large message is, is seen in its first and last bytes, before anything is made of it. One that lies
there is read, and costs its server the more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from placet.adapters.transports.mcp.attention import Share, has_more_marks, weight
from placet.adapters.transports.mcp.messages import (
    Answer,
    Fault,
    Garbled,
    Message,
    Noise,
    Oversized,
    RequestId,
    Unread,
    is_too_deep,
    read_message,
)

MOST_UNASKED_BYTES: Final = 262_144
"""Of a message that is no answer to a request of ours."""
MOST_MARKS: Final = 250_000
"""Members, elements, objects and arrays of one message together; reading more of them keeps everybody waiting."""
HEAD_BYTES: Final = 256
TAIL_BYTES: Final = 192

_VERSION: Final = rb'"jsonrpc"\s*:\s*"2\.0"'
_ID: Final = rb'"id"\s*:\s*([0-9]{1,15})'
_BEGINS_WITH_ID: Final = re.compile(
    rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?" + _ID + rb"\s*,\s*(?:" + _VERSION + rb'\s*,\s*)?"(?:result|error)"'
)
_BEGINS_WITH_RESULT: Final = re.compile(rb"\s*\{\s*(?:" + _VERSION + rb'\s*,\s*)?"(?:result|error)"')
_ENDS_WITH_ID: Final = re.compile(_ID + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")

_NAMED: Final = rb'"id"\s*:\s*([0-9]{1,15}|"[!#-\[\]-~]{1,128}")'
_BEGINS_AS_QUESTION: Final = re.compile(
    rb"\s*\{\s*(?:" + _VERSION + rb"\s*,\s*)?(?:" + _NAMED + rb"\s*,\s*)?(?:" + _VERSION + rb'\s*,\s*)?"method"\s*:'
)
_ENDS_AS_QUESTION: Final = re.compile(_NAMED + rb"\s*(?:,\s*" + _VERSION + rb"\s*)?\}\s*\Z")

Awaits = Callable[[RequestId], bool]
"""Whether somebody waits for the answer to this request."""


def answered_id(head: bytes, tail: bytes) -> int | None:
    """Whose answer it is that begins and ends so, as far as that can be told without reading it.

    Libraries write the id before the result, or behind it as the last or last but one member.
    """
    found = _BEGINS_WITH_ID.match(head)
    if found is None and _BEGINS_WITH_RESULT.match(head) is not None:
        found = _ENDS_WITH_ID.search(tail)
    return None if found is None else int(found.group(1))


def asked_id(head: bytes, tail: bytes) -> RequestId | None:
    """Which question of the server begins and ends so, as far as that can be told without reading it."""
    begun = _BEGINS_AS_QUESTION.match(head)
    if begun is None:
        return None
    said = begun.group(1)
    if said is None and (ended := _ENDS_AS_QUESTION.search(tail)) is not None:
        said = ended.group(1)
    if said is None:
        return None
    return said[1:-1].decode("ascii") if said.startswith(b'"') else int(said)


def hear(text: bytes, share: Share, awaits: Awaits) -> Message:
    """One whole message, and its weight taken note of."""
    is_large = len(text) > MOST_UNASKED_BYTES
    if is_large and (too_much := _passed_over(text, awaits)) is not None:
        share.passed_over(len(text))
        return too_much
    message, cost = read_message(text), weight(text)
    if isinstance(message, Noise):
        message = _by_its_ends(text, awaits)
    match message:
        case Answer(id=found) | Garbled(id=found) | Fault(id=int() | str() as found) if awaits(found):
            share.answered(cost)
        case _:
            share.unasked(cost)
    return message


def _by_its_ends(text: bytes, awaits: Awaits) -> Message:
    """What can be said of a message that cannot be read; of an answer, that nobody waits for it any more."""
    head, tail = text[:HEAD_BYTES], text[-TAIL_BYTES:]
    answered, is_deep = answered_id(head, tail), is_too_deep(text)
    if answered is not None and (is_deep or awaits(answered)):
        return Garbled(id=answered)
    asked = asked_id(head, tail) if is_deep else None
    return Noise() if asked is None else Unread(id=asked)


def _passed_over(text: bytes, awaits: Awaits) -> Message | None:
    """What is said of a large message that is not read; None for one that is."""
    found = answered_id(text[:HEAD_BYTES], text[-TAIL_BYTES:])
    if found is not None and awaits(found):
        return Oversized(id=found) if has_more_marks(text, MOST_MARKS) else None
    asked = asked_id(text[:HEAD_BYTES], text[-TAIL_BYTES:])
    return Noise() if asked is None else Unread(id=asked)
