"""Scopes for looking at what belongs to no call: the audit of one's tenant, and the numbers of a process."""

from __future__ import annotations

from placet.model.principal import MAX_LINKS, Principal

READ_AUDIT_SCOPE = "audit.read"
"""Lets a principal read, export and verify the audit of its tenant."""
READ_METRICS_SCOPE = "metrics.read"
"""Lets a principal read the numbers of a process, which are those of every tenant."""


def has_scope(principal: Principal, scope: str) -> bool:
    """Whether the principal, and everybody it acts for, holds the scope: delegation only narrows."""
    link: Principal | None = principal
    for _ in range(MAX_LINKS):
        if link is None:
            return True
        if scope not in link.scopes:
            return False
        link = link.on_behalf_of
    return False
