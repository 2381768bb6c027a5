"""`placet serve` as an operator runs it: a real process, a real key, and an orderly end."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.client import Client
from placet.model.outcome import AwaitingApproval, Succeeded
from tests.cli.conftest import CONFIG, ME, PATIENCE_SECONDS, SCOPES, SLOW, Project

SIGNED = ["--role", "admin", "--scope", "things.write"]


@pytest.fixture
def bureau(project: Project) -> Project:
    (project.folder / "placet.toml").write_text(CONFIG.format(me=ME, scopes=json.dumps([*SCOPES, "api_keys.manage"])))
    with (project.folder / "tools.py").open("a") as file:
        file.write(SLOW + "\n\nTOOLS += [slow]\n")
    return project


class Served:
    """A project that is served."""

    def __init__(self, project: Project) -> None:
        self.project = project
        made = project.run("api-keys", "create", "bot", *SIGNED, "--json")
        assert made.code == 0, made
        self.key: str = made.data["text"]
        self.key_id: str = made.data["api_key_id"]
        self.process = project.start("serve", "--port", "0", "--drain-seconds", "50")
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()

    def client(self, key: str | None = None) -> Client:
        return Client(self.url, token=key or self.key)

    def end(self, sign: signal.Signals = signal.SIGTERM) -> tuple[int, list[dict[str, Any]]]:
        """Its exit code and what it said on standard error."""
        self.process.send_signal(sign)
        _, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, [json.loads(line) for line in err.splitlines()]


@pytest.fixture
def served(bureau: Project) -> Iterator[Served]:
    found = Served(bureau)
    yield found
    if found.process.poll() is None:
        found.process.kill()
    found.process.wait(PATIENCE_SECONDS)
    for pipe in (found.process.stdout, found.process.stderr):
        if pipe is not None:
            pipe.close()


def test_an_agent_signs_in_with_its_key_and_its_calls_are_those_of_the_project(served: Served) -> None:
    with served.client() as client:
        done = client.submit("put", {"text": "x"}, run="r1", call_id="c1")
        asked = client.submit("ask", {"text": "hello"}, run="r1", call_id="c2")
        assert isinstance(asked, AwaitingApproval)
        approved = served.project.approved(asked.approval_id)
        after = client.submit("ask", {"text": "hello"}, run="r1", call_id="c2")
    code, lines = served.end()

    assert isinstance(done, Succeeded)
    assert approved.code == 0
    assert isinstance(after, Succeeded)
    assert (served.project.folder / "put.txt").read_text() == "x\n"
    assert code == 0
    assert [line["message"] for line in lines if line["logger"] == "placet.serve"] == ["ending", "ended"]
    assert not any(served.key in json.dumps(line) for line in lines)
    assert served.project.run("audit", "verify").code == 0


def test_a_revoked_key_lets_nobody_in(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.key}"}
    assert httpx.get(f"{served.url}/v1/tools", headers=headers).status_code == 200
    assert served.project.run("api-keys", "revoke", served.key_id).code == 0

    assert httpx.get(f"{served.url}/v1/tools", headers=headers).status_code == 401
    assert httpx.get(f"{served.url}/readyz").json() == {"status": "ready"}


@pytest.mark.case("G07")
def test_told_to_end_it_lets_what_runs_end_and_answers_it_and_takes_nothing_more(served: Served) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1) as pool, served.client() as client, served.client() as other:
        running = pool.submit(client.submit, "slow", {"text": "x"}, run="r1", call_id="c1")
        served.project.wait_for("begun")
        served.process.send_signal(signal.SIGTERM)
        ready = httpx.get(f"{served.url}/readyz")
        while ready.status_code == 200:
            ready = httpx.get(f"{served.url}/readyz")
        refused = httpx.post(
            f"{served.url}/v1/proposals",
            headers={"Authorization": f"Bearer {served.key}"},
            json={"run": "r1", "call_id": "c2", "tool": "put", "arguments": {"text": "late"}},
        )
        (served.project.folder / "go").touch()
        outcome = running.result(PATIENCE_SECONDS)
    served.process.communicate(timeout=PATIENCE_SECONDS)

    assert ready.json()["reason"] == "draining"
    assert (refused.status_code, refused.json()["code"]) == (503, "draining")
    assert outcome.unwrap() == "x"
    assert served.process.returncode == 0
    assert not (served.project.folder / "put.txt").exists()
    assert other is not client


def test_what_does_not_end_in_time_is_left_as_a_killed_process_leaves_it(bureau: Project) -> None:
    served = Served(bureau)
    served.process.kill()
    served.process.communicate(timeout=PATIENCE_SECONDS)
    process = bureau.start("serve", "--port", "0", "--drain-seconds", "0.2")
    assert process.stdout is not None
    url = process.stdout.readline().decode().strip()
    wire = httpx.Client(timeout=PATIENCE_SECONDS)
    from threading import Thread

    def ask() -> None:
        body = {"run": "r1", "call_id": "c1", "tool": "slow", "arguments": {"text": "x"}}
        try:
            wire.post(f"{url}/v1/proposals", headers={"Authorization": f"Bearer {served.key}"}, json=body)
        except httpx.HTTPError:
            return

    asking = Thread(target=ask)
    asking.start()
    bureau.wait_for("begun")
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE_SECONDS)
    asking.join(PATIENCE_SECONDS)
    wire.close()

    assert process.returncode == 1
    assert b"calls left unfinished" in err
    (effect,) = bureau.run("effects", "list", "--json").data["effects"]
    assert effect["state"] == "dispatched"


def test_ctrl_c_ends_it_too(served: Served) -> None:
    code, _ = served.end(signal.SIGINT)

    assert code == 130


def test_it_does_not_start_on_a_red_line_and_says_which(bureau: Project) -> None:
    (bureau.folder / "placet.db.key").chmod(0o644)
    ran = bureau.run("serve", "--port", "0", "--json")

    assert ran.code == 2
    assert ran.data["code"] in ("not_safe_to_start", "key_exposed")
    assert "http" not in ran.out


def test_a_port_that_is_taken_is_said_to_be(served: Served) -> None:
    port = served.url.rsplit(":", 1)[1]
    ran = served.project.run("serve", "--port", port, "--json")

    assert (ran.code, ran.data["code"]) == (2, "cannot_listen")


def test_without_the_extra_it_says_how_to_install_it(bureau: Project, tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as u\nfind = u.find_spec\n"
        "u.find_spec = lambda name, *more: None if name in ('fastapi', 'uvicorn') else find(name, *more)\n"
    )
    ran = subprocess.run(
        [*_placet(), "serve", "--json"],
        cwd=bureau.folder,
        env=bureau._environment({"PYTHONPATH": str(tmp_path)}),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )

    told = json.loads(ran.stdout)
    assert (ran.returncode, told["hint"]) == (2, 'pip install "/path/to/checkout[server]"')
    assert "fastapi" in told["message"]


def _placet() -> list[str]:
    from tests.cli.conftest import PLACET

    return PLACET


@pytest.mark.parametrize(
    "words", [("--port", "x"), ("--port", "65536"), ("--interval", "0"), ("--drain-seconds", "-1")]
)
def test_what_means_nothing_is_wrong_usage(bureau: Project, words: tuple[str, ...]) -> None:
    assert bureau.run("serve", *words).code == 2


# ---------------------------------------------------------------- the command line asks a server


@pytest.fixture
def elsewhere(tmp_path: Path, served: Served) -> Project:
    """A folder without a project, in which a token lies."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    token = folder / "token"
    token.touch(mode=0o600)
    token.write_text(served.key + "\n")
    return Project(folder)


