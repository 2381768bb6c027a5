"""The protocol gate: what is a proposal, and what the audit may say of something that is none."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from placet.errors import ProtocolRejected
from placet.model.proposal import Proposal
from placet.rules import proposals

MARK = "phone=13800138000"


class RaisingText(str):
    """A text whose every method that could be used to look at it raises."""

    def _raise(self, *_: object) -> Any:
        raise RuntimeError(MARK)

    __eq__ = __ne__ = __hash__ = __len__ = __str__ = __repr__ = __format__ = __contains__ = __iter__ = _raise
    encode = isascii = lower = strip = _raise


class LyingInt(int):
    def __le__(self, other: object) -> bool:
        return True

    __ge__ = __lt__ = __gt__ = __eq__ = __le__  # type: ignore[assignment]
    __hash__ = int.__hash__


class RaisingClass:
    @property
    def __class__(self) -> Any:
        raise RuntimeError(MARK)


class RaisingKey:
    """Any look-up of `attempt` in a dict that holds it would compare it."""

    def __hash__(self) -> int:
        return hash("attempt")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError(MARK)


class Exploding(Mapping[str, object]):
    """A mapping whose every method raises what it was given."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __getitem__(self, key: str) -> object:
        raise self._error

    def __iter__(self) -> Iterator[str]:
        raise self._error

    def __len__(self) -> int:
        raise self._error

    def items(self) -> Any:
        raise self._error

    def get(self, key: str, default: object = None) -> Any:
        raise self._error


