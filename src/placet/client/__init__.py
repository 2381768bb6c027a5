"""A client of placet's HTTP API, typed as the library itself: outcomes are values, views are the engine's own.

    with Client("https://placet.test", token=key) as placet:
        outcome = placet.submit("open_ticket", {"title": "..."}, run="r1", call_id="c1")

`AsyncClient` is the same with `await`. What is asked again by itself is only what cannot act twice: every proposal is
sent under a name, and the same name is sent again.
"""

from placet.client.calls import AsyncClient
from placet.client.documents import UrgentApprovals
from placet.client.errors import (
    AnswerLost,
    AnswerTooLarge,
    AnswerUnreadable,
    ServerNotTrusted,
    ServerRedirects,
    ServerRefused,
    ServerUnreachable,
)
from placet.client.sync import Client
from placet.client.wire import PlainHttp, Retries

__all__ = [
    "AnswerLost",
    "AnswerTooLarge",
    "AnswerUnreadable",
    "AsyncClient",
    "Client",
    "PlainHttp",
    "Retries",
    "ServerNotTrusted",
    "ServerRedirects",
    "ServerRefused",
    "ServerUnreachable",
    "UrgentApprovals",
]
