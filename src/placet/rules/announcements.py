"""What of the audit is announced, to whom, when it is tried again, and in which words.

An announcement says what the audit says: who, which tool, which fixed reasons, until when. No argument, no result, no
operation key and nobody's own words are in an audit event, so none can be in a message.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import quote

from placet.model.approval import Mac
from placet.model.audit import AuditEvent, ChainedEvent, EventKind
from placet.model.contract import UNKNOWN_TOOL_LABEL
from placet.model.destinations import EVERY_TENANT, Destination
from placet.model.effect import EffectState
from placet.model.notices import Notice, NoticeKind
from placet.rules.chains import Linker, chain_message
from placet.rules.showing import escape_for_people

MOST_ATTEMPTS: Final = 16
"""About ten to twenty hours, with the pauses between them."""
_FIRST_DELAY_SECONDS: Final = 5.0
_LONGEST_DELAY_SECONDS: Final = 14_400.0
OLDEST_ANNOUNCED: Final = timedelta(days=7)
"""What was written longer ago than this when it is first read is passed over: nobody can do anything about it now."""

_KINDS: Final = {
    EventKind.APPROVAL_ASKED: NoticeKind.APPROVAL_ASKED,
    EventKind.APPROVAL_REMINDED: NoticeKind.APPROVAL_REMINDED,
    EventKind.APPROVAL_ESCALATED: NoticeKind.APPROVAL_ESCALATED,
    EventKind.APPROVAL_APPROVED: NoticeKind.APPROVAL_APPROVED,
    EventKind.APPROVAL_DENIED: NoticeKind.APPROVAL_DENIED,
    EventKind.APPROVAL_EXPIRED: NoticeKind.APPROVAL_EXPIRED,
    EventKind.APPROVAL_WITHDRAWN: NoticeKind.APPROVAL_WITHDRAWN,
    EventKind.APPROVAL_SPENT: NoticeKind.APPROVAL_SPENT,
    EventKind.EFFECT_RECONCILED: NoticeKind.EFFECT_RECONCILED,
    EventKind.STOPPED: NoticeKind.STOP_BEGUN,
    EventKind.RESUMED: NoticeKind.STOP_LIFTED,
    EventKind.APPROVAL_SUSPECT: NoticeKind.ALARM_APPROVAL,
    EventKind.RECORD_ALTERED: NoticeKind.ALARM_RECORD,
    EventKind.CREDENTIAL_SUSPECT: NoticeKind.ALARM_CREDENTIAL,
    EventKind.GRANT_SUSPECT: NoticeKind.ALARM_GRANT,
    EventKind.TOOL_QUARANTINED: NoticeKind.TOOL_QUARANTINED,
    EventKind.TOOL_ACCEPTED: NoticeKind.TOOL_ACCEPTED,
    EventKind.PIN_SUSPECT: NoticeKind.ALARM_PIN,
}
CONFIGURED_KINDS: Final = tuple(kind for kind in NoticeKind if kind is not NoticeKind.TEST)
GROUPS: Final = tuple(dict.fromkeys(kind.value.partition(".")[0] for kind in CONFIGURED_KINDS))
DEFAULT_KINDS: Final = frozenset(
    (
        NoticeKind.APPROVAL_ASKED,
        NoticeKind.APPROVAL_REMINDED,
        NoticeKind.APPROVAL_ESCALATED,
        NoticeKind.EFFECT_UNKNOWN,
        NoticeKind.TOOL_QUARANTINED,
    )
) | {kind for kind in CONFIGURED_KINDS if kind.value.startswith("alarm.")}
"""What a person has to do something about."""


# ---------------------------------------------------------------- what, and to whom


def kind_of(event: AuditEvent) -> NoticeKind | None:
    """What an event is announced as; None for one that is not.

    An effect is announced when it becomes unknown, and not each time that somebody asks for it again.
    """
    if event.kind is EventKind.COMPLETED:
        return NoticeKind.EFFECT_UNKNOWN if event.effect_state == EffectState.UNKNOWN.value else None
    return _KINDS.get(event.kind)


def wanted_kind(destination: Destination, event: AuditEvent) -> NoticeKind | None:
    """What an event is announced to this destination as; None if it does not hear of it.

    Asked when a delivery is made and again when it is sent, so that a row by another hand carries nothing to where the
    configuration does not want it.
    """
    kind = kind_of(event)
    hears_tenant = EVERY_TENANT in destination.tenants or event.tenant in destination.tenants
    return kind if kind in destination.kinds and hears_tenant else None


def kinds_of_word(word: str) -> frozenset[NoticeKind]:
    """The kinds that a word of the configuration names: one, or all of a group. Empty for no such word."""
    return frozenset(kind for kind in CONFIGURED_KINDS if word in (kind.value, kind.value.partition(".")[0]))


def is_too_old(event: AuditEvent, *, now: datetime) -> bool:
    return now - event.at > OLDEST_ANNOUNCED


def is_linked(event: ChainedEvent, previous: str, linker: Linker) -> bool:
    """Whether an event stands where its writer put it. One that somebody else wrote is announced to nobody."""
    message = chain_message(event.writer, event.sequence, previous, event.body)
    return linker.is_authentic(message, Mac(key_id=event.key_id, value=event.link))


def message_id_of(destination: str, event: ChainedEvent) -> str:
    """The same for the same event and destination, in whatever process, and however often.

    Made of the link too: after a store went back, another event in the same place is another message.
    """
    return _message_id("placet/message/1", destination, event.writer, event.sequence, event.link)


def id_of_a_test(once: str) -> str:
    """In the same form as all others; another one each time."""
    return _message_id("placet/test/1", once)


def _message_id(*named: object) -> str:
    """The form that Standard Webhooks shows: receivers that know only it take every one of ours."""
    return f"msg_{hashlib.sha256(json.dumps(named).encode()).hexdigest()[:32]}"


# ---------------------------------------------------------------- when again


def delay_seconds(attempts: int, *, fraction: float, retry_after_seconds: float | None) -> float:
    """How long to wait after so many attempts: doubling, by half at random, and not sooner than the other side says."""
    longest = min(_FIRST_DELAY_SECONDS * 2.0 ** min(attempts - 1, 30), _LONGEST_DELAY_SECONDS)
    own = longest * (0.5 + 0.5 * fraction)
    return max(own, min(retry_after_seconds or 0.0, _LONGEST_DELAY_SECONDS))


# ---------------------------------------------------------------- in which words


_TITLES: Final = {
    NoticeKind.APPROVAL_ASKED: "Approval asked: {tool}",
    NoticeKind.APPROVAL_REMINDED: "Still waiting: {tool}",
    NoticeKind.APPROVAL_ESCALATED: "Escalated: {tool}",
    NoticeKind.APPROVAL_APPROVED: "Approved: {tool}",
    NoticeKind.APPROVAL_DENIED: "Denied: {tool}",
    NoticeKind.APPROVAL_EXPIRED: "Approval expired: {tool}",
    NoticeKind.APPROVAL_WITHDRAWN: "Approval withdrawn: {tool}",
    NoticeKind.APPROVAL_SPENT: "Approval used: {tool}",
    NoticeKind.EFFECT_UNKNOWN: "Outcome unknown: {tool}",
    NoticeKind.EFFECT_RECONCILED: "Reconciled: {tool}",
    NoticeKind.STOP_BEGUN: "Stopped: {what}",
    NoticeKind.STOP_LIFTED: "Resumed: {what}",
    NoticeKind.ALARM_APPROVAL: "ALARM: an approval was altered",
    NoticeKind.ALARM_RECORD: "ALARM: a record was altered",
    NoticeKind.ALARM_CREDENTIAL: "ALARM: a credential was altered",
    NoticeKind.ALARM_GRANT: "ALARM: a standing grant was altered",
    NoticeKind.ALARM_PIN: "ALARM: an accepted description was altered",
    NoticeKind.TOOL_QUARANTINED: "Quarantined: {tool}",
    NoticeKind.TOOL_ACCEPTED: "Accepted: {tool}",
    NoticeKind.TEST: "Test message",
}
_SAYS: Final = {
    NoticeKind.APPROVAL_ASKED: "A person has to decide. Look at the whole call first; this message is not enough.",
    NoticeKind.APPROVAL_REMINDED: "Nobody has decided yet. Look at the whole call first; this message is not enough.",
    NoticeKind.APPROVAL_ESCALATED: "Nobody has decided for too long. Look at the whole call first; its page says who "
    "may decide by now.",
    NoticeKind.APPROVAL_APPROVED: "It may run once, until the approval expires.",
    NoticeKind.APPROVAL_DENIED: "It does not run.",
    NoticeKind.APPROVAL_EXPIRED: "Nobody decided, or used it, in time.",
    NoticeKind.APPROVAL_WITHDRAWN: "It is asked for no more, or no longer good.",
    NoticeKind.APPROVAL_SPENT: "The call was started under it.",
    NoticeKind.EFFECT_UNKNOWN: "Nobody knows whether it acted. It is not tried again by itself: learn what happened, "
    "then reconcile it.",
    NoticeKind.EFFECT_RECONCILED: "What became of it is known now.",
    NoticeKind.STOP_BEGUN: "Nothing of it starts any more, until it is resumed.",
    NoticeKind.STOP_LIFTED: "It starts again.",
    NoticeKind.ALARM_APPROVAL: "Somebody may have written to the store. Nothing ran on it.",
    NoticeKind.ALARM_RECORD: "Somebody may have written to the store. Verify the audit.",
    NoticeKind.ALARM_CREDENTIAL: "Somebody may have written to the store. It let nobody in.",
    NoticeKind.ALARM_GRANT: "Somebody may have written to the store. The grant lets nothing through.",
    NoticeKind.ALARM_PIN: "Somebody may have written to the file of pins. The tool is neither seen nor called.",
    NoticeKind.TOOL_QUARANTINED: "Its server describes it otherwise than it was accepted. Nothing of it starts until "
    "somebody has looked at the difference: placet mcp diff",
    NoticeKind.TOOL_ACCEPTED: "A person has accepted what its server says of it.",
    NoticeKind.TEST: "Somebody tried whether messages arrive here. Nothing happened, and nothing is to be done.",
}


_OPEN: Final = (NoticeKind.APPROVAL_ASKED, NoticeKind.APPROVAL_REMINDED, NoticeKind.APPROVAL_ESCALATED)
"""About questions that wait."""


def title_of(notice: Notice) -> str:
    """One line for a subject or a notification, safe to be shown."""
    event = notice.event
    if event is None:
        return _TITLES[notice.kind]
    return _TITLES[notice.kind].format(tool=escape_for_people(event.tool), what=_stopped(event))


def says(notice: Notice) -> str:
    """One fixed sentence: what it means, and what is to be done."""
    return _SAYS[notice.kind]


def facts_of(notice: Notice) -> tuple[tuple[str, str], ...]:
    """What the audit says of it, by name, each in one line and safe to be shown to people."""
    event = notice.event
    told: tuple[tuple[str, str | None], ...] = () if event is None else _told(notice.kind, event)
    return tuple((name, escape_for_people(value)) for name, value in (*told, ("at", instant_of(notice.at))) if value)


def _told(kind: NoticeKind, event: AuditEvent) -> tuple[tuple[str, str | None], ...]:
    is_of_people = kind in (NoticeKind.STOP_BEGUN, NoticeKind.STOP_LIFTED, NoticeKind.TOOL_ACCEPTED)
    has_tool = event.tool != UNKNOWN_TOOL_LABEL
    return (
        ("tenant", event.tenant),
        ("environment", event.environment),
        ("by" if is_of_people else "asked by", event.subject),
        ("on behalf of", event.on_behalf_of),
        ("tool", f"{event.tool} {event.tool_version or ''}".strip() if has_tool else None),
        ("risk", event.risk),
        ("effect class", event.effect_class),
        ("run", event.run_id),
        ("reasons", ", ".join(event.reasons)),
        ("detail", event.detail),
        ("state", event.effect_state),
        ("decided by", event.decided_by),
        ("decide by" if kind in _OPEN else "expires", instant_of(event.expires_at)),
        ("approval", event.approval_id),
    )


def _stopped(event: AuditEvent) -> str:
    match event.detail:
        case "tool":
            return escape_for_people(event.tool)
        case "upstream":
            return f"upstream {escape_for_people(_upstream_in(event.reasons))}"
        case "run":
            return f"run {escape_for_people(event.run_id or '')}"
        case "tenant":
            return f"tenant {escape_for_people(event.tenant)}"
        case _:
            return "everything"


def _upstream_in(reasons: tuple[str, ...]) -> str:
    return next((each.removeprefix("upstream:") for each in reasons if each.startswith("upstream:")), "")


def instant_of(at: datetime | None) -> str | None:
    """In UTC, to the second."""
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def url_of(kind: NoticeKind, event: AuditEvent | None, console_url: str | None) -> str | None:
    """The console's page of it. Nothing in it lets anybody in, or decides anything: whoever opens it signs in."""
    if console_url is None:
        return None
    root = console_url.rstrip("/")
    match kind.value.partition(".")[0]:
        case "approval" if event is not None and event.approval_id is not None:
            return f"{root}/approvals/{quote(event.approval_id, safe='')}"
        case "effect":
            return f"{root}/effects"
        case "stop":
            return f"{root}/stops"
        case "tool":
            return f"{root}/tools"
        case "alarm":
            return f"{root}/audit"
        case _:
            return f"{root}/"


def is_console_url(text: str, *, loopback: Collection[str] = ("localhost", "127.0.0.1", "[::1]")) -> bool:
    """Whether links may begin with it: https, or http of this host alone, and nothing but a host and a path."""
    scheme, separator, rest = text.partition("://")
    host, _, path = rest.partition("/")
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    is_plain = text.isascii() and text.isprintable() and not set(text) & set(" \"'<>\\^`{|}@?#&")
    is_safe = scheme == "https" or (scheme == "http" and name in loopback)
    return bool(separator and name) and is_plain and is_safe and ".." not in path.split("/") and len(text) <= 500
