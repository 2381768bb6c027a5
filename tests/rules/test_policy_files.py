"""policy.toml: what it says, and everything that is wrong with it at once, with its lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Approvers, AskRule, AskRules, EffectClass, RequirementKind, Risk
from placet.model.principal import Role
from placet.rules.policy_files import Mistake, read, span_seconds, unknown_tools

WHOLE = """\
# what our calls need
[[ask]]
name = "refunds"
tools = ["payments.refund", "payments.void"]
risks = ["high", "critical"]
effects = ["write", "irreversible"]
tenants = ["acme", "Gl\u00f6bex"]
needs = "quorum"
votes = 2
approvers = { roles = ["admin", "operator"], scopes = ["finance.approve"], subjects = ["mara"] }
decide_within = "4h"
usable_for = "10m"
reason_for = ["approve", "deny"]
may_edit = false

[[ask]]
name = "deploys"
tools = ["deploy"]
needs = "confirm"
may_edit = true

[[ask]]
needs = "review"
name = "the-rest"
"""


def test_a_file_says_its_rules_in_their_order() -> None:
    assert read(WHOLE) == AskRules(
        rules=(
            AskRule(
                name="refunds",
                tools=frozenset({"payments.refund", "payments.void"}),
                risks=frozenset({Risk.HIGH, Risk.CRITICAL}),
                effects=frozenset({EffectClass.WRITE, EffectClass.IRREVERSIBLE}),
                tenants=frozenset({"acme", "Gl\u00f6bex"}),
                needs=RequirementKind.QUORUM,
                votes=2,
                approvers=Approvers(
                    roles=frozenset({Role.ADMIN, Role.OPERATOR}),
                    scopes=frozenset({"finance.approve"}),
                    subjects=frozenset({"mara"}),
                ),
                decide_within_seconds=4 * 3_600,
                usable_for_seconds=600,
                reason_to_approve=True,
                reason_to_deny=True,
                may_edit=False,
            ),
            AskRule(name="deploys", tools=frozenset({"deploy"}), needs=RequirementKind.CONFIRM),
            AskRule(name="the-rest"),
        )
    )


def test_what_is_no_rule_of_its_own_changes_nothing() -> None:
    otherwise = WHOLE.replace("# what our calls need\n", "").replace('["high", "critical"]', '[ "critical","high" ]')
    spaced = otherwise.replace("[[ask]]", "\n\n[[ ask ]] # a rule")

    assert read(spaced) == read(WHOLE)
    assert read("") == read("# nothing\n") == AskRules(rules=())


RULE = '[[ask]]\nname = "r"\nneeds = "review"\n'
QUORUM = '[[ask]]\nname = "r"\nneeds = "quorum"\nvotes = 2\n'
NO_LIST = "leave it out where it does not matter."

MISTAKES: dict[str, tuple[str, list[tuple[int | None, str, str]]]] = {
    "no TOML": (RULE + "votes = = 2\n", [(4, "it is not sound TOML", "A rule begins with [[ask]]")]),
    "no TOML at its end": ('[[ask]]\nname = "r', [(2, "it is not sound TOML", "A rule begins with [[ask]]")]),
    "a member twice": (RULE + 'name = "s"\n', [(4, "it is not sound TOML", "A rule begins with [[ask]]")]),
    "an unknown table": (
        RULE + "[[aks]]\n", [(4, "an unknown member 'aks' at the top level", "Did you mean 'ask'?")]
    ),
    "an unknown member at the top": (
        "version = 1\n" + RULE, [(1, "an unknown member 'version' at the top level", "Known: ask.")]
    ),
    "an ask that is no list": ('ask = "everything"\n', [(None, "'ask' is no list of rules", "Each rule begins")]),
    "one table and no list": ('[ask]\nname = "r"\n', [(None, "'ask' is no list of rules", "Each rule begins")]),
    "a list of texts": ('ask = ["r"]\n', [(None, "'ask' is no list of rules", "Each rule begins")]),
    "a misspelt member": (
        RULE + 'aprovers = { roles = ["admin"] }\n',
        [(4, "an unknown member 'aprovers' at a rule", "Did you mean 'approvers'?")],
    ),
    "a misspelt member of approvers": (
        RULE + 'approvers = { role = ["admin"] }\n',
        [(4, "an unknown member 'role' at approvers", "Did you mean 'roles'?"),
         (4, "'approvers' names nobody", "Leave approvers out")],
    ),
    "a rule without a name": (
        RULE + '\n[[ask]]\ntools = ["x"]\nneeds = "review"\n',
        [(5, "a rule needs a name", 'name = "...": 1 to 64')],
    ),
    "a name that is none": (RULE.replace('"r"', '"R!"'), [(2, "a rule needs a name", 'name = "..."')]),
    "a rule without its needs": (
        '[[ask]]\nname = "r"\n', [(1, "a rule says what it needs", "needs is one of confirm")]
    ),
    "needs that there are not": (
        '[[ask]]\nname = "r"\nneeds = "reveiw"\n', [(3, "'needs' is no kind of approval", "Did you mean 'review'?")]
    ),
    "needs of no text": ('[[ask]]\nname = "r"\nneeds = 2\n', [(3, "'needs' is no kind of approval", "Known: confirm")]),
    "a quorum without votes": (
        '[[ask]]\nname = "r"\nneeds = "quorum"\n', [(1, "a quorum needs its number of votes", "votes is from 2 to 16.")]
    ),
    "a quorum of one": (
        QUORUM.replace("= 2", "= 1"), [(4, "a quorum needs its number of votes", "votes is from 2 to 16.")]
    ),
    "a quorum of too many": (
        QUORUM.replace("= 2", "= 17"), [(4, "a quorum needs its number of votes", "votes is from 2 to 16.")]
    ),
    "a quorum of a truth": (
        QUORUM.replace("= 2", "= true"), [(4, "a quorum needs its number of votes", "votes is from 2 to 16.")]
    ),
    "votes of a review": (RULE + "votes = 2\n", [(4, "only a quorum has votes", 'Say needs = "quorum"')]),
    "fewer people than votes": (
        QUORUM + 'approvers = { subjects = ["mara"] }\n', [(5, "2 votes are needed of 1 people", "Name 2 of them")]
    ),
    "approvers of a confirmation": (
        RULE.replace("review", "confirm") + 'approvers = { roles = ["admin"] }\n',
        [(4, "only the requesting user confirms, whoever else is named", "Leave approvers out")],
    ),
    "approvers that are no table": (
        RULE + 'approvers = ["mara"]\n', [(4, "'approvers' is no table", "approvers = { roles")]
    ),
    "approvers in a table of their own": (
        RULE + '[ask.approvers]\nroles = ["adm1n"]\n',
        [(4, "'roles' has a member that there is not", "Did you mean 'admin'?")],
    ),
    "nobody among the approvers": (RULE + "approvers = {}\n", [(4, "'approvers' names nobody", "Leave approvers out")]),
    "a subject that is none": (
        RULE + 'approvers = { subjects = [""] }\n', [(4, "'subjects' is no such list", "subjects is a list of texts")]
    ),
    "tools that are no list": (RULE + 'tools = "pay"\n', [(4, "'tools' is no such list", NO_LIST)]),
    "no tools": (RULE + "tools = []\n", [(4, "'tools' is no such list", NO_LIST)]),
    "a tool that is no name": (RULE + 'tools = ["pay me"]\n', [(4, "'tools' is no such list", NO_LIST)]),
    "a tool that is a pattern": (RULE + 'tools = ["pay*"]\n', [(4, "'tools' is no such list", NO_LIST)]),
    "risks that are no list": (RULE + 'risks = "high"\n', [(4, "'risks' is no such list", NO_LIST)]),
    "no risks": (RULE + "risks = []\n", [(4, "'risks' is no such list", NO_LIST)]),
    "a risk that there is not": (
        RULE + 'risks = ["high", "hihg"]\n', [(4, "'risks' has a member that there is not", "Did you mean 'high'?")]
    ),
    "a risk in capitals": (
        RULE + 'risks = ["HIGH"]\n', [(4, "'risks' has a member that there is not", "Known: low, medium")]
    ),
    "a risk of no text": (
        RULE + "risks = [1, {a = 1}]\n",
        [(4, "'risks' has a member that there is not", "Known: low"),
         (4, "'risks' has a member that there is not", "Known: low")],
    ),
    "an effect that there is not": (
        RULE + 'effects = ["irreversable"]\n',
        [(4, "'effects' has a member that there is not", "Did you mean 'irreversible'?")],
    ),
    "tenants of numbers": (RULE + "tenants = [1]\n", [(4, "'tenants' is no such list", NO_LIST)]),
    "a span without a unit": (
        RULE + 'decide_within = "4"\n', [(4, "'decide_within' is no span of time", 'Like "45s"')]
    ),
    "a span as a number": (RULE + "usable_for = 300\n", [(4, "'usable_for' is no span of time", 'Like "45s"')]),
    "a span too long": (RULE + 'usable_for = "367d"\n', [(4, "'usable_for' is no span of time", 'Like "45s"')]),
    "no time at all": (RULE + 'usable_for = "0s"\n', [(4, "'usable_for' is no span of time", 'Like "45s"')]),
    "a reason for nothing": (
        RULE + 'reason_for = ["aprove"]\n',
        [(4, "'reason_for' has a member that there is not", "Did you mean 'approve'?")],
    ),
    "an edit that is no truth": (
        RULE + 'may_edit = "no"\n', [(4, "'may_edit' is neither true nor false", "may_edit = false")]
    ),
    "two rules of one name": (
        RULE + 'tools = ["x"]\n' + RULE, [(6, "there are two rules named 'r'", "Every rule has a name of its own.")]
    ),
    "a rule that no call comes to": (
        RULE + RULE.replace('"r"', '"s"') + 'tools = ["x"]\n',
        [(5, "no call ever comes to rule 's': 'r' fits all it fits", "The first rule that fits counts")],
    ),
    "everything at once": (
        '[[ask]]\nnmae = "r"\nneeds = "quorum"\nvotes = 99\nrisks = ["x"]\n'
        '[[ask]]\nname = "r"\n\n# a word\nneeds = "review"\nusable_for = "soon"\n',
        [(2, "an unknown member 'nmae' at a rule", "Did you mean 'name'?"),
         (1, "a rule needs a name", "name ="),
         (5, "'risks' has a member that there is not", "Known: low"),
         (4, "a quorum needs its number of votes", "votes is from 2 to 16."),
         (11, "'usable_for' is no span of time", "Like")],
    ),
    "rules in one line": (
        'ask = [{name = "r", needs = "review", votes = 2}]\n',
        [(None, "in rule 1: only a quorum has votes", "Say needs")],
    ),
    "a header inside a text": (
        '[[ask]]\nname = "r"\nneeds = """\n[[ask]]\n"""\n',
        [(None, "in rule 1: 'needs' is no kind of approval", "Known: confirm")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", MISTAKES)
def test_every_mistake_is_told_at_once_with_its_line(what: str) -> None:
    text, expected = MISTAKES[what]
    found = read(text)

    assert isinstance(found, tuple), found
    assert sorted((each.line or 0, each.message) for each in found) == sorted(
        (line or 0, message) for line, message, _ in expected
    )
    for line, message, hint in expected:
        assert any((each.line, each.message) == (line, message) and hint in each.hint for each in found), [
            each.hint for each in found
        ]


def test_there_may_be_a_thousand_rules() -> None:
    text = "".join(f'[[ask]]\nname = "r{n}"\ntools = ["t{n}"]\nneeds = "review"\n' for n in range(1_001))

    assert isinstance(read(text.rsplit("[[ask]]", 1)[0]), AskRules)
    assert read(text) == (Mistake(line=None, message="it has 1001 rules", hint="There may be 1000."),)


def test_a_file_nested_without_end_is_a_mistake_and_no_crash() -> None:
    found = read("ask = " + "[" * 100_000)

    assert isinstance(found, tuple)
    assert [each.message for each in found] == ["it is not sound TOML"]


@given(text=st.text(max_size=200) | st.lists(st.sampled_from(WHOLE.splitlines()), max_size=20).map("\n".join))
def test_whatever_a_file_holds_is_rules_or_mistakes(text: str) -> None:
    found = read(text)

    assert isinstance(found, AskRules) or (found and all(type(each) is Mistake for each in found))


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("1s", 1.0), ("90s", 90.0), ("5m", 300.0), ("4h", 14_400.0), ("366d", 31_622_400.0),
        ("", None), ("5", None), ("m", None), ("05m", None), ("5 m", None), ("5M", None), ("-5m", None), ("5m\n", None),
        ("1.5h", None), ("\u0665m", None), ("1w", None), ("9999999999s", None),
    ],
)  # fmt: skip
def test_a_span_is_a_number_and_a_unit(said: str, seconds: float | None) -> None:
    assert span_seconds(said) == seconds


def test_a_tool_that_nobody_registered_is_told_with_its_line() -> None:
    text = RULE + "tools = [\"pay\", 'refnud']\n"
    rules = read(text)
    assert isinstance(rules, AskRules)

    assert unknown_tools(text, rules, ["pay", "refund"]) == (
        Mistake(
            line=4,
            message="rule 'r' names the tool 'refnud', which is not registered",
            hint="Did you mean 'refund'?",
        ),
    )
    assert unknown_tools(text, rules, ["pay", "refnud"]) == ()
    escaped = RULE + 'tools = ["p\\u0061y"]\n'
    rules = read(escaped)
    assert isinstance(rules, AskRules)
    assert [each.line for each in unknown_tools(escaped, rules, ["x"])] == [None]
