"""A rate in words, who is counted under which name, and the part of a limit that a process has by itself."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from placet.errors import ConfigurationError
from placet.model.principal import Principal
from placet.model.rates import Rate, RateLimits, RateScope
from placet.rules.canonical import sha256_hex

_WORDS: Final = re.compile(r"([1-9][0-9]{0,8})/(second|minute|hour)", re.ASCII)
_SECONDS: Final = {"second": 1, "minute": 60, "hour": 3_600}
_SCHEMES: Final = frozenset({"redis", "rediss", "valkey", "valkeys"})
_MOST_REPLICAS: Final = 10_000


def rate_of(words: str) -> Rate:
    """`600/minute` and the like: a whole number above 0, and second, minute or hour.

    Raises:
        ConfigurationError: it is none.
    """
    found = _WORDS.fullmatch(words)
    if found is None:
        raise ConfigurationError('A rate is a whole number and a unit, such as "600/minute"; second, minute or hour.')
    return Rate(count=int(found[1]), seconds=_SECONDS[found[2]])


def counted_as(principal: Principal, scope: RateScope) -> str:
    """The name a request is counted under: no two share one, and none tells who it is."""
    who = (principal.tenant, principal.identity) if scope is RateScope.PRINCIPAL else (principal.tenant,)
    return sha256_hex(f"placet/rate/{scope.value}/1", *(part.encode() for part in who))


def own_part(limits: RateLimits) -> RateLimits:
    """What a process goes by while it cannot ask: together they stay within the limits; at least one each."""
    return replace(
        limits,
        per_principal=_part(limits.per_principal, limits.replicas),
        per_tenant=_part(limits.per_tenant, limits.replicas),
    )


def require_sound(limits: RateLimits) -> None:
    """Raises:
    ConfigurationError: they cannot be used. What stands in an address is never repeated: it may hold a password.
    """
    if not 1 <= limits.replicas <= _MOST_REPLICAS:
        raise ConfigurationError("rates_replicas is a whole number of at least 1.")
    if limits.shared_at is None:
        return
    try:
        parts = urlsplit(limits.shared_at)
        is_local = parts.scheme == "unix" and not parts.hostname and parts.path.startswith("/")
        is_sound = is_local or (parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0)
    except ValueError:
        is_sound = False
    if not is_sound:
        raise ConfigurationError(
            "rates_shared_at is no address of a Redis or Valkey.",
            hint='Such as "valkey://localhost:6379/0"; with TLS "valkeys://...", or "unix:///run/valkey.sock".',
        )


def _part(rate: Rate, replicas: int) -> Rate:
    return replace(rate, count=max(1, rate.count // replicas))
