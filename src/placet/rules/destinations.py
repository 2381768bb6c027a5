"""Which destinations may be configured together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from placet.errors import ConfigurationError
from placet.model.destinations import (
    EVERY_TENANT,
    Announcements,
    Destination,
    EmailWay,
    MailSecurity,
    SlackWay,
    WebhookWay,
)
from placet.model.principal import is_identity
from placet.rules.announcements import is_console_url
from placet.rules.issuers import why_not_fetched

MOST_DESTINATIONS: Final = 50
_MOST_SECRETS, _MOST_RECIPIENTS = 4, 20
_NAME: Final = re.compile(r"[a-z][a-z0-9-]{0,39}")
_ADDRESS: Final = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?")
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,250}[A-Za-z0-9])?|[0-9A-Fa-f:]{2,45}")
_THIS_HOST: Final = ("localhost", "127.0.0.1", "::1")


def require_sound(announcements: Announcements) -> None:
    """Raises:
    ConfigurationError: one of them cannot be used, or two have the same name. No address is repeated: it may hold a
        secret.
    """
    _require_names(announcements.destinations)
    for each in announcements.destinations:
        _require_hearing(each)
        _require_way(each)
    url = announcements.console_url
    if url is not None and not is_console_url(url):
        raise ConfigurationError(
            "console_url is no address that messages can link to.",
            hint='Write it as "https://HOST/console", with nothing behind its path.',
        )


def _require_names(destinations: Sequence[Destination]) -> None:
    names = [each.name for each in destinations]
    if len(names) > MOST_DESTINATIONS:
        raise ConfigurationError(f"There are at most {MOST_DESTINATIONS} destinations.")
    if not all(map(_NAME.fullmatch, names)):
        raise ConfigurationError('A destination needs a name of small letters, digits and -, such as "on-call".')
    if len(set(names)) != len(names):
        raise ConfigurationError("Two destinations have the same name.")


def _require_hearing(destination: Destination) -> None:
    if not destination.kinds:
        raise ConfigurationError(f"The destination {destination.name!r} hears of nothing.")
    named = destination.tenants - {EVERY_TENANT}
    if not destination.tenants or not all(map(is_identity, named)):
        raise ConfigurationError(
            f"The destination {destination.name!r} needs the tenants that it hears of.",
            hint='tenants = ["acme"], or ["*"] for all, and for what concerns no tenant.',
        )


def _require_way(destination: Destination) -> None:
    problem = _problem_of(destination)
    if problem is not None:
        raise ConfigurationError(f"The destination {destination.name!r} cannot be used: {problem}.")


def _problem_of(destination: Destination) -> str | None:
    match destination.way:
        case WebhookWay(secrets=secrets) if not 1 <= len(secrets) <= _MOST_SECRETS:
            return f"it has between one and {_MOST_SECRETS} secrets"
        case WebhookWay(url=str() as url, network=network):
            return why_not_fetched(url, network)
        case WebhookWay() | SlackWay():
            return None
        case EmailWay() as way:
            return _problem_of_mail(way)


def _problem_of_mail(way: EmailWay) -> str | None:
    if _HOST.fullmatch(way.host) is None or not 1 <= way.port <= 65_535:
        return "smtp_host is the name of a host, and smtp_port a port"
    if not 1 <= len(way.recipients) <= _MOST_RECIPIENTS:
        return f"it has between one and {_MOST_RECIPIENTS} recipients"
    if not all(map(_ADDRESS.fullmatch, (way.sender, *way.recipients))):
        return 'from and to are plain addresses, such as "ops@example.com"'
    if way.security is MailSecurity.NONE and way.host not in _THIS_HOST:
        return 'tls = "none" is for a server on this host alone'
    if (way.user is None) != (way.password is None) or (way.security is MailSecurity.NONE and way.user is not None):
        return "smtp_user and smtp_password go together, and with TLS"
    return None
