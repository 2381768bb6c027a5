"""What every engine does with a run: advance it, rest until there may be something to do, and stop when it is over.

A rest ends early by a wake-up. A wake-up says nothing: whoever sends it, with whatever in it, the run is advanced, and
the store and the ledger say what that comes to.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from placet.errors import PlacetError
from placet.model.json import JsonObject
from placet.model.progress import Busy, Ended, Progress, Ready, Unserved, Waiting, progress_of

if TYPE_CHECKING:
    from placet.engine.workflow import Workflows

FAULT: Final = "fault"
_SHORTEST_SECONDS: Final = 0.05
_FIRST_SECONDS: Final = 1.0
_LONGEST_SECONDS: Final = 300.0
_DOUBLINGS: Final = 9
_LONGEST_ID: Final = 500
"""Engines refuse names of a thousand characters, and some add to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """The run could not be advanced, and nothing is known to have changed; it is asked again after a pause.

    Attributes:
        code: of the error; its text goes nowhere.
    """

    code: str

    def as_data(self) -> JsonObject:
        return {"progress": FAULT, "code": self.code}


@dataclass(frozen=True, slots=True)
class Rest:
    """Advance again after so many seconds, or when woken.

    Attributes:
        questions: those whose answers wake; none where it is not a person that is waited for.
    """

    seconds: float
    questions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Over:
    """There is nothing more to do for this run."""


AGAIN: Final = Rest(0.0)
"""Advance at once."""


def said(data: object) -> Progress | Fault:
    """What a step of an engine came back with, read from its JSON.

    Raises:
        MisuseError: it is nothing that `as_data` wrote.
    """
    if isinstance(data, dict) and data.get("progress") == FAULT:
        return Fault(code=str(data.get("code")))
    return progress_of(data)


def next_after(answer: Progress | Fault, *, in_vain: int) -> Rest | Over:
    """What an engine does next.

    Args:
        in_vain: how often in a row, before this, the run could not be advanced; pauses grow with it.
    """
    match answer:
        case Ended():
            return Over()
        case Ready():
            return AGAIN
        case Waiting(approvals=questions, check_after_seconds=seconds):
            return Rest(max(seconds, _SHORTEST_SECONDS), questions)
        case Busy(retry_after_seconds=seconds):
            return Rest(max(seconds, _SHORTEST_SECONDS))
        case Unserved() | Fault():
            return Rest(min(_FIRST_SECONDS * 2 ** min(in_vain, _DOUBLINGS), _LONGEST_SECONDS))


def is_in_vain(answer: Progress | Fault) -> bool:
    """Whether this process could not advance the run at all."""
    return isinstance(answer, Unserved | Fault)


async def advanced(workflows: Workflows, tenant: str, run_id: str) -> Progress | Fault:
    """At most one step of the run, in data whatever happens: what is raised around an engine's step, and be it no
    Exception, would leave the run with nobody to go on with it.

    Raises:
        CancelledError: the task that asks was cancelled.
    """
    try:
        return await workflows.advance(tenant, run_id)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        task = asyncio.current_task()
        if not isinstance(error, Exception) and task is not None and task.cancelling():
            raise
        return fault_of(error)


def fault_of(error: BaseException) -> Fault:
    """What may be told of an error: the code of ours, one word for all others."""
    return Fault(code=error.code if isinstance(error, PlacetError) else "engine_fault")


def engine_id(tenant: str, run_id: str) -> str:
    """The name under which every engine knows the run. Never the same for two runs, whatever their names hold."""
    name = f"{quote(tenant, safe='')}/{quote(run_id, safe='')}"
    return f"placet/{name}" if len(name) <= _LONGEST_ID else f"placet/#{sha256(name.encode()).hexdigest()}"
