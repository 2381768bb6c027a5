"""When people are told again of a question that nobody has decided, and who else may decide it then."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from typing import TYPE_CHECKING

from placet.errors import MisuseError
from placet.model.exact import is_seconds

if TYPE_CHECKING:  # an approval's question has reminders
    from placet.model.approval import Approval

LONGEST_SECONDS = 366 * 86_400.0
MOST_REMINDERS = 8
"""How often one question may remind; more would teach people to look away."""
MOST_TOLD_TO = 64


class ReminderStep(StrEnum):
    """What people are told while a question waits."""

    REMIND = "remind"
    ESCALATE = "escalate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reminders:
    """What a rule says about waiting. Signed with the question, so that nobody brings an escalation forward.

    Attributes:
        remind_after_seconds: from the asking, each later than the one before.
        escalate_after_seconds: from the asking; None where nobody else is told.
        escalate_to: whom an escalation is for, as `role:`, `scope:` or `subject:` and a name; sorted, for showing only.
        widens: whether those may decide from that instant on, as the rule of today says when they do.
    """

    remind_after_seconds: tuple[float, ...] = ()
    escalate_after_seconds: float | None = None
    escalate_to: tuple[str, ...] = ()
    widens: bool = False

    def __post_init__(self) -> None:
        after = self.remind_after_seconds
        if type(after) is not tuple or not all(is_seconds(each, most=LONGEST_SECONDS) for each in after):
            raise MisuseError("Reminders come after seconds above zero, and at most 366 days.")
        if len(after) > MOST_REMINDERS or any(later <= sooner for sooner, later in pairwise(after)):
            raise MisuseError(f"There are at most {MOST_REMINDERS} reminders, each later than the one before.")
        escalates = self.escalate_after_seconds
        if escalates is not None and not is_seconds(escalates, most=LONGEST_SECONDS):
            raise MisuseError("An escalation comes after seconds above zero, and at most 366 days.")
        told = self.escalate_to
        if type(told) is not tuple or len(told) > MOST_TOLD_TO or not all(type(each) is str for each in told):
            raise MisuseError(f"An escalation is for at most {MOST_TOLD_TO} names.")
        if type(self.widens) is not bool:
            raise MisuseError("Whether an escalation widens who may decide is True or False.")
        if escalates is None and (told or self.widens):
            raise MisuseError("Without an escalation there is nobody that it is for.")
        if not after and escalates is None:
            raise MisuseError("Reminders say when somebody is told.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One step that was taken: it is on record, and announced to whoever hears of it.

    Attributes:
        at: the store's clock.
    """

    step: ReminderStep
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingQuestion:
    """A question that waits, with what was told of it so far; as rows say, unverified."""

    approval: Approval
    told: tuple[Told, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """One step to be put on record.

    Attributes:
        told: what had been told when the step was found due; if it is otherwise by now, nothing is written.
        now: the step.
        next_at: when the next one is due; None after the last.
    """

    told: tuple[Told, ...]
    now: Told
    next_at: datetime | None
