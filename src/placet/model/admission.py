"""Who is let in, and how often: what a deployment says of its front doors."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.model.credentials import SessionLimits
from placet.model.issuers import Issuer
from placet.model.rates import RateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """API keys are always known; tokens are those of the issuers named here."""

    issuers: tuple[Issuer, ...] = ()
    sessions: SessionLimits = field(default_factory=SessionLimits)
    rates: RateLimits = field(default_factory=RateLimits)