class NamedMeta(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError(MARK)

    def __eq__(cls, other: object) -> bool:
        raise RuntimeError(MARK)

    def __hash__(cls) -> int:
        raise RuntimeError(MARK)


class HostileMeta(metaclass=NamedMeta):
    pass


def raw(**changes: object) -> dict[str, object]:
    return {"call_id": "c1", "tool": "look", "arguments": {"word": "x"}} | changes


def without(member: str) -> dict[str, object]:
    return {name: value for name, value in raw().items() if name != member}


def assert_rejected_quietly(value: object) -> None:
    with pytest.raises(ProtocolRejected) as caught:
        proposals.read_proposal(value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert MARK not in f"{caught.value!s}{caught.value!r}{caught.value.reason}"


def test_a_plain_dict_becomes_a_proposal_with_attempt_one() -> None:
    assert proposals.read_proposal(raw()) == Proposal(
        call_id="c1", tool="look", arguments={"word": "x"}, version=None, attempt=1
    )


@pytest.mark.req("H001")
def test_all_five_members_are_kept() -> None:
    full = raw(version="2", attempt=4)

    assert proposals.read_proposal(full) == Proposal(
        call_id="c1", tool="look", arguments={"word": "x"}, version="2", attempt=4
    )


def test_a_proposal_object_passes_the_same_checks_and_is_kept_whole() -> None:
    full = Proposal(call_id="c1", tool="look", arguments={"word": "x"}, version="2", attempt=4, is_truncated=True)

    assert proposals.read_proposal(full) == full
    assert_rejected_quietly(Proposal(call_id="a/b", tool="look", arguments={}))
    assert_rejected_quietly(dataclasses.replace(full, version=2))
    assert_rejected_quietly(dataclasses.replace(full, attempt=0))
    assert proposals.read_proposal(Proposal(call_id="c1", tool="look", arguments={})).call_id == "c1"


@pytest.mark.req("B002")
@pytest.mark.parametrize("call_id", ["a", "A.b_c:d-9", "0" * 128])
def test_call_ids_of_the_pattern_are_accepted(call_id: str) -> None:
    assert proposals.read_proposal(raw(call_id=call_id)).call_id == call_id


@pytest.mark.req("B002")
@pytest.mark.parametrize(
    "call_id",
    ["", "x" * 129, "a/b", ".a", "-a", "a\n", "\na", " a", "é", "a\u0435", "a b", "\ud800", None, 7, b"a", ["a"], True],
)
def test_any_other_call_id_is_rejected(call_id: object) -> None:
    assert_rejected_quietly(raw(call_id=call_id))


@pytest.mark.req("B002", "B003")
@pytest.mark.parametrize("member", ["call_id", "tool", "version"])
def test_text_that_is_a_subclass_is_rejected_and_none_of_its_methods_runs(member: str) -> None:
    assert_rejected_quietly(raw(**{member: RaisingText("look")}))


@pytest.mark.req("B003")
@pytest.mark.parametrize("tool", [[], ["look"], 7, None, b"look", {"look": 1}, True, "", "x" * 257])
def test_a_tool_name_that_is_no_text_of_1_to_256_characters_is_rejected(tool: object) -> None:
    assert_rejected_quietly(raw(tool=tool))


@pytest.mark.req("B005")
@pytest.mark.parametrize("attempt", [0, -1, True, False, 1.0, "1", 101, None, 10**30, LyingInt(500)])
def test_an_attempt_is_an_exact_integer_from_1_to_100(attempt: object) -> None:
    assert_rejected_quietly(raw(attempt=attempt))


@pytest.mark.req("B005")
@pytest.mark.parametrize("attempt", [1, 2, 99, 100])
def test_attempts_from_1_to_100_are_accepted(attempt: int) -> None:
    assert proposals.read_proposal(raw(attempt=attempt)).attempt == attempt


@pytest.mark.parametrize("missing", [field.name for field in dataclasses.fields(Proposal)])
def test_a_proposal_made_without_its_constructor_is_rejected(missing: str) -> None:
    bare = Proposal.__new__(Proposal)
    for name, value in {"version": None, "attempt": 2, "is_truncated": False, **raw()}.items():
        if name != missing:
            object.__setattr__(bare, name, value)

    assert_rejected_quietly(bare)
    assert proposals.audit_substitutes(bare) == ("invalid", None, 1)


@pytest.mark.parametrize(("mark", "read"), [(True, True), (False, False), (None, True), ("", True), (0, True)])
def test_only_a_plain_false_says_that_the_turn_was_not_cut_off(mark: Any, read: bool) -> None:
    cut = Proposal(call_id="c1", tool="look", arguments={}, is_truncated=mark)

    assert proposals.read_proposal(cut).is_truncated is read
    assert proposals.read_proposal(raw()).is_truncated is False


@pytest.mark.parametrize("name", ["x", "x" * 256])
def test_names_and_versions_of_1_to_256_characters_are_accepted(name: str) -> None:
    proposal = proposals.read_proposal(raw(tool=name, version=name))

    assert (proposal.tool, proposal.version) == (name, name)


@pytest.mark.parametrize("version", ["", 1, True, b"1", "v" * 257])
def test_a_version_is_text(version: object) -> None:
    assert_rejected_quietly(raw(version=version))


def test_no_version_is_the_same_as_a_version_of_null() -> None:
    assert proposals.read_proposal(raw(version=None)) == proposals.read_proposal(raw())


@pytest.mark.req("B007")
@pytest.mark.parametrize("member", ["call_id", "tool", "arguments"])
def test_a_missing_member_is_rejected(member: str) -> None:
    assert_rejected_quietly(without(member))


@pytest.mark.req("B007", "B042")
@pytest.mark.parametrize("member", ["id", "name", "tenant", "approval_id", "confirmed", "principal", "idempotency_key"])
def test_a_further_member_is_rejected(member: str) -> None:
    assert_rejected_quietly(raw(**{member: "x"}))


@pytest.mark.req("B018")
@pytest.mark.parametrize("key", ["hostile", 1, None, b"call_id", ("tool",)])
def test_a_member_name_that_is_no_exact_text_is_rejected_before_it_is_compared(key: object) -> None:
    hostile: dict[object, object] = {RaisingKey() if key == "hostile" else key: "x"}
    hostile.update(raw())

    assert_rejected_quietly(hostile)


@pytest.mark.req("B013")
@pytest.mark.parametrize("value", [None, 7, "x", [], (), b"{}", True, 1.5, object()])
def test_what_is_neither_a_proposal_nor_a_dict_is_rejected(value: object) -> None:
    assert_rejected_quietly(value)


class DictChild(dict[str, object]):
    def __iter__(self) -> Any:
        raise RuntimeError(MARK)

    items = keys = values = get = __len__ = __getitem__ = __contains__ = __iter__  # type: ignore[assignment]


HOSTILE: dict[str, Callable[[], object]] = {  # made late: pytest itself would look at them
    "dict subclass": lambda: DictChild(raw()),
    "raises": lambda: Exploding(RuntimeError(MARK)),
    "cancels": lambda: Exploding(asyncio.CancelledError(MARK)),
    "interrupts": lambda: Exploding(KeyboardInterrupt(MARK)),
    "exits": lambda: Exploding(SystemExit(MARK)),
    "raising __class__": RaisingClass,
    "hostile metaclass": HostileMeta,
    "text subclass": lambda: RaisingText("x"),
}


@pytest.mark.req("B011", "B012", "B018")
@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_object_is_rejected_without_cause_and_without_its_text(name: str) -> None:
    assert_rejected_quietly(HOSTILE[name]())


@pytest.mark.req("B014")
def test_the_callers_mapping_may_change_afterwards_without_effect() -> None:
    mine = raw()
    proposal = proposals.read_proposal(mine)

    mine["tool"] = "erase"
    mine["call_id"] = "c2"

    assert (proposal.call_id, proposal.tool) == ("c1", "look")


@pytest.mark.req("B010")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (raw(), ("c1", "look", 1)),
        (raw(attempt=100), ("c1", "look", 100)),
        (raw(attempt=1), ("c1", "look", 1)),
        (raw(attempt=2), ("c1", "look", 2)),
        (raw(attempt=101), ("c1", "look", 1)),
        (raw(attempt=0), ("c1", "look", 1)),
        (raw(attempt=True), ("c1", "look", 1)),
        (raw(call_id="a/b"), ("invalid", "look", 1)),
        (raw(tool=7), ("c1", None, 1)),
        (without("call_id"), ("invalid", "look", 1)),
        (None, ("invalid", None, 1)),
        (Proposal(call_id="c9", tool="look", arguments={}, attempt=101), ("c9", "look", 1)),
    ],
)
def test_the_audit_gets_substitutes_for_whatever_is_not_of_valid_form(
    value: object, expected: tuple[str, str | None, int]
) -> None:
    substitutes = proposals.audit_substitutes(value)

    assert substitutes == expected
    assert type(substitutes[2]) is int


