"""What happens is announced by `placet worker`, whatever the receiver does; `placet notifications` looks after it."""

from __future__ import annotations

import base64
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from standardwebhooks import Webhook

from tests.adapters.notify import receiver as receiver_module
from tests.cli.conftest import ME, PATIENCE_SECONDS, Project

pytestmark = pytest.mark.case("F07")

OWN = f"whsk_{base64.b64encode(b'o' * 32).decode()}"
SECRET = f"whsec_{base64.b64encode(b'k' * 32).decode()}"
NOTIFY = """
[[notify]]
name = "on-call"
kind = "webhook"
url = "http://127.0.0.1:{port}/hook"
secrets = ["env:HOOK_SECRET"]
network = "loopback"
events = ["approval", "effect"]
tenants = ["acme"]
"""


class Held:
    """A port that nobody listens on, and nobody else gets."""

    def __init__(self) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]

    def close(self) -> None:
        self._socket.close()


class Receiver:
    """A receiver in a process of its own, that can be down."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = Held()
        self._process: subprocess.Popen[bytes] | None = None
        self.port = self._held.port

    def start(self, *answers: Any) -> None:
        (self._folder / "answers.json").write_text(json.dumps(answers or [[200, {}]]))
        program = [sys.executable, receiver_module.__file__, str(self.port), str(self._folder)]
        self._process = subprocess.Popen(program, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.readline().strip() == str(self.port).encode()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate(timeout=PATIENCE_SECONDS)
            self._process = None

    def close(self) -> None:
        self.kill()
        self._held.close()

    @property
    def came(self) -> list[dict[str, Any]]:
        file = self._folder / "came.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def kinds(self) -> list[str]:
        return sorted(json.loads(each["body"])["type"] for each in self.came)

    def until(self, is_enough: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE_SECONDS
        while not is_enough():
            assert time.monotonic() < end, self.kinds()
            time.sleep(0.02)


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[Receiver]:
    folder = tmp_path / "receiver"
    folder.mkdir()
    found = Receiver(folder)
    yield found
    found.close()


@pytest.fixture
def told(project: Project, receiver: Receiver) -> Project:
    """A project that announces to the receiver, and has begun to."""
    project.rewrite(
        'tools = "tools:TOOLS"\n', 'tools = "tools:TOOLS"\nconsole_url = "https://ops.example.com/console"\n'
    )
    with (project.folder / "placet.toml").open("a") as file:
        file.write(NOTIFY.format(port=receiver.port))
    project.environment["HOOK_SECRET"] = SECRET
    assert a_round(project) == (0, 0, 0)
    return project


def a_round(project: Project) -> tuple[int, int, int]:
    ran = project.run("worker", "--once", "--json")
    assert ran.code == 0, ran
    return ran.data["delivered"], ran.data["postponed"], ran.data["given_up"]


def by_hand(project: Project, statement: str) -> list[Any]:
    connection = apsw.Connection(str(project.folder / "placet.db"))
    connection.set_busy_timeout(PATIENCE_SECONDS * 1_000)
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def later(project: Project) -> None:
    """As if the next attempt were due."""
    by_hand(project, "UPDATE deliveries SET due_at = 0 WHERE state = 'pending'")


def destination(project: Project) -> dict[str, Any]:
    (found,) = project.run("notifications", "list", "--json").data["destinations"]
    return dict(found)


# ---------------------------------------------------------------- sending


def test_while_the_receiver_is_down_people_decide_and_hear_of_it_when_it_is_back(
    told: Project, receiver: Receiver
) -> None:
    approval_id = told.asked()
    assert a_round(told) == (0, 1, 0)
    assert told.approved(approval_id).code == 0, "no decision waits for a message"
    assert told.call("ask", '{"text": "hello"}', "--run", "r1").code == 0
    assert (destination(told)["state"], destination(told)["pending"]) == ("open", 1)
    assert a_round(told)[0] == 0

    receiver.start([500, {}], [503, {"retry-after": "0"}], [200, {}])
    later(told)
    delivered = sum(a_round(told)[0] for _ in range(2) if later(told) is None)

    assert delivered == 3
    arrived = receiver.came[2:]
    assert sorted(json.loads(each["body"])["type"] for each in arrived) == [
        "approval.approved", "approval.asked", "approval.spent",
    ]  # fmt: skip
    by_id = {each["headers"]["webhook-id"]: each["body"] for each in receiver.came}
    assert len(by_id) == 3, "the same message has the same id each time"
    assert all(by_id[each["headers"]["webhook-id"]] == each["body"] for each in receiver.came)
    for each in receiver.came:
        Webhook(SECRET).verify(each["body"], each["headers"])
    assert a_round(told) == (0, 0, 0)
    assert destination(told)["pending"] == 0


def test_a_worker_that_runs_announces_what_comes_and_ends_when_it_is_told_to(told: Project, receiver: Receiver) -> None:
    receiver.start()
    process = told.start("worker", "--interval", "0.05")
    approval_id = told.asked()
    receiver.until(lambda: receiver.kinds() == ["approval.asked"])
    assert told.call("vague", '{"name": "x"}').code == 7
    receiver.until(lambda: receiver.kinds() == ["approval.asked", "effect.unknown"])

    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)

    assert (process.returncode, out) == (0, b"")
    assert [line["delivered"] for line in map(json.loads, err.splitlines()) if line["message"] == "announced"] == [1, 1]
    body = json.loads(receiver.came[0]["body"])
    assert body["data"]["url"] == f"https://ops.example.com/console/approvals/{approval_id}"


@pytest.mark.parametrize("answer", [[302, {"location": "http://127.0.0.1:1/"}], "hang"], ids=["redirect", "hang"])
def test_a_receiver_that_sends_away_or_hangs_holds_up_no_recovery(
    told: Project, receiver: Receiver, answer: Any
) -> None:
    receiver.start(answer)
    told.asked()
    (told.folder / "probe.txt").write_text("found")
    assert told.call("vague", '{"name": "x"}').code == 7
    process = told.start("worker", "--interval", "0.05")

    end = time.monotonic() + PATIENCE_SECONDS
    while not told.run("effects", "list", "--state", "reconciled_committed", "--json").data["effects"]:
        assert time.monotonic() < end
    receiver.until(lambda: bool(receiver.came))
    process.kill()
    process.communicate(timeout=PATIENCE_SECONDS)

    assert {each["path"] for each in receiver.came} == {"/hook"}


def test_a_receiver_that_is_gone_is_closed_until_somebody_opens_it(told: Project, receiver: Receiver) -> None:
    receiver.start([410, {}])
    told.asked()
    ran = told.run("worker", "--once", "--json")
    assert "a destination says that it is gone" in ran.err
    assert destination(told)["state"] == "closed"
    told.asked(arguments='{"text": "other"}')
    later(told)
    assert a_round(told) == (0, 0, 0)
    assert len(receiver.came) == 1

    receiver.kill()
    receiver.start()
    opened = told.run("notifications", "retry", "on-call", "--json")
    assert (opened.code, opened.data["count"]) == (0, 0)
    assert a_round(told) == (2, 0, 0)
    assert of_destinations(told) == [
        ("destination_closed", "status_410", None),
        ("destination_opened", None, ME),
    ]


def of_destinations(project: Project) -> list[tuple[str, str | None, str | None]]:
    """What the audit says of destinations, the oldest first."""
    bodies = [
        json.loads(body) for (body,) in by_hand(project, "SELECT body FROM audit_events ORDER BY writer, sequence")
    ]
    found = [body for body in bodies if body["kind"].startswith(("destination_", "delivery_"))]
    found.sort(key=lambda body: str(body["at"]))
    assert all(body["reasons"] == ["destination:on-call"] for body in found)
    return [(body["kind"], body.get("detail"), body.get("decided_by")) for body in found]


def test_a_destination_is_closed_by_hand(told: Project) -> None:
    closed = told.run("notifications", "close", "on-call", "--json")

    assert (closed.code, closed.data) == (
        0,
        {"schema": "destination-closed/1", "destination": "on-call", "is_new": True},
    )
    assert told.run("notifications", "close", "on-call").out == "closed already  on-call\n"
    assert of_destinations(told) == [("destination_closed", "by_hand", ME)]


def test_the_public_key_of_a_destination_is_shown_and_its_secret_is_not(told: Project) -> None:
    told.environment["HOOK_OWN"] = OWN
    told.rewrite('secrets = ["env:HOOK_SECRET"]', 'secrets = ["env:HOOK_OWN", "env:HOOK_SECRET"]')
    public = Ed25519PrivateKey.from_private_bytes(b"o" * 32).public_key().public_bytes_raw()

    ran = told.run("notifications", "keys", "on-call", "--json")

    expected = {"secret": "env:HOOK_OWN", "public_key": f"whpk_{base64.b64encode(public).decode()}"}
    assert (ran.code, ran.data["keys"]) == (0, [expected])
    assert OWN.removeprefix("whsk_") not in ran.out
    told.environment["HOOK_OWN"] = "whsk_short"
    failed = told.run("notifications", "keys", "on-call", "--json")
    assert (failed.code, failed.data["code"]) == (2, "secret_malformed")


def test_what_was_given_up_is_listed_and_sent_again(told: Project, receiver: Receiver) -> None:
    told.asked()
    told.asked(arguments='{"text": "other"}')
    a_round(told)
    by_hand(told, "UPDATE deliveries SET attempts = 15")
    later(told)
    assert a_round(told) == (0, 0, 2)

    dead = told.run("notifications", "dead", "--json").data["deliveries"]
    assert {(each["destination"], each["kind"], each["attempts"], each["code"]) for each in dead} == {
        ("on-call", "approval.asked", 16, "unreachable")
    }
    assert destination(told)["dead"] == 2
    receiver.start()
    one = told.run("notifications", "retry", "on-call", "--delivery", dead[0]["delivery"])
    assert (one.code, one.out) == (0, "1 will be sent again to on-call\n")
    assert a_round(told) == (1, 0, 0)
    assert told.run("notifications", "retry", "on-call").out == "1 will be sent again to on-call\n"
    assert a_round(told) == (1, 0, 0)
    assert told.run("notifications", "dead").err.strip() == "Nothing was given up."
    assert of_destinations(told) == [("delivery_given_up", "unreachable", None)] * 2


def test_a_destination_is_tried_with_a_message_that_says_so(told: Project, receiver: Receiver) -> None:
    failed = told.run("notifications", "test", "on-call")
    assert (failed.code, failed.out) == (1, "not delivered  on-call  unreachable\n")
    receiver.start()

    ran = told.run("notifications", "test", "on-call", "--json")

    assert (ran.code, ran.data) == (
        0,
        {
            "schema": "notification-test/1",
            "destination": "on-call",
            "kind": "webhook",
            "is_delivered": True,
            "code": "status_200",
        },
    )
    (came,) = receiver.came
    assert json.loads(came["body"])["type"] == "test"
    Webhook(SECRET).verify(came["body"], came["headers"])


def test_a_destination_that_nobody_named_is_not_known(told: Project) -> None:
    for verb in ("test", "retry", "close", "keys"):
        ran = told.run("notifications", verb, "nobody", "--json")
        assert (ran.code, ran.data["code"]) == (2, "no_such_destination")
    assert told.run("notifications", "retry", "on-call", "--delivery", "x").code == 2


def test_before_its_first_round_a_destination_has_not_begun(project: Project, receiver: Receiver) -> None:
    assert project.run("notifications", "list").err.strip() == "placet.toml names no destination: [[notify]]."
    with (project.folder / "placet.toml").open("a") as file:
        file.write(NOTIFY.format(port=receiver.port))
    found = destination(project)
    assert (found["state"], found["begun_at"], found["events"]) == (
        "not_begun",
        None,
        ["approval.approved", "approval.asked", "approval.denied", "approval.escalated", "approval.expired",
         "approval.reminded", "approval.spent", "approval.withdrawn", "effect.reconciled", "effect.unknown"],
    )  # fmt: skip
    assert "on-call" in project.run("notifications", "list").out


def test_doctor_says_that_a_secret_is_missing(told: Project) -> None:
    told.environment["HOOK_SECRET"] = "whsec_short"
    checks = told.run("doctor", "--json").data["checks"]
    (found,) = (check for check in checks if check["id"] == "announcements")
    assert (found["level"], "the environment variable HOOK_SECRET" in found["told"]) == ("fail", True)


def test_serve_announces_beside_its_front_doors(told: Project, receiver: Receiver) -> None:
    receiver.start()
    process = told.start("serve", "--port", "0", "--interval", "0.05")
    told.asked()
    receiver.until(lambda: receiver.kinds() == ["approval.asked"])

    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
