"""`--server`: a person decides, settles, stops and reads at a real `placet serve`, and sees what the store shows."""

from __future__ import annotations

import json
import re
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.adapters.identity.issuer import LocalIssuer
from tests.cli.conftest import CONFIG, ME, PATIENCE_SECONDS, SCOPES, Project, Ran
from tests.cli.scripted import Scripted, read_request, serving

ALL = [*SCOPES, "audit.read", "ops.stop", "things.write"]
SIGN_IN = """
[sign_in]
per_principal = "100000/minute"
per_tenant = "100000/minute"

[[sign_in.issuers]]
issuer = "{url}"
audience = "placet"
algorithms = ["ES256"]
network = "loopback"
tenant = "acme"
roles = ["admin"]
scopes = {scopes}
standing = "person"
person_if = {{ amr = ["mfa"] }}
"""
FAR = '''

@write("far", timeout_seconds=3_600.0)
async def far() -> str:
    """Act, and say nothing sensible; for an hour it may still be on its way."""
    raise RuntimeError("connection lost after sending")


TOOLS += [far]
'''
PASSING = re.compile(r'"seconds_left": [0-9.]+|\(?\d+ (?:d|h|min|s)\b(?: \d+ (?:h|min|s)\b)?(?: left\))?')


class Bureau:
    """A project that is served, and a folder without one from which the server is asked as the same person."""

    def __init__(self, here: Project, there: Project, url: str, token: str) -> None:
        self.here = here
        self.there = there
        self.token = token
        self.flags = ["--server", url, "--token-file", "token"]

    def at(self, *words: str, **more: str) -> Ran:
        ran = self.there.run(*words, *self.flags, **more)
        assert self.token not in ran.out + ran.err
        return ran

    def same(self, *words: str) -> Ran:
        """What the server shows; the store here shows the very same, but for what time does meanwhile.

        What changes between the two looks shows in the look after that.
        """
        here, there = self._told(self.here.run(*words)), self.at(*words)
        assert self._told(there) in (here, self._told(self.here.run(*words)) if self._told(there) != here else here)
        return there

    def _told(self, ran: Ran) -> tuple[int, str, str]:
        said = " " + " ".join(self.flags)
        return ran.code, PASSING.sub("~", ran.out.replace(said, "")), PASSING.sub("~", ran.err.replace(said, ""))


@pytest.fixture(scope="module")
def bureau(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bureau]:
    outer, issuer = tmp_path_factory.mktemp("bureau"), LocalIssuer()
    issuer.add("k1")
    here = Project(shutil.copytree(template, outer / "project"))
    config = CONFIG.format(me=ME, scopes=json.dumps(ALL)) + 'roles = ["admin"]\n'
    (here.folder / "placet.toml").write_text(config + SIGN_IN.format(url=issuer.url, scopes=json.dumps(ALL)))
    with (here.folder / "tools.py").open("a") as file:
        file.write(FAR)
    there = Project(outer / "elsewhere")
    there.folder.mkdir()
    token = issuer.token(time.time(), sub=ME, amr=["mfa"], exp=int(time.time()) + 3_600)
    (there.folder / "token").touch(mode=0o600)
    (there.folder / "token").write_text(token + "\n")
    process = here.start("serve", "--port", "0", "--interval", "3600")
    assert process.stdout is not None
    yield Bureau(here, there, process.stdout.readline().decode().strip(), token)
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)
    issuer.close()


# ---------------------------------------------------------------- approvals


def test_what_waits_is_shown_as_it_is_here(bureau: Bureau) -> None:
    first = bureau.here.asked(arguments='{"text": "one"}')
    second = bureau.here.asked(arguments='{"text": "two"}')

    assert first in bureau.same("approvals", "list").out
    assert second in bureau.same("approvals", "list", "--state", "all", "--json").out
    assert len(bureau.same("approvals", "list", "--limit", "1", "--jsonl").lines) == 1
    assert '"two"' in bureau.same("approvals", "show", second).out
    assert bureau.same("approvals", "show", second, "--json").data["arguments"]["text"] == "two"


