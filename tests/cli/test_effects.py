"""`placet effects`: what is unknown stays so until a probe or an entitled person says what happened."""

import re
import time

import apsw
import pytest

import placet

KEY = '["business","vague:{name}","x"]'
RECOVERY = {"schema", "taken_over", "committed", "absent", "still_unknown", "unknown_in_all", "look_again_at"}
EFFECT = {
    "operation_key",
    "state",
    "reason",
    "tenant",
    "tool",
    "tool_version",
    "subject",
    "on_behalf_of",
    "run_id",
    "call_id",
    "decision",
    "policy_version",
    "approval_id",
    "fence",
    "attempts",
    "probes",
    "external_reference",
    "created_at",
    "updated_at",
    "lease_until",
    "send_by",
    "probe_after",
    "quiet_end",
}
SAYS = ["--looked-at", "now", "--reason", "seen_in_desk"]


def error_of(ran) -> tuple[int, str]:
    assert "Traceback" not in ran.err
    return ran.code, ran.data["code"]


def test_lists_are_documents_lines_or_tables_without_arguments(unknown) -> None:
    assert unknown.call("put", '{"text": "canary"}').code == 0
    document = unknown.run("effects", "list", "--json")
    lines = unknown.run("effects", "list", "--jsonl")
    table = unknown.run("effects", "list", "--state", "unknown")

    assert document.data["schema"] == "effects/1"
    assert [set(each) for each in document.data["effects"]] == [EFFECT, EFFECT]
    assert [each["state"] for each in document.data["effects"]] == ["committed", "unknown"]
    assert [set(each) for each in lines.lines] == [EFFECT | {"schema"}] * 2
    assert table.out.splitlines()[1].endswith(KEY)
    assert len(table.out.splitlines()) == 2
    assert "canary" not in document.out + lines.out


def test_a_row_that_cannot_be_read_is_told_and_hides_no_other(unknown) -> None:
    assert unknown.call("put", '{"text": "canary"}').code == 0
    with apsw.Connection(str(unknown.folder / "placet.db")) as database:
        database.execute("UPDATE effects SET lease_until = ? WHERE state = 'unknown'", (2**63 - 1,))

    ran = unknown.run("effects", "list", "--json")

    assert ran.code == 0
    assert [each["state"] for each in ran.data["effects"]] == ["committed"]
    assert f"A row cannot be read, somebody changed it by hand: {KEY}" in ran.err


def keep_on_its_way(project) -> None:
    """For an hour more, its request may have been sent: "absent" is too early, however long a test takes."""
    with apsw.Connection(str(project.folder / "placet.db")) as database:
        database.set_busy_timeout(10_000)
        database.execute("UPDATE effects SET send_by = send_by + 3600000000 WHERE state = 'unknown'")


def test_the_queue_says_since_when_why_and_what_may_be_said(unknown) -> None:
    keep_on_its_way(unknown)
    unknown.call("put", '{"text": "canary"}')
    lines = unknown.run("effects", "list", "--unknown", "--jsonl")
    table = unknown.run("effects", "list", "--unknown")

    (line,) = lines.lines
    assert (line["schema"], line["operation_key"], line["tool"]) == ("unknown_effect/1", KEY, "vague")
    assert (line["reason"], line["row_reason"], line["probes"]) == ("not_probed", "raised_RuntimeError", 0)
    assert (line["absence"], line["may_act_twice"], line["requested_by"]) == ("too_early", True, ["agent"])
    assert (line["why_not_committed"], line["why_not_absent"]) == (None, "too_early_for_absent")
    assert (line["settled_with"], line["age_seconds"] >= 0) == ("effects.reconcile", True)
    assert "not probed yet; due 2" in table.out and "too early until 2" in table.out and "act twice" in table.out
    assert "effects.reconcile" in table.err and "canary" not in table.out + lines.out

    unknown.run("effects", "reconcile", KEY)
    again = unknown.run("effects", "list", "--unknown", "--json").data["unknown_effects"]
    assert [(each["reason"], each["probes"]) for each in again] == [("cannot_tell", 1)]


