"""`placet call`: outcomes, exit codes, batches, dry runs, and who is cut off."""

import importlib.util
import json
import signal
import time
from pathlib import Path

import pytest

import placet

OUTCOME = {
    "schema",
    "run_id",
    "call_id",
    "tool",
    "operation_key",
    "status",
    "code",
    "message",
    "retryable",
    "may_have_acted",
}


def lines_of(*proposals: object) -> str:
    return "".join(json.dumps(proposal) + "\n" for proposal in proposals)


def proposal(call_id: str, tool: str, **arguments: object) -> dict[str, object]:
    return {"call_id": call_id, "tool": tool, "arguments": arguments}


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "status", "more"),
    [
        ("look", '{"word": "x"}', 0, "succeeded", {"result"}),
        ("put", '{"text": "x"}', 0, "succeeded", {"result"}),
        ("slow_look", "{}", 1, "timed_out", set()),
        ("rejected", "{}", 1, "failed", {"tool_said"}),
        ("forbidden", "{}", 3, "refused", {"reasons"}),
        ("ask", '{"text": "x"}', 5, "awaiting_approval", {"approval_id"}),
        ("grave", "{}", 5, "awaiting_approval", {"approval_id"}),
        ("vague", '{"name": "x"}', 7, "unknown", set()),
        ("look", '{"word": 1}', 8, "invalid", {"problems"}),
        ("look", "not json", 8, "invalid", {"problems"}),
        ("nothing", "{}", 8, "invalid", {"problems"}),
    ],
)
def test_each_outcome_has_its_exit_code_and_members(
    project, tool: str, arguments: str, code: int, status: str, more: set[str]
) -> None:
    ran = project.call(tool, arguments, "--run", "r", "--call-id", "c1")

    assert ran.code == code, ran
    assert ran.data["schema"] == "outcome/1"
    assert ran.data["status"] == status
    assert set(ran.data) == OUTCOME | more
    assert (ran.data["run_id"], ran.data["call_id"]) == ("r", "c1")
    assert "Traceback" not in ran.err


def test_a_repeated_member_is_refused_before_policy(project) -> None:
    ran = project.call("put", '{"text": "a", "text": "b"}')

    assert ran.code == 8
    assert ran.data["problems"] == [{"path": "/text", "problem": "duplicate_member"}]
    assert not (project.folder / "put.txt").exists()


@pytest.mark.parametrize("text", ["{'title': 'milk'}", '{"title": "milk"', "[1]", "", "{} {}"])
def test_arguments_that_are_no_json_object_are_told_with_the_form_they_need(project, text: str) -> None:
    ran = project.run("call", "--tool", "look", "--args", text)

    assert ran.code == 8
    assert """  next: --args is one JSON object, names and texts in double quotes: '{"name": "text"}'""" in ran.err
    assert "next:" not in project.run("call", "--tool", "look", "--args", '{"nothing": 1}').err


def test_a_name_that_no_tool_has_is_told_with_the_nearest(project) -> None:
    typed = project.run("call", "--tool", "putt", "--args", '{"text": "x"}')
    strange = project.run("call", "--tool", "zzzzzz")
    known = project.run("call", "--tool", "put", "--args", '{"text": "x"}')

    assert "no tool of this project has this name. Did you mean 'put'?" in typed.err
    assert "this name. placet tools list names them." in strange.err
    assert typed.code == strange.code and "no tool" not in known.err
    assert (project.folder / "put.txt").read_text() == "x\n"


def test_a_scope_that_the_agent_lacks_is_named(project) -> None:
    project.rewrite('"things.write"', '"things.other"')
    refused = project.run("call", "--tool", "put", "--args", '{"text": "x"}')

    assert refused.code == 3 and "scope_missing" in refused.out
    assert 'next: "things.write" among the scopes of [agent] in placet.toml' in refused.err


def test_a_role_that_the_agent_lacks_leads_to_who_names_it(project) -> None:
    project.rewrite('roles = ["admin"]', 'roles = ["operator"]')
    refused = project.run("call", "--tool", "grave")

    assert refused.code == 3 and "matrix_operator_high" in refused.out
    assert "  next: placet tools lint says what [agent] lacks, if it may\n" in refused.err
    assert "give [agent] the role admin" in project.run("tools", "lint").out


