"""The lines of an export: how each kind is written, and read again.

Reading is lenient, for whoever checks writes again what was read: one spelling of everything, or a fault.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

import orjson

from placet.model.approval import Mac
from placet.model.audit import ChainedEvent, ChainHead, ChainTombstone, ElidedEvents
from placet.rules.chains import tombstone_form

SCHEMA: Final = "audit-export/1"
SCHEMA_WITH_TOMBSTONES: Final = "audit-export/2"


def manifest_line(tenant: str | None, *, heads: int, events: int, tombstones: int) -> bytes:
    data: dict[str, Any] = {"record": "manifest", "tenant": tenant, "heads": heads, "events": events}
    if tombstones:
        return _line({**data, "schema": SCHEMA_WITH_TOMBSTONES, "tombstones": tombstones})
    return _line({**data, "schema": SCHEMA})


def head_line(head: ChainHead) -> bytes:
    return _line(
        {
            "record": "head",
            "writer": head.writer,
            "sequence": head.sequence,
            "link": head.link,
            "opened_after": head.opened_after.decode(),
            "key_id": head.key_id,
            "mac": head.mac,
        }
    )


def tombstone_line(tombstone: ChainTombstone) -> bytes:
    return _line({"record": "tombstone", **tombstone_form(tombstone), "key_id": tombstone.key_id, "mac": tombstone.mac})


def event_line(event: ChainedEvent) -> bytes:
    """One event. Its body is a member that can be queried, or a text where it is not as it was written."""
    data: dict[str, Any] = {
        "record": "event",
        "writer": event.writer,
        "sequence": event.sequence,
        "link": event.link,
        "key_id": event.key_id,
    }
    try:
        body: object = orjson.loads(event.body)
        is_as_written = _is_flat(body) and orjson.dumps(body, option=orjson.OPT_SORT_KEYS) == event.body
    except ValueError:
        body, is_as_written = None, False
    return _line({**data, "event": body} if is_as_written else {**data, "body": event.body.decode()})


def others_line(others: ElidedEvents) -> bytes:
    return _line(
        {
            "record": "others",
            "writer": others.writer,
            "first": others.first,
            "last": others.last,
            "link": others.link,
        }
    )


def end_line(lines: int, digest: str, mac: Mac) -> bytes:
    return _line({"record": "end", "lines": lines, "digest": digest, "key_id": mac.key_id, "mac": mac.value})


def end_message(lines: int, digest: str) -> bytes:
    """What the signature of an export covers. No link and no head begins like it."""
    return b"placet/export/1\x00%d\x00%s" % (lines, digest.encode())


def _line(data: dict[str, Any]) -> bytes:
    return orjson.dumps(data, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def read_line(line: bytes) -> dict[str, Any] | None:
    try:
        data: object = orjson.loads(line)
    except ValueError:
        return None
    return data if type(data) is dict else None


def _is_flat(body: object) -> bool:
    """Whether it is an object of scalars, and of lists and objects of scalars, as the bodies of events are."""
    if type(body) is not dict:
        return False
    inner = [each for each in body.values() if type(each) in (dict, list)]
    values = (value for each in inner for value in (each.values() if type(each) is dict else each))
    return not any(type(value) in (dict, list) for value in values)


def is_counted(data: dict[str, Any], *names: str) -> bool:
    return all(type(data.get(name)) is int and 0 <= data[name] < 2**53 for name in names)


def _has_texts(data: dict[str, Any], *names: str) -> bool:
    return all(type(data.get(name)) is str for name in names)


def read_head(data: dict[str, Any]) -> ChainHead | None:
    if not is_counted(data, "sequence") or not _has_texts(data, "writer", "link", "opened_after", "key_id", "mac"):
        return None
    return ChainHead(
        writer=data["writer"],
        sequence=data["sequence"],
        link=data["link"],
        opened_after=data["opened_after"].encode(),
        key_id=data["key_id"],
        mac=data["mac"],
    )


def read_tombstone(data: dict[str, Any]) -> ChainTombstone | None:
    names = ("writer", "link", "cut_by", "cut_at", "key_id", "mac")
    if not is_counted(data, "first_kept", "removed") or not _has_texts(data, *names):
        return None
    try:
        cut_at = datetime.fromisoformat(data["cut_at"])
    except ValueError:
        return None
    if cut_at.tzinfo is None:
        return None
    return ChainTombstone(
        writer=data["writer"],
        first_kept=data["first_kept"],
        link=data["link"],
        removed=data["removed"],
        cut_by=data["cut_by"],
        cut_at=cut_at,
        key_id=data["key_id"],
        mac=data["mac"],
    )


def read_event(data: dict[str, Any]) -> ChainedEvent | None:
    if not is_counted(data, "sequence") or not _has_texts(data, "writer", "link", "key_id"):
        return None
    if _is_flat(data.get("event")):
        body = orjson.dumps(data["event"], option=orjson.OPT_SORT_KEYS)
    elif type(data.get("body")) is str:
        body = data["body"].encode()
    else:
        return None
    return ChainedEvent(
        writer=data["writer"], sequence=data["sequence"], body=body, link=data["link"], key_id=data["key_id"]
    )


def read_others(data: dict[str, Any]) -> ElidedEvents | None:
    if not is_counted(data, "first", "last") or not _has_texts(data, "writer", "link"):
        return None
    return ElidedEvents(writer=data["writer"], first=data["first"], last=data["last"], link=data["link"])


def read_end(data: dict[str, Any]) -> Mac | None:
    if not is_counted(data, "lines") or not _has_texts(data, "digest", "key_id", "mac"):
        return None
    return Mac(key_id=data["key_id"], value=data["mac"])