@pytest.mark.req("B010", "B018")
def test_the_substitutes_run_no_method_of_a_hostile_object() -> None:
    assert proposals.audit_substitutes(raw(call_id=RaisingText("c1"))) == ("invalid", "look", 1)
    assert proposals.audit_substitutes(raw(tool=RaisingText("look"))) == ("c1", None, 1)
    assert proposals.audit_substitutes({RaisingKey(): 1, "call_id": "c1"}) == ("invalid", None, 1)
    for make in HOSTILE.values():
        assert proposals.audit_substitutes(make()) == ("invalid", None, 1)


# ---------------------------------------------------------------- batches


def rejections(batch: list[object]) -> tuple[list[str], dict[int, str]]:
    checked, rejected = proposals.read_batch(batch)
    return [proposal.call_id for proposal in checked], {index: error.error_type for index, error in rejected.items()}


def test_a_batch_is_read_in_its_order() -> None:
    assert rejections([]) == ([], {})
    checked, rejected = proposals.read_batch([raw(call_id="b"), raw(call_id="a", tool="other")])

    assert checked == [
        proposals.read_proposal(raw(call_id="b")),
        proposals.read_proposal(raw(call_id="a", tool="other")),
    ]
    assert rejected == {}


@pytest.mark.req("B006")
def test_the_second_of_two_calls_with_one_id_is_rejected() -> None:
    batch: list[object] = [raw(call_id="a"), raw(call_id="b"), raw(call_id="a")]

    assert rejections(batch)[1] == {2: "DuplicateToolCallId"}
    assert rejections([*batch, raw(call_id="c")])[1] == {2: "DuplicateToolCallId"}


@pytest.mark.req("B008")
def test_every_member_that_is_no_proposal_is_rejected_by_its_place_and_the_rest_are_read() -> None:
    batch: list[object] = [None, raw(call_id="a"), raw(tool=7), raw(call_id="b")]

    checked, rejected = rejections(batch)
    assert (checked, list(rejected)) == (["a", "b"], [0, 2])
    assert "DuplicateToolCallId" not in rejected.values()
    assert list(rejections([None, raw(call_id="a"), raw(call_id="a")])[1]) == [0]  # nothing runs anyway


def test_a_batch_has_at_most_128_calls_and_a_larger_one_costs_one_rejection() -> None:
    batch: list[object] = [raw(call_id=f"c{number}") for number in range(128)]

    assert len(proposals.read_batch(batch)[0]) == 128
    checked, rejected = proposals.read_batch([*batch, None])
    assert checked == []
    assert {index: error.reason for index, error in rejected.items()} == {128: "a batch has at most 128 calls"}