def test_what_an_operator_has_stopped_leads_to_the_stop(project) -> None:
    project.rewrite('"effects.reconcile"]', '"effects.reconcile", "ops.stop"]')
    assert project.run("stop", "tool:put").code == 0
    refused = project.run("call", "--tool", "put", "--args", '{"text": "x"}')

    assert refused.code == 1 and refused.out.startswith("refused  put  ")
    assert "  next: placet stop --list\n" in refused.err


def test_text_output_keeps_data_and_talk_apart(project) -> None:
    ran = project.run("call", "--tool", "look", "--args", '{"word": "x"}', "--run", "r", "--call-id", "c1")
    quiet = project.run("call", "--tool", "look", "--quiet")

    assert ran.out == 'succeeded  look  c1  succeeded\n  word: "x"\n'
    assert ran.err.startswith("run r, call c1\n")
    assert "a handler that prints" in ran.err
    assert "run " not in quiet.err


def test_a_pending_call_says_how_to_ask_again(project) -> None:
    ran = project.run("call", "--tool", "ask", "--args", '{"text": "x"}')

    assert ran.code == 5
    run, call = ran.err.splitlines()[0].removeprefix("run ").split(", call ")
    assert f"--run {run} --call-id {call}" in ran.err


def test_arguments_come_from_a_file_or_standard_input(project) -> None:
    (project.folder / "args.json").write_text('{"word": "file"}')

    assert project.call("look", "@args.json").data["result"] == {"word": "file"}
    read = project.run("call", "--tool", "look", "--args", "-", "--json", stdin='{"word": "in"}')
    assert read.data["result"] == {"word": "in"}
    missing = project.call("look", "@missing.json")
    assert (missing.code, missing.data["code"]) == (2, "usage")
    assert "counts from the current folder" in missing.data["hint"]
    assert project.run("call", "--tool", "look", "--args", "-", "--json", stdin=b"\xff").code == 8


@pytest.mark.req("H027")
def test_the_same_key_acts_once_and_other_arguments_conflict(project) -> None:
    key = ("--idempotency-key", "k1")

    assert project.call("put", '{"text": "a"}', *key).data["status"] == "succeeded"
    assert project.call("put", '{"text": "a"}', *key).data["status"] == "replayed"
    conflict = project.call("put", '{"text": "b"}', *key)
    assert (conflict.code, conflict.data["status"]) == (8, "conflict")
    assert (project.folder / "put.txt").read_text() == "a\n"


@pytest.mark.req("H021")
def test_approved_runs_once_and_denied_ends_with_6(project) -> None:
    approved = project.asked(arguments='{"text": "yes"}')
    denied = project.asked(arguments='{"text": "no"}')
    assert project.approved(approved).code == 0
    assert project.run("approvals", "deny", denied, "--reason", "not \x1b[31mnow").code == 0
    assert not (project.folder / "asked.txt").exists()

    assert project.call("ask", '{"text": "yes"}', "--run", "r1").data["status"] == "succeeded"
    assert project.call("ask", '{"text": "yes"}', "--run", "r1").data["status"] == "replayed"
    refused = project.call("ask", '{"text": "no"}', "--run", "r1")
    assert (refused.code, refused.data["code"]) == (6, "approval_denied")
    assert refused.data["reviewer_said"] == "not \x1b[31mnow"
    assert "\x1b" not in refused.out
    assert (project.folder / "asked.txt").read_text() == "ran\n"


# ---------------------------------------------------------------- batches


def test_a_file_gives_one_outcome_per_line_and_the_worst_exit_code(project) -> None:
    text = lines_of(proposal("a", "look"), proposal("b", "ask", text="x"), proposal("c", "forbidden"))
    (project.folder / "batch.jsonl").write_text(text + "\n")
    ran = project.run("call", "--file", "batch.jsonl", "--run", "r", "--json")

    assert ran.code == 3
    assert set(ran.data) == {"schema", "run_id", "outcomes"}
    assert ran.data["schema"] == "outcomes/1"
    assert [o["status"] for o in ran.data["outcomes"]] == ["succeeded", "awaiting_approval", "refused"]


