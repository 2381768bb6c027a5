"""`placet demo support` as a person and as a script see it: its output, its exit code, and what it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from placet.demos.support import program
from placet.demos.support.words import LANGUAGES
from tests.demos.programs import ended as ended_program
from tests.demos.terminal import at_a_terminal
from tests.processes import is_gone

COMMAND = (sys.executable, "-m", "placet.demos.support")
SUMMARY = {
    "schema": "placet-demo-support/1",
    "language": "en",
    "holds": True,
    "declined": False,
    "expectations": {"held": 16, "failed": []},
    "runs": {"done": 3, "index_not_ready": 1},
    "searches": 4,
    "approvals": {"approved": 1, "denied": 0},
    "drafts": {"kept": 1, "requests": 2},
    "audit": {"events": 50, "unpaired": 0, "verified": True},
    "leaks": {"canaries": ["document", "question"], "found": []},
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Temporary folders are made below `tmp_path / "tmp"`, so that what is left behind shows."""
    (tmp_path / "tmp").mkdir()
    return {**os.environ, "TMPDIR": str(tmp_path / "tmp"), "NO_COLOR": "1", "PYTHONUTF8": "1"}


def run(environment: dict[str, str], *arguments: str) -> Any:
    return ended_program("placet.demos.support", environment, *arguments)


def service_of(progress: str) -> int:
    """The drafts service's process, as the demo names it."""
    found = re.search(r"process (\d+) at http", progress)
    assert found is not None, progress
    return int(found[1])


@pytest.mark.req("B188", "H055")
def test_the_whole_story_holds_and_its_numbers_come_from_the_stores(environment: dict[str, str]) -> None:
    ended = run(environment, "--yes-as", "Mara \u202eOyelaran", "--json")

    assert (ended.returncode, json.loads(ended.stdout)) == (0, SUMMARY)
    assert r"confirmed by Mara \u{202e}Oyelaran" in ended.stderr
    assert "FAILED:" not in ended.stderr
    assert list(Path(environment["TMPDIR"]).iterdir()) == []
    assert is_gone(service_of(ended.stderr))


@pytest.mark.req("B181")
def test_it_is_told_in_chinese_too_and_why_questions_were_not_answered_is_counted(
    environment: dict[str, str], tmp_path: Path
) -> None:
    ended = run(environment, "--yes-as", "mara", "--language", "zh", "--keep", str(tmp_path / "kept"))

    assert (ended.returncode, ended.stderr) == (0, "")
    words = LANGUAGES["zh"]
    for expected in (words.early_held, words.answered_held, words.hostile_held, words.lost_held, words.once_more_held):
        assert f"  ok  {expected}\n" in ended.stdout
    assert words.answerable in ended.stdout
    assert "order-callback-lost.zh#" in ended.stdout
    assert re.search(r"审计核对 +通过\n", ended.stdout)
    metrics = (tmp_path / "kept" / "gate" / "metrics.txt").read_text().splitlines()
    assert [line for line in metrics if line.startswith("placet_refusals_total")] == [
        'placet_refusals_total{reason="index_not_ready"} 1.0',
        'placet_refusals_total{reason="index_unreadable"} 0.0',
        'placet_refusals_total{reason="nothing_found"} 1.0',
        'placet_refusals_total{reason="too_weak"} 0.0',
    ]


def test_each_language_says_everything_with_the_same_names() -> None:
    english, chinese = LANGUAGES["en"], LANGUAGES["zh"]
    for name in english.__dataclass_fields__:
        mine, theirs = getattr(english, name), getattr(chinese, name)
        assert type(mine) is type(theirs)
        if isinstance(mine, str):
            assert sorted(re.findall(r"{\w+}", mine)) == sorted(re.findall(r"{\w+}", theirs)), name
            assert theirs
    assert english.rows.keys() == chinese.rows.keys()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        pytest.param((), "--yes-as NAME", id="nobody"),
        pytest.param(("--yes-as", ""), "--yes-as names a person", id="no-name"),
        pytest.param(("--yes-as", "support-agent"), "an agent never confirms", id="the-agent"),
        pytest.param(("--yes-as", "mara", "--base-url", "http://127.0.0.1:9"), "--model NAME", id="no-model"),
        pytest.param(("--yes-as", "mara", "--model", ""), "names a model", id="empty-model"),
        pytest.param(("--yes-as", "mara", "--keep", "{full}"), "needs a new or an empty folder", id="full-folder"),
        pytest.param(("--yes-as", "noor", "--keep", "{mine}"), "for 'mara'", id="another-person"),
        pytest.param(("--yes-as", "mara", "--language", "zh", "--keep", "{mine}"), "in 'en'", id="another-language"),
    ],
)
def test_a_wrong_command_line_is_told_and_starts_nothing(
    arguments: tuple[str, ...], hint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "demo.json").write_text("{}")
    (tmp_path / "mine").mkdir()
    note = {"schema": "placet-demo-support/1", "language": "en", "person": "mara"}
    (tmp_path / "mine" / "demo.json").write_text(json.dumps(note | {"planted": {"question": "q", "document": "d"}}))
    places = {"full": str(tmp_path / "full"), "mine": str(tmp_path / "mine")}

    assert program.main([argument.format(**places) for argument in arguments]) == 2

    told = capsys.readouterr()
    assert hint in told.err
    assert told.out == ""
    assert [len(list((tmp_path / name).iterdir())) for name in ("full", "mine")] == [1, 1]


