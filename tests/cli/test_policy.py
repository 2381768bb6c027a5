"""`placet policy`, and what the policy file means at the command line."""

from __future__ import annotations

import asyncio
import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import placet
from tests.cli.conftest import ME, Project

RULES = f"""\
[[ask]]
name = "asks"
tools = ["ask"]
needs = "review"
approvers = {{ roles = ["admin"], scopes = ["money.approve"] }}
decide_within = "4h"
usable_for = "10m"
reason_for = ["deny"]

[[ask]]
name = "payments"
tools = ["pay"]
needs = "quorum"
votes = 2
approvers = {{ subjects = ["{ME}", "lena"] }}
"""
LENA = placet.Principal.person("lena", tenant="acme", scopes=("approvals.decide",))


@pytest.fixture
def ruled(project: Project) -> Project:
    """The project with a policy file, whose only person may do all that it asks for."""
    (project.folder / "policy.toml").write_text(RULES)
    project.rewrite('tools = "tools:TOOLS"\n', 'tools = "tools:TOOLS"\npolicy = "policy.toml"\n')
    entitle(project, '"approvals.decide"', '"approvals.decide", "money.approve"')
    entitle(
        project, 'tenant = "acme"\nscopes = ["approvals', 'tenant = "acme"\nroles = ["admin"]\nscopes = ["approvals'
    )
    return project


def entitle(project: Project, old: str, new: str) -> None:
    project.rewrite(old, new)


def line_of(ran: Any, name: str) -> str:
    """What stands beside a name in a list of fields."""
    found = [line.removeprefix(name).strip() for line in ran.out.splitlines() if line.startswith(f"{name} ")]
    return str(found[0]) if found else ""


def error_of(ran: Any) -> tuple[int, str]:
    assert "Traceback" not in ran.err
    return ran.code, ran.data["code"]


# ---------------------------------------------------------------- check


def test_a_sound_file_is_told_so(ruled: Project) -> None:
    text = ruled.run("policy", "check")
    data = ruled.run("policy", "check", "--json")

    assert (text.code, text.out) == (0, "sound: 2 rules\n")
    assert data.data == {
        "schema": "policy-check/1",
        "file": str(ruled.folder / "policy.toml"),
        "is_sound": True,
        "rules": ["asks", "payments"],
        "tools_compared": True,
        "mistakes": [],
    }


def test_every_mistake_is_told_with_its_place_and_ends_with_2(ruled: Project) -> None:
    file = ruled.folder / "policy.toml"
    file.write_text(RULES.replace("decide_within", "decide_withni").replace("votes = 2", "votes = 1"))
    ran = ruled.run("policy", "check")

    assert ran.code == 2
    assert ran.out.splitlines() == [
        f"{file}:6: an unknown member 'decide_withni' at a rule",
        "  Did you mean 'decide_within'?",
        f"{file}:14: a quorum needs its number of votes",
        "  votes is from 2 to 16.",
    ]
    assert ran.err == "2 to mend. Nothing is decided by a file that is wrong.\n"
    data = ruled.run("policy", "check", "--json")
    assert (data.code, data.data["is_sound"]) == (2, False)
    assert [each["line"] for each in data.data["mistakes"]] == [6, 14]


def test_a_tool_that_is_not_registered_is_a_mistake(ruled: Project) -> None:
    ruled.rewrite('["pay"]', '["payy"]', "policy.toml")
    ran = ruled.run("policy", "check", "--json")

    assert ran.code == 2
    assert ran.data["mistakes"] == [
        {
            "line": 12,
            "message": "rule 'payments' names the tool 'payy', which is not registered",
            "hint": "Did you mean 'pay'?",
        }
    ]


def test_a_file_is_checked_without_its_project(bare: Project) -> None:
    (bare.folder / "other.toml").write_text(RULES)
    ran = bare.run("policy", "check", "other.toml", "--json")

    assert (ran.code, ran.data["rules"], ran.data["tools_compared"]) == (0, ["asks", "payments"], False)


def test_what_cannot_be_checked_is_told(project: Project) -> None:
    assert error_of(project.run("policy", "check", "--json")) == (2, "config_invalid")
    assert error_of(project.run("policy", "check", "none.toml", "--json")) == (2, "policy_missing")
    assert error_of(project.run("policy", "check", ".", "--json")) == (2, "policy_unreadable")
    ran = project.run("policy", "check")
    assert "policy.toml" in ran.err


