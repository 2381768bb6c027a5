"""Who may do what: the matrix of roles and risks, and the strictest of several answers.

                 low      medium   high     critical
    viewer       allow*   deny     deny     deny        * reads only; a low write or a sensitive read counts as medium
    operator     allow    allow    deny     deny
    admin        allow    allow    ask      ask

Source: REQUIREMENTS C016 to C023, H009; DESIGN section 8.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import TypeGuard

from placet.errors import MisuseError
from placet.model.approval import Question
from placet.model.call import Call
from placet.model.contract import ApprovalMode, Contract, EffectClass, Risk
from placet.model.decision import (
    MOST_VOTES,
    RULE_NAME,
    Allow,
    Ask,
    Decision,
    Deny,
    Entitled,
    Entitlement,
    GrantTerms,
    NotEntitled,
    Requirement,
    RequirementKind,
    ShadowAnswer,
    Terms,
)
from placet.model.exact import is_seconds
from placet.model.identifiers import PolicyVersion
from placet.model.principal import Principal, Role
from placet.model.reminders import Reminders
from placet.rules.asking import (
    LONGEST_SECONDS,
    AskRules,
    entitlement,
    escalated_entitlement,
    grants_form,
    terms_form,
)
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.reminding import reminders_form

ALLOW, ASK, DENY = "allow", "ask", "deny"

MATRIX: dict[Role, dict[Risk, str]] = {
    Role.VIEWER: {Risk.LOW: ALLOW, Risk.MEDIUM: DENY, Risk.HIGH: DENY, Risk.CRITICAL: DENY},
    Role.OPERATOR: {Risk.LOW: ALLOW, Risk.MEDIUM: ALLOW, Risk.HIGH: DENY, Risk.CRITICAL: DENY},
    Role.ADMIN: {Risk.LOW: ALLOW, Risk.MEDIUM: ALLOW, Risk.HIGH: ASK, Risk.CRITICAL: ASK},
}

DECIDE_SCOPE = "approvals.decide"
NOBODY_CONFIRMS = "nobody_confirms"
"""Needed to decide approvals of others."""
RECONCILE_SCOPE = "effects.reconcile"
"""Needed to say what became of an unknown effect."""
READ_EFFECTS_SCOPE = "effects.read"
"""Lets a principal learn about operations of others in its tenant."""

POLICY_FAILED = "policy_failed"
"""What is said for a policy that did not answer, or with what is no answer."""

SHADOW_FAILED = "error"
"""The word of a policy in shadow that did not answer, or with what is no answer."""

_MILDEST_FIRST = (ALLOW, ASK, DENY)
_ORDINARY = Requirement()
_REASON = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_MAX_VERSION_CHARACTERS = 200
_MAX_REASONS = 64
LONGEST_REQUIREMENT_SECONDS = LONGEST_SECONDS
"""How long a question may wait, and an approval stay usable, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Matrix:
    """The built-in policy engine: a table, so it never waits.

    Attributes:
        requirement: what an approval must look like wherever the table, or a contract, asks, and no rule says so.
        asks: rules that say it for some calls; see `policy.toml`.
    """

    requirement: Requirement = _ORDINARY
    asks: AskRules | None = None
    _unruled: Requirement = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        reminders = None if self.asks is None else self.asks.reminders
        has_own = reminders is None or self.requirement.reminders is not None
        unruled = (
            self.requirement if has_own or reminders is None else replace(self.requirement, reminders=reminders.signed)
        )
        object.__setattr__(self, "_unruled", unruled)

    @property
    def timeout_seconds(self) -> float | None:
        return None

    @property
    def version(self) -> PolicyVersion:
        if self.requirement is _ORDINARY and self.asks is None:
            return _ordinary_version()  # of every call where nobody configured anything
        return _version(self.requirement, self.asks)

    async def decide(self, call: Call) -> Decision:
        return self.word(call.contract, call.principal)

    def is_listed(self, contract: Contract, principal: Principal) -> bool:
        return not isinstance(self.word(contract, principal), Deny)

    def word(self, contract: Contract, principal: Principal) -> Decision:
        """The table's answer for the principal and everybody it acts for: delegation only narrows."""
        version = self.version
        requirement = self.requirement if self.asks is None else self._requirement_for(contract, principal.tenant)
        word = _cell(contract, principal, requirement=requirement, version=version)
        link = principal.on_behalf_of
        while link is not None:
            word = strictest(word, _cell(contract, link, requirement=requirement, version=version))
            link = link.on_behalf_of
        return word

    def _requirement_for(self, contract: Contract, tenant: str) -> Requirement:
        rule = self.asks.fitting(contract, tenant) if self.asks is not None else None
        return self._unruled if rule is None else rule.requirement

    async def grantable(self, contract: Contract, tenant: str) -> Requirement | None:
        """What a review of this tool's calls must look like, if a rule lets standing grants be given for them."""
        requirement = self.requirement if self.asks is None else self._requirement_for(contract, tenant)
        return None if requirement.grants is None else requirement

    async def may_decide(self, question: Question, person: Principal) -> Entitlement:
        return self.entitlement(question, person)

    def entitlement(self, question: Question, person: Principal) -> Entitlement:
        """Who may decide is for the rules that asked to say; of another version of them nobody here knows."""
        if (question.terms is not None or self.asks is not None) and question.policy_version != self.version:
            return NotEntitled(code="policy_changed")
        terms = question.terms
        is_of_a_rule = self.asks is not None and terms is not None and self.asks.named(terms.rule) is not None
        if terms is not None and terms == self.requirement.terms and not is_of_a_rule:
            return Entitled()  # asked for where no rule said otherwise; it names nobody
        return entitlement(self.asks, terms, person)

    async def may_decide_escalated(self, question: Question, person: Principal) -> Entitlement:
        return self.escalated_entitlement(question, person)

    def escalated_entitlement(self, question: Question, person: Principal) -> Entitlement:
        """Whom the rule's escalation is for may decide then, if the rule says so and is the one that asked."""
        if question.policy_version != self.version:
            return NotEntitled(code="policy_changed")
        return escalated_entitlement(self.asks, question.terms, person)


