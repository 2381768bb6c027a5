"""Where announcements go, about what, and how they get there. All of it is the deployment's word.

Whatever lets somebody in is not here: it is named, and looked up when something is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from placet.model.issuers import Network
from placet.model.notices import NoticeKind

EVERY_TENANT = "*"


class DestinationKind(StrEnum):
    WEBHOOK = "webhook"
    SLACK = "slack"
    EMAIL = "email"


class MailSecurity(StrEnum):
    """starttls, implicit: nothing is said to a server that does not encrypt. none: this host alone."""

    STARTTLS = "starttls"
    IMPLICIT = "implicit"
    NONE = "none"


class SecretPlace(StrEnum):
    ENVIRONMENT = "env"
    FILE = "file"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretRef:
    """Where a secret is: the name of an environment variable, or the path of a file."""

    place: SecretPlace
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookWay:
    """Signed as Standard Webhooks says.

    Attributes:
        url: the address, or where it stands if it is a secret itself.
        secrets: each `whsec_` or `whsk_` and base64; a message is signed with every one of them.
    """

    url: str | SecretRef
    secrets: tuple[SecretRef, ...]
    network: Network = Network.PUBLIC
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackWay:
    """An incoming webhook of Slack, or of something that takes the same. Who knows its address may post there."""

    url: SecretRef
    network: Network = Network.PUBLIC
    ca_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EmailWay:
    """A mail server that relays for us.

    Attributes:
        user: who signs in there, with `password`; nobody does without one.
    """

    host: str
    port: int
    sender: str
    recipients: tuple[str, ...]
    security: MailSecurity = MailSecurity.STARTTLS
    user: str | None = None
    password: SecretRef | None = None
    ca_file: Path | None = None


Way = WebhookWay | SlackWay | EmailWay


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """One place that hears of some things.

    Attributes:
        name: what its deliveries are kept under; another name is another destination.
        tenants: whose events it hears of; with `*` also those that concern no tenant, or all.
    """

    name: str
    kinds: frozenset[NoticeKind]
    tenants: frozenset[str]
    way: Way

    @property
    def kind(self) -> DestinationKind:
        match self.way:
            case WebhookWay():
                return DestinationKind.WEBHOOK
            case SlackWay():
                return DestinationKind.SLACK
            case EmailWay():
                return DestinationKind.EMAIL


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcements:
    """Everything that is announced.

    Attributes:
        console_url: where the console is that messages link to; without one they link nowhere.
    """

    destinations: tuple[Destination, ...] = ()
    console_url: str | None = None
