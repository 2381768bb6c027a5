"""`placet approvals`: what is shown is what is signed, and only a listed person signs."""

import json
import re
import shutil

import apsw
import pytest

SUMMARY = {
    "approval_id",
    "state",
    "tool",
    "tool_version",
    "risk",
    "effect_class",
    "requested_by",
    "on_behalf_of",
    "run_id",
    "about",
    "reasons",
    "requirement",
    "rule",
    "votes",
    "votes_needed",
    "asked_at",
    "decide_by",
    "seconds_left",
    "why_not",
}
DETAILS = SUMMARY | {
    "schema",
    "description",
    "resource",
    "policy_version",
    "arguments",
    "display",
    "redacted",
    "digest",
    "decided_by",
    "decided_at",
    "expires_at",
    "words",
    "voters",
    "own_vote",
    "who_may",
    "needs_reason",
    "edited_by",
    "edited_from",
    "may_edit",
    "reminded_at",
    "escalates_at",
    "escalated_at",
    "escalate_to",
    "differences",
    "escalation_widens",
    "state_digest",
}
HOSTILE = "rm -rf /data\r\x1b[2K   ls\u200b\u202e\U000e0100" + " " * 400 + "end\x9b31m"


def error_of(ran) -> tuple[int, str]:
    assert "Traceback" not in ran.err
    return ran.code, ran.data["code"]


# ---------------------------------------------------------------- looking


def test_lists_are_documents_lines_or_tables(waiting) -> None:
    asked = waiting.approval_id
    document = waiting.run("approvals", "list", "--json")
    lines = waiting.run("approvals", "list", "--jsonl")
    table = waiting.run("approvals", "list")

    assert set(document.data) == {"schema", "approvals"}
    assert document.data["schema"] == "approvals/1"
    assert [set(each) for each in document.data["approvals"]] == [SUMMARY]
    assert [set(each) for each in lines.lines] == [SUMMARY | {"schema"}]
    assert lines.lines[0]["schema"] == "approval-summary/1"
    assert table.out.splitlines()[0].split() == [
        *("id", "state", "tool", "risk", "about", "run", "asked", "by", "asked", "at", "time", "left"),
    ]
    assert table.out.splitlines()[1].startswith(asked)


def test_a_list_tells_one_question_from_another_and_hides_what_the_contract_hides(project) -> None:
    long = "a\x1b[2J" + "b" * 90
    for tool, arguments in (
        ("ask", {"text": "one"}),
        ("ask", {"text": long}),
        ("pay", {"card": "4111", "cents": 7}),
        ("wipe", {}),
    ):
        project.asked(tool, json.dumps(arguments))
    ran, data = project.run("approvals", "list"), project.run("approvals", "list", "--json").data["approvals"]
    about = sorted(each["about"] for each in data)

    assert about[:2] == ["-", 'card: "[REDACTED]", cents: 7']
    assert len(about[2]) == 60 and about[2].startswith('text: "a\\u{1b}[2Jbbb') and about[2].endswith("\u2026")
    assert about[3] == 'text: "one", amount: 1, note: ""'
    assert all(each in ran.out for each in about)
    assert "\x1b" not in ran.out and "4111" not in ran.out


def test_a_list_holds_no_digest_so_nobody_approves_from_it(waiting) -> None:
    digest = waiting.digest

    for form in ([], ["--json"], ["--jsonl"]):
        assert digest[:8] not in waiting.run("approvals", "list", *form).out


def test_states_are_filtered(project) -> None:
    pending, denied = project.asked(arguments='{"text": "a"}'), project.asked(arguments='{"text": "b"}')
    assert project.run("approvals", "deny", denied, "--reason", "no").code == 0

    def ids(*words: str) -> set[str]:
        return {each["approval_id"] for each in project.run("approvals", "list", "--json", *words).data["approvals"]}

    assert ids() == {pending}
    assert ids("--state", "denied") == {denied}
    assert ids("--state", "denied", "--state", "pending") == {pending, denied}
    assert ids("--state", "all") == {pending, denied}


def test_nothing_to_list_is_talk(project) -> None:
    ran = project.run("approvals", "list")

    assert (ran.code, ran.out) == (0, "")
    assert "Nothing waits" in ran.err


