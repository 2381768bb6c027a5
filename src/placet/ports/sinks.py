"""Whoever else must, or may, hear what was recorded."""

from __future__ import annotations

from typing import Protocol

from placet.model.audit import AuditEvent


class AuditSink(Protocol):
    """Receives copies of events after they are durable. It never changes the truth.

    Attributes:
        name: a label of its own, such as `log`.
        is_required: whether a write may only be sent once its started event was delivered here.
    """

    @property
    def name(self) -> str: ...

    @property
    def is_required(self) -> bool: ...

    async def deliver(self, event: AuditEvent) -> None: ...
