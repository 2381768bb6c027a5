"""Which key a chain grows under, while keys change beside it."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path

import pytest

from placet.adapters.keys import KeyFile, create_key_file, load_key_file
from placet.adapters.stores.chain import ChainWriter
from placet.model.audit import AuditEvent, AuditOutcome, EventKind
from placet.model.identifiers import WriterId
from placet.ports.keys import STORE_CHECK, KeyPurpose

AT = datetime(2026, 3, 1, tzinfo=UTC)
EVENT = AuditEvent(
    kind=EventKind.COMPLETED, outcome=AuditOutcome.SUCCESS, at=AT, tenant="acme", subject="agent", key_id="k-1",
    run_id="r", call_id="c", attempt=1,
)  # type: ignore[arg-type]  # fmt: skip


@pytest.mark.req("B137")
def test_a_rotation_is_followed_though_the_first_look_at_the_keys_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_key_file(tmp_path / "k")
    keys = load_key_file(tmp_path / "k")
    chain = ChainWriter(keys, WriterId("w-1"), opened_after=b"{}")
    chain.noted(keys.mac(KeyPurpose.STORE, STORE_CHECK))
    shelf = KeyFile(tmp_path / "k")
    with shelf.held():
        new = shelf.add_current(at=AT)
    adopted = load_key_file(tmp_path / "k").mac(KeyPurpose.STORE, STORE_CHECK)

    def failing(self: Path, *args: object, **kwargs: object) -> object:
        raise OSError(errno.EMFILE, "SECRET-TEXT")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", failing)
        chain.noted(adopted)
        assert chain.link(EVENT).key_id != new, "nothing is refused for a look that failed"
    chain.noted(adopted)

    assert chain.link(EVENT).key_id == new


def test_keys_are_looked_at_again_only_while_the_store_says_something_new(tmp_path: Path) -> None:
    looks: list[str] = []
    keys = create_key_file(tmp_path / "k")
    chain = ChainWriter(keys, WriterId("w-1"), opened_after=b"{}")
    check = keys.mac(KeyPurpose.STORE, STORE_CHECK)
    refresh = keys.refresh
    keys.refresh = lambda: (looks.append("look"), refresh())[1]  # type: ignore[func-returns-value,method-assign]

    for _ in range(3):
        chain.noted(check)

    assert looks == ["look"]
