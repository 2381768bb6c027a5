"""Who is let in at the front doors of an open gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from placet.adapters.clock import SystemClock
from placet.adapters.identity.api_keys import ApiKeySignIn
from placet.adapters.identity.door import Door
from placet.adapters.identity.secrets import SystemSecrets
from placet.adapters.identity.sessions import StoreSessions
from placet.bootstrap.extras import how_to_install
from placet.bootstrap.opening import Opening
from placet.bootstrap.stores import open_existing_store
from placet.engine.api_keys import ApiKeys
from placet.engine.chronicle import Chronicle
from placet.engine.credentials import CredentialRows
from placet.engine.person_sessions import PersonSessions
from placet.errors import ConfigurationError, MisuseError
from placet.model.admission import Admission
from placet.model.credentials import SessionLimits
from placet.model.destinations import SecretRef
from placet.model.issuers import Issuer
from placet.model.rates import RateLimits
from placet.ports.clock import Clock
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.people import People
from placet.ports.rate_limits import RateLimiter
from placet.ports.sign_in import SignIn
from placet.ports.store import Store
from placet.rules import issuer_sign_in as client_rules
from placet.rules import issuers as issuer_rules
from placet.rules import rates as rate_rules
from placet.rules.serving import CONSOLE_ROOT

if TYPE_CHECKING:
    from placet.adapters.identity.fetching import Fetcher
    from placet.adapters.identity.issuer_sign_in import CodeFlow
    from placet.adapters.identity.issuers import IssuerKeys
    from placet.adapters.identity.tokens import TokenSignIn


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontDoors:
    """What the front doors of one gate share. Use it from the gate's event loop, and close it before the gate.

    Attributes:
        sign_in: API keys, and tokens of the issuers.
        sessions: of people, for the console; it also makes one-time sign-in links.
        api_keys: where a tenant's people make and end its agents' keys.
        tokens: the part of `sign_in` that looks at tokens; None without an issuer.
        issuers: whose own pages people come into the console through; None without any.
        agents: API keys, and of the issuers' tokens those that were issued for this resource.
    """

    sign_in: SignIn
    sessions: StoreSessions
    api_keys: ApiKeys
    rate_limiter: RateLimiter
    tokens: TokenSignIn | None = None
    issuers: CodeFlow | None = None
    agents: Callable[[str], SignIn] = field(repr=False)

    async def close(self) -> None:
        await self.rate_limiter.close()
        if self.issuers is not None:
            await self.issuers.close()
        if self.tokens is not None:
            await self.tokens.close()


def require_sound(admission: Admission) -> None:
    """Whether such doors can be opened here. Nothing is looked for over the network.

    Raises:
        ConfigurationError: an issuer, a rate or a limit cannot be used, or a library that it needs is not installed.
    """
    issuer_rules.require_sound(admission.issuers)
    client_rules.require_sound(admission.clients, admission.public_url)
    rate_rules.require_sound(admission.rates)
    limits = admission.sessions
    if not 60 <= limits.idle_seconds <= limits.longest_seconds <= 7 * 86_400:
        raise ConfigurationError("A session ends unused after a minute at least, and after a week at most.")
    for issuer in admission.issuers:
        if issuer.ca_file is not None and not issuer.ca_file.is_file():
            raise ConfigurationError(f"The ca_file of {issuer.issuer!r} is not there: {issuer.ca_file}")
    _require_library("joserfc", "server", is_needed=bool(admission.issuers))
    _require_library("limits", "server", is_needed=True)
    _require_library("valkey", "server,valkey", is_needed=admission.rates.shared_at is not None)


def doors_of(opening: Opening, admission: Admission | None = None) -> FrontDoors:
    """The doors of a gate that is open.

    Raises:
        ConfigurationError: see `require_sound`.
        MisuseError: the gate is not open.
    """
    running = opening.running
    if running is None:
        raise MisuseError("This gate is not open. Enter it first.")
    return front_doors(
        admission or Admission(),
        store=running.store,
        keys=running.keys,
        clock=running.clock,
        meter=running.meter,
        people=running.people,
    )


def front_doors(
    admission: Admission, *, store: Store, keys: Keys, clock: Clock, meter: Meter, people: People | None = None
) -> FrontDoors:
    """The doors of an open store.

    Raises:
        ConfigurationError: see `require_sound`.
    """
    require_sound(admission)
    chronicle, secrets = Chronicle(keys=keys, clock=clock), SystemSecrets()
    rows = CredentialRows(store=store, keys=keys, chronicle=chronicle)
    at_issuers = _at_issuers(admission.issuers, clock)
    tokens = _tokens(admission.issuers, at_issuers, clock)
    keys_sign_in = ApiKeySignIn(store=store, rows=rows, secrets=secrets)

    def agents(audience: str) -> SignIn:
        of_resource = None if tokens is None else tokens.for_resource(audience)
        return Door(api_keys=keys_sign_in, tokens=of_resource, meter=meter)

    return FrontDoors(
        sign_in=Door(api_keys=keys_sign_in, tokens=tokens, meter=meter),
        agents=agents,
        sessions=_sessions(store, keys, chronicle, secrets, meter, admission.sessions, people),
        api_keys=ApiKeys(store=store, keys=keys, chronicle=chronicle, secrets=secrets),
        rate_limiter=_rate_limiter(admission.rates, clock, meter),
        tokens=tokens,
        issuers=_code_flow(admission, at_issuers, keys=keys, clock=clock, secrets=secrets, meter=meter),
    )


def open_sessions(
    where: str | Path, *, key: Path | None = None, limits: SessionLimits | None = None
) -> tuple[PersonSessions, Store]:
    """The sessions of an existing store, and the store to be closed afterwards. Raises what `open_api_keys` raises."""
    keys, store = open_existing_store(where, key=key)
    chronicle = Chronicle(keys=keys, clock=SystemClock())
    rows = CredentialRows(store=store, keys=keys, chronicle=chronicle)
    return PersonSessions(store=store, rows=rows, chronicle=chronicle, limits=limits or SessionLimits()), store


def open_api_keys(where: str | Path, *, key: Path | None = None) -> tuple[ApiKeys, Store]:
    """The API keys of an existing store, and the store to be closed afterwards.

    Raises:
        StoreMissing, StoreError, KeyMaterialError: it is not there, or cannot be opened.
    """
    keys, store = open_existing_store(where, key=key)
    chronicle = Chronicle(keys=keys, clock=SystemClock())
    return ApiKeys(store=store, keys=keys, chronicle=chronicle, secrets=SystemSecrets()), store


def _sessions(
    store: Store,
    keys: Keys,
    chronicle: Chronicle,
    secrets: SystemSecrets,
    meter: Meter,
    limits: SessionLimits,
    people: People | None,
) -> StoreSessions:
    return StoreSessions(
        store=store, keys=keys, chronicle=chronicle, secrets=secrets, meter=meter, limits=limits, people=people
    )


def missing_client_secrets(admission: Admission) -> tuple[SecretRef, ...]:
    """The clients' secrets that are not where the configuration says. Their values are looked at, and kept nowhere."""
    wanted = [client.client_secret for client in admission.clients if client.client_secret is not None]
    return tuple(ref for ref in wanted if not _secret_or_nothing(ref))