def test_unknown_is_the_worst_of_a_batch(project) -> None:
    text = lines_of(proposal("a", "vague", name="x"), proposal("b", "forbidden"), proposal("c", "rejected"))
    ran = project.run("call", "--file", "-", "--run", "r", "--jsonl", stdin=text)

    assert ran.code == 7
    assert [line["schema"] for line in ran.lines] == ["outcome/1"] * 3
    assert [line["status"] for line in ran.lines] == ["unknown", "refused", "failed"]


@pytest.mark.req("B006", "B008", "B009")
@pytest.mark.parametrize(
    ("bad", "error_type"),
    [
        ('{"call_id": "b", "tool": "put", "tool": "look", "arguments": {"text": "x"}}', "ProtocolRejected"),
        ("garbage", "ProtocolRejected"),
        ("[1]", "ProtocolRejected"),
        (json.dumps(proposal("a", "put", text="twice the id")), "DuplicateToolCallId"),
        (json.dumps({**proposal("b", "put", text="x"), "approved": True}), "ProtocolRejected"),
    ],
)
def test_one_line_that_is_no_proposal_stops_the_whole_batch_before_it_runs(project, bad: str, error_type: str) -> None:
    text = lines_of(proposal("a", "put", text="x")) + bad + "\n" + lines_of(proposal("z", "put", text="z"))
    ran = project.run("call", "--file", "-", "--run", "r", "--jsonl", stdin=text)

    assert ran.code == 8
    assert [line["status"] for line in ran.lines] == ["not_run", "invalid", "not_run"]
    assert not (project.folder / "put.txt").exists()
    started, completed = project.run("audit", "tail", "--json").data["audit"]
    assert (started["kind"], completed["kind"]) == ("started", "completed")
    assert (completed["outcome"], completed["error_type"]) == ("validation", error_type)


def test_the_same_file_under_the_same_run_acts_once(project) -> None:
    text = lines_of(proposal("a", "put", text="1"), proposal("b", "put", text="2"))
    first = project.run("call", "--file", "-", "--run", "r", "--jsonl", stdin=text)
    second = project.run("call", "--file", "-", "--run", "r", "--jsonl", stdin=text)

    assert [line["status"] for line in first.lines] == ["succeeded"] * 2
    assert [line["status"] for line in second.lines] == ["replayed"] * 2
    assert (project.folder / "put.txt").read_text() == "1\n2\n"


def test_stop_on_failure_leaves_the_rest(project) -> None:
    text = lines_of(proposal("a", "rejected"), proposal("b", "put", text="x"))
    ran = project.run("call", "--file", "-", "--run", "r", "--stop-on-failure", "--jsonl", stdin=text)

    assert ran.code == 1
    assert [line["status"] for line in ran.lines] == ["failed", "not_run"]
    assert not (project.folder / "put.txt").exists()


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--tool", "look", "--file", "-"],
        ["--file", "-"],
        ["--file", "-", "--run", "r", "--args", "{}"],
        ["--file", "-", "--run", "r", "--call-id", "c"],
        ["--file", "-", "--run", "r", "--idempotency-key", "k"],
        ["--file", "missing.jsonl", "--run", "r"],
        ["--file", "-", "--run", "r"],
        ["--tool", "look", "--run", ""],
        ["--tool", "look", "--run", "x" * 129],
        ["--tool", "look", "--call-id", "a b"],
        ["--tool", "look", "--idempotency-key", ""],
    ],
)
def test_words_without_a_meaning_end_with_2_and_run_nothing(project, words: list[str]) -> None:
    ran = project.run("call", *words, "--json")

    assert ran.code == 2
    assert ran.data["code"] == "usage"


# ---------------------------------------------------------------- dry runs


@pytest.mark.parametrize(
    ("tool", "code", "decision"),
    [("look", 0, "allow"), ("ask", 5, "ask"), ("forbidden", 3, "deny"), ("nothing", 8, "invalid")],
)
def test_a_dry_run_says_what_policy_would_and_touches_nothing(project, tool: str, code: int, decision: str) -> None:
    for path in project.folder.glob("placet.db*"):
        path.unlink()
    before = sorted(project.folder.iterdir())
    ran = project.call(tool, '{"text": "x"}' if tool == "ask" else "{}", "--dry-run")

    assert ran.code == code
    assert set(ran.data) == {"schema", "call_id", "tool", "decision", "reasons", "policy_version", "needs"}
    assert (ran.data["schema"], ran.data["decision"]) == ("explanation/1", decision)
    assert sorted(project.folder.iterdir()) == before