def test_the_queue_needs_the_tools_to_say_which_have_a_probe_and_goes_on_without(unknown) -> None:
    (unknown.folder / "tools.py").write_text("1 / 0\n")

    ran = unknown.run("effects", "list", "--unknown", "--json")

    assert ran.code == 0
    assert [(each["reason"], each["may_act_twice"]) for each in ran.data["unknown_effects"]] == [("not_here", None)]
    assert "could not be imported" in ran.err


def test_the_queue_shows_nobody_what_is_not_its_own_to_see(unknown) -> None:
    unknown.rewrite('"approvals.decide", "effects.read", "effects.reconcile"', '"approvals.decide"')

    ran = unknown.run("effects", "list", "--unknown")

    assert (ran.code, ran.out) == (0, "")
    assert "Nothing that you may see is unknown." in ran.err


def test_every_broken_row_is_listed_on_demand(unknown) -> None:
    assert unknown.run("effects", "list", "--broken", "--json").data["broken_effects"] == []
    with apsw.Connection(str(unknown.folder / "placet.db")) as database:
        database.execute("UPDATE effects SET lease_until = ? WHERE state = 'unknown'", (2**63 - 1,))
    for _ in range(2):
        unknown.call("put", '{"text": "x"}')

    newest = unknown.run("effects", "list", "--limit", "1")
    broken = unknown.run("effects", "list", "--broken", "--json")

    assert KEY not in newest.err
    assert [each["operation_key"] for each in broken.data["broken_effects"]] == [KEY]


@pytest.mark.parametrize("words", [("--unknown", "--broken"), ("--unknown", "--state", "unknown")])
def test_two_lists_at_once_are_none(unknown, words) -> None:
    assert unknown.run("effects", "list", *words).code == 2


def test_show_prints_one_and_how_to_settle_it(unknown) -> None:
    data = unknown.run("effects", "show", KEY, "--json").data
    text = unknown.run("effects", "show", KEY)

    assert (data["schema"], data["state"]) == ("effect/1", "unknown")
    assert set(data) == EFFECT | {"schema"}
    assert f"key  {KEY}" in text.out
    assert f"placet effects reconcile '{KEY}'" in text.err
    for words in (["show", "nothing"], ["reconcile", "nothing"], ["reconcile", "nothing", "--committed", *SAYS]):
        missing = unknown.run("effects", *words, "--json")
        assert error_of(missing) == (1, "not_found")
        assert missing.data["hint"] == (
            "placet effects list prints the keys; give one as it stands there, in single quotes."
        )


def test_keys_beyond_ascii_can_be_typed_as_they_are_listed(project) -> None:
    assert project.call("vague", '{"name": "caf\\u00e9 \\u65e5\\u672c"}').code == 7
    key = project.run("effects", "list").out.splitlines()[1].split("  ")[-1]

    assert project.run("effects", "show", key).code == 0


def test_looking_needs_no_tools(unknown) -> None:
    (unknown.folder / "tools.py").write_text("1 / 0\n")

    for words in (["effects", "list"], ["effects", "show", KEY], ["audit", "tail"], ["audit", "verify"]):
        ran = unknown.run(*words)
        assert ran.code == 0, ran
        assert "tools" not in ran.err
    assert error_of(unknown.run("effects", "reconcile", "--json")) == (2, "tools_not_loaded")


def test_a_person_without_the_scopes_sees_no_effect_of_others(unknown) -> None:
    unknown.rewrite('"approvals.decide", "effects.read", "effects.reconcile"', '"approvals.decide"')

    assert unknown.run("effects", "list", "--json").data["effects"] == []
    assert error_of(unknown.run("effects", "show", KEY, "--json")) == (1, "not_found")
    refused = unknown.run("effects", "reconcile", KEY, "--committed", *SAYS, "--json")
    assert error_of(refused) == (4, "scope_missing")
    assert '"effects.reconcile"' in refused.data["hint"]