def _secret_or_nothing(ref: SecretRef) -> str:
    from placet.adapters.referenced_secrets import SecretMissing, secret_of

    try:
        return secret_of(ref)
    except SecretMissing:
        return ""


def _at_issuers(issuers: tuple[Issuer, ...], clock: Clock) -> dict[str, tuple[IssuerKeys, Fetcher]]:
    """For each issuer one set of keys, whatever asks for them."""
    if not issuers:
        return {}
    from placet.adapters.identity.fetching import Fetcher
    from placet.adapters.identity.issuers import IssuerKeys

    made = {}
    for each in issuers:
        fetcher = Fetcher(each.network, ca_file=each.ca_file)
        made[each.issuer] = IssuerKeys(each, fetcher, clock=clock), fetcher
    return made


def _tokens(
    issuers: tuple[Issuer, ...], at_issuers: dict[str, tuple[IssuerKeys, Fetcher]], clock: Clock
) -> TokenSignIn | None:
    if not issuers:
        return None
    from placet.adapters.identity.tokens import TokenSignIn

    return TokenSignIn(issuers, {name: keys for name, (keys, _) in at_issuers.items()}, clock=clock)


def _code_flow(
    admission: Admission,
    at_issuers: dict[str, tuple[IssuerKeys, Fetcher]],
    *,
    keys: Keys,
    clock: Clock,
    secrets: SystemSecrets,
    meter: Meter,
) -> CodeFlow | None:
    if not admission.clients or admission.public_url is None:
        return None
    from placet.adapters.identity.issuer_sign_in import CodeFlow, desk_of

    desks = [
        desk_of(
            client,
            *at_issuers[client.issuer.issuer],
            clock=clock,
            secret=None if client.client_secret is None else partial(_secret_or_nothing, client.client_secret),
        )
        for client in admission.clients
    ]
    return CodeFlow(
        desks,
        public_url=admission.public_url,
        root=CONSOLE_ROOT,
        keys=keys,
        clock=clock,
        secrets=secrets,
        meter=meter,
    )


def _rate_limiter(limits: RateLimits, clock: Clock, meter: Meter) -> RateLimiter:
    if limits.shared_at is None:
        from placet.adapters.rates.steady import OwnRateLimiter

        return OwnRateLimiter(limits, clock=clock, meter=meter)
    from placet.adapters.rates.shared import SharedRateLimiter

    return SharedRateLimiter(limits.shared_at, limits, clock=clock, meter=meter)


def _require_library(name: str, extra: str, *, is_needed: bool) -> None:
    if is_needed and find_spec(name) is None:
        raise ConfigurationError(
            f"Front doors need {name}, which is not installed.", code="extra_missing", hint=how_to_install(extra)
        )