def test_show_prints_everything_that_would_run(project) -> None:
    asked = project.asked(arguments='{"text": "a", "amount": 3}')
    data = project.run("approvals", "show", asked, "--json").data
    text = project.run("approvals", "show", asked)

    assert set(data) == DETAILS
    assert data["schema"] == "approval/2"
    assert data["arguments"] == {"text": "a", "amount": 3, "note": ""}
    assert data["display"] == ['text: "a"', "amount: 3", 'note: ""']
    assert re.fullmatch(r"[0-9a-f]{64}", data["digest"])
    assert data["seconds_left"] > 80_000
    for expected in (
        '  text: "a"',
        "  amount: 3",
        data["digest"],
        "asked by",
        "agent",
        "Needs a person.",
        "h 59 min left",
    ):
        assert expected in text.out


@pytest.mark.case("F02")
def test_hostile_text_never_reaches_a_terminal_raw(project) -> None:
    (project.folder / "args.json").write_text(json.dumps({"text": HOSTILE, "note": 'x"\ntext: "harmless'}))
    asked = project.asked(arguments="@args.json")
    for words in (["show", asked], ["show", asked, "--json"], ["list"]):
        ran = project.at_terminal("approvals", *words, NO_COLOR="1")

        assert ran.code == 0
        for raw in ("\x1b", "\x9b", "\u200b", "\u202e", "\U000e0100", "rm -rf /data\r\x1b"):
            assert raw not in ran.out
    shown = project.run("approvals", "show", asked).out.splitlines()
    assert '  note: "x\\"\\ntext: \\"harmless"' in shown
    assert r'  text: "rm -rf /data\r\u{1b}[2K   ls\u{200b}\u{202e}\u{e0100}[400 blanks]end\u{9b}31m"' in shown
    assert project.run("approvals", "show", asked, "--json").data["arguments"]["text"] == HOSTILE


def test_hostile_text_from_a_store_reaches_no_terminal_either(project) -> None:
    """Names that only the server writes are escaped all the same: run, tool, decider."""
    project.asked(run="run\u202e\x1b[31m")

    ran = project.at_terminal("approvals", "list", NO_COLOR="1")
    tail = project.at_terminal("audit", "tail", NO_COLOR="1")
    assert (ran.code, tail.code) == (0, 0)
    for raw in ("\x1b", "\u202e"):
        assert raw not in ran.out + tail.out


def test_colour_only_at_a_terminal_that_wants_it(waiting) -> None:
    assert "\x1b[" in waiting.at_terminal("approvals", "list").out
    assert "\x1b" not in waiting.at_terminal("approvals", "list", NO_COLOR="1").out
    assert "\x1b" not in waiting.at_terminal("approvals", "list", "--no-color").out
    assert "\x1b" not in waiting.run("approvals", "list").out


def test_times_are_utc_unless_local_is_asked_for(waiting) -> None:
    asked = waiting.approval_id

    assert re.search(r"asked at +\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", waiting.run("approvals", "show", asked).out)
    local = waiting.run("approvals", "show", asked, "--local", TZ="Asia/Tokyo").out
    assert re.search(r"asked at +\S+\+09:00", local)
    assert waiting.run("approvals", "show", asked, "--local", "--json", TZ="Asia/Tokyo").data["asked_at"].endswith("Z")


# ---------------------------------------------------------------- approving


def test_approve_signs_what_was_shown_and_runs_nothing(waiting) -> None:
    asked = waiting.approval_id
    digest = waiting.digest
    ran = waiting.run("approvals", "approve", asked, "--digest", digest[:8])

    assert ran.code == 0
    assert f"digest  {digest}" in ran.out
    assert '  text: "hello"' in ran.out
    assert not (waiting.folder / "asked.txt").exists()
    assert waiting.run("approvals", "show", asked, "--json").data["state"] == "approved"
    again = waiting.run("approvals", "approve", asked, "--digest", digest, "--json")
    assert (again.code, set(again.data)) == (0, DETAILS)


def test_off_a_terminal_the_digest_is_needed_and_named(waiting) -> None:
    asked = waiting.approval_id
    ran = waiting.run("approvals", "approve", asked, stdin="y\n")

    assert (ran.code, ran.out) == (2, "")
    assert "--digest" in ran.err
    assert waiting.run("approvals", "show", asked, "--json").data["state"] == "pending"


@pytest.mark.parametrize("digest", ["", "abc", "0" * 7, "g" * 8, "A" * 8, "0" * 65, "0x000000"])
def test_a_digest_that_is_none_is_wrong_usage(project, digest: str) -> None:
    assert error_of(project.run("approvals", "approve", "any", "--digest", digest, "--json")) == (2, "usage")


