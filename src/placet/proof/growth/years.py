"""How much there is after years, and what each operation is called.

Operation `i` is the `i / 20`th of tenant `i % 20`, so that tenants take turns in time, and each has its keys in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from placet.proof.growth.specimens import Specimens, microseconds

TENANTS = 20
OPERATIONS_PER_RUN = 100
APPROVED_EVERY = 19
"""One operation of so many was approved by a person; it has no factor in common with the number of tenants."""
YEARS_MICROSECONDS = 3 * 365 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Years:
    """A ledger's size.

    Attributes:
        effects: operations, of all tenants.
        events: at least so many of the audit; beyond those of the operations they are of reads.
        began: microseconds since 1970.
        per_write, per_approved, per_read: events of one operation of each kind.
    """

    effects: int
    events: int
    began: int
    per_write: int
    per_approved: int
    per_read: int

    @classmethod
    def until(cls, now: datetime, *, effects: int, events: int, of: Specimens) -> Years:
        """Those that end now."""
        return cls(
            effects=effects,
            events=events,
            began=microseconds(now) - YEARS_MICROSECONDS,
            per_write=len(of.write.events),
            per_approved=len(of.approved.events),
            per_read=len(of.read.events),
        )

    def by_tenant(self) -> Iterator[int]:
        for tenant in range(TENANTS):
            yield from range(tenant, self.effects, TENANTS)

    def at(self, operation: int) -> int:
        return self.began + operation * (YEARS_MICROSECONDS // (self.effects + 1))

    def reads(self, operation: int) -> int:
        """How many reads follow an operation. In sum they are as many as the events that are left for them."""
        approved = -(-self.effects // APPROVED_EVERY)
        own = approved * self.per_approved + (self.effects - approved) * self.per_write
        wanted = max(0, -(-(self.events - own) // self.per_read))
        return (operation + 1) * wanted // self.effects - operation * wanted // self.effects

    def any_of(self, seed: int) -> int:
        """One operation of them, for each seed another, until all have been."""
        return seed % self.effects

    def any_approved(self, seed: int) -> int:
        """One that a person approved."""
        return seed % -(-self.effects // APPROVED_EVERY) * APPROVED_EVERY

    def run_of(self, operation: int) -> range:
        """All operations of its run."""
        first = operation - operation // TENANTS % OPERATIONS_PER_RUN * TENANTS
        return range(first, min(self.effects, first + OPERATIONS_PER_RUN * TENANTS), TENANTS)


def is_approved(operation: int) -> bool:
    return operation % APPROVED_EVERY == 0


def tenant_name(operation: int) -> str:
    return f"tenant-{10 + operation % TENANTS}"


def ticket_number(operation: int) -> str:
    return f"n-{operation // TENANTS:09d}"


def run_name(operation: int) -> str:
    return f"run-{operation % TENANTS:02d}-{operation // TENANTS // OPERATIONS_PER_RUN:07d}"


def call_name(operation: int) -> str:
    return f"call-{operation:09d}"


def read_name(operation: int, read: int) -> str:
    return f"read-{operation:09d}-{read}"


def approval_name(operation: int) -> str:
    return f"apr-{operation:024x}"


def request_name(operation: int) -> str:
    return f"req-{operation:024x}"
