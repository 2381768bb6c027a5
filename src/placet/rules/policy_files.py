"""policy.toml: what an ask needs, as people write it down.

    [[ask]]
    name = "refunds"
    tools = ["payments.refund"]                       # also: risks, effects, tenants; what is absent fits every call
    needs = "quorum"                                  # confirm, review or quorum
    votes = 2
    approvers = { roles = ["admin"], scopes = ["finance.approve"], subjects = ["mara"] }
    decide_within = "4h"
    usable_for = "10m"
    reason_for = ["approve", "deny"]
    may_edit = false

    grants = { uses = 20, usable_for = "8h" }         # of a review: standing grants may be given, and the most of one
    remind_after = ["1h", "2h"]                       # while nobody decides; one span, or a list
    escalate_after = "3h"
    escalate_to = { roles = ["admin"], may_decide = true }

    [reminders]                                       # of rules that say nothing of it, and where none fits
    remind_after = "8h"

The file is closed: a member it does not know is a mistake, because a misspelt `approvers` must not let everybody
decide. Every mistake is told at once, with its line where that can be told.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeVar

from placet.model.approval import ApprovalDecision
from placet.model.contract import EffectClass, Risk
from placet.model.decision import MOST_VOTES, RULE_NAME, RULE_NAME_FORM, GrantTerms, RequirementKind
from placet.model.principal import Role, is_identity
from placet.rules.asking import (
    ANYBODY,
    LONGEST_SECONDS,
    MOST_RULES,
    Approvers,
    AskRule,
    AskRules,
    is_tool_name,
)
from placet.rules.grant_members import GRANTS, read_grants, useless_grants
from placet.rules.reminder_members import OF_APPROVERS, OF_REMINDERS, REMINDERS, SPANS, ReminderMembers, meant, unknown

LARGEST_FILE: Final = 1_000_000
Member = TypeVar("Member", bound=StrEnum)

_ASK: Final = "ask"
_MEMBERS: Final = (
    "name",
    "tools",
    "risks",
    "effects",
    "tenants",
    "needs",
    "votes",
    "approvers",
    GRANTS,
    "decide_within",
    "usable_for",
    "reason_for",
    "may_edit",
    *OF_REMINDERS,
)
_TOP: Final = (_ASK, REMINDERS)
_SPAN: Final = re.compile(r"([1-9][0-9]{0,8})(s|m|h|d)", re.ASCII)
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_PLACE: Final = re.compile(r"\(at line ([0-9]+), column [0-9]+\)\Z")
_AT_END: Final = "(at end of document)"
_HEADER: Final = re.compile(r"\s*\[\[\s*(?:ask|\"ask\"|'ask')\s*\]\]\s*(?:#.*)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mistake:
    """Something in a policy file that keeps all of it from being used.

    Attributes:
        line: counted from 1; None where it cannot be told.
        hint: what would be right.
    """

    line: int | None
    message: str
    hint: str


def read(text: str) -> AskRules | tuple[Mistake, ...]:
    """The rules of a file, or everything that is wrong with it."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        found = _PLACE.search(str(error))  # the rest of the text may repeat the file
        line = int(found[1]) if found is not None else None
        if str(error).endswith(_AT_END):
            line = max(1, len(text.splitlines()))
        hint = 'A rule begins with [[ask]], a text stands in quotes, a list in brackets: tools = ["pay"].'
        return (Mistake(line=line, message="it is not sound TOML", hint=hint),)
    reading = _Reading(text, document)
    rules, reminders = reading.rules(), reading.reminders()
    if reading.mistakes:
        return tuple(reading.mistakes)
    told = [rule if rule.reminders is not None else replace(rule, reminders=reminders) for rule in rules]
    return AskRules(rules=tuple(told), reminders=reminders)


def span_seconds(said: str) -> float | None:
    """How long `45s`, `5m`, `4h` or `2d` is; None if it is no such span."""
    found = _SPAN.fullmatch(said)
    return None if found is None else int(found[1]) * _UNITS[found[2]]


def span_text(seconds: float) -> str:
    """A span as a file writes it, in the largest unit that says it exactly."""
    unit = next((unit for unit in ("d", "h", "m") if seconds >= _UNITS[unit] and seconds % _UNITS[unit] == 0), "s")
    return f"{seconds / _UNITS[unit]:.15g}{unit}"


