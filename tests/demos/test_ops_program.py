"""`placet demo` as a person and as a script see it: a process of its own, its output, its exit code, what it leaves."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.demos.programs import ended as ended_program
from tests.demos.terminal import at_a_terminal
from tests.processes import is_gone

pytestmark = pytest.mark.slow

COMMAND = (sys.executable, "-m", "placet.demos.ops")
QUESTION = "may exactly this run? [y/N]"
SUMMARY = {
    "schema": "placet-demo-ops/1",
    "holds": True,
    "declined": False,
    "expectations": {"held": 27, "failed": []},
    "calls": {"submitted": 61, "refused": 5, "replayed": 3, "attempts": 64},
    "approvals": {"approved": 2, "denied": 0},
    "effects": {"committed": 1, "reconciled_committed": 1},
    "desk": {"tickets": 2, "requests": 4},
    "audit": {"events": 135, "chains": 1, "unpaired": 0, "verified": True},
    "leaks": {
        "canaries": ["error text", "log line", "member name", "refused argument", "ticket body"],
        "found": [],
    },
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Temporary folders are made below `tmp_path / "tmp"`, so that what is left behind shows."""
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "NO_COLOR": "1"}


def run(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return ended_program("placet.demos.ops", environment, *arguments)


def started(environment: dict[str, str], *command: str) -> subprocess.CompletedProcess[str]:
    """Run to the end, without a terminal."""
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def left_behind(environment: dict[str, str]) -> list[str]:
    return sorted(path.name for path in Path(environment["TMPDIR"]).iterdir())


def desk_of(progress: str) -> int:
    """The desk's process, as the demo names it."""
    return int(re.search(r"the ticket desk is process (\d+)", progress)[1])


# ---------------------------------------------------------------- a script


@pytest.mark.req("H027", "H055")
def test_the_whole_story_holds_and_its_numbers_come_from_the_stores(environment):
    ended = run(environment, "--yes-as", "mara", "--json")
    document = json.loads(ended.stdout)
    commits = document.pop("store")["commits"]

    assert document == SUMMARY
    assert ended.returncode == 0
    assert "leaks found: 0" in ended.stderr
    assert "FAILED" not in ended.stderr
    # Reads share nothing here, so each costs a commit to begin and one to end; the exact number is the store's affair.
    assert 100 <= commits <= 135
    assert left_behind(environment) == []
    assert is_gone(desk_of(ended.stderr))


def test_progress_goes_to_people_and_the_summary_ends_it(environment):
    ended = run(environment, "--yes-as", "Mara \u202eOyelaran")

    assert ended.returncode == 0
    assert ended.stderr == ""
    assert "\x1b" not in ended.stdout
    assert r"approved by Mara \u{202e}Oyelaran" in ended.stdout
    told = ended.stdout.splitlines()
    for expected in (
        r"  restart_service .* invalid: unknown_tool",
        r"  create_ticket .* refused: denied, matrix_viewer_medium",
        r"  create_ticket .* awaiting_approval: approval_required",
        r"  create_ticket .* succeeded: OPS-1001",
        r"  create_ticket .* unknown: effect_unknown",
        r"  create_ticket .* replayed: OPS-1002",
        r"  title      \| edge: 28% of requests fail since 17:55, after invoice-worker 2.14.0 \(CHG-4471\)",
        r"  real tickets     2 .*",
        r"  leaks found      0 .*",
    ):
        assert any(re.fullmatch(expected, line) for line in told), expected


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ((), "--yes-as NAME"),
        (("--json", "--quiet"), "--yes-as NAME"),
        (("--yes-as", ""), "--yes-as names a person"),
        (("--yes-as", "ops-agent"), "an agent never approves"),
        (("--no-such-option",), "usage: placet demo"),
    ],
)
def test_a_wrong_command_line_is_told_and_starts_nothing(environment, arguments, hint):
    ended = run(environment, *arguments)

    assert ended.returncode == 2
    assert hint in ended.stderr
    assert ended.stdout == ""
    assert left_behind(environment) == []


