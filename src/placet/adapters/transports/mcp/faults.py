"""Why a request to a server did not bring a result, in the only distinction that counts: may it have been taken up?

They stay inside this package. None of them holds a word of the server's, and none is raised with a cause.
"""

from __future__ import annotations

from typing import Final

from placet.model.json import JsonObject

NOT_NOW: Final = frozenset((429, 502, 503, 504))
"""Statuses by which a server, or what stands in front of it, says that it does not answer now, and no more."""


class RequestFault(Exception):
    """A request brought no result."""


class NotAccepted(RequestFault):
    """Nothing of it was taken up: it never left, or the server refused it before it looked at it.

    Attributes:
        reason: one of a few fixed words.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class SessionGone(NotAccepted):
    """The session is no more, which was known, or said by the server, before the request was taken up."""

    def __init__(self) -> None:
        super().__init__("session_gone")


class SessionForgotten(SessionGone):
    """The server says by 404 that it does not know the session. Said twice in a row it proves nothing."""


class TurnedAway(NotAccepted):
    """The server says by an HTTP status that we are not let in, or that it lives elsewhere. Said of one call twice it
    proves nothing.

    Attributes:
        sends: how often it was sent, which a fresh token makes two.
    """

    def __init__(self, reason: str, *, sends: int = 1) -> None:
        super().__init__(reason)
        self.sends = sends


class Refused(NotAccepted):
    """The server says by an error of the protocol that it did not take the request up.

    Attributes:
        code, error: that error, as it came.
    """

    def __init__(self, code: int, error: JsonObject) -> None:
        super().__init__("refused")
        self.code = code
        self.error = error


class Doubtful(RequestFault):
    """A first byte may have left, and what became of it cannot be told."""


class ConnectionLost(Doubtful):
    """The connection ended, or the process did, before an answer was there."""


class Flooded(ConnectionLost):
    """The session was ended because its server went on to say too much that nobody asked for."""


class AnswerGarbled(Doubtful):
    """An answer came that cannot be read: no JSON, a member twice, neither result nor error."""


class AnswerTooLarge(Doubtful):
    """An answer came that is larger than what is read of one."""


class FaultAnswered(Doubtful):
    """The server answered with an error that may have come after it acted."""

    def __init__(self, code: int, error: JsonObject) -> None:
        super().__init__(str(code))
        self.code = code
        self.error = error


class TurnedAwayAgain(Doubtful):
    """The server has said of one call more than once that it was not taken up, and was sent it each time."""


class StatusAnswered(Doubtful):
    """The server answered with an HTTP status, and nothing of the protocol."""

    def __init__(self, status: int, retry_after: str | None) -> None:
        super().__init__(str(status))
        self.status = status
        self.retry_after = retry_after
