"""`placet agent`: a model behind an endpoint of ours, a project, and a person."""

from __future__ import annotations

import json
import re

import pytest

from placet.agent import calls, text
from tests.agent.endpoint import endpoint

KEY = {"OPENAI_API_KEY": "k"}


def test_a_task_is_worked_at_with_the_projects_tools(project) -> None:
    with endpoint([calls(("put", {"text": "hello"}), ("forbidden", {})), text("Put it. \x1b[31mRed")]) as there:
        ran = project.run("agent", "Put hello.", "--model", "m", "--base-url", there.url, **KEY)

    assert (ran.code, ran.out) == (0, "Put it. \\u{1b}[31mRed\n")
    assert f"model m at {there.url.split('/')[2]}\n" in ran.err
    assert re.search(r"^succeeded  put  [0-9a-f]{24}\.0  succeeded$", ran.err, re.MULTILINE)
    assert re.search(
        r"^refused  forbidden  [0-9a-f]{24}\.0  denied\n"
        r"  reasons: scope_missing\n"
        r'  next: "things.never" among the scopes of \[agent\] in placet.toml, if it may$',
        ran.err,
        re.MULTILINE,
    )
    assert (project.folder / "put.txt").read_text() == "hello\n"
    names = {tool["function"]["name"] for tool in there.asked[0][1]["tools"]}
    assert {"put", "look", "ask"} <= names


def test_it_ends_while_a_person_is_asked_and_is_gone_on_with_afterwards(project) -> None:
    wish = calls(("ask", {"text": "x"}))
    with endpoint([wish, wish, wish, text("Done.")]) as there:
        words = ("agent", "Ask.", "--model", "m", "--base-url", there.url, "--run", "r1", "--wait", "0")
        first = project.run(*words, "--json", **KEY)
        approval_id = first.data["waiting"][0]
        assert (first.code, first.data["ended"]) == (5, "waiting")
        assert "next: the same command, with --run r1, once it is answered\n" in project.run(*words, **KEY).err
        digest = project.run("approvals", "show", approval_id, "--json").data["digest"]
        assert project.run("approvals", "approve", approval_id, "--digest", digest).code == 0
        again = project.run(*words, **KEY)

    assert (again.code, again.out) == (0, "Done.\n")
    assert (project.folder / "asked.txt").read_text() == "ran\n"


def test_it_says_that_it_waits_for_a_person_and_how_long(project) -> None:
    with endpoint([calls(("ask", {"text": "x"}))]) as there:
        ran = project.run("agent", "Ask.", "--model", "m", "--base-url", there.url, "--wait", "0.05", **KEY)

    assert ran.code == 5
    assert "  waiting for the answer, up to 0.05 seconds; --wait 0 does not wait\n" in ran.err


@pytest.mark.case("J03")
@pytest.mark.parametrize(("more", "refused"), [((), 1), (("--polls", "look"), 0)], ids=["repeated", "polled"])
def test_the_same_over_and_over_is_refused_unless_it_is_there_to_be_polled(
    project, more: tuple[str, ...], refused: int
) -> None:
    with endpoint([calls(*[("look", {})] * 5), text("Enough.")]) as there:
        ran = project.run("agent", "Look.", "--model", "m", "--base-url", there.url, *more, **KEY)

    assert ran.code == 0
    assert len(re.findall(r"^refused  look  .*  repeated$", ran.err, re.MULTILINE)) == refused


def test_a_credential_goes_nowhere_over_plain_http(project) -> None:
    ran = project.run("agent", "Look.", "--model", "m", "--base-url", "http://models.example/v1", "--json", **KEY)

    assert (ran.code, ran.data["code"]) == (2, "model_key_exposed")


@pytest.mark.parametrize(
    ("script", "code", "word"),
    [
        ([(401, {"error": {"message": "hunter2"}})], 1, "model_refused"),
        ([{"choices": []}], 1, "model_answer_malformed"),
    ],
)
def test_an_endpoint_without_an_answer_is_told(project, script, code: int, word: str) -> None:
    with endpoint(script) as there:
        ran = project.run("agent", "Hello.", "--model", "m", "--base-url", there.url, "--json", **KEY)

    assert (ran.code, ran.data["code"]) == (code, word)
    assert "hunter2" not in ran.out + ran.err


@pytest.mark.parametrize("words", [("--turns", "0"), ("--wait", "-1"), ("--timeout", "nan"), ("--instructions", "no")])
def test_wrong_usage_is_told_before_anything_is_asked(project, words: tuple[str, str]) -> None:
    with endpoint([text("hi")]) as there:
        ran = project.run("agent", "Hello.", "--model", "m", "--base-url", there.url, *words, **KEY)

    assert (ran.code, there.asked) == (2, [])


@pytest.mark.parametrize(("task", "stdin"), [("", ""), (" \n", ""), ("-", ""), ("-", "\n")])
def test_a_task_without_a_word_is_no_task(project, task: str, stdin: str) -> None:
    with endpoint([text("hi")]) as there:
        ran = project.run("agent", task, "--model", "m", "--base-url", there.url, "--json", **KEY, stdin=stdin)

    assert (ran.code, ran.data["code"], there.asked) == (2, "usage", [])


def test_the_task_and_the_instructions_may_come_from_files(project) -> None:
    (project.folder / "told.txt").write_text("Be brief.")
    with endpoint([text("hi")]) as there:
        words = ("agent", "-", "--model", "m", "--base-url", there.url, "--instructions", "told.txt", "--json")
        ran = project.run(*words, **KEY, stdin="Say hi.")

    assert (ran.code, ran.data["words"], ran.data["turns"]) == (0, "hi", 1)
    contents = [message["content"] for message in there.asked[0][1]["messages"]]
    assert contents == ["Be brief.", "Say hi."]
    assert json.dumps(ran.data)
