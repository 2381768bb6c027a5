"""Frozen values that are made quickly.

`dataclass(frozen=True)` sets each field through `object.__setattr__`, which takes longer than everything else about a
value with dozens of fields. `quick` gives such a class an `__init__` that sets them plainly: while it runs, the value
is of a subclass of its own that is not frozen and has no slots more. Nobody else holds the value by then. A value of
a subclass that somebody made is set as before.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any, Final, TypeVar

Kind = TypeVar("Kind", bound=type)
Value = TypeVar("Value")

_BECOME: Final = object.__dict__["__class__"].__set__
"""Past whatever a frozen class says of setting attributes."""


def quick(kind: Kind) -> Kind:
    """The same frozen, slotted, keyword-only dataclass, with a quick `__init__` of the same signature."""
    plainly = {"__slots__": (), "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    open_kind = type(f"_Open{kind.__name__}", (kind,), plainly)
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    if any(field.default_factory is not MISSING or not field.init or not field.kw_only for field in fields(kind)):
        raise TypeError(f"{kind.__name__} has a field that cannot be set quickly.")
    names = [field.name for field in fields(kind)]
    lines = [
        f"def __init__(self, *, {', '.join(f'{n}=_defaults[{n!r}]' if n in defaults else n for n in names)}):",
        "    if type(self) is not _kind:",
        f"        return _slowly(self, {', '.join(f'{name}={name}' for name in names)})",
        "    _become(self, _open_kind)",
        *(f"    self.{name} = {name}" for name in names),
        "    self.__class__ = _kind",
        *(["    self.__post_init__()"] if "__post_init__" in dir(kind) else []),
    ]
    slowly = kind.__dict__["__init__"]
    scope: dict[str, Any] = dict(_become=_BECOME, _open_kind=open_kind, _kind=kind, _slowly=slowly, _defaults=defaults)
    exec("\n".join(lines), scope)  # noqa: S102 - as dataclass itself does; the names are our own classes' fields
    init = scope["__init__"]
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__annotations__ = dict(slowly.__annotations__)
    type.__setattr__(kind, "__init__", init)
    _FIELDS[kind] = names, attrgetter(*names)
    return kind


_FIELDS: Final[dict[type, tuple[list[str], attrgetter[Any]]]] = {}


def changed(value: Value, **changes: object) -> Value:
    """A value of a quick class with some fields changed; `dataclasses.replace` takes thrice as long."""
    names, values_of = _FIELDS[type(value)]
    return type(value)(**(dict(zip(names, values_of(value), strict=True)) | changes))