def test_another_digest_is_refused_and_on_record(waiting) -> None:
    asked = waiting.approval_id
    other = "0" * 8 if not waiting.digest.startswith("0" * 8) else "1" * 8
    ran = waiting.run("approvals", "approve", asked, "--digest", other, "--json")

    assert error_of(ran) == (8, "other_digest")
    assert f"placet approvals show {asked} prints" in ran.data["hint"]
    details = [each.get("detail") for each in waiting.run("audit", "tail", "--json").data["audit"]]
    assert details[-1] == "other_digest"


@pytest.mark.case("E06")
@pytest.mark.parametrize("answer", [b"n\n", b"\n", b"true\n", b"y \n", b" y\n", b"yess\n", b"ok\n", b"1\n", b"\x04"])
def test_at_a_terminal_only_a_plain_yes_approves(waiting, answer: bytes) -> None:
    asked = waiting.approval_id
    ran = waiting.at_terminal("approvals", "approve", asked, answers=[("approve? [y/N]", answer)])

    assert ran.code == 6
    assert '  text: "hello"' in ran.out
    assert "declined" in ran.out
    assert waiting.run("approvals", "show", asked, "--json").data["state"] == "pending"


def test_at_a_terminal_a_plain_yes_approves_what_was_shown(waiting) -> None:
    asked = waiting.approval_id
    ran = waiting.at_terminal("approvals", "approve", asked, answers=[("approve? [y/N]", b"y\n")])

    assert ran.code == 0, ran
    assert '  text: "hello"' in ran.out
    assert waiting.run("approvals", "show", asked, "--json").data["state"] == "approved"


def test_what_was_typed_before_the_question_is_no_answer(waiting) -> None:
    ran = waiting.at_terminal(
        "approvals", "approve", waiting.approval_id, ahead=b"y\n", answers=[("approve? [y/N]", b"n\n")]
    )

    assert ran.code == 6
    assert waiting.run("approvals", "show", waiting.approval_id, "--json").data["state"] == "pending"


def test_an_interrupt_at_the_prompt_approves_nothing(waiting) -> None:
    asked = waiting.approval_id
    ran = waiting.at_terminal("approvals", "approve", asked, answers=[("approve? [y/N]", b"\x03")])

    assert ran.code == 130
    assert waiting.run("approvals", "show", asked, "--json").data["state"] == "pending"


def test_a_call_of_high_risk_needs_the_digest_even_at_a_terminal(project) -> None:
    asked = project.asked("grave", "{}")
    ran = project.at_terminal("approvals", "approve", asked, answers=[("approve? [y/N]", b"y\n")])

    assert ran.code == 2
    assert "arguments, all that would run:" in ran.out
    assert "approve? [y/N]" not in ran.out
    assert f"placet approvals approve {asked} --digest {project.digest_of(asked)[:12]}" in ran.out
    assert project.approved(asked).code == 0


@pytest.mark.parametrize(
    "answer", [b"y\n", b"yes\n", b"\n", b"Wipe\n", b"wipe \n", b" wipe\n", b"wip\n", b"wipe\x04\x04"]
)
def test_what_cannot_be_undone_is_approved_by_its_name_and_nothing_else(project, answer: bytes) -> None:
    asked = project.asked("wipe", "{}")
    ran = project.at_terminal("approvals", "approve", asked, answers=[("type wipe to approve:", answer)])

    assert ran.code == 6
    assert "This cannot be undone." in ran.out
    assert "arguments, all that would run:" in ran.out
    assert "[y/N]" not in ran.out
    assert project.run("approvals", "show", asked, "--json").data["state"] == "pending"


def test_whoever_types_what_it_acts_on_approves_what_cannot_be_undone(project) -> None:
    project.rewrite(
        'approval="always", risk="low")', 'approval="always", risk="low", resource="disk:{name}")', "tools.py"
    )
    project.rewrite("async def wipe() -> str:", "async def wipe(name: str) -> str:", "tools.py")
    asked = project.asked("wipe", '{"name": "db-1"}')
    ran = project.at_terminal("approvals", "approve", asked, answers=[("type disk:db-1 to approve:", b"disk:db-1\n")])

    assert ran.code == 0, ran
    assert project.run("approvals", "show", asked, "--json").data["state"] == "approved"


def test_what_cannot_be_typed_as_it_is_shown_needs_the_digest(project) -> None:
    project.rewrite(
        'approval="always", risk="low")', 'approval="always", risk="low", resource="disk:{name}")', "tools.py"
    )
    project.rewrite("async def wipe() -> str:", "async def wipe(name: str) -> str:", "tools.py")
    asked = project.asked("wipe", '{"name": "d\u00f6 1"}')
    ran = project.at_terminal("approvals", "approve", asked, answers=[("to approve:", b"x\n")])

    assert ran.code == 2
    assert "--digest" in ran.out
    assert project.approved(asked).code == 0


