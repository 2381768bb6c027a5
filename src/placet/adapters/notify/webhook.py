"""Webhooks as Standard Webhooks signs them: a type, an instant, and what the audit says."""

from __future__ import annotations

import json
from typing import Any

from placet.adapters.notify.posting import Poster
from placet.adapters.notify.signing import key_of, signed_headers
from placet.adapters.referenced_secrets import SecretMissing, secret_of
from placet.model.destinations import SecretRef, WebhookWay
from placet.model.notices import Notice
from placet.ports.clock import Clock
from placet.ports.notifier import NotDelivered, Sent
from placet.rules.announcements import instant_of, says, title_of


class WebhookNotifier:
    def __init__(self, way: WebhookWay, poster: Poster, *, clock: Clock) -> None:
        self._way = way
        self._poster = poster
        self._clock = clock

    async def send(self, notice: Notice) -> Sent:
        try:
            url = secret_of(self._way.url) if isinstance(self._way.url, SecretRef) else self._way.url
            keys = [key_of(secret_of(each)) for each in self._way.secrets]
        except SecretMissing as missing:
            return NotDelivered(code=missing.code)
        body, now = payload_of(notice), self._clock.now()
        return await self._poster.post(url, body, signed_headers(notice.message_id, body, at=now, keys=keys), now=now)


def payload_of(notice: Notice) -> bytes:
    """The body, in ASCII: `type`, `timestamp` and `data`, whose members are absent where the audit says nothing."""
    document = {"type": notice.kind.value, "timestamp": instant_of(notice.at), "data": _data(notice)}
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _data(notice: Notice) -> dict[str, Any]:
    event = notice.event
    data: dict[str, Any] = {"title": title_of(notice), "says": says(notice), "url": notice.url}
    if event is not None:
        data |= {
            "tenant": event.tenant,
            "environment": event.environment,
            "subject": event.subject,
            "on_behalf_of": event.on_behalf_of,
            "tool": event.tool,
            "tool_version": event.tool_version,
            "risk": event.risk,
            "effect_class": event.effect_class,
            "effect_state": event.effect_state,
            "run_id": event.run_id,
            "request_id": event.request_id,
            "approval_id": event.approval_id,
            "reasons": list(event.reasons) or None,
            "detail": event.detail,
            "decided_by": event.decided_by,
            "decided_at": instant_of(event.decided_at),
            "expires_at": instant_of(event.expires_at),
        }
    return {name: value for name, value in data.items() if value is not None}
