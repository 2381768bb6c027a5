"""What `Gate.ask` says of a call about which nobody is asked."""

from __future__ import annotations

from enum import StrEnum


class NotAsked(StrEnum):
    """Why a person is not asked about a call now. Submit the call either way: the outcome says what it came to.

    READY: nobody has to answer any more. The call is allowed or approved, or was made before and is on record.
    REFUSED: submitted as things stand, it would not run. It is no call, is denied, may not be seen, its run or its
        tool is closed, this process ends, or nobody can tell.
    """

    READY = "ready"
    REFUSED = "refused"