# ---------------------------------------------------------------- editing


def test_an_edit_is_another_question_that_somebody_else_decides(waiting) -> None:
    waiting.rewrite('\nscopes = ["approvals', '\nroles = ["admin"]\nscopes = ["things.write", "approvals')
    asked = waiting.approval_id
    ran = waiting.run("approvals", "edit", asked, "--digest", waiting.digest[:8], "--args", '{"text": "better"}')

    assert ran.code == 0, ran
    assert '  text: "better"' in ran.out
    assert f"{asked} is closed." in ran.err
    (made,) = waiting.run("approvals", "list", "--json").data["approvals"]
    shown = waiting.run("approvals", "show", made["approval_id"], "--json").data
    assert (shown["edited_from"], shown["why_not"]) == (asked, "own_edit")
    assert error_of(waiting.approved(made["approval_id"])) == (4, "own_edit")
    told = waiting.call("ask", '{"text": "hello"}', "--run", "r1")
    assert (told.code, told.data["code"]) == (6, "edited_by_person")
    assert told.data["edited_arguments"] == {"text": "better", "amount": 1, "note": ""}
    assert waiting.call("ask", '{"text": "better"}', "--run", "r1").code == 5


@pytest.mark.parametrize(
    ("digest", "arguments", "code"),
    [
        ("0" * 8, '{"text": "better"}', (8, "other_digest")),
        (None, '{"text": 7}', (8, "invalid_arguments")),
        (None, '{"text": "a", "text": "b"}', (8, "invalid_arguments")),
        (None, '{"text": "hello"}', (1, "nothing_changed")),
        ("short", '{"text": "better"}', (2, "usage")),
    ],
)
def test_what_is_no_edit_changes_nothing(waiting, digest, arguments, code) -> None:
    waiting.rewrite('\nscopes = ["approvals', '\nroles = ["admin"]\nscopes = ["things.write", "approvals')
    words = ("--digest", digest or waiting.digest, "--args", arguments, "--json")

    assert error_of(waiting.run("approvals", "edit", waiting.approval_id, *words)) == code
    assert waiting.run("approvals", "show", waiting.approval_id, "--json").data["state"] == "pending"


def test_whoever_has_no_leave_for_a_call_makes_none(waiting) -> None:
    words = ("--digest", waiting.digest, "--args", '{"text": "better"}', "--json")

    assert error_of(waiting.run("approvals", "edit", waiting.approval_id, *words)) == (4, "editor_denied")


# ---------------------------------------------------------------- several at once


def several(project, *texts: str) -> list[str]:
    return [project.asked("ask", json.dumps({"text": text}), run=f"r-{text}") for text in texts]


def state_of(project, approval_id: str) -> str:
    return project.run("approvals", "show", approval_id, "--json").data["state"]


def test_several_that_are_alike_are_approved_with_a_digest_for_each(project) -> None:
    asked = several(project, "a", "b")
    digests = [word for each in asked for word in ("--digest", project.digest_of(each)[:8])]
    ran = project.run("approvals", "approve", *asked, *digests, "--json")

    assert ran.code == 0
    assert (ran.data["schema"], [each["state"] for each in ran.data["approvals"]]) == (
        "approvals-decided/1", ["approved", "approved"]
    )  # fmt: skip
    kinds = [each["kind"] for each in project.run("audit", "tail", "--json").data["audit"]]
    assert kinds.count("approval_approved") == 2, "each has a record of its own"


def test_digests_stand_in_the_order_of_the_approvals(project) -> None:
    asked = several(project, "a", "b")
    digests = [word for each in reversed(asked) for word in ("--digest", project.digest_of(each)[:8])]
    ran = project.run("approvals", "approve", *asked, *digests, "--json")

    assert error_of(ran) == (8, "other_digest")
    assert {state_of(project, each) for each in asked} == {"pending"}


@pytest.mark.case("O06")
def test_one_of_several_whose_digest_is_another_approves_none(project) -> None:
    asked = several(project, "a", "b")
    digests = ["--digest", project.digest_of(asked[0]), "--digest", "0" * 8]
    ran = project.run("approvals", "approve", *asked, *digests)

    assert ran.code == 8
    assert asked[1] in ran.err and "Nothing was decided." in ran.err
    assert [state_of(project, each) for each in asked] == ["pending", "pending"]


