"""How far a run of a workflow has come: a closed union that holds ids and fixed words, nothing of anybody's data."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar, Final

from placet.errors import MisuseError
from placet.model.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class _Progress:
    """
    Attributes:
        visit: how often `state` has been entered, this time included.
        state_version: of the run's row; rises with everything that changes it.
    """

    kind: ClassVar[str]

    tenant: str
    run_id: str
    workflow: str
    version: str
    state: str
    visit: int
    state_version: int

    def as_data(self) -> JsonObject:
        """As JSON; `progress_of` reads it."""
        return {"progress": self.kind, **asdict(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready(_Progress):
    """There is a step to be done now: advance."""

    kind = "ready"


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(_Progress):
    """Nothing to do until something of this happens; advancing earlier does no harm.

    Attributes:
        code: `approval_required`, or what the call came back with: `unknown`, `in_progress`, `stopped` and their like.
        approvals: the questions it waits for.
        check_after_seconds: when to look again in any case.
    """

    kind = "waiting"

    code: str
    approvals: tuple[str, ...]
    check_after_seconds: float

    def as_data(self) -> JsonObject:
        return {**_Progress.as_data(self), "approvals": list(self.approvals)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended(_Progress):
    """The run is over, for good.

    Attributes:
        status: `done`, `failed` or `cancelled`.
        code: why it failed, where it did.
    """

    kind = "ended"

    status: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy(_Progress):
    """Another driver has it, and its lease ends by itself, should that one be gone; or it is left for a while to those
    who have the newer policy under which it rests."""

    kind = "busy"

    retry_after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Unserved(_Progress):
    """This process cannot do its next step, and leaves it as it is.

    Attributes:
        code: `workflow_unknown`, `workflow_version` (not among what the definition accepts), `workflow_changed` (the
            same version, of another shape), `upgrade_broken`, `principal_unavailable` (nobody here can ask whoever says
            what its principal may by now), `paused`, `checkpoint_unreadable`.
    """

    kind = "unserved"

    code: str


Progress = Ready | Waiting | Ended | Busy | Unserved

_KINDS: Final[dict[str, type[Progress]]] = {kind.kind: kind for kind in (Ready, Waiting, Ended, Busy, Unserved)}


def progress_of(data: object) -> Progress:
    """What `as_data` wrote, read again.

    Raises:
        MisuseError: it is nothing of the kind.
    """
    members = dict(data) if isinstance(data, dict) else {}
    kind = _KINDS.get(str(members.pop("progress", None)))
    try:
        if kind is Waiting:
            members["approvals"] = tuple(members["approvals"])
        if kind is not None:
            return kind(**members)
    except (KeyError, TypeError):
        pass
    raise MisuseError("This is no progress of a run, as `as_data` writes it.")
