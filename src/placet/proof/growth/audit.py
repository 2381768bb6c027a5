"""The audit after years: chains that hold, in the order of time.

Each body is a specimen's with other names, instants and fingerprints; those of arguments, results and operations are
chance of the right form, as nothing here is found by them. Links and heads are the store's own MACs. A writer lives for
one twentieth of the years, and each chain begins by naming the end of the one before.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from placet.model.audit import ChainHead
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose, Keys
from placet.proof.growth.specimens import Specimen, Specimens, microseconds
from placet.proof.growth.years import (
    Years,
    approval_name,
    call_name,
    is_approved,
    read_name,
    request_name,
    run_name,
    tenant_name,
)
from placet.rules.chains import GENESIS, chain_message, head_message, heads_form

Row = tuple[Any, ...]
Form = Callable[[dict[str, str], int], str]

EVENT_COLUMNS = ("writer", "sequence", "body", "link", "key_id")
HEAD_COLUMNS = ("writer", "remembered", "sequence", "link", "opened_after", "key_id", "mac")
_WRITERS = 20
_NAMES = ("tenant", "run_id", "call_id", "approval_id", "request_id")
_INSTANTS = ("at", "decided_at", "expires_at")
_CHANCE = ("arguments_fingerprint", "result_fingerprint", "operation")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_READ_AFTER = 1_000
"""Microseconds from an operation to a read that follows it, for each of them."""


class Audit:
    """All events, and then the heads of their chains. Events are read first, and once."""

    def __init__(self, years: Years, specimens: Specimens, keys: Keys) -> None:
        self._years = years
        self._keys = keys
        self._write, self._approved, self._read = map(_forms, (specimens.write, specimens.approved, specimens.read))
        self._heads: list[ChainHead] = []

    def events(self) -> Iterator[Row]:
        key_id, mac = self._keys.current, self._keys.mac
        for number in range(_WRITERS):
            writer, sequence, link = f"w-{number:024x}", 0, GENESIS
            for body in self._bodies(number):
                sequence += 1
                message = chain_message(writer, sequence, link, body.encode())
                link = mac(KeyPurpose.AUDIT_CHAIN, message).value
                yield writer, sequence, body, link, key_id
            if sequence:
                self._heads.append(self._head(WriterId(writer), sequence, link))

    def heads(self) -> Iterator[Row]:
        """All but the last are remembered by the chain that came after."""
        for head in self._heads:
            remembered = head.sequence if head is not self._heads[-1] else 0
            yield (head.writer, remembered, head.sequence, head.link, head.opened_after.decode(), head.key_id,
                   head.mac)  # fmt: skip

    @property
    def count(self) -> int:
        """How many events there are, once they have been read."""
        return sum(head.sequence for head in self._heads)

    def _head(self, writer: WriterId, sequence: int, link: str) -> ChainHead:
        before = heads_form(self._heads[-1:])
        bare = ChainHead(writer=writer, sequence=sequence, link=link, opened_after=before, key_id="", mac="")
        mac = self._keys.mac(KeyPurpose.AUDIT_CHAIN, head_message(bare))
        return replace(bare, key_id=mac.key_id, mac=mac.value)

    def _bodies(self, number: int) -> Iterator[str]:
        effects = self._years.effects
        for operation in range(number * effects // _WRITERS, (number + 1) * effects // _WRITERS):
            at = self._years.at(operation)
            names = {
                "tenant": tenant_name(operation),
                "run_id": run_name(operation),
                "call_id": call_name(operation),
                "approval_id": approval_name(operation),
                "request_id": request_name(operation),
            }
            for form in self._approved if is_approved(operation) else self._write:
                yield form(names, at)
            for read in range(self._years.reads(operation)):
                names["call_id"] = read_name(operation, read)
                for form in self._read:
                    yield form(names, at + (read + 1) * _READ_AFTER)


def _forms(specimen: Specimen) -> list[Form]:
    return [_form(body, specimen.began) for body in specimen.events]


def _form(body: dict[str, Any], began: int) -> Form:
    """What makes the text of a body from its names and the instant its operation began."""
    marked = {name: f"\x00{name}\x00" if name in (*_NAMES, *_INSTANTS, *_CHANCE) else body[name] for name in body}
    text = orjson.dumps(marked, option=orjson.OPT_SORT_KEYS).decode()
    parts = text.replace("%", "%%").split("\\u0000")
    template = "".join(f"%({part})s" if index % 2 else part for index, part in enumerate(parts))
    later = {name: microseconds(datetime.fromisoformat(body[name])) - began for name in _INSTANTS if name in body}
    chance = [name for name in _CHANCE if name in body]

    def form(names: dict[str, str], at: int) -> str:
        digits = os.urandom(32 * len(chance)).hex()
        for index, name in enumerate(chance):
            names[name] = digits[64 * index : 64 * index + 64]
        for name, after in later.items():
            names[name] = (_EPOCH + timedelta(microseconds=at + after)).isoformat(timespec="microseconds")
        return template % names

    return form
