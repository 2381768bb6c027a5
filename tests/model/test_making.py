"""Values that are made quickly are the values that `dataclass` alone would make."""

from __future__ import annotations

import copy
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from placet.model.audit import AuditEvent, EventKind
from placet.model.effect import Effect
from placet.model.making import changed, quick
from placet.model.outcome import Succeeded

MODULES = (
    "placet.model.approval", "placet.model.attempt", "placet.model.audit", "placet.model.call", "placet.model.context",
    "placet.model.effect", "placet.model.ledger", "placet.model.outcome", "placet.model.proposal", "placet.model.run",
    "placet.engine.attempts", "placet.engine.session", "placet.rules.contracts.tools",
)  # fmt: skip


def is_quick(kind: object) -> bool:
    return isinstance(kind, type) and "_become" in getattr(kind.__init__, "__globals__", {})


QUICK = sorted(
    {kind for name in MODULES for kind in vars(import_module(name)).values() if is_quick(kind)},
    key=lambda kind: kind.__qualname__,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    one: int
    two: str = "two"
    three: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.one < 0:
            raise ValueError("one is not negative")


Quick = quick(
    dataclass(frozen=True, slots=True, kw_only=True)(
        type(
            "Slow",
            (),
            {
                "__annotations__": Slow.__annotations__,
                "__module__": __name__,
                "two": "two",
                "three": (),
                "__post_init__": Slow.__post_init__,
            },
        )
    )
)


def test_there_are_quick_kinds_and_the_largest_are_among_them() -> None:
    assert len(QUICK) >= 20
    assert {AuditEvent, Effect, Succeeded} <= set(QUICK)


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: kind.__name__)
def test_every_field_is_set_to_what_was_given_and_the_rest_to_their_defaults(kind: type) -> None:
    given_values = {each.name: object() for each in fields(kind)}  # type: ignore[arg-type]
    made = kind(**given_values)

    assert type(made) is kind
    assert all(getattr(made, name) is value for name, value in given_values.items())
    required = {each.name for each in fields(kind) if not each.kw_only or each.default is each.default_factory}  # type: ignore[arg-type]
    least = kind(**{name: given_values[name] for name in required})
    for each in fields(kind):  # type: ignore[arg-type]
        assert getattr(least, each.name) is (given_values[each.name] if each.name in required else each.default)


@pytest.mark.parametrize("kind", QUICK, ids=lambda kind: kind.__name__)
def test_a_field_that_is_missing_or_unknown_is_a_type_error_and_what_is_made_cannot_be_changed(kind: type) -> None:
    values: dict[str, Any] = {each.name: 1 for each in fields(kind)}  # type: ignore[arg-type]
    first = next(iter(values))

    with pytest.raises(TypeError):
        kind(**values, unheard_of=1)
    with pytest.raises(TypeError):
        kind(*values.values())
    if fields(kind)[0].default is fields(kind)[0].default_factory:  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            kind(**{name: 1 for name in values if name != first})
    made = kind(**values)
    with pytest.raises(FrozenInstanceError):
        setattr(made, first, 2)
    with pytest.raises(FrozenInstanceError):
        delattr(made, first)
    assert not hasattr(made, "__dict__")


def test_signature_equality_hash_copy_and_pickle_are_those_of_the_dataclass() -> None:
    assert inspect.signature(Quick) == inspect.signature(Slow)
    assert (Quick(one=1), repr(Quick(one=1))) == (Quick(one=1, two="two"), "Slow(one=1, two='two', three=())")
    assert Quick(one=1) != Quick(one=2)
    assert hash(Quick(one=1)) == hash(Slow(one=1))
    result = Succeeded(call_id="c", tool="t", code="succeeded", message="Done.", result={"a": [1]})
    assert pickle.loads(pickle.dumps(result)) == copy.deepcopy(result) == copy.copy(result) == result
    assert type(copy.copy(result)) is Succeeded


def test_what_a_value_refuses_of_itself_is_still_refused() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Quick(one=-1)


def test_a_subclass_is_made_as_before() -> None:
    child = type("Child", (AuditEvent,), {})

    made = child(kind=EventKind.STARTED, at=datetime.now(UTC), tenant="acme", subject="a", key_id="k")

    assert (type(made), made.tenant, made.fence) == (child, "acme", 0)


@pytest.mark.parametrize("kind", [dict, list])
def test_a_kind_with_a_made_default_or_with_positional_fields_is_refused(kind: type) -> None:
    with pytest.raises(TypeError, match="cannot be set quickly"):
        quick(
            dataclass(frozen=True, slots=True, kw_only=True)(
                type("Made", (), {"__annotations__": {"one": kind}, "one": field(default_factory=kind)})
            )
        )
    with pytest.raises(TypeError, match="cannot be set quickly"):
        quick(dataclass(frozen=True, slots=True)(type("Placed", (), {"__annotations__": {"one": kind}})))


NAMES = [each.name for each in fields(Effect)]


@given(st.dictionaries(st.sampled_from(NAMES), st.integers() | st.text() | st.none()))
def test_changed_is_replace(changes: dict[str, Any]) -> None:
    effect = Effect(**dict.fromkeys(NAMES, "was"))  # type: ignore[arg-type]

    assert changed(effect, **changes) == replace(effect, **changes)
    assert effect == Effect(**dict.fromkeys(NAMES, "was"))  # type: ignore[arg-type]


def test_changed_refuses_a_field_that_there_is_not() -> None:
    with pytest.raises(TypeError):
        changed(Effect(**dict.fromkeys(NAMES, "was")), unheard_of=1)  # type: ignore[arg-type]