class _Reading(ReminderMembers):
    """One file on its way to its rules."""

    def __init__(self, text: str, document: dict[str, Any]) -> None:
        self._lines = text.splitlines()
        self._document = document
        self._starts = [number for number, line in enumerate(self._lines) if _HEADER.fullmatch(line)]
        self._at = 0
        self._within: tuple[int, int] | None = None  # while a table is read that is no rule
        self.mistakes: list[Mistake] = []

    def rules(self) -> list[AskRule]:
        for name in self._document:
            if name not in _TOP:
                self._wrong(self._line_of(name, 0, len(self._lines)), *unknown(name, _TOP, "the top level"))
        tables = self._document.get(_ASK, [])
        if type(tables) is not list or any(type(table) is not dict for table in tables):
            self._wrong(None, "'ask' is no list of rules", "Each rule begins with [[ask]].")
            return []
        if len(tables) > MOST_RULES:
            self._wrong(None, f"it has {len(tables)} rules", f"There may be {MOST_RULES}.")
            return []
        if len(self._starts) != len(tables):  # written in some other way: no lines can be told
            self._starts = []
        rules: list[AskRule] = []
        for at, table in enumerate(tables):
            self._at = at
            rule = self._rule(table)
            if rule is not None:
                self._note_twin(rule, rules)
                self._note_unreached(rule, rules)
                rules.append(rule)
        return rules

    def _note_twin(self, rule: AskRule, before: list[AskRule]) -> None:
        if any(each.name == rule.name for each in before):
            self._wrong_in("name", f"there are two rules named {rule.name!r}", "Every rule has a name of its own.")

    def _note_unreached(self, rule: AskRule, before: list[AskRule]) -> None:
        """A rule that never counts says something else than whoever wrote it believes."""
        first = next((each for each in before if each.fits_all_of(rule)), None)
        if first is not None:
            hint = f"The first rule that fits counts: put it before {first.name!r}, or leave it out."
            self._wrong_in("name", f"no call ever comes to rule {rule.name!r}: {first.name!r} fits all it fits", hint)

    def _rule(self, table: dict[str, Any]) -> AskRule | None:
        """The rule, or None with its mistakes noted."""
        count = len(self.mistakes)
        for name in table:
            if name not in _MEMBERS:
                self._wrong_in(name, *unknown(name, _MEMBERS, "a rule"))
        said = table.get("name")
        if type(said) is not str or RULE_NAME.fullmatch(said) is None:
            self._wrong_in("name", "a rule needs a name", f'name = "...": {RULE_NAME_FORM}.')
        needs = self._needs(table)
        reasons = self._members(table, "reason_for", ApprovalDecision)
        found: dict[str, Any] = {
            "name": said,
            "tools": self._texts(table, "tools", is_tool_name, "tool names"),
            "risks": self._members(table, "risks", Risk),
            "effects": self._members(table, "effects", EffectClass),
            "tenants": self._texts(table, "tenants", is_identity, "texts of 1 to 128 characters"),
            "needs": needs,
            "votes": self._votes(table, needs),
            "approvers": self._approvers(table, needs),
            "decide_within_seconds": self._span(table, "decide_within", 86_400.0),
            "usable_for_seconds": self._span(table, "usable_for", 300.0),
            "reason_to_approve": ApprovalDecision.APPROVE in reasons,
            "reason_to_deny": ApprovalDecision.DENY in reasons,
            "may_edit": self._truth(table, "may_edit"),
        }
        found["reminders"] = self._reminders(table)
        found[GRANTS] = self._grants(table)
        if len(self.mistakes) > count:
            return None
        self._note_too_few(found["approvers"], found["votes"])
        self._note_useless(found["reminders"], found)
        if (useless := useless_grants(found)) is not None:
            self._wrong_in(GRANTS, *useless)
        return AskRule(**found) if len(self.mistakes) == count else None

    def _needs(self, table: dict[str, Any]) -> RequirementKind:
        said = table.get("needs")
        if said is None:
            self._wrong_in("needs", "a rule says what it needs", f"needs is one of {_listed(RequirementKind)}.")
            return RequirementKind.REVIEW
        kind = _member(RequirementKind, said)
        if kind is None:
            self._wrong_in("needs", "'needs' is no kind of approval", meant(said, _values(RequirementKind)))
        return kind or RequirementKind.REVIEW

    def _votes(self, table: dict[str, Any], needs: RequirementKind) -> int:
        said = table.get("votes")
        if needs is RequirementKind.QUORUM:
            if type(said) is int and 2 <= said <= MOST_VOTES:
                return said
            self._wrong_in("votes", "a quorum needs its number of votes", f"votes is from 2 to {MOST_VOTES}.")
            return 2
        if said is not None:
            self._wrong_in("votes", "only a quorum has votes", 'Say needs = "quorum", or leave votes out.')
        return 1

    def _grants(self, table: dict[str, Any]) -> GrantTerms | None:
        if GRANTS not in table:
            return None
        found = read_grants(table[GRANTS], lambda said: span_seconds(said) if type(said) is str else None)
        if isinstance(found, GrantTerms):
            return found
        for message, hint in found:
            self._wrong_in(GRANTS, message, hint)
        return None

    def _approvers(self, table: dict[str, Any], needs: RequirementKind) -> Approvers:
        said = table.get("approvers")
        if said is None:
            return ANYBODY
        if type(said) is not dict:
            hint = 'approvers = { roles = ["admin"] }, with roles, scopes and subjects as they are needed.'
            self._wrong_in("approvers", "'approvers' is no table", hint)
            return ANYBODY
        if needs is RequirementKind.CONFIRM:
            hint = "Leave approvers out, or ask for a review."
            self._wrong_in("approvers", "only the requesting user confirms, whoever else is named", hint)
        return self._people(said, "approvers", OF_APPROVERS)

    def _people(self, said: dict[str, Any], member: str, known: Sequence[str]) -> Approvers:
        for name in said:
            if name not in known:
                self._wrong_in(member, *unknown(name, known, member))
        if not any(name in said for name in OF_APPROVERS):
            hint = f"Leave {member} out where it is all who are entitled."
            self._wrong_in(member, f"{member!r} names nobody", hint)
        return Approvers(
            roles=self._members(said, "roles", Role, inside=member),
            scopes=self._texts(said, "scopes", is_identity, "texts of 1 to 128 characters", inside=member),
            subjects=self._texts(said, "subjects", is_identity, "texts of 1 to 128 characters", inside=member),
        )

    def _truth(self, table: dict[str, Any], name: str) -> bool:
        said = table.get(name, True)
        if type(said) is not bool:
            self._wrong_in(name, f"{name!r} is neither true nor false", f"{name} = false, or leave it out.")
        return said is True

    def _note_too_few(self, approvers: Approvers, votes: int) -> None:
        if approvers.subjects and not approvers.roles and len(approvers.subjects) < votes:
            hint = f"Name {votes} of them, or a role."
            self._wrong_in("approvers", f"{votes} votes are needed of {len(approvers.subjects)} people", hint)

    # ------------------------------------------------------------ members

    def _texts(
        self, table: dict[str, Any], name: str, is_good: Callable[[object], bool], what: str, *, inside: str = ""
    ) -> frozenset[str]:
        said = table.get(name)
        if said is None:
            return frozenset()
        if type(said) is list and said and all(is_good(each) for each in said):
            return frozenset(said)
        hint = f"{name} is a list of {what} that is not empty; leave it out where it does not matter."
        self._wrong_in(inside or name, f"{name!r} is no such list", hint)
        return frozenset()

    def _members(self, table: dict[str, Any], name: str, kind: type[Member], *, inside: str = "") -> frozenset[Member]:
        said = table.get(name)
        if said is None:
            return frozenset()
        if type(said) is not list or not said:
            hint = f"{name} is a list of some of {_listed(kind)}; leave it out where it does not matter."
            self._wrong_in(inside or name, f"{name!r} is no such list", hint)
            return frozenset()
        found = {each: _member(kind, each) for each in said if type(each) is str}
        strange = [each for each in said if type(each) is not str or found[each] is None]
        for each in strange:
            self._wrong_in(inside or name, f"{name!r} has a member that there is not", meant(each, _values(kind)))
        return frozenset(member for member in found.values() if member is not None)

    def _span(self, table: dict[str, Any], name: str, default: float) -> float:
        said = table.get(name)
        if said is None:
            return default
        seconds = self._seconds(said)
        if seconds is None:
            self._wrong_in(name, f"{name!r} is no span of time", SPANS)
            return default
        return seconds

    def _seconds(self, said: object) -> float | None:
        seconds = span_seconds(said) if type(said) is str else None
        return None if seconds is None or seconds > LONGEST_SECONDS else seconds

    # ------------------------------------------------------------ places

    def _wrong(self, line: int | None, message: str, hint: str) -> None:
        self.mistakes.append(Mistake(line=line, message=message, hint=hint))

    def _wrong_in(self, member: str, message: str, hint: str) -> None:
        """Wrong in the rule that is being read: at the line of its member, or where the rule begins."""
        if self._within is not None:
            line, end = self._within
            self._wrong(self._line_of(member, line, end) or line, message, hint)
            return
        if not self._starts:
            self._wrong(None, f"in rule {self._at + 1}: {message}", hint)
            return
        start = self._starts[self._at]
        end = self._starts[self._at + 1] if self._at + 1 < len(self._starts) else len(self._lines)
        self._wrong(self._line_of(member, start + 1, end) or start + 1, message, hint)

    def _line_of(self, member: str, start: int, end: int) -> int | None:
        """The line on which a member is given, or its table begins."""
        name = re.escape(member)
        given = re.compile(rf"\s*(?:\"{name}\"|'{name}'|{name})\s*[=.]|\s*\[+[^\]]*\b{name}\b")
        return next((number + 1 for number in range(start, end) if given.match(self._lines[number])), None)


def unknown_tools(text: str, rules: AskRules, known: Sequence[str]) -> tuple[Mistake, ...]:
    """Tools that the rules of a file name and nobody registered: a rule for a misspelt tool never fits."""
    lines = text.splitlines()

    def line_of(tool: str) -> int | None:
        spellings = (f'"{tool}"', f"'{tool}'")
        return next((at for at, line in enumerate(lines, start=1) if any(each in line for each in spellings)), None)

    return tuple(
        Mistake(
            line=line_of(tool),
            message=f"rule {rule.name!r} names the tool {tool!r}, which is not registered",
            hint=meant(tool, known),
        )
        for rule in rules.rules
        for tool in sorted(rule.tools)
        if tool not in known
    )


def _member(kind: type[Member], said: object) -> Member | None:
    return next((member for member in kind if member.value == said), None) if type(said) is str else None


def _values(kind: Iterable[StrEnum]) -> tuple[str, ...]:
    return tuple(member.value for member in kind)


def _listed(kind: Iterable[StrEnum]) -> str:
    return ", ".join(_values(kind))