def is_sound(answer: object) -> TypeGuard[Decision]:
    """Whether an engine's answer is a decision through and through. What is none is a deny; no method of it runs."""
    if type(answer) is not Allow and type(answer) is not Ask and type(answer) is not Deny:
        return False
    try:
        return _has_sound_fields(answer)
    except AttributeError:  # made without its constructor, it lacks a field
        return False


def _has_sound_fields(answer: Decision) -> bool:
    version, reasons = answer.policy_version, answer.reasons
    if answer.shadow is not None:  # what is recorded beside a decision is the gate's word
        return False
    if type(version) is not str or not 0 < len(version) <= _MAX_VERSION_CHARACTERS or not version.isprintable():
        return False
    if type(reasons) is not tuple:
        return False
    if len(reasons) > _MAX_REASONS:
        return False
    if not all(type(reason) is str and _REASON.fullmatch(reason) for reason in reasons):
        return False
    return isinstance(answer, Deny) or _is_requirement(answer.requirement)


def is_entitled(answer: object) -> bool:
    """Whether an engine's answer is a yes. Anything else, and any silence, is none."""
    return type(answer) is Entitled


def refusal_code(answer: object) -> str:
    """Why an engine's answer is no yes, in a fixed word; what is no answer at all has one of ours."""
    if type(answer) is NotEntitled:
        try:
            code: object = answer.code
        except AttributeError:  # made without its constructor
            code = None
        if type(code) is str and _REASON.fullmatch(code):
            return code
    return POLICY_FAILED


