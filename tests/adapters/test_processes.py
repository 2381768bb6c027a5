"""Who owns an effect, and whether that process is proven to be gone."""

from __future__ import annotations

import subprocess
import sys

import pytest

from placet.adapters.processes import LocalProcesses
from placet.model.identifiers import OwnerId

SLEEPS = "import time; time.sleep(600)"
HERE = LocalProcesses().own_id().rsplit("/", 3)[0]


def _owner(pid: object, started: str = "1", where: str = HERE) -> OwnerId:
    return OwnerId(f"{where}/{pid}/{started}/0a1b2c3d")


def test_a_process_is_alive_to_itself_and_each_of_its_owners_is_another() -> None:
    processes = LocalProcesses()
    one, other = processes.own_id(), processes.own_id()

    assert one != other
    assert not processes.is_dead(one) and not processes.is_dead(other)


@pytest.mark.parametrize("is_waited_for", [True, False])
def test_a_process_that_has_ended_is_dead_whether_or_not_anybody_waited_for_it(is_waited_for: bool) -> None:
    processes = LocalProcesses()
    child = subprocess.Popen([sys.executable, "-c", SLEEPS])
    try:
        with open(f"/proc/{child.pid}/stat", encoding="ascii") as file:
            started = file.read().rpartition(")")[2].split()[19]
        owner = _owner(child.pid, started)
        assert not processes.is_dead(owner)
        assert processes.is_dead(_owner(child.pid, started + "0"))  # its number was another's before
        child.kill()
        if is_waited_for:
            child.wait()
        else:
            while not processes.is_dead(owner):
                pass
        assert processes.is_dead(owner)
    finally:
        child.kill()
        child.wait()


@pytest.mark.parametrize(
    "owner",
    [
        _owner(4_194_305, where="elsewhere/boot/pid:[1]"),
        _owner(4_194_305, where=f"x{HERE}"),
        _owner("\u00b2"),
        _owner("9" * 30),
        _owner("-1"),
        _owner("0"),
        _owner(""),
        OwnerId(HERE),
        OwnerId(f"{HERE}/1"),
        OwnerId(""),
    ],
    ids=[
        "another host",
        "more before it",
        "no digit",
        "too large",
        "below",
        "a group",
        "none",
        "here",
        "part",
        "empty",
    ],
)
def test_what_is_no_process_of_this_host_is_never_proven_dead(owner: OwnerId) -> None:
    assert not LocalProcesses().is_dead(owner)
