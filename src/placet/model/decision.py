"""What policy answers about one call."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from sys import float_info

from placet.errors import MisuseError
from placet.model.exact import is_seconds
from placet.model.identifiers import PolicyVersion
from placet.model.reminders import Reminders

RULE_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
RULE_NAME_FORM = "1 to 64 characters of a-z 0-9 _ . -, a letter first"
MOST_VOTES = 16
"""People that one call may need; more would wait for ever."""
MOST_GRANT_USES = 1_000
LONGEST_GRANT_SECONDS = 31 * 86_400.0


class RequirementKind(StrEnum):
    """Whose answer an ask needs.

    `confirm`: the person the agent acts for. `review`: somebody else who is entitled. `quorum`: several such people,
    each for itself.
    """

    CONFIRM = "confirm"
    REVIEW = "review"
    QUORUM = "quorum"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a rule of the policy demands of an approval, besides its kind. Signed with the question.

    Attributes:
        rule: the rule's name; whoever decides is held against the rule of this name.
        votes: how many different people have to approve.
        reason_to_approve, reason_to_deny: whether the decision needs the person's words.
        may_edit: whether a person may change the arguments, which makes another question.
    """

    rule: str
    votes: int = 1
    reason_to_approve: bool = False
    reason_to_deny: bool = False
    may_edit: bool = True

    def __post_init__(self) -> None:
        if type(self.rule) is not str or RULE_NAME.fullmatch(self.rule) is None:
            raise MisuseError(f"A rule is named by {RULE_NAME_FORM}.")
        if type(self.votes) is not int or not 1 <= self.votes <= MOST_VOTES:
            raise MisuseError(f"An approval takes 1 to {MOST_VOTES} votes.")
        if any(type(each) is not bool for each in (self.reason_to_approve, self.reason_to_deny, self.may_edit)):
            raise MisuseError("Whether a reason is needed, and whether arguments may be edited, is True or False.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantTerms:
    """That standing grants may be given for what a rule asks about, and the most that one may be.

    Attributes:
        max_uses: calls that one grant may let through.
        max_seconds: how long one may be good for.
    """

    max_uses: int
    max_seconds: float

    def __post_init__(self) -> None:
        if type(self.max_uses) is not int or not 1 <= self.max_uses <= MOST_GRANT_USES:
            raise MisuseError(f"A standing grant is good for 1 to {MOST_GRANT_USES:,} uses.")
        if not is_seconds(self.max_seconds, most=LONGEST_GRANT_SECONDS):
            raise MisuseError("A standing grant is good for a number of seconds above zero, and at most 31 days.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirement:
    """What an approval must look like.

    Attributes:
        lifetime_seconds: how long a given approval stays usable, from the decision.
        decide_within_seconds: how long the question may wait for an answer.
        terms: what the rule that fitted demands besides; None where no rule did.
        reminders: when people are told again while it waits; None where they are not.
        grants: what a standing grant may be that answers in an approval's place; None where there is none.
    """

    kind: RequirementKind = RequirementKind.REVIEW
    lifetime_seconds: float = 300.0
    decide_within_seconds: float = 86_400.0
    terms: Terms | None = None
    reminders: Reminders | None = None
    grants: GrantTerms | None = None

    def __post_init__(self) -> None:
        if type(self.kind) is not RequirementKind:
            raise MisuseError("A requirement's kind is a RequirementKind.")
        for seconds in (self.lifetime_seconds, self.decide_within_seconds):
            if not is_seconds(seconds, most=float_info.max):  # policy answers are held to less
                raise MisuseError("A requirement's seconds are finite numbers above zero.")
        if self.terms is not None and type(self.terms) is not Terms:
            raise MisuseError("A requirement's terms are Terms.")
        if self.reminders is not None and type(self.reminders) is not Reminders:
            raise MisuseError("A requirement's reminders are Reminders.")
        if self.grants is not None and (type(self.grants) is not GrantTerms or self.terms is None):
            raise MisuseError("A requirement's grants are GrantTerms, of a rule that it names in its terms.")
        if self.grants is not None and self.kind is not RequirementKind.REVIEW:
            raise MisuseError("A standing grant takes the place of a review, and of nothing else.")
        votes = 1 if self.terms is None else self.terms.votes
        if (votes > 1) is not (self.kind is RequirementKind.QUORUM):
            raise MisuseError("A quorum has terms with 2 votes or more, and nothing else has.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ShadowAnswer:
    """What a policy in shadow would have answered, beside what was enforced. It decides nothing.

    Attributes:
        enforced: allow, ask or deny: the word of the policy that binds.
        would_be: the word of the one in shadow; error where it did not answer.
        changes: whether the call would be answered otherwise: by another word, or by another kind of approval.
        reasons: the rules that would have decided.
        policy_version: of the policy in shadow; None where it did not answer.
    """

    enforced: str
    would_be: str
    changes: bool
    reasons: tuple[str, ...] = ()
    policy_version: PolicyVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allow:
    """The call may run.

    Attributes:
        reasons: the rules that decided.
        requirement: what an approval must look like where something else, the contract for one, asks all the same.
        shadow: as of every decision, what a policy in shadow would have answered; set by the gate, never by an engine.
    """

    reasons: tuple[str, ...]
    policy_version: PolicyVersion
    requirement: Requirement = field(default_factory=Requirement)
    shadow: ShadowAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The call may not run, whoever approves it."""

    reasons: tuple[str, ...]
    policy_version: PolicyVersion
    shadow: ShadowAnswer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The call may run once a person has approved exactly this call."""

    reasons: tuple[str, ...]
    policy_version: PolicyVersion
    requirement: Requirement
    shadow: ShadowAnswer | None = None


Decision = Allow | Deny | Ask


@dataclass(frozen=True, slots=True, kw_only=True)
class Entitled:
    """Policy lets this person decide this question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NotEntitled:
    """Policy does not let this person decide this question.

    Attributes:
        code: fixed name of the reason, such as `not_an_approver`.
    """

    code: str


Entitlement = Entitled | NotEntitled
