"""What all proposals of one submission share; the server's word, never the model's."""

from __future__ import annotations

from dataclasses import dataclass

from placet.model.call_progress import ProgressListener
from placet.model.identifiers import RequestId, RunId
from placet.model.making import quick
from placet.model.principal import Principal


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """Who submits, in which run, and until when it waits.

    Attributes:
        caller_key: the caller's own name for the operation, if it gave one.
        deadline: when the caller stops waiting, on the monotonic clock.
        on_progress: hears how far a running call is.
    """

    principal: Principal
    run_id: RunId
    request_id: RequestId
    caller_key: str | None
    deadline: float
    on_progress: ProgressListener | None = None
