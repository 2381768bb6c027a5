"""What the command line says of a call whose approval is bound to a state of the world."""

from __future__ import annotations

import re

import pytest

from tests.cli.conftest import Project

BOUND = '''

async def version(asked):
    return {"version": (HERE / "version.txt").read_text()}


@write("close", approval="always", precondition=version)
async def close(account: str) -> str:
    """Close an account."""
    return "closed"


TOOLS += [close]
'''


@pytest.fixture
def bound(project: Project) -> Project:
    with (project.folder / "tools.py").open("a") as file:
        file.write(BOUND)
    (project.folder / "version.txt").write_text("canary-12")
    return project


@pytest.mark.case("E12")
def test_a_person_is_told_that_it_is_bound_and_is_asked_anew_where_the_state_has_changed(bound: Project) -> None:
    first = bound.asked("close", '{"account": "a-1"}')
    shown = bound.run("approvals", "show", first)
    data = bound.run("approvals", "show", first, "--json").data
    bound.approved(first)

    (bound.folder / "version.txt").write_text("canary-13")
    second = bound.asked("close", '{"account": "a-1"}')
    anew = bound.run("approvals", "show", second)
    bound.approved(second)
    (bound.folder / "version.txt").unlink()
    unread = bound.call("close", '{"account": "a-1"}', "--run", "r1")
    (bound.folder / "version.txt").write_text("canary-13")
    done = bound.call("close", '{"account": "a-1"}', "--run", "r1")

    assert re.fullmatch("[0-9a-f]{12}", data["state_digest"])
    assert f"the state of the world when it was asked, {data['state_digest']}" in shown.out
    assert second != first and "state_changed" in anew.out and data["state_digest"] not in anew.out
    assert (unread.data["code"], unread.data["may_have_acted"]) == ("precondition_unavailable", False)
    assert (done.code, done.data["code"]) == (0, "succeeded")
    told = bound.run("audit", "events", "--jsonl")
    assert "canary" not in "".join(each.out + each.err for each in (shown, anew, unread, done, told))


def test_a_tool_is_listed_with_its_precondition(bound: Project) -> None:
    assert bound.run("tools", "show", "close", "--json").data["has_precondition"] is True
    assert bound.run("tools", "show", "pay", "--json").data["has_precondition"] is False
