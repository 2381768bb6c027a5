"""What an ask needs: rules that say which approval a call takes, and who may give it.

Rules are looked at in their order, and the first that fits says it all. Where none fits, what the matrix asks for is
asked for. No rule allows, denies or asks by itself: whether a call needs a person is the matrix's word, and the
contract's. And none widens who may decide: `approvals.decide` and separate duties are needed whatever a rule says.

Source: DESIGN sections 8 and 9.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from placet.errors import MisuseError
from placet.model.contract import TOOL_NAME, Contract, EffectClass, Risk
from placet.model.decision import Entitled, Entitlement, NotEntitled, Requirement, RequirementKind, Terms
from placet.model.exact import is_seconds
from placet.model.json import JsonObject, JsonValue
from placet.model.principal import Principal, Role, is_identity
from placet.rules.canonical import canonical_bytes, sha256_hex

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
        digest: what they say, in one spelling; part of the policy version.
    """

    rules: tuple[AskRule, ...]
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        if type(self.rules) is not tuple or not all(type(rule) is AskRule for rule in self.rules):
            raise MisuseError("Ask rules are a tuple of AskRule.")
        if len(self.rules) > MOST_RULES:
            raise MisuseError(f"There are at most {MOST_RULES} ask rules.")
        if len({rule.name for rule in self.rules}) != len(self.rules):
            raise MisuseError("Two ask rules have the same name.")
        form = canonical_bytes([_form(rule) for rule in self.rules])
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
        terms=Terms(
            rule=rule.name,
            votes=rule.votes,
            reason_to_approve=rule.reason_to_approve,
            reason_to_deny=rule.reason_to_deny,
            may_edit=rule.may_edit,
        ),
    )


def _form(rule: AskRule) -> JsonObject:
    return {
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
        "approvers": {
            "roles": _sorted(rule.approvers.roles),
            "scopes": _sorted(rule.approvers.scopes),
            "subjects": _sorted(rule.approvers.subjects),
        },
    }


def _sorted(names: frozenset[str]) -> list[JsonValue]:
    """Plain texts: a member of an enum is one too, and is spelled as its value."""
    return sorted(str.__str__(name) for name in names)  # type: ignore[return-value]  # a list of texts is one of values
