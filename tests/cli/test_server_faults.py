"""What a server may do to whoever asks it: each fault has a code and a next step, and says whether it may be done."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.conftest import PATIENCE_SECONDS, Project
from tests.cli.scripted import Scripted, serving

TOKEN = "placet_secret-of-mine"
MANIFEST = b'{"events":0,"record":"manifest","tenant":"acme"}\n'


@pytest.fixture
def scripted() -> Iterator[Scripted]:
    with serving(Scripted()) as found:
        yield found


@pytest.fixture
def elsewhere(bare: Project) -> Project:
    (bare.folder / "token").touch(mode=0o600)
    (bare.folder / "token").write_text(TOKEN)
    return bare


@pytest.mark.parametrize(
    ("status", "body", "length", "look", "change"),
    [
        ("200 OK", b'{"approval_id"', 999, (1, "answer_lost"), (7, "answer_lost")),
        ("200 OK", b"<html>", None, (1, "answer_unreadable"), (7, "answer_unreadable")),
        ("200 OK", b'{"approval_id": "apr-1"}', None, (1, "answer_unreadable"), (7, "answer_unreadable")),
        ("302 Found", b"", None, (1, "server_redirects"), (1, "server_redirects")),
        ("502 Bad Gateway", b"<html>", None, (1, "server_refused"), (7, "server_refused")),
        ("404 Not Found", b"<html>", None, (1, "server_refused"), (1, "server_refused")),
    ],
    ids=["half", "html", "other-version", "redirect", "gateway", "other-server"],
)
def test_a_fault_says_whether_anything_may_have_been_done(
    scripted: Scripted,
    elsewhere: Project,
    status: str,
    body: bytes,
    length: int | None,
    look: tuple[int, str],
    change: tuple[int, str],
) -> None:
    scripted.answers(status, body, "Location: http://127.0.0.1:1/", length=length)
    at = ["--server", scripted.url, "--token-file", "token"]
    looked = elsewhere.run("approvals", "show", "apr-1", "--json", *at)
    changed = elsewhere.run("approvals", "withdraw", "apr-1", "--json", *at)
    told = elsewhere.run("approvals", "withdraw", "apr-1", *at)
    settled = elsewhere.run("effects", "reconcile", "k", "--json", *at)
    resumed = elsewhere.run("resume", "tenant", "--json", *at)

    assert (looked.code, looked.data["code"], looked.data["may_have_acted"]) == (*look, False)
    assert (changed.code, changed.data["code"], changed.data["may_have_acted"]) == (*change, change[0] == 7)
    assert (settled.code, settled.data["code"]) == change
    assert (resumed.code, resumed.data["code"]) == look, "it asks who it is first"
    assert all(ran.data["hint"] for ran in (looked, changed, settled, resumed))
    if change[0] == 7:
        assert (
            f"Look before you repeat it: placet approvals show apr-1 --server {scripted.url} --token-file" in told.err
        )
        assert "placet effects show k --server" in settled.data["hint"]
    assert not any(TOKEN in ran.out + ran.err for ran in (looked, changed, told, settled, resumed))
    assert b"Bearer " + TOKEN.encode() in scripted.asked[0]


def test_a_server_that_is_not_there_or_shows_nothing_for_itself_was_sent_nothing(
    scripted: Scripted, elsewhere: Project
) -> None:
    scripted.answers("400 Bad Request", b"")
    for url, code in (
        ("http://127.0.0.1:1", "server_unreachable"),
        ("http://[::1]:1", "server_unreachable"),
        (scripted.url.replace("http:", "https:"), "server_not_trusted"),
        ("http://placet.test", "server_insecure"),
        ("https://user:secret@placet.test", "server_address_invalid"),
    ):
        ran = elsewhere.run("approvals", "withdraw", "apr-1", "--json", "--server", url, "--token-file", "token")
        assert (ran.data["code"], ran.data["may_have_acted"], bool(ran.data["hint"])) == (code, False, True)
        assert "secret" not in ran.out + ran.err
    assert not any(request.startswith(b"POST") for request in scripted.asked)


def test_a_problem_with_escapes_in_it_moves_no_cursor(scripted: Scripted, elsewhere: Project) -> None:
    problem = {
        "code": "odd\x1b[2J",
        "detail": "No\x1b]0;x\x07.",
        "hint": "Run \u202e this",
        "changed": {"state": "\x1b[1m"},
    }
    scripted.answers("409 Conflict", json.dumps(problem).encode())
    ran = elsewhere.run("approvals", "withdraw", "apr-1", "--server", scripted.url, "--token-file", "token")

    assert ran.code == 1
    assert "\\u{1b}" in ran.err and "  now: state " in ran.err
    assert not set("\x1b\x07\u202e") & set(ran.err)


def test_whoever_cuts_a_decision_off_is_told_that_it_may_be_taken(scripted: Scripted, elsewhere: Project) -> None:
    scripted.says = None
    process = elsewhere.start("approvals", "withdraw", "apr-1", "--server", scripted.url, "--token-file", "token")
    assert scripted.is_asked.wait(PATIENCE_SECONDS)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130
    assert b"whether it was done is not known" in err
    assert f"look: placet approvals show apr-1 --server {scripted.url}".encode() in err


def test_watching_goes_on_when_the_server_does(scripted: Scripted, elsewhere: Project) -> None:
    busy = {"code": "store_unavailable", "detail": "Not now.", "retryable": True}
    scripted.answers("503 Busy", json.dumps(busy).encode())
    at = ["--interval", "0.1", "--server", scripted.url, "--token-file", "token"]
    process = elsewhere.start("approvals", "watch", "--jsonl", *at)
    assert process.stderr is not None
    trouble = process.stderr.readline()
    scripted.answers("404 Not Found", b"<html>")
    out, _ = process.communicate(timeout=PATIENCE_SECONDS)

    assert trouble == b"placet: the server does not answer; looking again\n"
    assert (process.returncode, b"server_refused" in out) == (1, True), "what does not mend itself ends it"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "answer_lost"),
        (b"<html>\n", "answer_lost"),
        (MANIFEST + b'{"record":"event"}\n', "answer_lost"),
        (MANIFEST + b'{"record":"end"}', "answer_lost"),
        (b'{"record":"manifest"}\n{"record":"end"}\n', "answer_unreadable"),
    ],
    ids=["empty", "html", "no-end", "half-an-end", "no-manifest"],
)
def test_what_is_no_whole_export_is_not_written(scripted: Scripted, elsewhere: Project, body: bytes, code: str) -> None:
    scripted.answers("200 OK", body)
    at = ["--server", scripted.url, "--token-file", "token"]
    ran = elsewhere.run("audit", "export", "--out", "x.jsonl", "--json", *at)
    piped = elsewhere.run("audit", "export", *at)

    assert (ran.code, ran.data["code"], ran.data["may_have_acted"]) == (1, code, False)
    assert sorted(each.name for each in elsewhere.folder.iterdir()) == ["token"]
    assert (piped.code, piped.out) == (1, "")


AT = "2026-11-30T14:00:00Z"
AFTER_THE_LAST = "9999-12-31T23:59:59-23:59"
RUN = {
    **dict.fromkeys(("run_id", "tenant", "policy_version"), "x"),
    **{name: [] for name in ("requested_by", "left_open", "closed_tools", "waiting", "stopped_by", "budgets")},
    **dict.fromkeys(("steps", "max_steps", "waiting_count"), 1),
    **dict.fromkeys(("stepped_at", "is_policy_todays", "effects", "calls", "deadline", "allowed_tools")),
    **dict.fromkeys(("rests", "changed_by", "reason")),
    "status": "open",
    "opened_at": AT,
    "has_more_calls": False,
}
TOOL = {"name": "t", "version": "1", "effect_class": "read", "risk": "low"}
EFFECT = {
    "state": "committed",
    **dict.fromkeys(("operation_key", "tenant", "tool", "tool_version", "subject", "run_id", "call_id"), "x"),
    **dict.fromkeys(("decision", "policy_version"), "x"),
    **dict.fromkeys(("reason", "on_behalf_of", "approval_id", "external_reference", "probe_after", "quiet_end")),
    **dict.fromkeys(("fence", "attempts", "probes"), 1),
    **dict.fromkeys(("created_at", "updated_at", "lease_until", "send_by"), AT),
}
WHO = {
    **dict.fromkeys(("subject", "tenant", "environment"), "x"),
    "standing": "person",
    "roles": [],
    "scopes": [],
    "on_behalf_of": [],
    "stops": [],
}


@pytest.mark.parametrize(
    ("words", "sound", "odd", "code"),
    [
        (("runs", "show", "x"), RUN, {"stopped_by": ["nobody"]}, 1),
        (("runs", "show", "x", "--local"), RUN, {"opened_at": "9999-12-31T23:59:59Z"}, 1),
        (("tools", "list"), {"tools": [TOOL]}, {"tools": [{"name": "t"}]}, 1),
        (("effects", "reconcile", "x"), EFFECT, {"updated_at": AFTER_THE_LAST}, 7),
        (("effects", "list"), {"effects": []}, {"next": "x"}, 1),
        (("stop", "--list"), WHO, {"tenant": ""}, 1),
    ],
    ids=["stopped-by-another", "last-instant", "no-version", "after-the-last-instant", "no-end", "nobody"],
)
def test_an_odd_answer_is_told_as_one_and_nothing_fails_unexpectedly(
    scripted: Scripted,
    elsewhere: Project,
    words: tuple[str, ...],
    sound: dict[str, Any],
    odd: dict[str, Any],
    code: int,
) -> None:
    at = ["--server", scripted.url, "--token-file", "token"]
    elsewhere.environment["TZ"] = "Asia/Tokyo"
    scripted.answers("200 OK", json.dumps(sound).encode())
    assert elsewhere.run(*words, *at).code == 0
    scripted.answers("200 OK", json.dumps({**sound, **odd}).encode())
    ran = elsewhere.run(*words, *at)

    assert (ran.code, "code: answer_unreadable" in ran.err, ran.out) == (code, True, "")
