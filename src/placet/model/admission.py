"""Who is let in, and how often: what a deployment says of its front doors."""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.model.credentials import SessionLimits
from placet.model.issuer_sign_in import ConsoleClient
from placet.model.issuers import Issuer
from placet.model.rates import RateLimits


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """API keys are always known; tokens are those of the issuers named here.

    Attributes:
        clients: the issuers through whose own pages people come into the console.
        public_url: this site as browsers and issuers know it: scheme, host and port. Never what a request says.
    """

    issuers: tuple[Issuer, ...] = ()
    clients: tuple[ConsoleClient, ...] = ()
    public_url: str | None = None
    sessions: SessionLimits = field(default_factory=SessionLimits)
    rates: RateLimits = field(default_factory=RateLimits)
