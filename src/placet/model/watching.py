"""What waits for people, seen by somebody who looks all the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from placet.model.identifiers import ApprovalId


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingMark:
    """One question that waits, and no more of it than shows that something became of it.

    Attributes:
        version: another word once somebody voted on it, took a vote back, or was told of it again.
    """

    approval_id: ApprovalId
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Glance:
    """What waited in a tenant at one look, the newest first, and what the store's clock said."""

    now: datetime
    marks: tuple[WaitingMark, ...]
