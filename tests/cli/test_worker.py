"""`placet worker`: what others left behind is looked after, by any number of workers, until they are told to end."""

from __future__ import annotations

import json
import signal
import time
from collections import Counter
from typing import Any

import apsw
import pytest

from tests.cli.conftest import PATIENCE_SECONDS, Process, Project

COUNTED = '''

async def counted(context):
    with (HERE / "looks.txt").open("a") as file:
        file.write(context.operation_key + "\\n")
    await asyncio.sleep(0.05)
    return placet.CannotTell() if (HERE / "blind").exists() else placet.Found(result="late")


@write("lost", probe=counted, operation_key="lost:{name}")
async def lost(name: str) -> str:
    """Act, and be cut off."""
    raise RuntimeError("cut off")


async def stuck(context):
    (HERE / "stuck").touch()
    await asyncio.sleep(60)


@write("stuck", probe=stuck, operation_key="stuck:{name}")
async def stuck_tool(name: str) -> str:
    """Its probe never answers."""
    raise RuntimeError("cut off")


TOOLS += [lost, stuck_tool]
'''


@pytest.fixture
def kept(project: Project) -> Project:
    with (project.folder / "tools.py").open("a") as file:
        file.write(COUNTED)
    return project


WORKING: dict[int, dict[str, Any]] = {}
"""The first line of each worker, by its process id."""


def worker(project: Project, *words: str) -> Process:
    """One that has begun: before that a signal ends it as it ends any process."""
    process = project.start("worker", "--interval", "0.05", *words)
    assert process.stderr is not None
    WORKING[process.pid] = json.loads(process.stderr.readline())
    return process


def ended(process: Process) -> tuple[int, str, list[dict[str, Any]]]:
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    lines = [json.loads(line) for line in err.decode().splitlines()]
    return process.returncode, out.decode(), [WORKING[process.pid], *lines]


def until(project: Project, state: str, count: int) -> None:
    end = time.monotonic() + PATIENCE_SECONDS
    while len(project.run("effects", "list", "--state", state, "--json").data["effects"]) < count:
        assert time.monotonic() < end, state


def states(project: Project) -> Counter[str]:
    return Counter(effect["state"] for effect in project.run("effects", "list", "--json").data["effects"])


def test_a_worker_settles_what_is_unknown_and_ends_when_it_is_told_to(kept: Project) -> None:
    for name in ("a", "b"):
        assert kept.call("lost", json.dumps({"name": name})).code == 7
    process = worker(kept)
    until(kept, "reconciled_committed", 2)

    code, out, lines = ended(process)

    assert (code, out, states(kept)) == (0, "", Counter(reconciled_committed=2))
    assert {line["logger"] for line in lines} == {"placet.worker"}
    assert (lines[0]["message"], lines[-2]["message"], lines[-1]["message"]) == ("working", "ending", "ended") or (
        lines[0]["message"] == "working" and [line["message"] for line in lines[-2:]] == ["round done", "ended"]
    )
    done = [line for line in lines if line["message"] == "round done"]
    assert sum(line["committed"] for line in done) == 2
    assert {"taken_over", "committed", "absent", "still_unknown", "expired", "purged"} <= done[0].keys()


def test_three_workers_at_the_same_rows_look_at_each_once(kept: Project) -> None:
    names = [f"n{n}" for n in range(12)]
    for name in names:
        assert kept.call("lost", json.dumps({"name": name})).code == 7
    workers = [worker(kept) for _ in range(3)]
    until(kept, "reconciled_committed", len(names))

    assert [ended(each)[0] for each in workers] == [0, 0, 0]

    looks = Counter((kept.folder / "looks.txt").read_text().splitlines())
    assert len(looks) == len(names) and set(looks.values()) == {1}


def test_one_round_says_what_it_did(kept: Project) -> None:
    kept.call("lost", '{"name": "a"}')

    ran = kept.run("worker", "--once", "--json")
    again = kept.run("worker", "--once")

    nothing = dict.fromkeys(("taken_over", "absent", "still_unknown", "expired", "reminded", "escalated", "purged"), 0)
    expected = {**nothing, "committed": 1}
    assert (ran.code, ran.data) == (0, {"schema": "round/1", **expected})
    assert (again.code, "committed" in again.out) == (0, True)


def test_a_probe_that_hangs_does_not_keep_a_worker_beyond_its_limit(kept: Project) -> None:
    kept.call("stuck", '{"name": "a"}')
    process = worker(kept, "--drain-seconds", "0.3")
    kept.wait_for("stuck")

    code, _, lines = ended(process)

    assert code == 1
    assert [line["message"] for line in lines[-2:]] == ["ending", "round left unfinished"]
    assert states(kept) == Counter(unknown=1)


def test_a_fault_of_the_store_is_told_and_the_worker_goes_on(kept: Project) -> None:
    process = worker(kept)
    time_out = time.monotonic() + PATIENCE_SECONDS
    holder = apsw.Connection(str(kept.folder / "placet.db"))
    holder.execute("ALTER TABLE effects RENAME TO gone")
    lines: list[dict[str, Any]] = [WORKING[process.pid]]
    assert process.stderr is not None
    while not any(line["message"] == "round failed" for line in lines):
        lines.append(json.loads(process.stderr.readline()))
        assert time.monotonic() < time_out
    holder.execute("ALTER TABLE gone RENAME TO effects")
    holder.close()
    while lines[-1]["message"] != "round done":
        lines.append(json.loads(process.stderr.readline()))
        assert time.monotonic() < time_out

    code, _, _ = ended(process)

    failed = next(line for line in lines if line["message"] == "round failed")
    assert (code, failed["level"], "error_type" in failed) == (0, "warning", True)
    assert "gone" not in json.dumps(failed)
    assert failed["code"].startswith("store_") and failed["hint"], "a person at night reads what to do"
    (began,) = [line for line in lines if line["message"] == "working"]
    assert began["store"] == str(kept.folder / "placet.db")


@pytest.mark.parametrize("words", [("--interval", "0"), ("--interval", "nan"), ("--drain-seconds", "0")])
def test_a_time_that_is_none_is_wrong_usage(project: Project, words: tuple[str, str]) -> None:
    ran = project.run("worker", "--once", *words)

    assert (ran.code, words[0] in ran.err) == (2, True)


def test_without_a_store_or_tools_it_says_so_and_ends(bare: Project, project: Project) -> None:
    assert bare.run("worker", "--once", "--json").data["code"] == "store_missing"
    project.rewrite('tools = "tools:TOOLS"\n', "")

    ran = project.run("worker", "--once", "--json")

    assert (ran.code, ran.data["code"]) == (2, "config_invalid")