def test_what_a_file_says_is_shown_and_never_obeyed(bare: Project) -> None:
    (bare.folder / "p.toml").write_text('[[ask]]\n"a\\u001b[2Jb\\u202e" = 1\nname = "r"\nneeds = "review"\n')
    ran = bare.run("policy", "check", "p.toml")

    assert ran.code == 2
    assert "\x1b" not in ran.out and "\u202e" not in ran.out


# ---------------------------------------------------------------- explain


def test_a_call_is_explained_and_nothing_runs(ruled: Project) -> None:
    words = ("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}')
    ran = ruled.run(*words)
    data = ruled.run(*words, "--json")

    assert ran.code == data.code == 5
    version = data.data["policy_version"]
    assert data.data == {
        "schema": "policy-explanation/1",
        "tool": "ask",
        "decision": "ask",
        "reasons": ["contract_always_asks", "rule:asks"],
        "policy_version": version,
        "rule": "asks",
        "needs": "review",
        "votes": 1,
        "decide_within_seconds": 14_400.0,
        "usable_for_seconds": 600.0,
        "remind_after_seconds": [],
        "escalate_after_seconds": None,
        "escalate_to": [],
        "escalation_widens": False,
        "needs_reason": ["deny"],
        "grants": None,
        "may_approve": [ME],
        "shadow": None,
    }
    told = dict(line.split(maxsplit=1) for line in ran.out.splitlines() if not line.startswith(("policy", "decide")))
    assert told["rule"] == "asks"
    assert f"may approve     {ME}" in ran.out
    assert "decide within   4h" in ran.out
    assert "usable for      10m" in ran.out
    assert not (ruled.folder / "asked.txt").exists()
    assert ruled.run("approvals", "list", "--json").data["approvals"] == []


def test_what_may_be_granted_is_explained(ruled: Project) -> None:
    """And nothing of it for a tool that no grant reaches, whatever its rule says."""
    (ruled.folder / "policy.toml").write_text(
        '[[ask]]\nname = "all"\nneeds = "review"\ngrants = { uses = 20, usable_for = "8h" }\n'
    )
    words = ("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}')
    assert line_of(ruled.run(*words), "standing grants") == "may be given, each for at most 20 uses and 8h"
    assert ruled.run(*words, "--json").data["grants"] == {"max_uses": 20, "max_seconds": 28_800.0}
    words = ("policy", "explain", "--tool", "grave", "--args", "{}")
    assert line_of(ruled.run(*words), "standing grants") == ""
    assert ruled.run(*words, "--json").data["grants"] is None


def test_what_the_file_says_of_waiting_is_explained_and_shown_with_the_question(ruled: Project) -> None:
    waits = 'remind_after = ["5m", "1h"]\nescalate_after = "3h"\nescalate_to = { roles = ["admin"] }\n'
    ruled.rewrite('reason_for = ["deny"]\n', f'reason_for = ["deny"]\n{waits}', "policy.toml")

    explained = ruled.run("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}')
    found = ruled.run("approvals", "show", ruled.asked(), "--json").data
    shown = ruled.run("approvals", "show", found["approval_id"])

    said = ("reminds after", "escalated after", "escalated to", "they may decide then")
    assert [line_of(explained, each) for each in said] == ["5m, 1h", "3h", "role:admin", ""]
    at = datetime.fromisoformat(found["asked_at"]) + timedelta(hours=3)
    assert datetime.fromisoformat(found["escalates_at"]) == at
    assert (found["escalate_to"], found["escalation_widens"]) == (["role:admin"], False)
    assert (found["reminded_at"], found["escalated_at"]) == ([], None)
    assert line_of(shown, "escalates at").endswith(" to role:admin")
    assert line_of(shown, "reminded at") == ""


def test_nobody_listed_is_told_so(ruled: Project) -> None:
    entitle(ruled, 'roles = ["admin"]\nscopes = ["approvals', 'roles = ["viewer"]\nscopes = ["approvals')

    ran = ruled.run("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}')
    assert (ran.code, "may approve     nobody listed" in ran.out) == (5, True)


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "decision"),
    [
        ("look", "{}", 0, "allow"),
        ("forbidden", "{}", 3, "deny"),
        ("ask", "{}", 8, "invalid"),
        ("nothing", "{}", 8, "invalid"),
        ("pay", '{"card": "4111", "cents": 1}', 5, "ask"),
    ],
)
def test_explaining_ends_as_the_call_would(ruled: Project, tool: str, arguments: str, code: int, decision: str) -> None:
    ran = ruled.run("policy", "explain", "--tool", tool, "--args", arguments, "--json")

    assert (ran.code, ran.data["decision"]) == (code, decision)
    assert "4111" not in ran.out
    assert ruled.call(tool, arguments, "--dry-run").data["decision"] == decision


# ---------------------------------------------------------------- where the file is named


def test_flag_beats_environment_beats_project_file(ruled: Project) -> None:
    (ruled.folder / "flag.toml").write_text(RULES.replace('"asks"', '"flag"'))
    (ruled.folder / "env.toml").write_text(RULES.replace('"asks"', '"env"'))
    words = ("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}', "--json")

    assert ruled.run(*words).data["rule"] == "asks"
    ruled.environment["PLACET_POLICY"] = "env.toml"
    assert ruled.run(*words).data["rule"] == "env"
    assert ruled.run(*words, "--policy", "flag.toml").data["rule"] == "flag"
    settings = ruled.run("config", "show", "--json").data["settings"]
    assert settings["policy"]["value"] == str(ruled.folder / "env.toml")
    assert settings["policy"]["said_by"] == "environment PLACET_POLICY"


@pytest.mark.parametrize(
    "words",
    [
        ("call", "--tool", "look", "--args", "{}"),
        ("call", "--tool", "look", "--args", "{}", "--dry-run"),
        ("policy", "explain", "--tool", "look"),
        ("approvals", "list"),
        ("worker", "--once"),
    ],
)
def test_a_file_that_is_wrong_decides_nothing(ruled: Project, words: tuple[str, ...]) -> None:
    ruled.rewrite("approvers", "aprovers", "policy.toml")
    ran = ruled.run(*words, "--json")

    assert error_of(ran) == (2, "policy_invalid")
    assert ran.data["message"].startswith(f"{ruled.folder / 'policy.toml'}:5: an unknown member 'aprovers'")
    assert "placet policy check" in ran.data["hint"]


def test_stopping_and_looking_need_no_policy(ruled: Project) -> None:
    ruled.rewrite("approvers", "aprovers", "policy.toml")

    assert ruled.run("stop", "all", "--reason", "now").code in (0, 4)
    assert ruled.run("effects", "list").code == 0
    assert ruled.run("audit", "verify").code == 0


def test_the_doctor_finds_a_file_that_is_wrong(ruled: Project) -> None:
    assert ruled.run("doctor", "--json").data["worst"] != "fail"
    ruled.rewrite("approvers", "aprovers", "policy.toml")
    ran = ruled.run("doctor", "--json")

    (line,) = [each for each in ran.data["checks"] if each["id"] == "policy"]
    assert (ran.code, line["level"]) == (2, "fail")
    assert "an unknown member 'aprovers'" in line["told"]
    assert "Did you mean 'approvers'?" in line["next"]


# ---------------------------------------------------------------- deciding by it


def test_a_rule_says_who_may_approve(ruled: Project) -> None:
    asked = ruled.asked()
    shown = ruled.run("approvals", "show", asked, "--json").data

    assert (shown["rule"], shown["requirement"], shown["who_may"]) == ("asks", "review", [ME])
    assert line_of(ruled.run("approvals", "show", asked), "needs") == "review, by rule asks, with a reason to deny"
    assert ruled.approved(asked).code == 0
    assert ruled.call("ask", '{"text": "hello"}', "--run", "r1").code == 0


def test_whoever_lacks_what_the_rule_wants_is_told(ruled: Project) -> None:
    entitle(ruled, ', "money.approve"', "")
    asked = ruled.asked()
    ran = ruled.approved(asked)

    assert error_of(ran) == (4, "not_an_approver")
    assert f"placet approvals show {asked}" in ran.data["hint"]


@pytest.mark.req("H017", "H023")
@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (f"[people.{ME}]", "[people.somebody_else]", "not_listed_any_more"),
        ('"approvals.decide", ', "", "scope_missing"),
        (', "money.approve"', "", "not_an_approver"),
        ('roles = ["admin"]\nscopes = ["approvals', 'roles = ["operator"]\nscopes = ["approvals', "not_an_approver"),
    ],
)
def test_whoever_lost_its_leave_between_approving_and_the_call_has_approved_nothing(
    ruled: Project, old: str, new: str, reason: str
) -> None:
    asked = ruled.asked()
    assert ruled.approved(asked).code == 0

    entitle(ruled, old, new)
    ran = ruled.call("ask", '{"text": "hello"}', "--run", "r1")

    assert (ran.code, ran.data["code"], ran.data["reasons"]) == (6, "approver_not_entitled", [reason])
    assert not (ruled.folder / "asked.txt").exists()
    again = ruled.call("ask", '{"text": "hello"}', "--run", "r1")
    assert (again.code, again.data["approval_id"] != asked) == (5, True)


def test_a_denial_that_needs_a_reason_has_one_at_the_command_line(ruled: Project) -> None:
    asked = ruled.asked()

    assert error_of(ruled.run("approvals", "deny", asked, "--reason", " ", "--json")) == (1, "reason_missing")
    assert ruled.run("approvals", "deny", asked, "--reason", "too much").code == 0


def in_another_process(project: Project, approval_id: str, by: placet.Principal) -> str:
    """Somebody votes who has no account on this machine; the state afterwards."""

    async def vote() -> str:
        import sys

        sys.path.insert(0, str(project.folder))
        try:
            import tools  # type: ignore[import-not-found]
        finally:
            sys.path.remove(str(project.folder))
            sys.modules.pop("tools", None)
        opening = placet.open(
            tools=tools.TOOLS,
            store=project.folder / "placet.db",
            policy=project.folder / "policy.toml",
            recovery=placet.Recovery.MANUAL,
        )
        async with opening as gate:
            view = await gate.desk.show(approval_id, by=by)
            return (await gate.desk.approve(approval_id, digest=view.digest, by=by)).state.value

    return asyncio.run(vote())


PAYMENT = '{"card": "4111", "cents": 5}'


def test_two_people_approve_a_payment(ruled: Project) -> None:
    asked = ruled.asked("pay", PAYMENT)
    ran = ruled.run("approvals", "approve", asked, "--digest", ruled.digest_of(asked), "--reason", "seen")

    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith(f"pending  {asked}  pay")
    assert ran.err == "Your vote counts: 1 of 2 people have approved. Nothing may run yet.\n"
    shown = ruled.run("approvals", "show", asked)
    assert line_of(shown, "needs") == "quorum of 2 people, by rule payments"
    assert line_of(shown, "may decide") == ""
    assert re.fullmatch(rf"{ME} at 2\S+Z: seen", line_of(shown, "vote"))
    data = ruled.run("approvals", "show", asked, "--json").data
    assert (data["votes"], data["votes_needed"], data["own_vote"]) == (1, 2, "approve")
    assert [each["voter"] for each in data["voters"]] == [ME]
    assert ruled.call("pay", PAYMENT, "--run", "r1").code == 5

    assert in_another_process(ruled, asked, LENA) == "approved"
    assert ruled.call("pay", PAYMENT, "--run", "r1").code == 0


def test_a_vote_is_taken_back(ruled: Project) -> None:
    asked = ruled.asked("pay", PAYMENT)
    assert error_of(ruled.run("approvals", "withdraw-vote", asked, "--json")) == (1, "no_vote")
    ruled.approved(asked)
    ran = ruled.run("approvals", "withdraw-vote", asked)

    assert (ran.code, ran.err) == (0, "Your vote is taken back: 0 of 2 people have approved. Nothing may run yet.\n")
    assert error_of(ruled.approved(asked)) == (6, "vote_withdrawn")
    assert in_another_process(ruled, asked, LENA) == "pending"


def test_a_changed_file_asks_open_questions_again(ruled: Project) -> None:
    asked = ruled.asked()
    assert ruled.approved(asked).code == 0
    ruled.rewrite('"10m"', '"9m"', "policy.toml")

    ran = ruled.call("ask", '{"text": "hello"}', "--run", "r1")
    assert (ran.code, ran.data["approval_id"] != asked) == (5, True)
    other = ruled.asked(run="r2")
    ruled.rewrite('"9m"', '"8m"', "policy.toml")
    refused = ruled.approved(other)
    assert error_of(refused) == (6, "policy_changed")
    assert "ask again" in refused.data["hint"]


def test_the_file_is_documented_where_people_look(project: Project) -> None:
    help_text = project.run("policy", "--help").out
    assert "check" in help_text and "explain" in help_text
    assert json.loads(project.run("config", "show", "--json").out)["settings"]["policy"]["value"] is None
    assert Path(project.folder / "policy.toml").exists() is False


# ---------------------------------------------------------------- in shadow

NEXT = '[[ask]]\nname = "by-the-user"\ntools = ["ask"]\nneeds = "confirm"\n'


@pytest.fixture
def shadowed(project: Project) -> Project:
    """The project with a policy in shadow, under which nobody could answer what `ask` asks."""
    (project.folder / "next.toml").write_text(NEXT)
    project.rewrite('tools = "tools:TOOLS"\n', 'tools = "tools:TOOLS"\nshadow = "next.toml"\n')
    return project


@pytest.mark.case("D08")
def test_calls_whose_answer_would_change_are_told_and_nothing_else_is_changed(shadowed: Project) -> None:
    looked, asked = shadowed.call("look", '{"word": "x"}'), shadowed.call("ask", '{"text": "a secret text"}')
    text, data = shadowed.run("policy", "shadow"), shadowed.run("policy", "shadow", "--json")

    assert (looked.code, asked.code, text.code, data.code) == (0, 5, 0, 0)
    report = data.data
    (changed,) = report["changed"]
    assert (report["schema"], report["calls"], report["errors"]) == ("policy-shadow/1", 2, 0)
    assert {name: changed[name] for name in ("tool", "subject", "enforced", "would_be")} == {
        "tool": "ask",
        "subject": "agent",
        "enforced": "ask",
        "would_be": "deny",
    }
    assert changed["reasons"] == ["contract_always_asks", "rule:by-the-user", "nobody_confirms"]
    assert changed["policy_version"] == report["policy_version"]
    assert "answer would change  1" in text.out
    assert "ask -> deny" in text.out
    assert "a secret text" not in text.out + data.out
    assert "ask (shadow: deny)" in shadowed.run("audit", "tail").out


def test_where_nothing_was_in_shadow_it_is_told_how_to_set_one(project: Project) -> None:
    assert project.call("look").code == 0
    text, data = project.run("policy", "shadow"), project.run("policy", "shadow", "--json")

    assert (text.code, text.out) == (0, "No call of your tenant was looked at by a policy in shadow.\n")
    assert 'shadow = "next.toml"' in text.err
    assert data.data == {"schema": "policy-shadow/1", "policy_version": None, "calls": 0, "errors": 0, "changed": []}


def test_only_the_newest_version_in_shadow_is_told_of_unless_all_are_wanted(shadowed: Project) -> None:
    shadowed.call("ask", '{"text": "a"}')
    (shadowed.folder / "next.toml").write_text(NEXT.replace("by-the-user", "newer"))
    shadowed.call("ask", '{"text": "b"}')

    newest, all_of_them = (
        shadowed.run("policy", "shadow", "--json"),
        shadowed.run("policy", "shadow", "--all", "--json"),
    )

    assert [each["reasons"][1] for each in newest.data["changed"]] == ["rule:newer"]
    assert [each["reasons"][1] for each in all_of_them.data["changed"]] == ["rule:newer", "rule:by-the-user"]


def test_an_explanation_says_what_the_policy_in_shadow_would_answer(shadowed: Project) -> None:
    words = ("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}')
    text, data = shadowed.run(*words), shadowed.run(*words, "--json")

    assert (text.code, data.data["decision"], data.data["shadow"]["would_be"]) == (5, "ask", "deny")
    assert "which changes the answer" in line_of(text, "in shadow")


@pytest.mark.case("D08")
def test_a_policy_in_shadow_that_is_wrong_starts_nothing_and_doctor_says_which_is_set(shadowed: Project) -> None:
    (sound,) = [each for each in shadowed.run("doctor", "--json").data["checks"] if each["id"] == "shadow"]
    (shadowed.folder / "next.toml").write_text("[[ask]]\nnam = 1\n")
    (wrong,) = [each for each in shadowed.run("doctor", "--json").data["checks"] if each["id"] == "shadow"]

    assert (sound["level"], "is asked too, unchanged since " in sound["told"]) == ("ok", True)
    assert (wrong["level"], "next.toml:" in wrong["told"]) == ("fail", True)
    assert error_of(shadowed.call("look", "{}", "--json")) == (2, "policy_invalid")
    assert shadowed.run("stop", "--list").code == 0  # halting and looking need no policy


def test_flag_beats_environment_beats_project_file_for_the_one_in_shadow_too(shadowed: Project) -> None:
    (shadowed.folder / "flag.toml").write_text(NEXT.replace("by-the-user", "flag"))
    (shadowed.folder / "env.toml").write_text(NEXT.replace("by-the-user", "env"))
    words = ("policy", "explain", "--tool", "ask", "--args", '{"text": "x"}', "--json")

    def rule(*more: str) -> str:
        return str(shadowed.run(*words, *more).data["shadow"]["reasons"][1])

    assert rule() == "rule:by-the-user"
    shadowed.environment["PLACET_SHADOW"] = "env.toml"
    assert (rule(), rule("--shadow", "flag.toml")) == ("rule:env", "rule:flag")
