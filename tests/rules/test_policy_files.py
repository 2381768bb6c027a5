"""policy.toml: what it says, and everything that is wrong with it at once, with its lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet import Approvers, AskReminders, AskRule, AskRules, EffectClass, GrantTerms, RequirementKind, Risk
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
remind_after = ["1h", "90m"]
escalate_after = "3h"
escalate_to = { roles = ["admin"], subjects = ["cleo"], may_decide = true }

[[ask]]
name = "deploys"
tools = ["deploy"]
needs = "confirm"
may_edit = true
remind_after = "5m"

[[ask]]
needs = "review"
name = "the-rest"
grants = { uses = 20, usable_for = "8h" }

[reminders]
remind_after = "4h"
escalate_after = "8h"
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
                reminders=AskReminders(
                    remind_after_seconds=(3_600.0, 5_400.0),
                    escalate_after_seconds=10_800.0,
                    escalate_to=Approvers(roles=frozenset({Role.ADMIN}), subjects=frozenset({"cleo"})),
                    widens=True,
                ),
            ),
            AskRule(
                name="deploys",
                tools=frozenset({"deploy"}),
                needs=RequirementKind.CONFIRM,
                reminders=AskReminders(remind_after_seconds=(300.0,)),
            ),
            AskRule(name="the-rest", reminders=DEFAULT, grants=GrantTerms(max_uses=20, max_seconds=28_800.0)),
        ),
        reminders=DEFAULT,
    )


DEFAULT = AskReminders(remind_after_seconds=(14_400.0,), escalate_after_seconds=28_800.0)


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
        "version = 1\n" + RULE, [(1, "an unknown member 'version' at the top level", "Known: ask, reminders.")]
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
    "spans that do not rise": (
        RULE + 'remind_after = ["2h", "1h"]\nescalate_after = "soon"\n',
        [(4, "'remind_after' is no rising list of spans of time", "The shortest comes first."),
         (5, "'escalate_after' is no span of time", "Like")],
    ),
    "the same span twice, none, and what is none": (
        RULE + 'remind_after = ["1h", "60m"]\n'
        + RULE.replace('"r"', '"s"') + "remind_after = []\n" + RULE.replace('"r"', '"t"') + "remind_after = 5\n",
        [(4, "'remind_after' is no rising list of spans of time", "at most 366 days"),
         (8, "'remind_after' is no rising list of spans of time", "at most 366 days"),
         (12, "'remind_after' is no rising list of spans of time", "at most 366 days"),],
    ),
    "nine reminders": (
        RULE + f"remind_after = {[f'{n}m' for n in range(1, 10)]}\n",
        [(4, "'remind_after' has 9 spans", "There may be 8.")],
    ),
    "whom, and never when": (
        RULE + 'escalate_to = { roles = ["admin"] }\n',
        [(4, "nothing says when it is escalated", "escalate_after =")],
    ),
    "an escalation to nobody, and to what is not known": (
        RULE + 'escalate_after = "1h"\nescalate_to = { may_decide = 1, group = ["x"] }\n',
        [(5, "'may_decide' is neither true nor false", "may_decide = true"),
         (5, "an unknown member 'group' at escalate_to", "Known: roles"),
         (5, "'escalate_to' names nobody", "Leave escalate_to out")],
    ),
    "an escalation that is no table": (
        RULE + 'escalate_after = "1h"\nescalate_to = "mara"\n',
        [(5, "'escalate_to' is no table", "escalate_to = { roles")],
    ),
    "what comes too late": (
        RULE + 'decide_within = "1h"\nremind_after = ["5m", "60m"]\nescalate_after = "2h"\n',
        [(5, "the question is over before it reminds", "before decide_within"),
         (6, "the question is over before it is escalated", "before decide_within")],
    ),
    "an escalation that widens what is open": (
        RULE + 'escalate_after = "1h"\nescalate_to = { roles = ["admin"], may_decide = true }\n',
        [(5, "all who are entitled may decide anyway", "or say approvers.")],
    ),
    "an escalation that widens a confirmation": (
        RULE.replace("review", "confirm")
        + 'escalate_after = "1h"\nescalate_to = { roles = ["admin"], may_decide = true }\n',
        [(5, "only the requesting user confirms, however long it waits", "Leave may_decide out")],
    ),
    "a default that widens": (
        "\n[reminders]\nescalate_after = \"1h\"\nescalate_to = { roles = [\"admin\"], may_decide = true }\n" + RULE,
        [(4, "only a rule widens who may decide", "[[ask]]")],
    ),
    "a default that says nothing, or too much": (
        "[reminders]\nremind = \"1h\"\n",
        [(2, "an unknown member 'remind' at reminders", "Did you mean 'remind_after'?"),],
    ),
    "an empty default": ("[reminders]\n", [(1, "'reminders' say nothing", "or leave them out.")]),
    "a default that is no table": ("reminders = 5\n", [(1, "'reminders' is no table", "begins with [reminders]")]),
    "grants that are no table": (RULE + "grants = true\n", [(4, "'grants' is no table", "grants = { uses = 20")]),
    "grants that say too little": (
        RULE + "grants = { use = 5 }\n",
        [(4, "an unknown member 'use' at grants", "Did you mean 'uses'?"),
         (4, "'grants' says how often one may be used", "uses is from 1 to 1,000."),
         (4, "'grants' says how long one may be good for", "at most 31 days")],
    ),
    "grants of too much": (
        RULE + 'grants = { uses = 1001, usable_for = "32d" }\n',
        [(4, "'grants' says how often one may be used", "uses is from 1 to 1,000."),
         (4, "'grants' says how long one may be good for", "at most 31 days")],
    ),
    "grants of a truth and a number": (
        RULE + "grants = { uses = true, usable_for = 60 }\n",
        [(4, "'grants' says how often one may be used", "uses is from"),
         (4, "'grants' says how long one may be good for", "like")],
    ),
    "grants in place of several votes": (
        QUORUM + 'grants = { uses = 5, usable_for = "1h" }\n',
        [(5, "a standing grant takes the place of a review only", "Leave grants out")],
    ),
    "grants in place of a confirmation": (
        RULE.replace("review", "confirm") + 'grants = { uses = 5, usable_for = "1h" }\n',
        [(4, "a standing grant takes the place of a review only", "Leave grants out")],
    ),
    "grants for high risk": (
        RULE + 'risks = ["high", "critical"]\ngrants = { uses = 5, usable_for = "1h" }\n',
        [(5, "no standing grant reaches a high or critical risk", "Leave grants out")],
    ),
    "grants for what cannot be undone": (
        RULE + 'effects = ["irreversible"]\ngrants = { uses = 5, usable_for = "1h" }\n',
        [(5, "no standing grant reaches an irreversible act", "Leave grants out")],
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