@pytest.mark.case("O06")
def test_what_is_refused_of_several_is_told_and_keeps_no_other_back(project) -> None:
    asked = several(project, "a", "b", "c", "d")
    project.run("approvals", "deny", asked[1], "--reason", "before")
    digests = [word for each in asked[:2] for word in ("--digest", project.digest_of(each))]
    ran = project.run("approvals", "approve", *asked[:2], *digests)

    assert ran.code == 6, "it was denied"
    assert f"not decided: {asked[1]}: It is denied already" in ran.err
    assert [state_of(project, each) for each in asked[:2]] == ["approved", "denied"]
    ran = project.run("approvals", "deny", asked[0], "apr-none", *asked[2:], "--reason", "no", "--json")
    assert (ran.code, ran.data["schema"]) == (1, "approvals-decided/1")
    assert [each["approval_id"] for each in ran.data["approvals"]] == asked[2:]
    assert [(each["approval_id"], each["code"]) for each in ran.data["refused"]] == [
        (asked[0], "already_decided"), ("apr-none", "not_found")
    ]  # fmt: skip
    assert [state_of(project, each) for each in asked[2:]] == ["denied", "denied"]


@pytest.mark.case("O06")
def test_what_is_grave_is_not_approved_together(project) -> None:
    asked = [project.asked("grave", "{}", run=f"r-{number}") for number in (1, 2)]
    digests = [word for each in asked for word in ("--digest", project.digest_of(each))]
    ran = project.run("approvals", "approve", *asked, *digests, "--json")

    assert error_of(ran) == (2, "usage") and "one by one" in ran.data["message"]
    assert [state_of(project, each) for each in asked] == ["pending", "pending"]


def test_more_than_are_decided_at_once_decide_none(project) -> None:
    (asked,) = several(project, "a")
    ran = project.run("approvals", "deny", asked, *(f"apr-{n}" for n in range(100)), "--reason", "no", "--json")

    assert error_of(ran) == (2, "usage") and "At most 100" in ran.data["message"]
    assert state_of(project, asked) == "pending"


@pytest.mark.case("O06")
def test_a_list_by_risk_has_the_gravest_first(project) -> None:
    slight = several(project, "a")
    grave = project.asked("grave", "{}", run="r-grave")
    slight += several(project, "b")
    ran = project.run("approvals", "list", "--sort", "risk", "--json")
    newest = project.run("approvals", "list", "--json")

    assert [each["approval_id"] for each in ran.data["approvals"]] == [grave, *slight]
    assert [each["approval_id"] for each in newest.data["approvals"]] == [slight[1], grave, slight[0]]
    one = project.run("approvals", "list", "--sort", "risk", "--limit", "1", "--json")
    assert [each["approval_id"] for each in one.data["approvals"]] == [grave]
    assert project.run("approvals", "list", "--sort", "odd").code == 2


def test_unlike_things_are_not_approved_together(project) -> None:
    alike, of_another_tool = several(project, "a")[0], project.asked("pay", '{"card": "c", "cents": 1}')
    digests = [word for each in (alike, of_another_tool) for word in ("--digest", project.digest_of(each))]
    ran = project.run("approvals", "approve", alike, of_another_tool, *digests, "--json")

    assert error_of(ran) == (2, "usage")
    assert "not alike" in ran.data["message"]
    assert (state_of(project, alike), state_of(project, of_another_tool)) == ("pending", "pending")


def test_unlike_things_are_refused_together(project) -> None:
    asked = [several(project, "a")[0], project.asked("pay", '{"card": "c", "cents": 1}')]
    ran = project.run("approvals", "deny", *asked, "--reason", "no")

    assert ran.code == 0
    assert [state_of(project, each) for each in asked] == ["denied", "denied"]


def test_several_need_as_many_digests_and_no_name_twice(project) -> None:
    asked = several(project, "a", "b")
    digest = project.digest_of(asked[0])

    assert error_of(project.run("approvals", "approve", *asked, "--digest", digest, "--json")) == (2, "usage")
    twice = ("approvals", "approve", asked[0], asked[0], "--digest", digest, "--digest", digest, "--json")
    assert error_of(project.run(*twice)) == (2, "usage")
    assert error_of(project.run("approvals", "deny", asked[0], asked[0], "--reason", "r", "--json")) == (2, "usage")