def test_what_a_server_sends_is_shown_as_chips_and_never_obeyed(bureau: Bureau) -> None:
    text = "safe\u202egnp.exe \u200b\x1b[2Jgone"
    asked = bureau.here.asked(arguments=json.dumps({"text": text}), run="run \x1b]0;x\x07")
    shown = bureau.same("approvals", "show", asked)

    assert not set("\x1b\x07\u202e\u200b") & set(shown.out + shown.err)
    assert "\\u{202e}" in shown.out and "\\u{1b}" in shown.out
    assert bureau.at("approvals", "show", asked, "--json").data["arguments"]["text"] == text


def test_the_digest_that_was_shown_is_decided_and_only_then_may_it_run(bureau: Bureau) -> None:
    asked = bureau.here.asked(arguments='{"text": "approve me"}', run="r-approve")
    digest = bureau.at("approvals", "show", asked, "--json").data["digest"]
    unseen = bureau.at("approvals", "approve", asked)
    approved = bureau.at("approvals", "approve", asked, "--digest", digest[:8], "--reason", "fine", "--json")
    after = bureau.here.call("ask", '{"text": "approve me"}', "--run", "r-approve")

    assert (unseen.code, "--digest" in unseen.err) == (2, True)
    assert (approved.code, approved.data["state"], approved.data["words"]) == (0, "approved", "fine")
    assert (approved.data["decided_by"], approved.data["digest"]) == (ME, digest)
    assert after.code == 0
    assert bureau.same("approvals", "show", asked, "--json").data["state"] == "spent"


def test_a_digest_of_something_else_is_a_conflict_that_says_how_it_stands(bureau: Bureau) -> None:
    asked = bureau.here.asked(arguments='{"text": "other digest"}')
    words = ["approvals", "approve", asked, "--digest", "0" * 64]
    refused = bureau.same(*words, "--json")
    told = bureau.same(*words)

    assert (refused.code, refused.data["code"]) == (8, "other_digest")
    assert refused.data["changed"]["state"] == "pending"
    assert refused.data["changed"]["digest"] == bureau.here.digest_of(asked)
    assert "  now: state pending, digest " in told.err
    assert bureau.at("approvals", "show", asked, "--json").data["state"] == "pending"


def test_what_somebody_decided_meanwhile_is_told_with_who_it_was(bureau: Bureau) -> None:
    denied = bureau.here.asked(arguments='{"text": "denied"}', run="r-denied")
    taken = bureau.here.asked(arguments='{"text": "taken back"}')
    first = bureau.at("approvals", "deny", denied, "--reason", "not today", "--json")
    back = bureau.at("approvals", "withdraw", taken, "--json")
    late = bureau.same("approvals", "approve", denied, "--digest", bureau.here.digest_of(denied), "--json")
    again = bureau.same("approvals", "withdraw", taken, "--json")
    no_vote = bureau.same("approvals", "withdraw-vote", taken, "--json")
    refused = bureau.here.call("ask", '{"text": "denied"}', "--run", "r-denied")

    assert (first.data["state"], back.data["state"]) == ("denied", "withdrawn")
    assert (late.code, late.data["code"]) == (6, "not_approved")
    assert (late.data["changed"]["state"], late.data["changed"]["decided_by"]) == ("denied", ME)
    assert again.data["state"] == "withdrawn" if again.code == 0 else again.data["changed"]["state"] == "withdrawn"
    assert no_vote.code == 1
    assert (refused.code, refused.data["reviewer_said"]) == (6, "not today")


def test_an_edit_makes_another_question_there_as_here(bureau: Bureau) -> None:
    asked = bureau.here.asked(arguments='{"text": "edit me", "amount": 100}')
    digest = bureau.here.digest_of(asked)
    words = ["approvals", "edit", asked, "--digest", digest[:8], "--args"]
    broken = bureau.same(*words, '{"text": 7}', "--json")
    edited = bureau.at(*words, '{"text": "edit me", "amount": 1}', "--json")

    assert (broken.code, broken.data["code"]) == (8, "invalid_arguments")
    assert (edited.code, edited.data["arguments"]["amount"], edited.data["edited_from"]) == (0, 1, asked)
    assert bureau.same("approvals", "show", asked, "--json").data["state"] == "withdrawn"