def test_whoever_declines_gets_no_draft(environment: dict[str, str]) -> None:
    with at_a_terminal(environment, *COMMAND, "--quiet") as terminal:
        terminal.wait_for("[y/N]")
        assert re.search(r"question   \| How do I claim travel expenses\?", terminal.printed)
        terminal.type("n\n")
        code = terminal.end()

    assert code == 6
    assert re.search(r"runs +2 done, 1 draft_declined, 1 index_not_ready\r", terminal.printed)
    assert re.search(r"requests +0\r", terminal.printed)
    assert "FAILED" not in terminal.printed


@pytest.mark.req("X003")
@pytest.mark.case("P05")
def test_one_that_was_killed_while_a_person_is_asked_goes_on_where_it_was(
    environment: dict[str, str], tmp_path: Path
) -> None:
    kept = str(tmp_path / "kept")
    with at_a_terminal(environment, *COMMAND, "--keep", kept) as terminal:
        terminal.wait_for("[y/N]")
        terminal.process.send_signal(signal.SIGKILL)
        terminal.process.wait()
    ended = run(environment, "--keep", kept, "--yes-as", "mara", "--json")
    again = run(environment, "--keep", kept, "--yes-as", "mara", "--json")

    document = json.loads(ended.stdout)
    assert ended.returncode == 0, ended.stderr
    assert LANGUAGES["en"].goes_on in ended.stderr
    assert (document["holds"], document["runs"], document["drafts"], document["approvals"]) == (
        True,
        SUMMARY["runs"],
        SUMMARY["drafts"],
        SUMMARY["approvals"],
    )
    assert (again.returncode, json.loads(again.stdout)["drafts"]) == (0, SUMMARY["drafts"])
    assert "\nplacet_retrieval_stage_seconds_count" in (tmp_path / "kept" / "gate" / "metrics.txt").read_text()
    events = (tmp_path / "kept" / "gate" / "placet.log").read_text()
    assert "approval_requested" not in events  # the log is of the last of the three, which asked nobody


def test_what_does_not_hold_fails_the_demo_by_name(environment: dict[str, str]) -> None:
    mutation = """
import logging, sys
from dataclasses import replace
import placet
from placet.demos.support import program, workflow
from placet.demos.support.contracts import DraftArguments, DraftReceipt
from placet.demos.support.tools import DRAFT

async def talks(asked, context):
    logging.getLogger("placet.test").warning("asked %s", asked.text)
    return await workflow.check_index(asked, context)

def mutated(state):
    return replace(state, step=talks) if state.name == "CHECK_INDEX" else state

def unasked(library, drafts, *, meter):
    @placet.tool(effect="idempotent_write", risk="medium", permission="support.draft.create", name=DRAFT)
    async def create_support_draft(draft: DraftArguments, ctx: placet.CallContext) -> DraftReceipt:
        return await drafts.create(ctx.operation_key, draft.question)
    return [*support_tools(library, drafts, meter=meter)[:2], create_support_draft]

support_tools, program.support_tools = program.support_tools, unasked
program.SUPPORT = replace(workflow.SUPPORT, states=tuple(map(mutated, workflow.SUPPORT.states)))
sys.exit(program.main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", mutation, "--yes-as", "mara", "--json"]
    ended = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    words, document = LANGUAGES["en"], json.loads(ended.stdout)

    assert ended.returncode == 1
    assert document["holds"] is False
    assert document["leaks"]["found"] == [{"canary": "question", "place": "placet.log", "as": "text"}]
    assert document["expectations"]["failed"] == [
        words.hostile_forged,
        words.hostile_nothing,
        words.lost_held,
        words.drafts_are_approvals,
        words.leaks_held.format(count=1),
    ]
