"""What an ask needs: rules that say which approval a call takes, and who may give it.

Rules are looked at in their order, and the first that fits says it all. Where none fits, what the matrix asks for is
asked for. No rule allows, denies or asks by itself: whether a call needs a person is the matrix's word, and the
contract's. And none widens who may decide: `approvals.decide` and separate duties are needed whatever a rule says. What
an escalation widens is the rule's own choice among those.

Source: DESIGN sections 8 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.errors import MisuseError
from placet.model.contract import TOOL_NAME, Contract, EffectClass, Risk
from placet.model.decision import Entitled, Entitlement, GrantTerms, NotEntitled, Requirement, RequirementKind, Terms
from placet.model.exact import is_seconds
from placet.model.json import JsonObject, JsonValue
from placet.model.principal import Principal, Role, is_identity
from placet.model.reminders import Reminders
from placet.rules.canonical import canonical_bytes, sha256_hex
from placet.rules.reminding import reminders_form

LONGEST_SECONDS = 366 * 86_400.0
"""How long a question may wait, and an approval stay usable, at most."""
MOST_RULES = 1_000


def is_tool_name(value: object) -> bool:
    return type(value) is str and TOOL_NAME.fullmatch(value) is not None


def _is_set_of(values: object, kind: type) -> bool:
    return type(values) is frozenset and all(type(value) is kind for value in values)


@dataclass(frozen=True, slots=True, kw_only=True)
class Approvers:
    """Who of the entitled may give an approval.

    Somebody whom `subjects` names, or who holds one of `roles`; everybody where neither is given. And it holds every
    one of `scopes`.
    """

    roles: frozenset[Role] = frozenset()
    scopes: frozenset[str] = frozenset()
    subjects: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not _is_set_of(self.roles, Role):
            raise MisuseError("The roles of approvers are a frozenset of Role.")
        for names in (self.scopes, self.subjects):
            if type(names) is not frozenset or not all(is_identity(name) for name in names):
                raise MisuseError("Scopes and subjects of approvers are frozen sets of texts of 1 to 128 characters.")

    def include(self, person: Principal) -> bool:
        is_named = person.subject in self.subjects or not self.roles.isdisjoint(person.roles)
        return (is_named or not (self.roles or self.subjects)) and self.scopes <= person.scopes


ANYBODY = Approvers()
"""Every one of the entitled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskReminders:
    """What a rule says for as long as nobody decides.

    Attributes:
        remind_after_seconds, escalate_after_seconds: from the asking.
        escalate_to: whom an escalation is for, out of the entitled.
        widens: whether those may decide from then on, though the rule's `approvers` do not have them.
    """

    remind_after_seconds: tuple[float, ...] = ()
    escalate_after_seconds: float | None = None
    escalate_to: Approvers = ANYBODY
    widens: bool = False
    signed: Reminders = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.escalate_to) is not Approvers:
            raise MisuseError("Whom an escalation is for are Approvers.")
        if self.widens is True and self.escalate_to == ANYBODY:
            raise MisuseError("An escalation that widens who may decide names whom it is for.")
        told = (
            *(f"role:{role.value}" for role in self.escalate_to.roles),
            *(f"scope:{scope}" for scope in self.escalate_to.scopes),
            *(f"subject:{subject}" for subject in self.escalate_to.subjects),
        )
        reminders = Reminders(
            remind_after_seconds=self.remind_after_seconds,
            escalate_after_seconds=self.escalate_after_seconds,
            escalate_to=tuple(sorted(told)),
            widens=self.widens,
        )
        object.__setattr__(self, "signed", reminders)


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRule:
    """One rule. It fits a call that has a place in each of its sets; an empty set has a place for every call.

    Attributes:
        name: unique; people, questions and the audit know the rule by it.
        tools, risks, effects, tenants: which calls it fits.
        needs: whose answer it is.
        votes: people who have to approve; more than one for a quorum only.
        usable_for_seconds: how long an approval stays usable, from the decision.
        decide_within_seconds: how long the question may wait.
        may_edit: whether a person may change the arguments, which makes another question.
        approvers: who may decide; for a `confirm` that is the requesting user, whoever else is named.
        reminders: when people are told again while it waits, and who else may decide then.
        grants: the most that a standing grant may be; None where nobody may give one.
    """

    name: str
    tools: frozenset[str] = frozenset()
    risks: frozenset[Risk] = frozenset()
    effects: frozenset[EffectClass] = frozenset()
    tenants: frozenset[str] = frozenset()
    needs: RequirementKind = RequirementKind.REVIEW
    votes: int = 1
    usable_for_seconds: float = 300.0
    decide_within_seconds: float = 86_400.0
    reason_to_approve: bool = False
    reason_to_deny: bool = False
    may_edit: bool = True
    approvers: Approvers = ANYBODY
    reminders: AskReminders | None = None
    grants: GrantTerms | None = None
    requirement: Requirement = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if type(self.tools) is not frozenset or not all(is_tool_name(tool) for tool in self.tools):
            raise MisuseError("The tools of a rule are a frozenset of tool names.")
        if not _is_set_of(self.risks, Risk) or not _is_set_of(self.effects, EffectClass):
            raise MisuseError("The risks of a rule are a frozenset of Risk, its effects one of EffectClass.")
        if type(self.tenants) is not frozenset or not all(is_identity(tenant) for tenant in self.tenants):
            raise MisuseError("The tenants of a rule are a frozenset of texts of 1 to 128 characters.")
        if type(self.approvers) is not Approvers:
            raise MisuseError("The approvers of a rule are Approvers.")
        if self.reminders is not None and type(self.reminders) is not AskReminders:
            raise MisuseError("The reminders of a rule are AskReminders.")
        if self.reminders is not None and self.reminders.widens and self.needs is RequirementKind.CONFIRM:
            raise MisuseError("Only the requesting user confirms, however long it waits.")
        for seconds in (self.usable_for_seconds, self.decide_within_seconds):
            if not is_seconds(seconds, most=LONGEST_SECONDS):
                raise MisuseError("The seconds of a rule are numbers above zero, and at most 366 days.")
        object.__setattr__(self, "requirement", _requirement(self))

    def fits(self, contract: Contract, tenant: str) -> bool:
        return (
            (not self.tools or contract.name in self.tools)
            and (not self.risks or contract.risk in self.risks)
            and (not self.effects or contract.effect_class in self.effects)
            and (not self.tenants or tenant in self.tenants)
        )

    def fits_all_of(self, other: AskRule) -> bool:
        """Whether it fits every call that the other fits, so that the other, behind it, is never reached."""
        return all(
            not mine or (bool(theirs) and theirs <= mine)
            for mine, theirs in (
                (self.tools, other.tools),
                (self.risks, other.risks),
                (self.effects, other.effects),
                (self.tenants, other.tenants),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AskRules:
    """Rules in their order.

    Attributes:
        reminders: of questions where no rule fits; None for none.
        digest: what they say, in one spelling; part of the policy version.
    """

    rules: tuple[AskRule, ...]
    reminders: AskReminders | None = None
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        if type(self.rules) is not tuple or not all(type(rule) is AskRule for rule in self.rules):
            raise MisuseError("Ask rules are a tuple of AskRule.")
        if len(self.rules) > MOST_RULES:
            raise MisuseError(f"There are at most {MOST_RULES} ask rules.")
        if len({rule.name for rule in self.rules}) != len(self.rules):
            raise MisuseError("Two ask rules have the same name.")
        if self.reminders is not None and (type(self.reminders) is not AskReminders or self.reminders.widens):
            raise MisuseError("Reminders without a rule are AskReminders that widen nothing: only a rule does.")
        form = canonical_bytes([*map(_form, self.rules), *([] if self.reminders is None else [_told(self.reminders)])])
        object.__setattr__(self, "digest", sha256_hex("placet/asks/1", form))

    def __hash__(self) -> int:
        return hash(self.digest)  # policy versions are looked up by it on the path of every call

    def fitting(self, contract: Contract, tenant: str) -> AskRule | None:
        """The first rule that fits."""
        return next((rule for rule in self.rules if rule.fits(contract, tenant)), None)

    def named(self, name: str) -> AskRule | None:
        return next((rule for rule in self.rules if rule.name == name), None)


def entitlement(rules: AskRules | None, terms: Terms | None, person: Principal) -> Entitlement:
    """What the rules of today say to somebody who wants to decide a question with these terms."""
    if terms is None:
        return Entitled()
    rule = rules.named(terms.rule) if rules is not None else None
    if rule is None:
        return NotEntitled(code="rule_not_here")
    return Entitled() if rule.approvers.include(person) else NotEntitled(code="not_an_approver")


def escalated_entitlement(rules: AskRules | None, terms: Terms | None, person: Principal) -> Entitlement:
    """The same, once the question was escalated: what the rule of today grants to those whom its escalation is for."""
    rule = rules.named(terms.rule) if rules is not None and terms is not None else None
    reminders = None if rule is None else rule.reminders
    if reminders is None or not reminders.widens:
        return NotEntitled(code="not_an_approver")
    return Entitled() if reminders.escalate_to.include(person) else NotEntitled(code="not_an_approver")


def terms_form(terms: Terms) -> JsonObject:
    """Terms as digests and signatures spell them."""
    return {
        "rule": terms.rule,
        "votes": terms.votes,
        "reason_to_approve": terms.reason_to_approve,
        "reason_to_deny": terms.reason_to_deny,
        "may_edit": terms.may_edit,
    }


def _requirement(rule: AskRule) -> Requirement:
    return Requirement(
        kind=rule.needs,
        lifetime_seconds=float(rule.usable_for_seconds),
        decide_within_seconds=float(rule.decide_within_seconds),
        reminders=None if rule.reminders is None else rule.reminders.signed,
        grants=rule.grants,
        terms=Terms(
            rule=rule.name,
            votes=rule.votes,
            reason_to_approve=rule.reason_to_approve,
            reason_to_deny=rule.reason_to_deny,
            may_edit=rule.may_edit,
        ),
    )


def _form(rule: AskRule) -> JsonObject:
    """A rule that says nothing of reminders or grants is spelled as before there were any: its approvals stay good."""
    form: JsonObject = {
        "name": rule.name,
        "tools": _sorted(rule.tools),
        "risks": _sorted(rule.risks),
        "effects": _sorted(rule.effects),
        "tenants": _sorted(rule.tenants),
        "needs": rule.needs.value,
        "votes": rule.votes,
        "usable_for_seconds": float(rule.usable_for_seconds),
        "decide_within_seconds": float(rule.decide_within_seconds),
        "reason_to_approve": rule.reason_to_approve,
        "reason_to_deny": rule.reason_to_deny,
        "may_edit": rule.may_edit,
        "approvers": _approvers_form(rule.approvers),
    }
    if rule.reminders is not None:
        form["reminders"] = _told(rule.reminders)
    if rule.grants is not None:
        form["grants"] = grants_form(rule.grants)
    return form


def grants_form(grants: GrantTerms) -> JsonObject:
    """The most of a standing grant, as digests spell it."""
    return {"max_uses": grants.max_uses, "max_seconds": float(grants.max_seconds)}


def _told(reminders: AskReminders) -> JsonObject:
    return {**reminders_form(reminders.signed), "escalate_to": _approvers_form(reminders.escalate_to)}


def _approvers_form(approvers: Approvers) -> JsonObject:
    return {
        "roles": _sorted(approvers.roles),
        "scopes": _sorted(approvers.scopes),
        "subjects": _sorted(approvers.subjects),
    }


def _sorted(names: frozenset[str]) -> list[JsonValue]:
    """Plain texts: a member of an enum is one too, and is spelled as its value."""
    return sorted(str.__str__(name) for name in names)  # type: ignore[return-value]  # a list of texts is one of values