@pytest.mark.parametrize(("answer", "state"), [(b"y\n", "approved"), (b"n\n", "pending")])
def test_at_a_terminal_all_of_several_are_shown_before_one_yes(project, answer: bytes, state: str) -> None:
    asked = several(project, "a", "b")
    ran = project.at_terminal("approvals", "approve", *asked, answers=[("approve all 2? [y/N]", answer)])

    assert ran.code == (0 if state == "approved" else 6)
    question = ran.out.index("approve all 2?")
    assert ran.out.index('text: "a"') < question and ran.out.index('text: "b"') < question
    assert {state_of(project, each) for each in asked} == {state}


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ({"a": 1}, {"a": 2}, True),
        ({"a": 1, "b": "x"}, {"b": "y", "a": 2}, True),
        ({"a": [1, 2]}, {"a": [3, 4]}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": None}, {"a": "x"}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ({"a": [1]}, {"a": [1, 2]}, False),
        ({"a": [1, "x"]}, {"a": ["x", 1]}, False),
        ({"a": {"b": 1}}, {"a": {"b": "1"}}, False),
        ({"a": {"b:int,'c'": 1}}, {"a": {"b": 1, "c": 1}}, False),
    ],
)
def test_values_are_of_one_shape_if_only_what_is_in_them_differs(one, other, alike: bool) -> None:
    from placet.cli.answering import shape_of

    assert (shape_of(one) == shape_of(other)) is alike


def test_nothing_is_asked_when_only_part_is_a_terminal(waiting) -> None:
    """A view that goes into a pipe was seen by nobody."""
    asked = waiting.approval_id
    ran = waiting.at_terminal("approvals", "approve", asked, "--json")

    assert ran.code == 2
    assert "approve?" not in ran.out


# ---------------------------------------------------------------- refusing, and too late


def test_deny_needs_a_reason_and_gives_it_back(waiting) -> None:
    asked = waiting.approval_id

    assert waiting.run("approvals", "deny", asked).code == 2
    denied = waiting.run("approvals", "deny", asked, "--reason", "no", "--json")
    assert (denied.code, denied.data["state"], denied.data["words"]) == (0, "denied", "no")
    assert error_of(waiting.run("approvals", "deny", "x", "--reason", "a" * 501, "--json")) == (2, "usage")


def test_approving_what_was_denied_ends_with_6(waiting) -> None:
    asked = waiting.approval_id
    digest = waiting.digest
    waiting.run("approvals", "deny", asked, "--reason", "no")
    ran = waiting.run("approvals", "approve", asked, "--digest", digest, "--json")

    assert error_of(ran) == (6, "not_approved")
    assert "denied already" in ran.data["message"]


@pytest.mark.case("F05")
def test_denying_what_was_approved_is_told_who_was_first(waiting) -> None:
    asked = waiting.approval_id
    waiting.approved(asked)
    ran = waiting.run("approvals", "deny", asked, "--reason", "no", "--json")

    assert error_of(ran) == (1, "already_decided")
    assert "approved already by" in ran.data["message"]
    assert ran.data["hint"].startswith(f"placet approvals show {asked} says who decided")


def test_an_overdue_question_ends_with_6(project) -> None:
    project.rewrite(
        "TOOLS = [look,",
        "import functools\n"
        "import placet.bootstrap.opening as b\n"
        "b.Matrix = functools.partial(b.Matrix, requirement=placet.Requirement(decide_within_seconds=0.001))\n"
        "TOOLS = [look,",
        "tools.py",
    )
    asked = project.asked("grave", "{}")
    digest = project.digest_of(asked)
    ran = project.run("approvals", "approve", asked, "--digest", digest, "--json")

    assert error_of(ran) == (6, "approval_expired")


def test_an_approval_that_does_not_exist_is_told(project) -> None:
    for words in (
        ["show", "x"],
        ["approve", "x", "--digest", "0" * 8],
        ["deny", "x", "--reason", "r"],
        ["withdraw", "x"],
    ):
        ran = project.run("approvals", *words, "--json")
        assert error_of(ran) == (1, "not_found")
        assert ran.data["hint"] == "placet approvals list --state all"


def test_a_row_that_was_altered_is_an_alarm_and_cannot_be_approved(project) -> None:
    asked = project.asked()
    digest = project.digest_of(asked)
    connection = apsw.Connection(str(project.folder / "placet.db"))
    connection.execute("UPDATE approvals SET subject = 'somebody' WHERE approval_id = ?", (asked,))
    connection.close()

    assert error_of(project.run("approvals", "show", asked, "--json")) == (1, "approval_suspect")
    assert error_of(project.run("approvals", "approve", asked, "--digest", digest, "--json")) == (1, "approval_suspect")
    kinds = [each["kind"] for each in project.run("audit", "tail", "--json").data["audit"]]
    assert kinds[-2:] == ["approval_suspect", "approval_suspect"]


