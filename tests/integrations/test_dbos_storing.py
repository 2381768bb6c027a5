"""What DBOS writes of runs, what it makes of rows that somebody else wrote, and who of its executors is alive."""

from __future__ import annotations

import base64
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from placet.errors import ConfigurationError, MisuseError
from placet.integrations.dbos import storing
from placet.integrations.dbos.presence import Presence
from placet.integrations.dbos.storing import NamesOnly
from tests.postgres.fixtures import Database

SERIALIZER = NamesOnly()


def test_names_go_there_and_back() -> None:
    for value in (None, "wake", 60.0, {"progress": "fault", "code": "x"}, {"args": ("acme", "run-1"), "kwargs": {}}):
        assert SERIALIZER.deserialize(SERIALIZER.serialize(value)) == value


def test_nothing_else_goes_there_and_an_error_goes_without_its_words() -> None:
    for value in ({"question": "x"}, {"args": ({"question": "x"},), "kwargs": {}}, {"args": (), "kwargs": {"x": "y"}}):
        with pytest.raises(MisuseError):
            SERIALIZER.serialize(value)
    assert SERIALIZER.serialize(ValueError("secret")) == '{"progress":"fault","code":"engine_fault"}'


def test_what_does_not_read_is_nothing() -> None:
    for text in ("", "{", '{"question":"x"}', base64.b64encode(pickle.dumps("x")).decode()):
        assert SERIALIZER.deserialize(text) is None


class Bomb:
    """What unpickling it does is what whoever wrote it likes."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


_READ = """
import sys
from placet.integrations.dbos.storing import NamesOnly, refuse_pickles
from dbos._serialization import deserialize_value, deserialize_args, deserialize_exception
if sys.argv[1] == "refuse":
    refuse_pickles()
for read in (deserialize_value, deserialize_args, deserialize_exception):
    try:
        print(read(sys.argv[2], "py_pickle", NamesOnly()))
    except OSError:
        pass
"""


@pytest.mark.parametrize(("word", "is_harmless"), [("refuse", True), ("trust", False)])
def test_a_row_that_says_it_is_a_pickle_runs_nothing(tmp_path: Path, word: str, is_harmless: bool) -> None:
    """DBOS reads a row as the row says. `trust` shows what would happen: the row is one that can do harm."""
    row = base64.b64encode(pickle.dumps(Bomb(tmp_path / "made"))).decode()
    subprocess.run([sys.executable, "-c", _READ, word, row], check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert (tmp_path / "made").exists() is not is_harmless


# ---------------------------------------------------------------- who is alive


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path, databases: Callable[..., Database]) -> str:
    is_file = request.param == "sqlite"
    return f"sqlite:///{tmp_path / 'dbos.db'}" if is_file else sqlalchemy_url(databases(is_empty=True))


def sqlalchemy_url(database: Database) -> str:
    return database.url.replace("postgresql://", "postgresql+psycopg://", 1)


Present = Callable[..., Presence]


@pytest.fixture
def present(url: str) -> Present:
    def make(executor: str, *, token: str, dead_after_seconds: float = 3_600.0) -> Presence:
        presence = Presence(url, executor=executor, token=token, dead_after_seconds=dead_after_seconds)
        presence.prepare()
        return presence

    return make


def test_a_name_has_one_process_while_it_lives(present: Present) -> None:
    first, second = present("worker-1", token="t1"), present("worker-1", token="t2")
    assert first.takes_name()
    assert not second.takes_name()
    assert (first.renew(), second.renew()) == (True, False)


def test_the_name_of_one_that_died_is_free_and_the_dead_one_that_wakes_up_hears_of_it(present: Present) -> None:
    first = present("worker-1", token="t1")
    assert first.takes_name()
    second = present("worker-1", token="t2", dead_after_seconds=-1.0)  # as if so much time had gone by
    assert second.takes_name()
    assert (first.renew(), second.renew()) == (False, True)


def test_one_that_was_not_heard_of_is_taken_over_by_one(present: Present) -> None:
    assert present("worker-1", token="t1").takes_name()
    patient, *hasty = (
        present(f"worker-{n}", token=f"t{n}", dead_after_seconds=3_600.0 if n == 2 else -1.0) for n in (2, 3, 4)
    )
    assert patient.lost() == ()
    lost = [each.lost() for each in hasty]
    assert [each.executor for each in lost[0]] == ["worker-1"]
    assert [each.takes_over(lost[0][0]) for each in hasty] == [True, False]

    # whoever takes over and dies over it leaves it for the next
    [again] = hasty[1].lost()
    assert hasty[1].takes_over(again)
    hasty[1].forget(again)
    assert hasty[0].lost() == ()


def test_one_that_leaves_is_taken_over_at_once(present: Present) -> None:
    first, second = present("worker-1", token="t1"), present("worker-2", token="t2")
    assert first.takes_name() and second.takes_name()
    first.leave()
    assert [each.executor for each in second.lost()] == ["worker-1"]


def test_a_version_that_unpickles_by_another_way_is_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def reads(value: str, *_: object) -> object:
        return pickle.loads(base64.b64decode(value))  # what another version might do

    monkeypatch.setattr(storing, "deserialize_value", reads)
    with pytest.raises(ConfigurationError) as refused:
        storing.refuse_pickles()
    assert (refused.value.code, refused.value.__context__) == ("engine_unpickles", None)


def test_the_version_that_is_installed_is_started() -> None:
    storing.refuse_pickles()