def _is_requirement(value: object) -> bool:
    return (
        type(value) is Requirement
        and type(value.kind) is RequirementKind
        and (value.terms is None or _is_terms(value.terms))
        and (value.reminders is None or _is_reminders(value.reminders))
        and (value.grants is None or _is_grant_terms(value))
        and ((value.terms is not None and value.terms.votes > 1) is (value.kind is RequirementKind.QUORUM))
        and all(
            is_seconds(seconds, most=LONGEST_REQUIREMENT_SECONDS)
            for seconds in (value.lifetime_seconds, value.decide_within_seconds)
        )
    )


def _is_terms(value: object) -> bool:
    return (
        type(value) is Terms
        and type(value.rule) is str
        and RULE_NAME.fullmatch(value.rule) is not None
        and type(value.votes) is int
        and 1 <= value.votes <= MOST_VOTES
        and type(value.reason_to_approve) is bool
        and type(value.reason_to_deny) is bool
        and type(value.may_edit) is bool
    )


def _is_grant_terms(requirement: Requirement) -> bool:
    """Made again, as what was made without its constructor was never checked."""
    grants = requirement.grants
    if type(grants) is not GrantTerms:
        return False
    try:
        replace(grants)
        replace(requirement)
    except (MisuseError, AttributeError):
        return False
    return True


def is_grantable(answer: object) -> TypeGuard[Requirement]:
    """Whether an engine's answer says that, and how, standing grants may be given. Anything else is a no."""
    try:
        return type(answer) is Requirement and answer.grants is not None and _is_requirement(answer)
    except AttributeError:  # made without its constructor, it lacks a field
        return False


def _is_reminders(value: object) -> bool:
    """Made again, as what was made without its constructor was never checked."""
    if type(value) is not Reminders:
        return False
    try:
        replace(value)
    except MisuseError:
        return False
    return True


def effective(decision: Decision, call: Call) -> Decision:
    """The strictest of the engine's answer and the contract's own word."""
    requirement = _ORDINARY if isinstance(decision, Deny) else decision.requirement
    word = contract_word(call.contract, call.principal, requirement=requirement, version=decision.policy_version)
    combined = strictest(decision, word)
    if isinstance(combined, Ask) and call.contract.approval is ApprovalMode.NEVER:
        return Deny(reasons=(*combined.reasons, "contract_never_asks"), policy_version=combined.policy_version)
    if isinstance(combined, Ask) and combined.requirement.terms is not None:
        return replace(combined, reasons=(*combined.reasons, f"rule:{combined.requirement.terms.rule}"))
    return combined


def answerable(decision: Decision, call: Call) -> Decision:
    """A confirmation that nobody could give is a deny: its agent acts for no user, who alone may confirm."""
    is_confirm = isinstance(decision, Ask) and decision.requirement.kind is RequirementKind.CONFIRM
    if is_confirm and call.principal.on_behalf_of is None:
        return Deny(reasons=(*decision.reasons, NOBODY_CONFIRMS), policy_version=decision.policy_version)
    return decision


def word_of(decision: Decision) -> str:
    """Allow, ask or deny, as it is recorded and counted."""
    match decision:
        case Allow():
            return ALLOW
        case Ask():
            return ASK
        case Deny():
            return DENY


def beside(enforced: Decision, would_be: Decision | None) -> ShadowAnswer:
    """What a policy in shadow would have changed. One that did not answer is an error, and no change."""
    word = word_of(enforced)
    if would_be is None:
        return ShadowAnswer(enforced=word, would_be=SHADOW_FAILED, changes=False)
    is_asked_alike = not (isinstance(enforced, Ask) and isinstance(would_be, Ask)) or (
        enforced.requirement == would_be.requirement
    )
    return ShadowAnswer(
        enforced=word,
        would_be=word_of(would_be),
        changes=word != word_of(would_be) or not is_asked_alike,
        reasons=would_be.reasons,
        policy_version=would_be.policy_version,
    )


