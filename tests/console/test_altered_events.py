"""An event that somebody altered in the store is shown as unreadable, and breaks no page that shows others."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.console.shop import Shop, open_shop

_AT = '"at":"2026-01-01T13:00:00.000000+00:00","tenant":"acme"'
ALTERED = {
    **{f"{deep} deep": f'{{{_AT},"x":{"[" * deep}1{"]" * deep}}}' for deep in (17, 700, 985)},
    "too large a number": f'{{{_AT},"fence":1{"0" * 400}}}',
    "no instant": '{"at":"nonsense","tenant":"acme","kind":"started"}',
    "an instant of nowhere": '{"at":"2026-01-01","tenant":"acme","kind":"started"}',
    "an instant before all": '{"at":"0001-01-01T00:00:00+14:00","tenant":"acme","kind":"started"}',
    "half a character": f'{{{_AT},"kind":"\\ud800"}}',
}
PAGES = ("/audit", "/audit/events.jsonl", "/runs", "/run?run=run-1")


def alter(file: Path, body: str) -> None:
    with closing(apsw.Connection(str(file))) as other:
        triggers = other.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'audit_events'")
        for (name,) in list(triggers):
            other.execute(f'DROP TRIGGER "{name}"')
        other.execute("UPDATE audit_events SET body = ? WHERE sequence = 2", (body,))


async def found(shop: Shop, path: str) -> tuple[int, bool]:
    answer = await shop.browser.get(f"/console{path}")
    return answer.status_code, "refund" in answer.text


async def test_no_page_breaks_over_an_altered_event(tmp_path: Path) -> None:
    file = tmp_path / "placet.db"
    seen = {}
    async with open_shop(file) as shop:
        for number in range(3):
            await shop.ask("refund", order=f"o-{number}", amount=number)
        for name, body in ALTERED.items():
            alter(file, body)
            seen[name] = [await found(shop, path) for path in PAGES]

            if name == "no instant":
                assert "nonsense" in (await shop.browser.get("/console/audit/events.jsonl")).text

    assert seen == {name: [(200, True)] * len(PAGES) for name in ALTERED}


@pytest.mark.parametrize("deep", [16, 17])
async def test_what_is_nested_as_no_event_of_ours_is_shown_as_unreadable(tmp_path: Path, deep: int) -> None:
    file = tmp_path / "placet.db"
    async with open_shop(file) as shop:
        for number in range(3):
            await shop.ask("refund", order=f"o-{number}", amount=number)
        alter(file, f'{{{_AT},"kind":"started","detail":"told_here","x":{"[" * (deep - 1)}1{"]" * (deep - 1)}}}')
        text = (await shop.browser.get("/console/audit")).text

    assert ("unreadable" in text, "told_here" in text) == (deep == 17, deep == 16)
