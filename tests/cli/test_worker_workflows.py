"""`placet worker` drives runs of the project's workflows: of placet.toml or an option, until it is told to end."""

from __future__ import annotations

import asyncio
import re
import runpy
import signal
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import placet
from placet import Principal, Workflows
from placet.engine.gate import Gate
from tests.cli.conftest import PATIENCE_SECONDS, SLOW, Project
from tests.cli.test_worker import worker

FLOWS = """\
from dataclasses import dataclass

from placet import End, Fail, Failure, Next, State, Workflow, Workflows


@dataclass(frozen=True)
class Text:
    text: str


async def asks(inputs, context):
    asked = await context.call("ask", {"text": inputs.text}, name="ask")
    return Next("SLOW", inputs) if asked.is_success else Fail("not_asked")


async def slow(inputs, context):
    done = await context.call("slow", {"text": inputs.text})
    return Next("DONE", inputs) if done.is_success else Fail("not_done")


FLOW = Workflow(
    name="flow",
    version="1",
    start="ASK",
    states=(
        State(name="ASK", inputs=Text, step=asks, next=("SLOW",), tools=("ask",), on_failure="FAILED"),
        State(name="SLOW", inputs=Text, step=slow, next=("DONE",), tools=("slow",), on_failure="FAILED"),
        End(name="DONE", inputs=Text),
        End(name="FAILED", inputs=Failure, is_failure=True),
    ),
)
FLOWS = [FLOW]


def made(gate):
    return Workflows(gate, FLOWS)


def wrong(gate):
    return FLOWS


def broken(gate):
    raise ValueError("s3cr3t")


def leaves(gate):
    raise SystemExit(0)


async def later(gate):
    return Workflows(gate, FLOWS)
"""
AGENT = Principal.agent("agent", tenant="acme", roles=["admin"], scopes=["things.write"])


@pytest.fixture
def flowing(project: Project) -> Project:
    with (project.folder / "tools.py").open("a") as file:
        file.write(SLOW + "\nTOOLS.append(slow)\n")
    (project.folder / "flows.py").write_text(FLOWS)
    project.rewrite('tools = "tools:TOOLS"', 'tools = "tools:TOOLS"\nworkflows = "flows:FLOWS"')
    return project


def within(project: Project, work: Callable[[Gate, Workflows, Any], Coroutine[Any, Any, Any]]) -> Any:
    """What somebody does with the same store in a process of their own."""
    module = runpy.run_path(str(project.folder / "flows.py"))

    async def act() -> Any:
        async with placet.open(tools=[], store=project.folder / "placet.db", recovery="manual") as gate:
            return await work(gate, Workflows(gate, module["FLOWS"]), module["Text"])

    return asyncio.run(act())


async def _begun(gate: Gate, workflows: Workflows, text: Any) -> Any:
    return await workflows.start("flow", run="r1", inputs=text("canary-1"), principal=AGENT)


async def _seen(gate: Gate, workflows: Workflows, text: Any) -> tuple[str, str]:
    progress = await workflows.look("acme", "r1")
    return progress.kind, progress.state


def test_a_worker_drives_the_runs_of_the_projects_workflows_and_ends_after_the_step_under_way(flowing: Project) -> None:
    within(flowing, _begun)
    once = flowing.run("worker", "--once", "--json")
    assert (once.code, once.data["moved"], within(flowing, _seen)) == (0, 1, ("waiting", "ASK"))
    [waiting] = flowing.run("approvals", "list", "--json").data["approvals"]
    assert flowing.approved(waiting["approval_id"]).code == 0

    process = worker(flowing)
    flowing.wait_for("begun")  # in the middle of the next state's step
    process.send_signal(signal.SIGTERM)
    assert process.stderr is not None
    while b'"ending"' not in process.stderr.readline():
        pass
    (flowing.folder / "go").touch()
    out, err = process.communicate(timeout=PATIENCE_SECONDS)

    assert (process.returncode, out, within(flowing, _seen)) == (0, b"", ("ended", "DONE"))
    assert b"canary-1" not in err
    assert (flowing.folder / "asked.txt").read_text() == "ran\n"
    assert flowing.run("worker", "--once", "--json").data["moved"] == 0