def test_several_that_are_alike_are_decided_there_as_here(bureau: Bureau) -> None:
    asked = [bureau.here.asked(arguments=json.dumps({"text": f"many {n}"})) for n in range(3)]
    digests = [word for each in asked[:2] for word in ("--digest", bureau.here.digest_of(each)[:12])]
    wrong = bureau.at("approvals", "approve", *asked[:2], *digests[:2], "--digest", "0" * 8, "--json")
    right = bureau.at("approvals", "approve", *asked[:2], *digests, "--json")
    denied = bureau.at("approvals", "deny", *asked, "--reason", "no", "--json")
    listed = bureau.at("approvals", "list", "--sort", "risk", "--state", "denied", "--json")

    assert (wrong.code, wrong.data["code"]) == (8, "other_digest")
    assert (right.code, [each["state"] for each in right.data["approvals"]]) == (0, ["approved", "approved"])
    assert [each["approval_id"] for each in denied.data["approvals"]] == asked[2:]
    assert [each["code"] for each in denied.data["refused"]] == ["already_decided"] * 2 and denied.code == 1
    assert asked[2] in [each["approval_id"] for each in listed.data["approvals"]]


@pytest.mark.parametrize("name", ["apr-none", "../../stops", "\udcff"])
def test_what_does_not_exist_is_not_found(bureau: Bureau, name: str) -> None:
    ran = bureau.same("approvals", "show", name, "--json")

    assert (ran.code, ran.data["code"]) == (1, "not_found")


def test_what_waits_is_followed_at_a_server(bureau: Bureau) -> None:
    before = bureau.here.asked(arguments='{"text": "watched before"}')
    process = bureau.there.start("approvals", "watch", "--jsonl", "--interval", "0.1", *bureau.flags)
    assert process.stdout is not None
    seen: list[tuple[str, str]] = []
    while ("new", before) not in seen:
        line = json.loads(process.stdout.readline())
        seen.append((line["change"], line["approval"]["approval_id"]))
    assert bureau.at("approvals", "deny", before, "--reason", "no").code == 0
    while ("denied", before) not in seen:
        line = json.loads(process.stdout.readline())
        seen.append((line["change"], line["approval"]["approval_id"]))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 130


# ---------------------------------------------------------------- effects


def test_effects_are_shown_and_settled_there_as_here(bureau: Bureau) -> None:
    key, other = (bureau.here.call("vague", json.dumps({"name": each})).data["operation_key"] for each in "xy")
    for form in ((), ("--jsonl",)):
        bureau.same("effects", "list", *form)
    unknown = bureau.at("effects", "list", "--state", "unknown", "--json").data["effects"]
    assert {key, other} <= {each["operation_key"] for each in unknown}
    for form in ((), ("--json",)):
        bureau.same("effects", "show", key, *form)
    probed = bureau.at("effects", "reconcile", key, "--json")
    far = bureau.here.call("far").data["operation_key"]
    early = bureau.same("effects", "reconcile", far, "--absent", "--looked-at", "now", "--reason", "seen_in_desk")
    settled = bureau.at("effects", "reconcile", key, "--committed", "--looked-at", "now", "--reason", "seen", "--json")
    (bureau.here.folder / "probe.txt").write_text("found")
    found = bureau.at("effects", "reconcile", other, "--json")
    (bureau.here.folder / "probe.txt").unlink()

    assert (probed.code, probed.data["state"], probed.data["probes"]) == (7, "unknown", 1)
    assert (early.code, "too_early_for_absent" in early.err) == (7, True)
    assert "  now: state unknown, quiet end " in early.err
    assert (settled.code, settled.data["state"], settled.data["reason"]) == (0, "reconciled_committed", "seen")
    assert (found.code, found.data["state"]) == (0, "reconciled_committed")
    assert bureau.same("effects", "show", "no such key", "--json").data["code"] == "not_found"