def test_another_tenants_effect_does_not_exist(unknown) -> None:
    text = (unknown.folder / "placet.toml").read_text()
    head, _, people = text.partition("[people.")
    (unknown.folder / "placet.toml").write_text(head + "[people." + people.replace("acme", "other"))

    assert unknown.run("effects", "list", "--json").data["effects"] == []
    assert error_of(unknown.run("effects", "show", KEY, "--json")) == (1, "not_found")
    assert error_of(unknown.run("effects", "reconcile", KEY, "--committed", *SAYS, "--json")) == (1, "not_found")


# ---------------------------------------------------------------- probes


def test_a_round_of_recovery_settles_what_the_probe_found(unknown) -> None:
    (unknown.folder / "probe.txt").write_text("found")
    ran = reconcile_until_settled(unknown)

    assert ran.code == 0
    assert set(ran.data) == RECOVERY
    assert (ran.data["schema"], ran.data["committed"], ran.data["unknown_in_all"]) == ("recovery/1", 1, 0)
    replayed = unknown.call("vague", '{"name": "x"}')
    assert (replayed.data["status"], replayed.data["result"]) == ("replayed", "late")


def test_a_round_that_leaves_something_unknown_ends_with_7(unknown) -> None:
    ran = unknown.run("effects", "reconcile", "--json")

    assert (ran.code, ran.data["unknown_in_all"]) == (7, 1)
    assert ran.data["look_again_at"] is not None
    told = unknown.run("effects", "reconcile").err
    assert re.search(r"Look again after \d{4}-\S+Z: placet effects reconcile", told)


def test_one_effect_is_probed_at_once(unknown) -> None:
    assert unknown.run("effects", "reconcile", KEY, "--json").code == 7
    (unknown.folder / "probe.txt").write_text("found")
    settled = unknown.run("effects", "reconcile", KEY, "--json")

    assert (settled.code, settled.data["state"]) == (0, "reconciled_committed")
    again = unknown.run("effects", "reconcile", KEY, "--json")
    assert (again.code, again.data["state"]) == (0, "reconciled_committed")


def reconcile_until_settled(project):
    end = time.monotonic() + 60
    while True:
        ran = project.run("effects", "reconcile", "--json")
        if ran.code == 0 or time.monotonic() > end:
            return ran
        time.sleep(0.2)


# ---------------------------------------------------------------- people


def test_a_person_says_committed_and_it_stays_so(unknown) -> None:
    ran = unknown.run("effects", "reconcile", KEY, "--committed", *SAYS, "--json")

    assert (ran.code, ran.data["state"], ran.data["reason"]) == (0, "reconciled_committed", "seen_in_desk")
    assert unknown.call("vague", '{"name": "x"}').data["status"] == "replayed"
    again = unknown.run("effects", "reconcile", KEY, "--absent", *SAYS, "--json")
    assert error_of(again) == (1, "moved_on")


def test_absent_too_early_stays_unknown_and_says_when_to_look_again(project) -> None:
    assert project.call("vague", '{"name": "x"}').code == 7
    keep_on_its_way(project)
    ran = project.run("effects", "reconcile", KEY, "--absent", *SAYS, "--json")

    assert error_of(ran) == (7, "too_early_for_absent")
    assert re.search(r"Look again after \d{4}-", ran.data["hint"])
    assert project.run("effects", "show", KEY, "--json").data["state"] == "unknown"


def test_a_look_in_the_future_proves_nothing(unknown) -> None:
    says = ["--looked-at", "2999-01-01T00:00:00Z", "--reason", "seen"]

    assert error_of(unknown.run("effects", "reconcile", KEY, "--absent", *says, "--json")) == (
        8,
        "looked_in_the_future",
    )


