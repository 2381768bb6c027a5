"""A bounded sequence of calls of one principal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from placet.errors import MisuseError
from placet.model.effect import EffectState
from placet.model.identifiers import ApprovalId, OwnerId, PolicyVersion, RunId
from placet.model.making import quick

MOST_OF_A_LIMIT: Final = 1_000_000_000
MOST_TOOLS: Final = 1_000


class RunStatus(StrEnum):
    """Whether a run may go on. What was counted in it stays counted, whatever its status was meanwhile.

    OPEN: it may. PAUSED: nothing of it is dispatched until somebody resumes it. DONE, FAILED: its workflow has ended.
    CANCELLED: for good.
    """

    OPEN = "open"
    PAUSED = "paused"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def is_over(self) -> bool:
        return self in (RunStatus.DONE, RunStatus.FAILED, RunStatus.CANCELLED)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunLimits:
    """What a run may spend, declared when it begins. All of it is counted in the transaction of each claim.

    Attributes:
        max_steps: proposals, refused ones too; the settings' number if None.
        max_attempts: attempts of handlers, retries included.
        deadline: from this instant of the store's clock on, nothing of it is dispatched.
        allowed_tools: every other tool is refused before anybody is asked; None for all.
        per_tool: how often each of these tools may be dispatched.
        max_cost, costs: units in all, and how many a dispatch of each tool takes; a tool that is not named takes none.
        workflow_tools: those its workflow has, in the version it is in: said by the engine, whatever whoever begins or
            resumes it allows. It has what both allow.
    """

    max_steps: int | None = None
    max_attempts: int | None = None
    deadline: datetime | None = None
    allowed_tools: frozenset[str] | None = None
    per_tool: Mapping[str, int] = field(default_factory=dict)
    max_cost: int | None = None
    costs: Mapping[str, int] = field(default_factory=dict)
    workflow_tools: frozenset[str] | None = None

    @property
    def tools(self) -> frozenset[str] | None:
        """Every tool it has; None for all."""
        if self.allowed_tools is None or self.workflow_tools is None:
            return self.workflow_tools if self.allowed_tools is None else self.allowed_tools
        return self.allowed_tools & self.workflow_tools

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_attempts", "max_cost"):
            value = getattr(self, name)
            _require(value is None or _is_count(value), f"{name}= is a whole number from 1 to {MOST_OF_A_LIMIT}.")
        is_sound = self.deadline is None or (type(self.deadline) is datetime and self.deadline.tzinfo is not None)
        _require(is_sound, "deadline= is an instant that knows its zone.")
        for name in ("allowed_tools", "workflow_tools"):
            tools = getattr(self, name)
            is_sound = tools is None or (type(tools) is frozenset and all(type(tool) is str for tool in tools))
            _require(is_sound, f"{name}= is a frozenset of names.")
        for name in ("per_tool", "costs"):
            given = getattr(self, name)
            is_sound = type(given) is dict and len(given) <= MOST_TOOLS
            is_sound = is_sound and all(type(tool) is str and _is_count(count) for tool, count in given.items())
            _require(is_sound, f"{name}= maps names of tools to whole numbers from 1 to {MOST_OF_A_LIMIT}.")


def _is_count(value: object) -> bool:
    return type(value) is int and 1 <= value <= MOST_OF_A_LIMIT


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise MisuseError(words)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Opened by its first proposal and owned by whoever made it; to others it does not exist.

    Attributes:
        steps: proposals counted so far, each call id once; refused ones count too.
        policy_version: what was in force when the run began, only to notice change.
        stepped_at: when it last counted a step; None for one that no process of today has counted.
        limits: what it was begun with; None for one that its first proposal opened.
        terms: rises with every change of status or limits; 0 for one that had none.
    """

    tenant: str
    run_id: RunId
    subject: str
    policy_version: PolicyVersion
    max_steps: int
    steps: int
    opened_at: datetime
    stepped_at: datetime | None = None
    status: RunStatus = RunStatus.OPEN
    limits: RunLimits | None = None
    terms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCheckpoint:
    """Where a run of a workflow rests, and who drives it. All instants are the store's clock.

    Attributes:
        sealed: the next state's input and whatever else goes on; encrypted, bound to this run.
        state_version: rises with every checkpoint; whoever writes one compares it, with the fence.
        driver, lease_until: who has taken it for a step, and until when without a sign of life.
        fence: rises each time it is taken, so that a driver of before writes nothing any more.
        due_at: when somebody has to look next; None when there is nothing to be done.
        code: why it waits, or why it failed; None otherwise.
        waits: the questions it waits for. An answer to any question of the run makes it due.
        policy_version: the policy under which it came to rest.
        stale_writes: checkpoints that were refused because somebody else had taken it.
    """

    tenant: str
    run_id: RunId
    workflow: str
    version: str
    state: str
    visit: int
    sealed: bytes
    state_version: int
    driver: OwnerId | None
    lease_until: datetime | None
    fence: int
    due_at: datetime | None
    code: str | None
    waits: tuple[ApprovalId, ...]
    policy_version: PolicyVersion
    stale_writes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunTake:
    """Take a run for one step, if it is open, due or not, and nobody else has it.

    Attributes:
        driver: fresh for each take, so that two of one process exclude each other too.
        expecting: the `state_version` that is meant to be done next; None for whichever it is.
    """

    tenant: str
    run_id: RunId
    driver: OwnerId
    lease_seconds: float
    expecting: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRest:
    """Write where a run rests after a step, and let it go. The fence must still be that of the take.

    Attributes:
        due_after_seconds: when to look next, from the store's now; 0 for a step that can be done now, None for none.
        ends: the status of a run that is over.
        workflow_tools: what its workflow has from here on, where it went on to another version; None for no change.
    """

    tenant: str
    run_id: RunId
    driver: OwnerId
    fence: int
    version: str
    state: str
    visit: int
    sealed: bytes
    code: str | None
    waits: tuple[ApprovalId, ...]
    policy_version: PolicyVersion
    due_after_seconds: float | None
    ends: RunStatus | None = None
    workflow_tools: frozenset[str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunNote:
    """Who changed a run's status last, and why; the reason is encrypted, for people who may see the run."""

    changed_by: str | None
    sealed_reason: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunChange:
    """Another status, or other limits, if the run has one of the statuses it may follow.

    Attributes:
        limits: instead of what it had; None leaves them as they are.
    """

    tenant: str
    run_id: RunId
    status: RunStatus
    follows: frozenset[RunStatus]
    note: RunNote
    limits: RunLimits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsUnderWay:
    """The change is not made: calls of the run are dispatched, and what they took could not be given back by limits of
    which a dispatch takes something else."""

    count: int


class LeftOpen(StrEnum):
    """What keeps a run from being over. A run of which nothing is left open may still go on, until its budget is spent.

    UNKNOWN: nobody can tell what became of an effect of it. IN_PROGRESS: one is being done. WAITING: a person is asked.
    """

    UNKNOWN = "unknown"
    IN_PROGRESS = "in_progress"
    WAITING = "waiting"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStanding:
    """What ledger and desk hold of a run, at one look.

    Attributes:
        effects: how many there are of each state; a state without one is not named.
        waiting: questions that wait for a person, the oldest first; as rows say, unverified.
        denials: how often each tool was refused in it, by the tool's name.
    """

    run_id: RunId
    effects: dict[EffectState, int]
    waiting: tuple[ApprovalId, ...]
    denials: dict[str, int]