def test_what_is_kept_is_the_store_its_key_the_log_and_the_metrics(environment, tmp_path):
    kept = tmp_path / "kept"
    options = ("--yes-as", "mara", "--quiet", "--json", "--keep", str(kept))
    first, again = run(environment, *options), run(environment, *options)

    assert (first.returncode, first.stderr) == (0, "")
    assert json.loads(first.stdout)["holds"] is True
    names = {path.name for path in (kept / "gate").iterdir()}
    assert names >= {"metrics.txt", "placet.db", "placet.db.key", "placet.log"}
    lines = [json.loads(line) for line in (kept / "gate" / "placet.log").read_text().splitlines()]
    assert {line["message"] for line in lines} == {"audit"}
    replays = 'placet_tool_calls_total{outcome="replayed",tool="create_ticket"} 3.0'
    assert replays in (kept / "gate" / "metrics.txt").read_text().splitlines()
    assert again.returncode == 2
    assert "needs a new or an empty folder" in again.stderr


# ---------------------------------------------------------------- the checks can fail


def test_what_does_not_hold_fails_the_demo_by_name(environment):
    mutation = """
import logging, sys
import placet
from placet.demos.ops import program

def restart_service(service: str) -> str:
    return "restarted"

ops_tools, told = program.ops_tools, program.told
restart = placet.tool(effect="write", risk="low", permission="ops.read")(restart_service)
program.ops_tools = lambda *given: [*ops_tools(*given), restart]
program._CANARIES = (*program._CANARIES, "never planted")

async def telling(scene):
    logging.getLogger("placet.test").warning("body %s", scene.planted.words["ticket body"])
    await told(scene)

program.told = telling
sys.exit(program.main(sys.argv[1:]))
"""
    ended = started(environment, sys.executable, "-c", mutation, "--yes-as", "mara", "--json")
    document = json.loads(ended.stdout)

    assert ended.returncode == 1
    assert document["holds"] is False
    assert document["leaks"]["found"] == [{"canary": "ticket body", "place": "gate/placet.log", "as": "text"}]
    assert document["expectations"]["failed"] == [
        "restart_service does not exist here",
        "nothing came of it: no effect, nobody asked, and no request reached the desk",
        "there are as many effects as tickets, each of them done",
        "all of them really passed through the gate",
        "leaks found: 1",
    ]


# ---------------------------------------------------------------- a person at a terminal


def test_a_person_reads_the_call_and_says_yes_twice(environment):
    del environment["NO_COLOR"]
    with at_a_terminal(environment, *COMMAND) as terminal:
        terminal.wait_for(QUESTION)
        assert "Bridge code: " in terminal.printed
        assert re.search(r"digest     [0-9a-f]{64}", terminal.printed)
        terminal.type("y\n")
        terminal.wait_for(QUESTION, times=2)
        terminal.type("yes\n")
        code = terminal.end()

    assert code == 0
    assert "approved by mara; nothing has run yet" in terminal.printed
    assert "\x1b[32mok\x1b[0m" in terminal.printed
    assert re.search(r"leaks found +0 ", terminal.printed)
    assert left_behind(environment) == []


@pytest.mark.parametrize(
    "answer", ["n\n", "yeah sure\n", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("\n", "\x04"))]
)
def test_whoever_does_not_say_yes_has_declined(environment, answer):
    with at_a_terminal(environment, *COMMAND, "--quiet") as terminal:
        terminal.wait_for(QUESTION)
        assert "title      | edge: 28% of requests fail" in terminal.printed  # whoever decides sees it all the same
        terminal.type(answer)
        code = terminal.end()

    assert code == 6
    assert re.search(r"real tickets +0 +the desk; 0 requests", terminal.printed)
    assert re.search(r"denied +1 ", terminal.printed)
    assert re.search(r"audit verified +yes", terminal.printed)
    assert "get_service_status" not in terminal.printed
    assert "FAILED" not in terminal.printed


def test_the_second_ticket_can_be_declined_too(environment):
    with at_a_terminal(environment, *COMMAND) as terminal:
        terminal.wait_for(QUESTION)
        terminal.type("y\n")
        terminal.wait_for(QUESTION, times=2)
        terminal.type("n\n")
        code = terminal.end()

    assert code == 6
    assert "refused: approval_denied" in terminal.printed
    assert re.search(r"real tickets +1 +the desk; 1 requests", terminal.printed)
    assert "FAILED" not in terminal.printed


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive)])
def test_an_interrupt_stops_the_desk_and_leaves_nothing(environment, number):
    with at_a_terminal(environment, *COMMAND) as terminal:
        terminal.wait_for(QUESTION)
        desk = desk_of(terminal.printed)
        assert not is_gone(desk)
        terminal.process.send_signal(number)
        code = terminal.end()

    assert code == 130
    assert "interrupted; the ticket desk is stopped" in terminal.printed
    assert is_gone(desk)
    assert left_behind(environment) == []
