"""Audit events as log records, one line each through whatever logging the program has configured."""

from __future__ import annotations

import json
import logging

from placet.model.audit import AuditEvent
from placet.rules.audit import event_body

_log = logging.getLogger("placet.audit")


class LogSink:
    """Best effort: the store has every event; the log is a copy for people."""

    name = "log"
    is_required = False

    async def deliver(self, event: AuditEvent) -> None:
        if _log.isEnabledFor(logging.INFO):
            body = json.loads(event_body(event))
            for name in ("arguments", "result"):  # counts; under the bare names a log sanitiser takes them for content
                if name in body:
                    body[f"{name}_counts"] = body.pop(name)
            _log.info("audit", extra={"audit": body})
