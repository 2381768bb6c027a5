"""Puts events into the chain of one writer, in the order they are committed."""

from __future__ import annotations

from placet.model.approval import Mac
from placet.model.audit import AuditEvent, ChainedEvent, ChainHead, UnchainedEvent
from placet.model.identifiers import WriterId
from placet.ports.keys import KeyPurpose, Keys, KeyState
from placet.rules.audit import check_event, event_body
from placet.rules.chains import GENESIS, chain_message, head_message, unchained_message


class ChainWriter:
    """One chain's growing end. Not durable itself: `rewind` it when the transaction rolls back."""

    def __init__(self, keys: Keys, writer: WriterId, *, opened_after: bytes) -> None:
        self._keys = keys
        self._opened_after = opened_after
        self._key_check: Mac | None = None
        self.writer = writer
        self._end = (0, GENESIS)

    def noted(self, key_check: Mac) -> None:
        """What the store says of its key, read in the transaction that will be linked.

        While it says something new, keys are looked at again, until the key it names is the one that signs: after a
        rotation is committed, nobody links with an older key for longer than its key file cannot be read.
        """
        if key_check != self._key_check:
            self._keys.refresh()
            if self._keys.current == key_check.key_id:
                self._key_check = key_check

    def link(self, event: AuditEvent) -> ChainedEvent:
        """Check the event and give it the next place in the chain."""
        check_event(event)
        return self.link_body(event_body(event))

    def link_body(self, body: bytes) -> ChainedEvent:
        """Give the next place to an event that was checked when its body was made."""
        sequence, previous = self._end
        mac = self._keys.mac(KeyPurpose.AUDIT_CHAIN, chain_message(self.writer, sequence + 1, previous, body))
        self._end = (sequence + 1, mac.value)
        return ChainedEvent(writer=self.writer, sequence=sequence + 1, body=body, link=mac.value, key_id=mac.key_id)

    def unchained(self, event: AuditEvent) -> tuple[bytes, Mac]:
        """Check an event that another transaction writes, to be chained later: its body, and a MAC of its own."""
        check_event(event)
        body = event_body(event)
        return body, self._keys.mac(KeyPurpose.AUDIT_CHAIN, unchained_message(body))

    def is_ours(self, waiting: UnchainedEvent) -> bool:
        """Whether somebody with the keys made the event that waits."""
        return self._keys.is_authentic(KeyPurpose.AUDIT_CHAIN, unchained_message(waiting.body), waiting.mac)

    @property
    def key_id(self) -> str:
        """The key that links now."""
        return self._keys.current

    @property
    def end(self) -> tuple[int, str]:
        return self._end

    def rewind(self, end: tuple[int, str]) -> None:
        """Forget what was linked after `end`; it never became durable."""
        self._end = end

    def head(self) -> ChainHead:
        """The end of the chain, MACed, to be stored with the events."""
        sequence, link = self._end
        bare = ChainHead(
            writer=self.writer, sequence=sequence, link=link, opened_after=self._opened_after, key_id="", mac=""
        )
        mac = self._keys.mac(KeyPurpose.AUDIT_CHAIN, head_message(bare))
        return ChainHead(
            writer=self.writer,
            sequence=sequence,
            link=link,
            opened_after=self._opened_after,
            key_id=mac.key_id,
            mac=mac.value,
        )


class ChainLinker:
    """The chain's MACs as verification asks for them."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def is_authentic(self, message: bytes, mac: Mac) -> bool:
        return self._keys.is_authentic(KeyPurpose.AUDIT_CHAIN, message, mac)

    def knows(self, key_id: str) -> bool:
        return self._keys.state_of(key_id) is not KeyState.UNKNOWN