def test_a_run_that_somebody_has_to_drive_is_said_to_be_due(flowing: Project) -> None:
    def rests() -> str:
        (line,) = (each for each in flowing.run("runs", "show", "r1").out.splitlines() if each.startswith("rests"))
        return line.removeprefix("rests").strip()

    within(flowing, _begun)
    assert rests() == "ASK (visit 1) of flow 1, due: whoever serves its workflow drives it"

    assert flowing.run("worker", "--once").code == 0
    assert re.fullmatch(r"ASK \(visit 1\) of flow 1, approval required, looked at again 20\S+Z", rests())

    [waiting] = flowing.run("approvals", "list", "--json").data["approvals"]
    assert flowing.approved(waiting["approval_id"]).code == 0
    assert rests() == "ASK (visit 1) of flow 1, due: whoever serves its workflow drives it"


def test_the_option_names_others_and_a_function_makes_them_on_the_gate(flowing: Project) -> None:
    flowing.rewrite('workflows = "flows:FLOWS"', "")
    within(flowing, _begun)
    unserved = flowing.run("worker", "--once", "--json")
    assert (unserved.code, "moved" in unserved.data, within(flowing, _seen)) == (0, False, ("ready", "ASK"))

    ran = flowing.run("worker", "--once", "--json", "--workflows", "flows:made")

    assert (ran.code, ran.data["moved"], within(flowing, _seen)) == (0, 1, ("waiting", "ASK"))


@pytest.mark.parametrize(
    "place",
    [
        "flows:NONE",
        "flows:wrong",
        "nothing:FLOWS",
        "flows:FLOW",
        "flows:broken",
        "flows:leaves",
        "flows:later",
    ],
)
def test_what_is_no_workflow_is_told_before_anything_is_driven(flowing: Project, place: str) -> None:
    within(flowing, _begun)

    ran = flowing.run("worker", "--once", "--json", "--workflows", place)

    assert (ran.code, ran.data["code"]) == (2, "workflows_not_loaded")
    assert ran.data["hint"] and "s3cr3t" not in ran.out + ran.err and "never awaited" not in ran.err
    assert within(flowing, _seen) == ("ready", "ASK")


def test_one_workflow_where_a_collection_is_meant_is_told_as_that(flowing: Project) -> None:
    ran = flowing.run("worker", "--once", "--json", "--workflows", "flows:FLOW")

    assert ran.data["message"] == "flows:FLOW is one workflow, where a collection of them is meant."
    assert "WORKFLOWS = (ORDER,)" in ran.data["hint"]


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('next=("NOWHERE",)', "ASK may go on to 'NOWHERE', which is no state."),
        ("next=7", "next= of ASK is a tuple of names of states."),
    ],
)
def test_a_definition_that_cannot_be_is_told_with_its_place(flowing: Project, wrong: str, said: str) -> None:
    file = flowing.folder / "flows.py"
    source = re.sub(r"next=\(.*?\)", wrong, file.read_text(), count=1)
    file.write_text(source)

    ran = flowing.run("worker", "--once", "--json")

    assert (ran.code, ran.data["code"], ran.data["message"]) == (2, "misuse", said)
    assert re.fullmatch(r"Mend flows\.py, line \d+\. PLACET_DEBUG=1 shows the traceback\.", ran.data["hint"])


def test_a_place_that_is_none_is_told_with_its_form(flowing: Project) -> None:
    ran = flowing.run("worker", "--once", "--json", "--workflows", "flows")
    assert (ran.code, ran.data["code"]) == (2, "config_invalid")
    assert ran.data["hint"] == 'A module and a name in it, such as "workflows:WORKFLOWS".'
    assert 'workflows = "flows:FLOWS"' not in ran.err
    assert flowing.run("config", "show", "--json").data["settings"]["workflows"]["value"] == "flows:FLOWS"