# ---------------------------------------------------------------- taking back


def test_a_question_that_was_withdrawn_cannot_be_approved(waiting) -> None:
    asked, digest = waiting.approval_id, waiting.digest
    taken = waiting.run("approvals", "withdraw", asked)

    assert taken.code == 0
    assert taken.out.startswith(f"withdrawn  {asked}  ask  for agent\n")
    assert "The question can no longer be decided" in taken.err
    assert waiting.run("approvals", "show", asked, "--json").data["state"] == "withdrawn"
    late = waiting.run("approvals", "approve", asked, "--digest", digest, "--json")
    assert error_of(late) == (6, "not_approved")


def test_an_approval_that_was_withdrawn_runs_nothing(waiting) -> None:
    asked = waiting.approval_id
    assert waiting.approved(asked).code == 0
    taken = waiting.run("approvals", "withdraw", asked, "--json")

    assert (taken.code, taken.data["state"]) == (0, "revoked")
    assert waiting.call("ask", '{"text": "hello"}', "--run", "r1").code == 5
    assert not (waiting.folder / "asked.txt").exists()


def test_what_was_withdrawn_after_it_was_approved_is_called_revoked_and_cannot_be_approved_again(waiting) -> None:
    asked, digest = waiting.approval_id, waiting.digest
    assert waiting.approved(asked).code == 0

    taken = waiting.run("approvals", "withdraw", asked)
    late = waiting.run("approvals", "approve", asked, "--digest", digest)

    assert (taken.code, taken.out) == (0, f"revoked  {asked}  ask  for agent\ndigest  {digest}\n")
    assert taken.err == "The approval can no longer be used. The proposer may ask anew.\n"
    assert (late.code, late.out) == (6, "")
    assert late.err.startswith("placet: It is revoked already.\n  code: not_approved\n")


def test_approving_again_what_was_used_says_so(waiting) -> None:
    asked, digest = waiting.approval_id, waiting.digest
    assert waiting.approved(asked).code == 0
    assert waiting.call("ask", '{"text": "hello"}', "--run", "r1").code == 0

    again = waiting.run("approvals", "approve", asked, "--digest", digest)

    assert (again.code, again.out) == (0, f"spent  {asked}  ask  for agent\ndigest  {digest}\n")
    assert again.err == "You approved it before, and it was used already: it cannot run again.\n"


def test_a_used_approval_cannot_be_withdrawn(waiting) -> None:
    asked = waiting.approval_id
    assert waiting.approved(asked).code == 0
    assert waiting.call("ask", '{"text": "hello"}', "--run", "r1").code == 0

    assert error_of(waiting.run("approvals", "withdraw", asked, "--json")) == (1, "already_decided")


def test_withdrawing_needs_the_scope_and_says_which(waiting) -> None:
    waiting.rewrite('"approvals.decide", ', "")
    ran = waiting.run("approvals", "withdraw", waiting.approval_id, "--json")

    assert error_of(ran) == (4, "scope_missing")
    assert '"approvals.decide"' in ran.data["hint"]


# ---------------------------------------------------------------- who


def test_whoever_is_not_listed_is_refused_with_4(waiting) -> None:
    asked = waiting.approval_id
    digest = waiting.digest
    (waiting.folder / "placet.toml").write_text(
        re.sub(r"\[people\.\w+\]", "[people.somebody-else]", (waiting.folder / "placet.toml").read_text())
    )

    for words in (
        ["approvals", "list"],
        ["approvals", "show", asked],
        ["approvals", "approve", asked, "--digest", digest],
        ["approvals", "deny", asked, "--reason", "r"],
        ["effects", "list"],
        ["effects", "show", "x"],
        ["audit", "tail"],
    ):
        assert error_of(waiting.run(*words, "--json")) == (4, "not_listed")


def test_outside_of_a_project_nobody_is_listed_and_the_way_on_is_its_folder(bare) -> None:
    bare.run("init", "--store-only")
    ran = bare.run("approvals", "list", "--json")

    assert error_of(ran) == (4, "not_listed")
    assert (
        ran.data["hint"] == "Go to the project's folder, or name its file with --config. A new project: placet init DIR"
    )


