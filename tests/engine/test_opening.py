"""Opening a store: what is missing, lost or closed to this user is told, and never replaced by an empty ledger."""

from __future__ import annotations

import copy
import os
from pathlib import Path

import pytest

import placet
from placet.bootstrap.stores import make_store, open_existing_store, open_store
from placet.errors import ConfigurationError, KeyMaterialError, MisuseError, StoreMissing, StoreNotWritable


async def opened(store: object, **options: object) -> None:
    async with placet.open(tools=[], store=store, **options):  # type: ignore[arg-type]
        return


async def test_a_lost_store_beside_its_key_is_not_replaced_by_an_empty_one(tmp_path: Path) -> None:
    store = tmp_path / "p.db"
    await opened(store)
    for file in tmp_path.glob("p.db*"):
        if file.suffix != ".key":
            file.unlink()

    with pytest.raises(StoreMissing) as lost:
        await opened(store)

    assert lost.value.code == "store_lost"
    assert not store.exists()


async def test_a_key_whose_store_is_elsewhere_makes_no_second_ledger(tmp_path: Path) -> None:
    """A path that was mistyped would be an empty ledger, and everything could be done again."""
    await opened(tmp_path / "first.db", key=tmp_path / "the.key")

    with pytest.raises(StoreMissing) as lost:
        await opened(tmp_path / "second.db", key=tmp_path / "the.key")

    assert lost.value.code == "store_lost" and "--new-ledger" in lost.value.hint
    assert not (tmp_path / "second.db").exists()


async def test_who_asks_for_a_new_ledger_under_a_key_that_is_there_gets_one(tmp_path: Path) -> None:
    """As on a host whose key came before its store."""
    await opened(tmp_path / "first.db", key=tmp_path / "the.key")
    before = (tmp_path / "the.key").read_bytes()

    _, store = make_store(tmp_path / "second.db", key=tmp_path / "the.key")
    await store.close()

    assert (tmp_path / "the.key").read_bytes() == before
    await opened(tmp_path / "second.db", key=tmp_path / "the.key")


async def test_a_store_without_its_key_stays_closed(tmp_path: Path) -> None:
    await opened(tmp_path / "p.db")
    (tmp_path / "p.db.key").unlink()

    with pytest.raises(KeyMaterialError) as refused:
        await opened(tmp_path / "p.db")

    assert refused.value.code == "key_missing"


async def test_a_store_that_cannot_be_made_leaves_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would stand in the way of the next opening, as the key of a lost store does."""
    closed, keys = tmp_path / "closed", tmp_path / "keys"
    closed.mkdir()
    keys.mkdir()
    real = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != closed and real(path, mode))  # binds root, too
    for make in (open_store, make_store):
        with pytest.raises(StoreNotWritable):
            make(closed / "p.db", key=keys / "k")
        assert list(keys.iterdir()) == []

    monkeypatch.undo()
    await opened(closed / "p.db", key=keys / "k")


@pytest.mark.parametrize("where", [".", "", "..", "/"])
async def test_a_folder_is_not_a_store(where: str) -> None:
    with pytest.raises(ConfigurationError):
        await opened(where)


async def test_a_missing_folder_is_told(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing):
        await opened(tmp_path / "no" / "p.db")


def test_a_gate_that_was_not_entered_says_how_to_open_it_and_has_nothing() -> None:
    gate = placet.open(tools=[], store=placet.MEMORY)

    with pytest.raises(MisuseError, match=r"Open it first: with placet\.open\(\.\.\.\) as gate") as misused:
        gate.submit({}, principal=None, run="r")  # type: ignore[attr-defined]

    assert isinstance(misused.value, AttributeError)
    assert not hasattr(gate, "submit")
    assert getattr(gate, "desk", None) is None
    assert copy.copy(gate) is not gate


def test_python_speaks_of_placet_open_when_an_argument_is_wrong() -> None:
    with pytest.raises(TypeError, match=r"^placet\.open\(\) got an unexpected keyword argument 'tols'"):
        placet.open(tols=[])  # type: ignore[call-arg]


@pytest.mark.parametrize("url", ["postgresql+asyncpg://mara:hunter2@db/ledger", "Postgres://mara:hunter2@db/ledger"])
async def test_a_url_of_another_kind_is_no_path_and_is_not_repeated(url: str) -> None:
    for opening in (lambda: placet.open(tools=(), store=url).__enter__(), lambda: open_existing_store(url)):
        with pytest.raises(ConfigurationError) as refused:
            opening()
        assert "hunter2" not in f"{refused.value!r}{refused.value.hint}" and "postgresql://" in refused.value.hint