def test_the_requester_may_not_say_absent(unknown) -> None:
    me = re.search(r"\[people\.([^\]]+)\]", (unknown.folder / "placet.toml").read_text())[1]
    unknown.rewrite('subject = "agent"', f'subject = "{me}"')
    assert unknown.call("vague", '{"name": "mine"}').code == 7
    key = KEY.replace('"x"', '"mine"')

    assert error_of(unknown.run("effects", "reconcile", key, "--absent", *SAYS, "--json")) == (4, "own_request")


@pytest.mark.parametrize(
    "words",
    [
        ["--committed"],
        ["--looked-at", "now", "--reason", "r"],
        [KEY, "--committed"],
        [KEY, "--committed", "--looked-at", "now"],
        [KEY, "--committed", "--reason", "r"],
        [KEY, "--committed", "--absent", *SAYS],
        [KEY, "--reason", "r"],
        [KEY, "--absent", "--looked-at", "2026-01-01T00:00:00", "--reason", "r"],
        [KEY, "--absent", "--looked-at", "yesterday", "--reason", "r"],
        [KEY, "--absent", "--looked-at", "now", "--reason", "two words"],
    ],
)
def test_half_a_statement_is_wrong_usage(unknown, words: list[str]) -> None:
    assert error_of(unknown.run("effects", "reconcile", *words, "--json")) == (2, "usage")
    assert unknown.run("effects", "show", KEY, "--json").data["state"] == "unknown"


# ---------------------------------------------------------------- owners


@pytest.fixture
def killed(project) -> str:
    """The key of an effect whose process was killed while it ran."""
    child = project.start("call", "--tool", "hang", "--run", "r", "--call-id", "c")
    end = time.monotonic() + 60
    while not (project.folder / "hanging").exists():
        assert time.monotonic() < end
        time.sleep(0.01)
    child.kill()
    child.communicate(timeout=60)
    return str(project.run("effects", "list", "--json").data["effects"][0]["operation_key"])


def test_an_effect_that_is_held_says_when_to_look_again(project, killed: str) -> None:
    told = project.run("effects", "show", killed).err

    assert re.search(r"It is being done. Look again after \d{4}-", told)
    assert "reconcile" not in told


def test_an_effect_whose_lease_is_over_says_how_to_recover_it(project, killed: str) -> None:
    connection = apsw.Connection(str(project.folder / "placet.db"))
    connection.execute("UPDATE effects SET lease_until = 1")
    connection.close()
    shown = project.run("effects", "show", killed)

    assert "dispatched" in shown.out
    assert "Its lease is over" in shown.err
    assert "placet effects reconcile" in shown.err
    assert project.run("effects", "reconcile", "--json").data["taken_over"] == 1


async def test_an_effect_of_an_agent_that_acts_for_somebody_says_for_whom(project) -> None:
    @placet.tool(effect="write", risk="medium", permission="things.write", operation_key="put:{text}")
    async def put(text: str) -> str:
        return text

    user = placet.Principal.person("mara", tenant="acme", roles=("admin",), scopes=("things.write",))
    agent = placet.Principal.agent(
        "helper", tenant="acme", roles=("admin",), scopes=("things.write",), on_behalf_of=user
    )
    async with placet.open(tools=[put], store=project.folder / "placet.db") as gate:
        call = {"call_id": "c1", "tool": "put", "arguments": {"text": "x"}}
        assert (await gate.submit(call, principal=agent, run="r1")).code == "succeeded"

    [data] = project.run("effects", "list", "--json").data["effects"]
    assert (data["subject"], data["on_behalf_of"]) == ("helper", "mara")
    table = project.run("effects", "list").out.splitlines()[1]
    assert "  helper for mara  " in table
    shown = project.run("effects", "show", data["operation_key"]).out
    assert "helper for mara" in shown
    assert '["' not in shown.partition("\n")[2]
