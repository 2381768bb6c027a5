"""How much of a value audit looks at: eight levels, 256 members of each, 4,096 values, 1,024 characters."""

from __future__ import annotations

from collections import UserDict
from enum import Enum
from typing import Any

import pytest

from placet.rules.summaries import summary
from tests.rules.test_summaries import Name, counted, part


def boxes(levels: int, *, around: object = 1) -> list[Any]:
    value: list[Any] = [around]
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.req("B131")
def test_eight_containers_are_entered_and_the_ninth_is_not() -> None:
    assert part(boxes(8)) == b"l1:" * 8 + b"i1;"
    assert part(boxes(9)) == part(boxes(30)) == b"l1:" * 8 + b"p[DEPTH_LIMIT]"
    assert part(boxes(8, around=Name("x"))) == b"l1:" * 8 + b"s1:x", "text is text, whatever its class"
    assert part({"a": boxes(7)}) == b"d1:s1:a" + b"l1:" * 7 + b"i1;"
    assert part({"a": boxes(8)}) == b"d1:s1:a" + b"l1:" * 7 + b"p[DEPTH_LIMIT]"
    assert summary(boxes(8)) == counted(collection=8, scalar=1)
    assert summary(boxes(9)) == counted(collection=9)
    assert summary({"a": boxes(7)}) == counted(field=1, collection=8, scalar=1)
    assert summary({"a": boxes(8)}) == counted(field=1, collection=9)


@pytest.mark.req("B131")
def test_256_members_count_and_that_there_are_more() -> None:
    def names(count: int) -> dict[str, int]:
        return {f"{number:03}": 7 for number in range(count)}

    written = b"".join(b"s3:%03di7;" % number for number in range(256))

    assert part([7] * 256) == b"l256:" + b"i7;" * 256
    assert part([7] * 257) == part([7] * 999) == b"l257:" + b"i7;" * 256 + b"p[ITEM_LIMIT]"
    assert part(names(256)) == b"d256:" + written
    assert part(names(257)) == part(names(300)) == b"d257:" + written + b"p[ITEM_LIMIT]"
    assert part([names(257)]) == b"l1:d257:" + written + b"p[ITEM_LIMIT]"
    assert summary([7] * 256) == summary([7] * 257) == counted(collection=1, scalar=256)
    assert summary(names(256)) == summary(names(257)) == counted(field=256, collection=1, scalar=256)
    assert summary([names(257)]) == counted(field=256, collection=2, scalar=256)


def fifteen_full_and(*more: object) -> list[Any]:
    """Seventeen members of the outermost and 3,840 inside: 239 more of 4,096 may be met."""
    assert len(more) == 2
    return [*([1] * 256 for _ in range(15)), *more]


@pytest.mark.parametrize("kind", [list, dict])
def test_4096_values_are_met_together_and_then_no_container_is_entered(kind: Any) -> None:
    def of(count: int) -> Any:
        return [1] * count if kind is list else {f"{number:03}": 1 for number in range(count)}

    last = part([0])
    for count, is_entered in ((238, True), (239, False), (240, False)):
        form = part(fifteen_full_and(of(count), [0]))
        assert form.endswith(last) is is_entered
        assert form.endswith(b"p[ITEM_LIMIT]") is not is_entered
        scalars = 15 * 256 + count + is_entered
        assert summary(fifteen_full_and(of(count), [0])) == counted(
            collection=18, scalar=scalars, field=count if kind is dict else 0
        )


@pytest.mark.req("B131")
def test_members_that_are_each_small_enough_are_bounded_together() -> None:
    shared: object = "leaf"
    for _ in range(8):
        shared = [shared] * 256

    assert len(part(shared)) < 1_000_000
    assert summary(shared)["scalar_count"] + summary(shared)["collection_count"] < 10_000
    assert len(part(["x" * 100_000] * 256)) < 300_000


@pytest.mark.req("B132")
@pytest.mark.parametrize("wrap", [str, lambda text: {"a": text}, lambda text: [text], lambda text: UserDict(a=text)])
def test_a_long_text_counts_by_its_beginning_and_its_length(wrap: Any) -> None:
    assert part(wrap("x" * 1025)) != part(wrap("x" * 1026))
    assert part(wrap("x" * 1024 + "tail")) == part(wrap("x" * 1024 + "liat"))
    assert part(wrap("x" * 1023 + "a")) != part(wrap("x" * 1023 + "b"))


def test_of_a_mapping_too_large_what_counts_is_entered_all_the_same() -> None:
    large: dict[str, object] = {"000": [7]} | {f"{number:04}": 7 for number in range(1, 6000)}

    assert part(large).startswith(b"d257:s3:000l1:i7;s4:0001i7;")
    assert summary(large) == counted(field=256, scalar=256, collection=2)


def test_a_wrapper_counts_as_a_level_and_as_no_collection_of_its_own() -> None:
    class Level(Enum):
        LOW = "low"
        MANY = (1, 2)

    assert part([Level.LOW]) == b"l1:s3:low"
    assert part([Level.MANY]) == b"l1:l2:i1;i2;"
    assert summary([Level.LOW]) == counted(collection=1, scalar=1)
    assert summary([Level.MANY]) == counted(collection=2, scalar=2)
    six, seven = boxes(6, around=Level.MANY), boxes(7, around=Level.MANY)
    assert part(six) == b"l1:" * 6 + b"l2:i1;i2;"
    assert part(seven) == b"l1:" * 7 + b"p[DEPTH_LIMIT]"
    assert summary(six) == counted(collection=7, scalar=2)
    assert summary(seven) == counted(collection=8)
