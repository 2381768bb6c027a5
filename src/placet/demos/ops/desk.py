"""The ticket desk: somebody else's system, in a process of its own.

    python -m placet.demos.ops.desk --store FILE --port 0 --ready-file FILE

It keeps tickets as `placet.demos.remote.service` keeps records: `POST /tickets`, `GET /tickets/OPS-1001`
and their like.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any

from placet.demos.remote.service import MAX_BODY_BYTES, Kind, Refused, run

__all__ = ["MAX_BODY_BYTES", "TICKETS", "main"]

_TEXT_MEMBERS = ("title", "service", "severity", "body")
_SEVERITIES = frozenset({"sev1", "sev2", "sev3"})


def _checked_ticket(posted: Mapping[str, Any]) -> str:
    labels = posted.get("labels", [])
    if (
        posted.keys() - {*_TEXT_MEMBERS, "labels"}
        or not all(isinstance(posted.get(name), str) and posted[name] for name in _TEXT_MEMBERS)
        or posted["severity"] not in _SEVERITIES
        or not isinstance(labels, list)
        or not all(isinstance(label, str) for label in labels)
    ):
        raise Refused(HTTPStatus.UNPROCESSABLE_ENTITY, "that is not a ticket")
    return json.dumps({**posted, "labels": labels}, sort_keys=True)


TICKETS = Kind(
    one="ticket",
    many="tickets",
    name="ticket desk",
    prefix="OPS",
    program="placet.demos.ops.desk",
    about="A small ticket desk.",
    checked=_checked_ticket,
    document=Path(__file__).with_name("desk.openapi.json"),
)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and serve."""
    run(TICKETS, arguments)


if __name__ == "__main__":
    main()