def test_what_only_the_store_here_can_do_is_refused_with_a_hint(bureau: Bureau) -> None:
    for words in (
        ["effects", "reconcile"],
        ["effects", "list", "--unknown"],
        ["effects", "list", "--broken"],
        ["audit", "tail", "--operation", "k"],
        ["audit", "verify", "--print-anchor"],
        ["audit", "verify", "--export", "x"],
        ["audit", "export", "--tenant", "acme", "--out", "x"],
    ):
        ran = bureau.at(*words)
        assert (ran.code, "not of a server" in ran.err, "  next: " in ran.err) == (2, True, True), words


@pytest.mark.parametrize("flag", ["--store", "--key", "--policy", "--config"])
def test_a_store_and_a_server_are_not_asked_at_once(bureau: Bureau, flag: str) -> None:
    commands = [
        *(["approvals", verb, "x"] for verb in ("show", "withdraw", "withdraw-vote")),
        ["approvals", "approve", "x", "--digest", "0" * 8],
        ["approvals", "deny", "x", "--reason", "no"],
        ["approvals", "list"],
        ["effects", "list"],
        ["effects", "show", "x"],
        ["audit", "tail"],
        ["stop", "--list"],
        ["resume", "tenant"],
        ["grants", "list"],
        ["tools", "list"],
        ["call", "--tool", "look"],
    ]
    for words in commands:
        ran = bureau.at(*words, flag, "somewhere", "--json")
        assert (ran.code, ran.data["code"], flag in ran.data["message"]) == (2, "usage", True), words
        assert "--server" in ran.data["hint"]


# ---------------------------------------------------------------- grants


def test_grants_are_asked_about_there_as_here(bureau: Bureau) -> None:
    asked = bureau.here.asked(arguments='{"text": "granted?"}')

    assert bureau.same("grants", "list", "--all", "--json").data["grants"] == []
    assert bureau.same("grants", "show", "grant-none", "--json").data["code"] == "not_found"
    assert bureau.same("grants", "revoke", "../x", "--json").data["code"] == "not_found"
    draft = bureau.same("grants", "give", "--like", asked, "--draft", "--json")
    assert (draft.code == 0) == ("digest" in draft.data)


# ---------------------------------------------------------------- runs


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "json"])
def test_runs_are_listed_and_shown_there_as_here(bureau: Bureau, form: tuple[str, ...]) -> None:
    names = ["r-plain", "r/../\x1b]0;x\x07 ü"]
    for name in names:
        bureau.here.asked(arguments=json.dumps({"text": name}), run=name)
        bureau.here.call("look", '{"word": "a"}', "--run", name)

    assert "r-plain" in bureau.same("runs", "list", *form).out
    assert bureau.same("runs", "list", "--left-open", "waiting", "--limit", "1", *form).code == 0
    assert bureau.same("runs", "list", "--mine", *form).code == 0
    for name in names:
        shown = bureau.same("runs", "show", name, *form)
        assert shown.code == 0
        assert not set("\x1b\x07") & set(shown.out + shown.err)
    assert bureau.same("runs", "show", "r-none", *form).code == 1


# ---------------------------------------------------------------- stops


def test_a_stop_is_given_seen_and_lifted_there_as_here(bureau: Bureau) -> None:
    stopped = bureau.at("stop", "tool:put", "--reason", "on fire")
    again = bureau.at("stop", "tool:put", "--reason", "still")
    for form in ((), ("--jsonl",)):
        assert "on fire" in bureau.same("stop", "--list", *form).out
    call = bureau.here.call("put", '{"text": "x"}')
    lifted = bureau.at("resume", "tool:put")
    gone = bureau.same("resume", "tool:put", "--json")

    assert (stopped.code, stopped.out) == (0, "stopped  tool:put\nstill running  0\n")
    assert "placet resume tool:put --server" in stopped.err
    assert (again.code, "stopped already" in again.err) == (0, True)
    assert call.data["code"] == "stopped"
    assert (lifted.code, lifted.out) == (0, "resumed  tool:put\n")
    assert (gone.code, gone.data["code"]) == (1, "not_found")


