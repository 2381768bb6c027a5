"""`[[notify]]` of placet.toml: where what happens is announced.

Secrets never stand in the file: it names the environment variable, or the file, that holds one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from placet.cli.failing import ConfigProblem
from placet.cli.members import Members, checked
from placet.model.destinations import (
    Announcements,
    Destination,
    DestinationKind,
    EmailWay,
    MailSecurity,
    SecretRef,
    SlackWay,
    Way,
    WebhookWay,
)
from placet.model.issuers import Network
from placet.model.notices import NoticeKind
from placet.rules import destinations as rules
from placet.rules.announcements import CONFIGURED_KINDS, DEFAULT_KINDS, GROUPS, kinds_of_word

_OF_ALL: Final = ("name", "kind", "events", "tenants")
_MEMBERS: Final = {
    DestinationKind.WEBHOOK: ("url", "secrets", "network", "ca_file"),
    DestinationKind.SLACK: ("url", "network", "ca_file"),
    DestinationKind.EMAIL: (
        "smtp_host", "smtp_port", "smtp_user", "smtp_password", "tls", "from", "to", "ca_file",
    ),
}  # fmt: skip
_PORTS: Final = {MailSecurity.STARTTLS: 587, MailSecurity.IMPLICIT: 465, MailSecurity.NONE: 25}
_HINT: Final = (
    'A destination: [[notify]], name = "on-call", kind = "webhook", url = "https://...", '
    'secrets = ["env:HOOK_SECRET"], tenants = ["acme"]. docs/notifications.md has those of Slack and mail.'
)


def announcements_of(tables: object, console_url: str | None, *, file: Path | None, folder: Path) -> Announcements:
    """What the tables say.

    Raises:
        ConfigProblem: a member is not known, not of its kind, or cannot be used.
    """
    if tables is not None and type(tables) is not list:
        raise ConfigProblem(f"'notify' in {file} is one table per destination: [[notify]]", hint=_HINT)
    destinations = tuple(
        _destination(Members(each, f"[[notify]] number {number}", file, hint=_HINT), folder)
        for number, each in enumerate(tables or (), 1)
    )
    found = Announcements(destinations=destinations, console_url=console_url)
    checked("[[notify]]", file, lambda: rules.require_sound(found), hint=_HINT)
    return found


def _destination(said: Members, folder: Path) -> Destination:
    kind = said.word("kind", DestinationKind, None)
    if kind is None:
        said.fail("kind", f"one of {', '.join(each.value for each in DestinationKind)}")
    said.refuse_unknown((*_OF_ALL, *_MEMBERS[kind]))
    return Destination(
        name=said.text("name") or "",
        kinds=_kinds(said),
        tenants=frozenset(said.texts("tenants")),
        way=_way(said, kind, folder),
    )


def _kinds(said: Members) -> frozenset[NoticeKind]:
    words = said.texts("events")
    for word in words:
        if not kinds_of_word(word):
            known = ", ".join((*GROUPS, *(each.value for each in CONFIGURED_KINDS)))
            said.fail("events", f"a list of these: {known}")
    return frozenset[NoticeKind]().union(*map(kinds_of_word, words)) if words else DEFAULT_KINDS


def _way(said: Members, kind: DestinationKind, folder: Path) -> Way:
    ca_file = said.text("ca_file")
    trusted = None if ca_file is None else folder / ca_file
    match kind:
        case DestinationKind.WEBHOOK:
            return WebhookWay(
                url=_url(said, folder),
                secrets=tuple(said.secret("secrets", each, folder) for each in said.texts("secrets")),
                network=said.word("network", Network, Network.PUBLIC),
                ca_file=trusted,
            )
        case DestinationKind.SLACK:
            return SlackWay(
                url=said.secret("url", said.text("url") or "", folder),
                network=said.word("network", Network, Network.PUBLIC),
                ca_file=trusted,
            )
        case DestinationKind.EMAIL:
            security = said.word("tls", MailSecurity, MailSecurity.STARTTLS)
            password = said.text("smtp_password")
            return EmailWay(
                host=said.text("smtp_host") or "",
                port=int(said.number("smtp_port", _PORTS[security])),
                sender=said.text("from") or "",
                recipients=said.texts("to"),
                security=security,
                user=said.text("smtp_user"),
                password=None if password is None else said.secret("smtp_password", password, folder),
                ca_file=trusted,
            )


def _url(said: Members, folder: Path) -> str | SecretRef:
    """An address may be a secret itself, as that of many a chat is."""
    text = said.text("url") or ""
    return said.secret("url", text, folder) if text.startswith(("env:", "file:")) else text