def at(served: Served) -> list[str]:
    return ["--server", served.url, "--token-file", "token"]


def test_a_call_is_asked_of_a_server_and_ends_as_a_local_one(served: Served, elsewhere: Project) -> None:
    words = ["--run", "r1", "--call-id", "c1", *at(served)]
    done = elsewhere.run("call", "--tool", "put", "--args", '{"text": "x"}', "--json", *words)
    again = elsewhere.run("call", "--tool", "put", "--args", '{"text": "x"}', "--json", *words)
    wrong = elsewhere.run("call", "--tool", "put", "--args", '{"text": 7}', "--run", "r1", *at(served))
    waits = elsewhere.run("call", "--tool", "ask", "--args", '{"text": "x"}', "--run", "r1", "--json", *at(served))
    unknown = elsewhere.run("call", "--tool", "vague", "--args", '{"name": "x"}', "--run", "r1", *at(served))

    assert [(ran.code, ran.data["status"]) for ran in (done, again)] == [(0, "succeeded"), (0, "replayed")]
    assert [ran.code for ran in (wrong, waits, unknown)] == [8, 5, 7]
    assert waits.data["approval_id"]
    assert (served.project.folder / "put.txt").read_text() == "x\n"
    assert not any(served.key in ran.out + ran.err for ran in (done, again, wrong, waits, unknown))


