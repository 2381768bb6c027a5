"""What the MACs of a chain cover: its links, its head, and the tombstone of what was cut from it.

A chain belongs to one writer: link(n) = HMAC(writer, n, link(n-1), body). Its head is MACed too, so that a missing
tail shows, and names the ends of other chains when it began, so that a missing chain shows in its successors.
What nobody inside the database can show is a rollback of everything together; for that, print or post the heads.

Every message begins with words of its own, so that no MAC of one kind passes for one of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from placet.errors import MisuseError
from placet.model.approval import Mac
from placet.model.audit import ChainHead, ChainTombstone
from placet.rules.canonical import canonical_bytes

GENESIS = "0" * 64
"""What the first event of a chain is linked to."""


class Linker(Protocol):
    """Makes and checks the MACs of a chain."""

    def is_authentic(self, message: bytes, mac: Mac) -> bool: ...

    def knows(self, key_id: str) -> bool:
        """Whether there is such a key at all; without it nobody can tell whether a MAC under it holds."""
        ...


def chain_message(writer: str, sequence: int, previous: str, body: bytes) -> bytes:
    """What the link of one event covers."""
    return b"placet/link/1\x00%s\x00%d\x00%s\x00" % (writer.encode(), sequence, previous.encode()) + body


def unchained_message(body: bytes) -> bytes:
    """What the MAC of an event covers that waits to be chained."""
    return b"placet/unchained/1\x00" + body


def head_message(head: ChainHead) -> bytes:
    """What the MAC of a chain head covers."""
    return (
        b"placet/head/1\x00%s\x00%d\x00%s\x00" % (head.writer.encode(), head.sequence, head.link.encode())
        + head.opened_after
    )


def tombstone_message(tombstone: ChainTombstone) -> bytes:
    """What the MAC of a chain's tombstone covers: every field of it."""
    return b"placet/tombstone/1\x00" + canonical_bytes(tombstone_form(tombstone))


def tombstone_form(tombstone: ChainTombstone) -> dict[str, Any]:
    """Its fields as they are MACed, and as they are exported beside the MAC."""
    return {
        "writer": tombstone.writer,
        "first_kept": tombstone.first_kept,
        "link": tombstone.link,
        "removed": tombstone.removed,
        "cut_by": tombstone.cut_by,
        "cut_at": tombstone.cut_at.isoformat(timespec="microseconds"),
    }


def is_sound_head(head: ChainHead, linker: Linker) -> bool:
    """Whether its MAC holds."""
    return linker.is_authentic(head_message(head), Mac(key_id=head.key_id, value=head.mac))


def is_sound_tombstone(tombstone: ChainTombstone, linker: Linker) -> bool:
    """Whether its MAC holds, and it says that something was cut."""
    mac = Mac(key_id=tombstone.key_id, value=tombstone.mac)
    return tombstone.first_kept > 1 and linker.is_authentic(tombstone_message(tombstone), mac)


def fault_of_mac(problem: str, key_id: str, linker: Linker) -> str:
    """Why a MAC does not hold: under a key that is not there, its text was perhaps altered, and perhaps not."""
    return problem if linker.knows(key_id) else "key_unknown"


def heads_form(heads: Iterable[ChainHead]) -> bytes:
    """The heads that a new chain remembers from its beginning."""
    return canonical_bytes({head.writer: [head.sequence, head.link] for head in heads})


def sound_anchors(anchors: dict[str, tuple[int, str]] | None) -> dict[str, tuple[int, str]]:
    """Heads that were kept outside, of exact built-in types: what only looks equal to a link proves nothing.

    Raises:
        MisuseError: they are anything else.
    """
    if anchors is None:
        return {}
    if type(anchors) is dict and all(type(writer) is str and _is_anchor(head) for writer, head in anchors.items()):
        return anchors
    raise MisuseError("anchors= is a dict of writers, each with a tuple of a sequence and a link.")


def _is_anchor(head: object) -> bool:
    if type(head) is not tuple or len(head) != 2:
        return False
    sequence, link = head
    return type(sequence) is int and sequence >= 0 and type(link) is str
