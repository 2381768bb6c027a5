"""How often somebody may come, and what whoever comes too often is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class RateScope(StrEnum):
    """Whose limit it is."""

    PRINCIPAL = "principal"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """So many requests in each window of so many whole seconds."""

    count: int
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimits:
    """The limits of one deployment.

    Attributes:
        per_principal: of everybody who signs in, by tenant, environment and subject; a rotated key brings no new one.
        per_tenant: of all in a tenant together.
        shared_at: the Redis or Valkey in which replicas share them; each process has its own without it. Not shown: it
            may hold a password.
        replicas: how many processes share them. While they cannot be asked each goes by that part of them.
    """

    per_principal: Rate = Rate(count=600, seconds=60)
    per_tenant: Rate = Rate(count=6_000, seconds=60)
    shared_at: str | None = field(default=None, repr=False)
    replicas: int = 4


@dataclass(frozen=True, slots=True)
class Admitted:
    """The request may go on; it was counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TooOften:
    """The request is refused before anything else was done.

    Attributes:
        retry_after_seconds: until the window is over, above 0.
    """

    scope: RateScope
    retry_after_seconds: float