def test_a_file_of_calls_is_one_turn_at_a_server(served: Served, elsewhere: Project) -> None:
    lines = [{"call_id": f"c{n}", "tool": "put", "arguments": {"text": text}} for n, text in enumerate(["a", 7, "b"])]
    (elsewhere.folder / "calls.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ["call", "--file", "calls.jsonl", "--run", "r1", "--jsonl", *at(served)]
    ran, stopped = elsewhere.run(*words), elsewhere.run(*words[:4], "r2", *words[5:], "--stop-on-failure")

    assert [line["status"] for line in ran.lines] == ["succeeded", "invalid", "succeeded"]
    assert [line["status"] for line in stopped.lines] == ["succeeded", "invalid", "not_run"]
    assert (ran.code, stopped.code) == (8, 8)


def test_the_tools_of_a_server_are_those_one_may_see(served: Served, elsewhere: Project) -> None:
    ran = elsewhere.run("tools", "list", "--json", *at(served))

    assert {"look", "put", "ask"} <= {tool["name"] for tool in ran.data["tools"]}
    assert elsewhere.run("tools", "list", *at(served)).code == 0


def test_a_server_that_cannot_be_asked_is_told_by_its_code(served: Served, elsewhere: Project) -> None:
    token = elsewhere.folder / "token"
    call = ["call", "--tool", "look", "--json"]
    nowhere = elsewhere.run(*call, "--server", "http://127.0.0.1:1", "--token-file", "token")
    plain = elsewhere.run(*call, "--server", "http://placet.test", "--token-file", "token")
    half = elsewhere.run(*call, "--server", served.url)
    dry = elsewhere.run(*call, "--dry-run", *at(served))
    token.chmod(0o644)
    exposed = elsewhere.run(*call, *at(served))
    token.chmod(0o600)
    token.write_text("not a token\n")
    malformed = elsewhere.run(*call, *at(served))
    token.write_text("placet_stranger")
    stranger = elsewhere.run(*call, *at(served))
    token.unlink()
    missing = elsewhere.run(*call, *at(served))

    told = [(ran.code, ran.data["code"]) for ran in (nowhere, plain, half, dry, exposed, malformed, stranger, missing)]
    assert told == [
        (1, "server_unreachable"),
        (2, "server_insecure"),
        (2, "usage"),
        (2, "usage"),
        (2, "token_exposed"),
        (2, "token_malformed"),
        (4, "sign_in_refused"),
        (2, "token_missing"),
    ]


def test_a_server_that_dies_meanwhile_may_have_acted_and_says_how_to_ask_again(
    served: Served, elsewhere: Project
) -> None:
    process = elsewhere.start("call", "--tool", "slow", "--args", '{"text": "x"}', "--run", "r7", *at(served))
    served.project.wait_for("begun")
    served.process.kill()
    _, err = process.communicate(timeout=PATIENCE_SECONDS)

    assert process.returncode == 7
    assert b"the outcome may be unknown" in err and b"run r7" in err