def test_a_listed_person_without_the_scope_is_refused_with_4_and_on_record(waiting) -> None:
    asked = waiting.approval_id
    digest = waiting.digest
    waiting.rewrite('"approvals.decide", ', "")
    shown = waiting.run("approvals", "show", asked, "--json")
    ran = waiting.run("approvals", "approve", asked, "--digest", digest, "--json")

    assert shown.data["why_not"] == "scope_missing"
    assert error_of(ran) == (4, "scope_missing")
    last = waiting.run("audit", "tail", "--json").data["audit"][-1]
    assert (last["kind"], last["detail"]) == ("decision_refused", "scope_missing")


def test_nobody_approves_their_own_request(project) -> None:
    me = re.search(r"\[people\.([^\]]+)\]", (project.folder / "placet.toml").read_text())[1]
    project.rewrite('subject = "agent"', f'subject = "{me}"')
    asked = project.asked()

    assert error_of(project.approved(asked)) == (4, "own_request")


def test_another_tenants_approval_does_not_exist(waiting) -> None:
    asked = waiting.approval_id
    text = (waiting.folder / "placet.toml").read_text()
    head, _, people = text.partition("[people.")
    (waiting.folder / "placet.toml").write_text(head + "[people." + people.replace("acme", "other"))

    assert waiting.run("approvals", "list", "--json").data["approvals"] == []
    assert error_of(waiting.run("approvals", "show", asked, "--json")) == (1, "not_found")


@pytest.mark.case("F06")
def test_who_decides_comes_from_the_user_id_and_from_nothing_else(as_nobody) -> None:
    """Another user of the machine borrows root's name in every way a process can, and is still not root."""
    asked = as_nobody.approval_id
    lies = {name: "root" for name in ("USER", "LOGNAME", "USERNAME", "LNAME", "SUDO_USER", "PLACET_USER")}
    ran = as_nobody.run("approvals", "list", "--json", **lies)

    assert error_of(ran) == (4, "not_listed")
    assert "'nobody'" in ran.data["message"]

    as_nobody.rewrite("[people.root]", "[people.nobody]")
    for path in (as_nobody.folder, *as_nobody.folder.iterdir()):
        shutil.chown(path, "nobody", "nogroup")
    approved = as_nobody.run("approvals", "approve", asked, "--digest", as_nobody.digest, "--json", **lies)
    assert (approved.code, approved.data["decided_by"]) == (0, "nobody")


@pytest.mark.case("F06")
def test_no_flag_says_who_decides(project) -> None:
    for flag in ("--by", "--as", "--user", "--yes", "--approver"):
        assert project.run("approvals", "approve", "x", "--digest", "0" * 8, flag, "root").code == 2


# ---------------------------------------------------------------- masks and contracts


def test_redacted_arguments_stay_redacted_everywhere(project) -> None:
    asked = project.asked("pay", '{"card": "4111-canary", "cents": 5}')
    shown = project.run("approvals", "show", asked)
    data = project.run("approvals", "show", asked, "--json")
    approved = project.approved(asked)

    assert "redacted by contract, covered by the digest: card" in shown.out
    assert data.data["arguments"] == {"card": "[REDACTED]", "cents": 5}
    assert data.data["redacted"] == ["card"]
    for ran in (shown, data, approved):
        assert "4111-canary" not in ran.out + ran.err


@pytest.mark.parametrize("how", ["broken module", "absent module", "unregistered tool"])
def test_without_the_contract_arguments_stay_hidden_and_nothing_is_approved(project, how: str) -> None:
    asked = project.asked("pay", '{"card": "4111-canary", "cents": 5}')
    digest = project.digest_of(asked)
    match how:
        case "broken module":
            (project.folder / "tools.py").write_text("1 / 0\n")
        case "absent module":
            (project.folder / "tools.py").unlink()
        case "unregistered tool":
            project.rewrite("wipe, grave, pay]", "wipe, grave]", "tools.py")
    listed = project.run("approvals", "list")
    shown = project.run("approvals", "show", asked)
    data = project.run("approvals", "show", asked, "--json")
    approve = project.run("approvals", "approve", asked, "--digest", digest, "--json")
    at_terminal = project.at_terminal("approvals", "approve", asked)

    assert (listed.code, shown.code, data.code) == (0, 0, 0)
    assert "arguments: hidden" in shown.out
    assert data.data["arguments"] is None
    assert data.data["display"] is None
    assert error_of(approve) == (1, "contract_unavailable")
    assert at_terminal.code == 1
    assert "approve?" not in at_terminal.out
    for ran in (listed, shown, data, approve, at_terminal):
        assert "4111-canary" not in ran.out + ran.err
    if how != "unregistered tool":
        assert "could not be imported" in shown.err
    assert project.run("approvals", "deny", asked, "--reason", "unseen").code == 0
