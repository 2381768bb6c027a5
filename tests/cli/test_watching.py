"""What changed between two looks, without a process: the clock is a value."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from placet.cli.seen import Seen
from placet.cli.watching import EXPIRING_SECONDS, appeared
from placet.engine.desk import ApprovalView
from placet.model.approval import ApprovalState

AT = datetime(2026, 3, 1, tzinfo=UTC)


def seen(name: str, *, seconds_left: float = 3600.0) -> Seen:
    values: dict[str, object] = dict.fromkeys(ApprovalView.__slots__)
    values |= {"approval_id": name, "state": ApprovalState.PENDING, "decide_by": AT + timedelta(seconds=seconds_left)}
    return Seen(view=ApprovalView(**values), now=AT)


def told(before: list[Seen], now: list[Seen]) -> list[tuple[str, str]]:
    known = {each.view.approval_id: each for each in before}
    return [(change.word, change.seen.view.approval_id) for change in appeared(known, now)]


def test_what_is_new_is_told_oldest_first_and_once() -> None:
    one, two = seen("one"), seen("two")
    assert told([], [two, one]) == [("new", "one"), ("new", "two")]
    assert told([one], [two, one]) == [("new", "two")]
    assert told([one, two], [two, one]) == []


def test_what_is_about_to_expire_is_told_once() -> None:
    early, late = seen("one"), seen("one", seconds_left=EXPIRING_SECONDS)
    assert told([early], [late]) == [("expiring", "one")]
    assert told([late], [replace(late, now=AT + timedelta(seconds=1))]) == []
    assert told([], [late]) == [("new", "one"), ("expiring", "one")]
    just_before = seen("one", seconds_left=EXPIRING_SECONDS + 0.001)
    assert told([early], [just_before]) == []
