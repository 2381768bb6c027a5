"""`[sign_in]` of placet.toml: whose tokens are believed, through whose pages people come into the console, how often
anybody may come, and how long a session goes on.

Closed as the rest of the file: a member that is not known is refused with the nearest one that is.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from placet.cli.members import Members, checked
from placet.model.admission import Admission
from placet.model.credentials import SessionLimits
from placet.model.issuer_sign_in import DEFAULT_ASKED, ConsoleClient
from placet.model.issuers import Algorithm, Issuer, Network
from placet.model.principal import DEFAULT_ENVIRONMENT, Role, Standing
from placet.model.rates import Rate, RateLimits
from placet.rules import issuer_sign_in as client_rules
from placet.rules import issuers as issuer_rules
from placet.rules import rates as rate_rules

_MEMBERS: Final = (
    "per_principal",
    "per_tenant",
    "rates_shared_at",
    "rates_replicas",
    "session_idle_minutes",
    "session_hours",
    "issuers",
)
_OF_ISSUER: Final = (
    "issuer",
    "audience",
    "algorithms",
    "jwks_url",
    "network",
    "ca_file",
    "tenant",
    "tenant_claim",
    "tenants",
    "environment",
    "subject_prefix",
    "roles",
    "roles_claim",
    "roles_by_value",
    "scopes",
    "scopes_claim",
    "standing",
    "person_if",
    "longest_hours",
    "console",
)
_OF_CONSOLE: Final = ("name", "client_id", "client_secret", "ask_for", "sign_out_there")


def admission_of(table: object, *, public_url: str | None, file: Path | None, folder: Path) -> Admission:
    """What the table says, with the defaults where it says nothing.

    Raises:
        ConfigProblem: a member is not known, not of its kind, or cannot be used.
    """
    if table is None:
        return Admission(public_url=public_url)
    said = Members(table, "[sign_in]", file)
    said.refuse_unknown(_MEMBERS)
    rates = _rates(said)
    sessions = SessionLimits()
    sessions = SessionLimits(
        idle_seconds=said.number("session_idle_minutes", sessions.idle_seconds / 60) * 60,
        longest_seconds=said.number("session_hours", sessions.longest_seconds / 3_600) * 3_600,
    )
    listed = said.table.get("issuers", [])
    if type(listed) is not list:
        said.fail("issuers", "one table per issuer: [[sign_in.issuers]]")
    tables = [Members(each, f"[[sign_in.issuers]] number {number}", file) for number, each in enumerate(listed, 1)]
    issuers = tuple(_issuer(each, folder) for each in tables)
    clients = tuple(
        _client(each, issuer, folder) for each, issuer in zip(tables, issuers, strict=True) if "console" in each.table
    )
    checked("[[sign_in.issuers]]", file, lambda: issuer_rules.require_sound(issuers))
    checked("[[sign_in.issuers]]", file, lambda: client_rules.require_sound(clients, public_url))
    checked("[sign_in]", file, lambda: rate_rules.require_sound(rates))
    return Admission(issuers=issuers, clients=clients, public_url=public_url, sessions=sessions, rates=rates)


def _rates(said: Members) -> RateLimits:
    usual = RateLimits()
    replicas = said.number("rates_replicas", usual.replicas)
    if replicas % 1:
        said.fail("rates_replicas", "a whole number")
    return RateLimits(
        per_principal=_rate(said, "per_principal", usual.per_principal),
        per_tenant=_rate(said, "per_tenant", usual.per_tenant),
        shared_at=said.text("rates_shared_at"),
        replicas=int(replicas),
    )


def _rate(said: Members, name: str, usual: Rate) -> Rate:
    words = said.text(name)
    if words is None:
        return usual
    found: list[Rate] = []
    checked(f"{name!r} in {said.place}", said.file, lambda: found.append(rate_rules.rate_of(words)))
    return found[0]


def _client(said: Members, issuer: Issuer, folder: Path) -> ConsoleClient:
    own = Members(said.table["console"], f"console of {said.place}", said.file)
    own.refuse_unknown(_OF_CONSOLE)
    secret = own.text("client_secret")
    return ConsoleClient(
        issuer=issuer,
        name=own.text("name") or "",
        client_id=own.text("client_id") or "",
        client_secret=None if secret is None else own.secret("client_secret", secret, folder),
        asked=own.texts("ask_for") or DEFAULT_ASKED,
        ends_there=own.truth("sign_out_there"),
    )


def _issuer(said: Members, folder: Path) -> Issuer:
    said.refuse_unknown(_OF_ISSUER)
    ca_file = said.text("ca_file")
    return Issuer(
        issuer=said.text("issuer") or "",
        audience=said.text("audience") or "",
        algorithms=frozenset(said.words("algorithms", Algorithm) or (Algorithm.RS256, Algorithm.ES256)),
        jwks_url=said.text("jwks_url"),
        network=said.word("network", Network, Network.PUBLIC),
        ca_file=None if ca_file is None else folder / ca_file,
        tenant=said.text("tenant"),
        tenant_claim=said.claim("tenant_claim"),
        tenants=said.texts_by_name("tenants"),
        environment=said.text("environment") or DEFAULT_ENVIRONMENT,
        subject_prefix=said.text("subject_prefix") or "",
        roles=frozenset(said.words("roles", Role) or (Role.VIEWER,)),
        roles_claim=said.claim("roles_claim"),
        roles_by_value={
            value: said.as_word("roles_by_value", Role, role)
            for value, role in said.texts_by_name("roles_by_value").items()
        },
        scopes=frozenset(said.texts("scopes")),
        scopes_claim=said.claim("scopes_claim"),
        standing=said.word("standing", Standing, Standing.AGENT),
        person_if=said.values_by_name("person_if"),
        longest_seconds=said.number("longest_hours", 24.0) * 3_600,
    )