def test_what_cannot_be_stopped_ends_as_it_does_here(bureau: Bureau) -> None:
    mistyped = bureau.at("stop", "tool:putt", "--json")
    meant = bureau.at("stop", "tool:putt", "--unknown-tool", "--json")
    too_much = bureau.same("stop", "all", "--json")
    nothing = bureau.same("stop", "everything", "--json")

    assert (mistyped.code, "Did you mean 'put'?" in mistyped.data["message"]) == (2, True)
    assert (meant.code, meant.data["scope"]["name"]) == (0, "putt")
    assert bureau.at("resume", "tool:putt").code == 0
    assert (too_much.code, too_much.data["code"]) == (4, "scope_missing")
    assert (nothing.code, nothing.data["code"]) == (2, "usage")


# ---------------------------------------------------------------- audit


def test_the_audit_is_read_verified_and_exported_there(bureau: Bureau) -> None:
    bureau.here.call("put", '{"text": "for the record"}')
    for form in ((), ("--jsonl",)):
        bureau.same("audit", "tail", "-n", "7", *form)
    verified = bureau.at("audit", "verify", "--json")
    exported = bureau.at("audit", "export", "--out", "export.jsonl", "--json")
    piped = bureau.at("audit", "export")
    file = bureau.there.folder / "export.jsonl"
    checked = bureau.here.run("audit", "verify", "--export", str(file), "--json")

    assert (verified.code, verified.data) == (0, {"schema": "audit-word/1", "holds": True, "problems": []})
    assert (exported.code, exported.data["tenant"]) == (0, "acme")
    assert (checked.code, checked.data["holds"], checked.data["events"]) == (0, True, exported.data["events"])
    assert file.stat().st_mode & 0o777 == 0o600
    assert piped.out.startswith('{"') and '"record":"end"' in piped.out.splitlines()[-1]
    assert bureau.at("audit", "export", "--out", "export.jsonl", "--json").data["code"] == "exists"


# ---------------------------------------------------------------- the shell


def test_the_shell_offers_the_flags_and_no_ids_of_the_store_here_for_a_server(bureau: Bureau) -> None:
    asked = bureau.here.asked(arguments='{"text": "completed"}')

    def offered(*words: str) -> str:
        return bureau.here.run("completion", "words", "--", *words).out

    assert asked in offered("approvals", "show", "")
    assert asked in offered("approvals", "edit", "")
    assert asked not in offered("approvals", "show", "--server", "http://127.0.0.1:1", "")
    assert "--token-file" in offered("approvals", "approve", "--")


# ---------------------------------------------------------------- an answer that is lost


class Losing(Scripted):
    """In front of a server: it passes everything on, and loses the answers to decisions."""

    def __init__(self, url: str) -> None:
        super().__init__()
        host, port = url.removeprefix("http://").split(":")
        self._server = (host, int(port))

    def handle(self, connection: socket.socket) -> None:
        request = read_request(connection)
        with socket.create_connection(self._server, timeout=PATIENCE_SECONDS) as inner:
            inner.sendall(request.replace(b"Connection: keep-alive", b"Connection: close"))
            answer = b""
            while piece := inner.recv(65_536):
                answer += piece
        if b"/decision" not in request.split(b"\r\n")[0]:
            connection.sendall(answer)


def test_a_decision_whose_answer_was_lost_says_so_and_how_to_look(bureau: Bureau) -> None:
    asked = bureau.here.asked(arguments='{"text": "lost"}')
    digest = bureau.here.digest_of(asked)
    with serving(Losing(bureau.flags[1])) as losing:
        words = ["approvals", "approve", asked, "--digest", digest, "--server", losing.url, "--token-file", "token"]
        lost = bureau.there.run(*words, "--json")
        told = bureau.there.run(*words)
    look = f"placet approvals show {asked} --server {losing.url} --token-file token"

    assert (lost.code, lost.data["code"], lost.data["may_have_acted"]) == (7, "answer_lost", True)
    assert lost.data["hint"] == f"Whether it was done is not known. Look before you repeat it: {look}"
    assert "may have been served" in told.err
    assert bureau.at("approvals", "show", asked, "--json").data["state"] == "approved"