def contract_word(
    contract: Contract, principal: Principal, *, requirement: Requirement, version: PolicyVersion
) -> Decision:
    """What the contract itself says, whoever asks."""
    if contract.allowed_tenants is not None and principal.tenant not in contract.allowed_tenants:
        return Deny(reasons=("tenant_not_allowed",), policy_version=version)
    if contract.approval is ApprovalMode.ALWAYS:
        return Ask(reasons=("contract_always_asks",), policy_version=version, requirement=requirement)
    return Allow(reasons=(), policy_version=version, requirement=requirement)


def strictest(*decisions: Decision) -> Decision:
    """Deny over ask over allow, with the reasons of all that are as strict as the winner. None given: deny."""
    winner: Decision | None = None
    for decision in decisions:
        if winner is None or _strictness(decision) > _strictness(winner):
            winner = decision
        elif decision.reasons and _strictness(decision) == _strictness(winner):
            winner = replace(winner, reasons=(*winner.reasons, *decision.reasons))
    if winner is None:
        return Deny(reasons=("no_policy",), policy_version=PolicyVersion("none"))
    return winner


def risk_for(role: Role, risk: Risk, effect_class: EffectClass) -> Risk:
    """The risk as it counts for a role: low writes and sensitive reads are medium for viewers."""
    if role is Role.VIEWER and risk is Risk.LOW and effect_class is not EffectClass.READ:
        return Risk.MEDIUM
    return risk


def least_role(risk: Risk, effect_class: EffectClass) -> Role:
    """The role with the least leave that the matrix does not deny it."""
    return next(role for role in Role if MATRIX[role][risk_for(role, risk, effect_class)] != DENY)


@cache  # every set of roles, risk and effect class there can be: some hundred entries
def _look_up(roles: frozenset[Role], risk: Risk, effect_class: EffectClass) -> tuple[str, str]:
    """The mildest word of the table for any of the roles, and the reason to give for it."""
    words = {role: MATRIX[role][risk_for(role, risk, effect_class)] for role in roles}
    if not words:
        return DENY, "no_role"
    word = min(words.values(), key=_MILDEST_FIRST.index)
    role = min(role for role, its_word in words.items() if its_word == word)
    return word, f"matrix_{role.value}_{risk_for(role, risk, effect_class).value}"


def _cell(contract: Contract, principal: Principal, *, requirement: Requirement, version: PolicyVersion) -> Decision:
    if contract.permission is not None and contract.permission not in principal.scopes:
        return Deny(reasons=("scope_missing",), policy_version=version)
    word, reason = _look_up(principal.roles, contract.risk, contract.effect_class)
    reasons = (reason,)
    if word == ALLOW:
        return Allow(reasons=reasons, policy_version=version, requirement=requirement)
    if word == ASK:
        return Ask(reasons=reasons, policy_version=version, requirement=requirement)
    return Deny(reasons=reasons, policy_version=version)


def _strictness(decision: Decision) -> int:
    match decision:
        case Allow():
            return 0
        case Ask():
            return 1
        case Deny():
            return 2


@cache
def _ordinary_version() -> PolicyVersion:
    return _version(_ORDINARY, None)


@lru_cache
def _version(requirement: Requirement, asks: AskRules | None) -> PolicyVersion:
    table: dict[str, dict[str, str]] = {
        role.value: {risk.value: word for risk, word in row.items()} for role, row in MATRIX.items()
    }
    form = canonical_bytes(
        {
            "matrix": {role: dict(row) for role, row in table.items()},
            **({} if asks is None else {"asks": asks.digest}),
            **({} if requirement.terms is None else {"terms": terms_form(requirement.terms)}),
            **({} if requirement.reminders is None else {"reminders": reminders_form(requirement.reminders)}),
            **({} if requirement.grants is None else {"grants": grants_form(requirement.grants)}),
            "requirement": [
                requirement.kind.value,
                float(requirement.lifetime_seconds),
                float(requirement.decide_within_seconds),
            ],
        }
    )
    return PolicyVersion(sha256_hex("placet/policy/1", form))
