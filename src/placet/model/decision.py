"""What policy answers about one call."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from sys import float_info

from placet.errors import MisuseError
from placet.model.exact import is_seconds
from placet.model.identifiers import PolicyVersion


class RequirementKind(StrEnum):
    """Whose answer an ask needs.

    `confirm`: the person the agent acts for. `review`: somebody else who is entitled.
    """

    CONFIRM = "confirm"
    REVIEW = "review"


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What an approval must look like.

    Attributes:
        lifetime_seconds: how long a given approval stays usable, from the decision.
        decide_within_seconds: how long the question may wait for an answer.
    """

    kind: RequirementKind = RequirementKind.REVIEW
    lifetime_seconds: float = 300.0
    decide_within_seconds: float = 86_400.0

    def __post_init__(self) -> None:
        if type(self.kind) is not RequirementKind:
            raise MisuseError("A requirement's kind is a RequirementKind.")
        for seconds in (self.lifetime_seconds, self.decide_within_seconds):
            if not is_seconds(seconds, most=float_info.max):  # policy answers are held to less
                raise MisuseError("A requirement's seconds are finite numbers above zero.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """The call may run.

    Attributes:
        reasons: the rules that decided.
        requirement: what an approval must look like where something else, the contract for one, asks all the same.
    """

    reasons: tuple[str, ...]
    policy_version: PolicyVersion
    requirement: Requirement = field(default_factory=Requirement)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The call may not run, whoever approves it."""

    reasons: tuple[str, ...]
    policy_version: PolicyVersion


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The call may run once a person has approved exactly this call."""

    reasons: tuple[str, ...]
    policy_version: PolicyVersion
    requirement: Requirement


Decision = Allow | Deny | Ask