def test_a_dry_run_of_a_file_needs_no_run_and_ends_with_the_worst(project) -> None:
    text = lines_of(proposal("a", "look"), proposal("b", "put", wrong=1))
    ran = project.run("call", "--file", "-", "--dry-run", "--json", stdin=text)

    assert ran.code == 8
    assert ran.data["schema"] == "explanations/1"
    assert [each["decision"] for each in ran.data["explanations"]] == ["allow", "invalid"]
    assert "/text: missing" in ran.data["explanations"][1]["reasons"]
    assert project.run("audit", "tail", "--json").data["audit"] == []


AUDITED = ("kind", "tool", "outcome", "error_type", "detail", "decision", "reasons", "effect_state", "attempt", "risk")


@pytest.mark.req("C006", "C065")
async def test_the_command_line_and_the_library_decide_the_same(project) -> None:
    """The same definitions and payloads through two front doors: outcomes, decisions and audit are equal."""
    spec = importlib.util.spec_from_file_location("tools_of_project", project.folder / "tools.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    agent = placet.Principal.agent("agent", tenant="acme", roles=("admin",), scopes=("things.write",))
    payloads = [
        proposal("a", "look", word="x"),
        proposal("b", "put", text="x"),
        proposal("c", "forbidden"),
        proposal("d", "ask", text="x"),
        proposal("e", "look", word=7),
        proposal("f", "vague", name="x"),
    ]
    async with placet.open(tools=module.TOOLS, store=placet.MEMORY) as gate:
        by_library = [o.as_data() for o in await gate.submit_all(payloads, principal=agent, run="r")]
        audited = [json.loads(event.body) async for event in gate.store.chained()]
    by_command = project.run("call", "--file", "-", "--run", "r", "--jsonl", stdin=lines_of(*payloads)).lines

    ids = {"schema", "run_id", "call_id", "tool", "operation_key", "approval_id"}
    assert [{k: v for k, v in line.items() if k not in ids} for line in by_command] == [
        {k: v for k, v in data.items() if k not in ids} for data in by_library
    ]
    recorded = project.run("audit", "tail", "-n", "100", "--json").data["audit"]
    assert [[event.get(name) for name in AUDITED] for event in recorded] == [
        [event.get(name) for name in AUDITED] for event in audited
    ]


# ---------------------------------------------------------------- cut off


def test_an_interrupt_ends_with_130_and_leaves_the_effect_unknown(project) -> None:
    child = project.start("call", "--tool", "hang", "--run", "r", "--call-id", "c")
    wait_for(project.folder / "hanging")
    child.send_signal(signal.SIGINT)
    _, told = child.communicate(timeout=60)

    assert child.returncode == 130
    assert b"Traceback" not in told
    assert b"the outcome may be unknown. It was run r, call c\n" in told
    assert b"placet effects reconcile" in told
    assert b"with --run r --call-id c" in told
    effects = project.run("effects", "list", "--json").data["effects"]
    assert [(each["tool"], each["state"]) for each in effects] == [("hang", "unknown")]
    again = project.call("hang", "{}", "--run", "r", "--call-id", "c")
    assert (again.code, again.data["code"]) == (7, "effect_unknown")
    assert project.run("audit", "verify", "--json").data["unpaired"] == 0


def wait_for(path: Path) -> None:
    end = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < end, f"{path} did not come"
        time.sleep(0.01)


def test_a_bad_line_of_a_file_is_named(project) -> None:
    text = lines_of(proposal("a", "put", text="x")) + "\n" + '{"a": 1, "a": 2}\nnothing\n'
    ran = project.run("call", "--file", "-", "--run", "r", "--json", stdin=text)

    assert ran.code == 8
    assert "placet: no sound JSON object on line 3, 4, so nothing of the file runs\n" in ran.err
    assert not (project.folder / "put.txt").exists()
