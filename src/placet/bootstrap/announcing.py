"""Who announces what happens in an open store."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from placet.adapters.clock import RandomIds, SystemClock
from placet.adapters.stores.chain import ChainLinker
from placet.adapters.telemetry.quiet import QuietMeter
from placet.bootstrap.opening import Opening
from placet.bootstrap.stores import open_existing_store
from placet.engine.announcing import Announcer
from placet.engine.chronicle import Chronicle
from placet.errors import ConfigurationError, MisuseError
from placet.model.destinations import Announcements, Destination, EmailWay, SecretRef, SlackWay, WebhookWay
from placet.ports.clock import Clock
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.notifier import Notifier
from placet.ports.store import Store


def announcer_of(opening: Opening, announcements: Announcements) -> Announcer:
    """The announcer of a gate that is open. Use it from the gate's event loop, and let it end before the gate closes.

    Raises:
        MisuseError: the gate is not open.
    """
    running = opening.running
    if running is None:
        raise MisuseError("This gate is not open. Enter it first.")
    return announcer(announcements, store=running.store, keys=running.keys, clock=running.clock, meter=running.meter)


def announcer(announcements: Announcements, *, store: Store, keys: Keys, clock: Clock, meter: Meter) -> Announcer:
    """The announcer of an open store. Nothing is sent, and no secret read, before its first round."""
    return Announcer(
        store=store,
        linker=ChainLinker(keys),
        chronicle=Chronicle(keys=keys, clock=clock),
        ids=RandomIds(),
        meter=meter,
        announcements=announcements,
        notifiers={each.name: _notifier(each, clock) for each in announcements.destinations},
    )


def open_announcer(
    where: str | Path, announcements: Announcements, *, key: Path | None = None
) -> tuple[Announcer, Store]:
    """The announcer of an existing store, and the store to be closed afterwards.

    Raises:
        StoreMissing, StoreError, KeyMaterialError: it is not there, or cannot be opened.
    """
    keys, store = open_existing_store(where, key=key)
    return announcer(announcements, store=store, keys=keys, clock=SystemClock(), meter=QuietMeter()), store


def missing_secrets(destination: Destination) -> tuple[SecretRef, ...]:
    """Secrets that a destination needs and that are not there, or are not in their form. Nothing is sent."""
    from placet.adapters.notify.signing import key_of
    from placet.adapters.referenced_secrets import SecretMissing, secret_of

    way = destination.way
    missing: list[SecretRef] = []
    for ref in _secrets_of(destination):
        try:
            secret = secret_of(ref)
            if isinstance(way, WebhookWay) and ref in way.secrets:
                key_of(secret)
        except SecretMissing:
            missing.append(ref)
    return tuple(missing)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicKey:
    """What receivers of one destination verify with.

    Attributes:
        where: where the secret key is that it belongs to.
        key: `whpk_` and base64.
    """

    where: SecretRef
    key: str


def public_keys(destination: Destination) -> tuple[PublicKey, ...]:
    """Those of a webhook's keys that have a public part, in the order in which they sign.

    Raises:
        ConfigurationError: a secret is not there, or not in its form.
    """
    from placet.adapters.notify.signing import SigningKey, key_of
    from placet.adapters.referenced_secrets import SecretMissing, secret_of

    found: list[PublicKey] = []
    way = destination.way
    for ref in way.secrets if isinstance(way, WebhookWay) else ():
        code = None
        try:
            key = key_of(secret_of(ref))
        except SecretMissing as missing:
            code = missing.code
        if code is not None:
            raise ConfigurationError(
                f"The secret {ref.place.value}:{ref.name} is not there, or is none.",
                code=code,
                hint="It is whsec_ or whsk_ and base64; see docs/notifications.md.",
            )
        if isinstance(key, SigningKey):
            found.append(PublicKey(where=ref, key=key.public))
    return tuple(found)


def _secrets_of(destination: Destination) -> tuple[SecretRef, ...]:
    match destination.way:
        case WebhookWay(url=url, secrets=secrets):
            return (*secrets, *((url,) if isinstance(url, SecretRef) else ()))
        case SlackWay(url=url):
            return (url,)
        case EmailWay(password=password):
            return () if password is None else (password,)


def _notifier(destination: Destination, clock: Clock) -> Notifier:
    match destination.way:
        case WebhookWay() as way:
            from placet.adapters.notify.posting import Poster
            from placet.adapters.notify.webhook import WebhookNotifier

            return WebhookNotifier(way, Poster(way.network, ca_file=way.ca_file), clock=clock)
        case SlackWay() as way:
            from placet.adapters.notify.posting import Poster
            from placet.adapters.notify.slack import SlackNotifier

            return SlackNotifier(way, Poster(way.network, ca_file=way.ca_file), clock=clock)
        case EmailWay() as way:
            from placet.adapters.notify.mail import MailNotifier

            return MailNotifier(way, clock=clock)
