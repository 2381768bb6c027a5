"""Values that raise, lie and pretend, for every place that takes an object it did not make.

    hostile = HostileValues("a text that must appear nowhere")
    for name, make in hostile.values().items():
        gate_or_port(make())
    assert not hostile.ran          # no method of a foreign object was run

Every text such a value could give away, its exceptions' words, notes and class names included, holds the secret, so
that one search of an output tells whether something leaked. Every method that runs is written down before it raises
or lies. A value is made anew by each call.

Source: DESIGN section 6; REQUIREMENTS B011, B018, B040, B047, B080, B134.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeVar

Base = TypeVar("Base")

_KEPT: Final = frozenset(("__new__", "__init__", "__init_subclass__", "__subclasshook__", "__doc__", "__dict__"))
"""What a class needs to be made at all; everything else is hostile."""


class CustomBase(BaseException):
    """An exception that no `except Exception` catches."""


KINDS: Final[tuple[type[BaseException], ...]] = (
    RuntimeError,
    asyncio.CancelledError,
    KeyboardInterrupt,
    SystemExit,
    GeneratorExit,
    StopIteration,
    StopAsyncIteration,
    RecursionError,
    MemoryError,
    TimeoutError,
    CustomBase,
)
"""What hostile methods may raise; each kind is caught, or not, by other handlers."""


class HostileValues:
    """Makes hostile values of every kind.

    Attributes:
        secret: what every text of a value holds.
        ran: the methods that ran, as `class.method`, oldest first. Values made by one instance share it.
    """

    def __init__(self, secret: str, *, kind: type[BaseException] = RuntimeError) -> None:
        """`kind` is what the raising ones raise, or a class of that kind which has the secret in its name."""
        self.secret = secret
        self.ran: list[str] = []
        self._kind = kind

    def error(self) -> BaseException:
        """A fresh exception whose class name, arguments, notes, cause and texts all hold the secret."""
        members = {"__str__": lambda error: self.secret, "__repr__": lambda error: self.secret}
        kind: type[BaseException] = type(f"Leak_{self.secret}", (self._kind,), members)
        error = kind(self.secret)
        error.add_note(self.secret)
        error.__cause__ = ValueError(self.secret)
        return error

    def values(self) -> dict[str, Callable[[], Any]]:
        """Every hostile value by its name. None of them is a proper value of any parameter of placet."""
        return {
            **{f"raising {base.__name__}": _made(self.raising, base) for base in _BASES},
            **{f"lying {base.__name__}": _made(self.lying, base) for base in _BASES},
            **{f"mapping with raising {name}": _made(self.mapping, name) for name in _MAPPING_METHODS},
            "raising object": self.raising_object,
            "object that answers everything": self.obliging_object,
            "class": lambda: type(self.raising_object()),
            "function": lambda: self._failing("function", "__call__"),
            "generator": self._generator,
            "exception": self.error,
            "enum member": self.enum_member,
            "instant in a raising zone": self.instant_in_a_raising_zone,
            "zone": self.zone,
            "cyclic list": _cyclic_list,
            "cyclic dict": _cyclic_dict,
            "deep list": _deep_list,
            "deep dict": _deep_dict,
            "wide list": lambda: [self.secret] * 20_000,
            "wide dict": lambda: {f"{self.secret}{index}": index for index in range(12_000)},
            "long text": lambda: self.secret * 100_000,
            "text with a lone surrogate": lambda: self.secret + "\ud800",
            "bytes": self.secret.encode,
            "giant integer": lambda: 10**5000,
            "negative giant integer": lambda: -(10**5000),
            "nan": lambda: float("nan"),
            "infinity": lambda: float("inf"),
            "decimal nan": lambda: Decimal("NaN"),
            "complex": lambda: 1j,
            "set of texts": lambda: {self.secret},
            "tuple of a raising text": lambda: (self.raising(str),),
            "list of a raising object": lambda: [self.raising_object()],
            "dict of a raising object": lambda: {"a": self.raising_object()},
            "dict with a colliding key": lambda: {self.key_like("a"): self.secret},
        }

    # ------------------------------------------------------------ kinds

    def raising(self, base: type[Base], value: object = None) -> Base:
        """A subclass of a built-in type, each of whose methods raises; inside it is an ordinary value."""
        names = {name for kind in base.__mro__ for name, member in vars(kind).items() if callable(member)} - _KEPT
        members = {name: self._failing(base.__name__, name) for name in names}
        members["__class__"] = property(self._failing(base.__name__, "__class__"))  # type: ignore[assignment]  # no method
        return _instance(base, members, value)

    def lying(self, base: type[Base], value: object = None) -> Base:
        """A subclass of a built-in type that is equal to everything, and short, and shows the secret."""
        answers: dict[str, object] = {
            "__eq__": True,
            "__ne__": False,
            "__lt__": True,
            "__le__": True,
            "__gt__": True,
            "__ge__": True,
            "__contains__": True,
            "__bool__": True,
            "__len__": 1,
            "__hash__": 1,
            "__str__": self.secret,
            "__repr__": self.secret,
            "__format__": self.secret,
            "isascii": True,
            "isprintable": True,
            "startswith": True,
            "encode": self.secret.encode(),
            "get": self.secret,
            "is_integer": True,
        }
        members = {name: self._answering(base.__name__, name, answer) for name, answer in answers.items()}
        return _instance(base, members, value)

    def mapping(self, method: str) -> Mapping[str, object]:
        """A proper mapping but for one method, which raises."""

        class Exploding(Mapping[str, object]):
            def __getitem__(self, name: str) -> object:
                return name

            def __iter__(self) -> Iterator[str]:
                return iter(("call_id", "tool", "arguments"))

            def __len__(self) -> int:
                return 3

        members = {method: self._failing("mapping", method)}
        exploding: Mapping[str, object] = type("Exploding", (Exploding,), members)()
        return exploding

    def raising_object(self) -> Any:
        """An object whose every method raises, its class's and its metaclass's too, and which hides its class."""
        of_class = {name: self._failing("metaclass", name) for name in _METACLASS_METHODS}
        of_class["__name__"] = property(self._failing("metaclass", "__name__"))  # type: ignore[assignment]  # no method
        metaclass: Any = type("Meta", (type,), of_class)
        members = {name: self._failing("object", name) for name in _OBJECT_METHODS}
        return object.__new__(metaclass("Hostile", (), members))

    def obliging_object(self) -> Any:
        """An object that has every attribute, can be called, awaited, entered, iterated, and is always itself."""

        class Obliging:
            def __getattr__(obliging, name: str) -> Any:
                self.ran.append(f"obliging.{name}")
                return obliging

            def __call__(obliging, *_: object, **__: object) -> Any:
                self.ran.append("obliging.__call__")
                return obliging

            def __repr__(obliging) -> str:
                self.ran.append("obliging.__repr__")
                return self.secret

            def __eq__(obliging, other: object) -> bool:
                self.ran.append("obliging.__eq__")
                return True

            def __hash__(obliging) -> int:
                self.ran.append("obliging.__hash__")
                return 1

        return Obliging()

    def key_like(self, name: str) -> object:
        """A key with the hash of `name`, which raises once somebody compares it."""
        fail = self._failing("key", "__eq__")

        class Key:
            def __hash__(self) -> int:
                return hash(name)

            def __eq__(self, other: object) -> bool:
                return bool(fail(self))

        return Key()

    def enum_member(self) -> Enum:
        """A member whose value, name and hash raise."""
        hostile: Any = Enum("hostile", {"MEMBER": "x"})
        for name in ("value", "name"):
            setattr(hostile, name, property(self._failing("enum", name)))
        for name in ("__eq__", "__hash__", "__str__", "__repr__", "__format__"):
            setattr(hostile, name, self._failing("enum", name))
        member: Enum = hostile.MEMBER
        return member

    def zone(self) -> tzinfo:
        """A time zone that raises whatever it is asked."""
        members = {name: self._failing("zone", name) for name in ("utcoffset", "tzname", "dst", "fromutc", "__repr__")}
        zone: tzinfo = type("Zone", (tzinfo,), members)()
        return zone

    def instant_in_a_raising_zone(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=self.zone())

    def _generator(self) -> Iterator[object]:
        self.ran.append("generator.__next__")
        raise self.error()
        yield None  # a generator, because of this line

    # ------------------------------------------------------------ methods

    def _failing(self, owner: str, name: str) -> Callable[..., Any]:
        def fail(*_: object, **__: object) -> Any:
            self.ran.append(f"{owner}.{name}")
            raise self.error()

        return fail

    def _answering(self, owner: str, name: str, answer: object) -> Callable[..., Any]:
        def lie(*_: object, **__: object) -> Any:
            self.ran.append(f"{owner}.{name}")
            return answer

        return lie


_BASES: Final[tuple[type, ...]] = (str, int, float, bytes, dict, list, tuple, set, frozenset, datetime, date, timedelta)
_ORDINARY: Final[dict[type, tuple[object, ...]]] = {
    str: ("committed",),
    int: (1,),
    float: (1.0,),
    datetime: (2026, 1, 1, 0, 0, 0, 0, UTC),
    date: (2026, 1, 1),
    timedelta: (1,),
}
_MAPPING_METHODS: Final = ("__iter__", "__len__", "__getitem__", "items", "keys", "values", "get", "__contains__")
_METACLASS_METHODS: Final = (
    *("__eq__", "__hash__", "__instancecheck__", "__subclasscheck__", "__repr__", "__getattribute__", "__call__"),
    *("__iter__", "__len__", "__bool__"),
)
_OBJECT_METHODS: Final = (
    *("__getattribute__", "__setattr__", "__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__", "__hash__"),
    *(
        "__str__",
        "__repr__",
        "__format__",
        "__bool__",
        "__iter__",
        "__next__",
        "__len__",
        "__getitem__",
        "__contains__",
    ),
    *("__int__", "__float__", "__index__", "__call__", "__await__", "__enter__", "__exit__", "__aiter__", "__anext__"),
    *("__fspath__", "__reduce_ex__", "__reduce__", "__copy__", "__deepcopy__", "__add__", "__radd__", "__mod__"),
    *("__aenter__", "__aexit__", "__dir__", "__sizeof__"),
)


def _made(make: Callable[[Any], Any], of: Any) -> Callable[[], Any]:
    return lambda: make(of)


def _instance(base: type[Base], members: Mapping[str, object], value: object) -> Base:
    """An instance whose own constructor is the base's, so that nothing hostile runs while it is made."""
    kind: Any = type(f"Hostile{base.__name__.title()}", (base,), dict(members))
    arguments = _ORDINARY.get(base, ()) if value is None else (value,)
    constructor: Any = base
    made: Base = constructor.__new__(kind, *arguments)
    if base in (dict, list, set):
        constructor.__init__(made, *arguments)
    return made


def _cyclic_list() -> list[object]:
    circle: list[object] = []
    circle.append(circle)
    return circle


def _cyclic_dict() -> dict[str, object]:
    circle: dict[str, object] = {}
    circle["a"] = circle
    return circle


def _deep_list() -> list[object]:
    deep: list[object] = []
    for _ in range(5_000):
        deep = [deep]
    return deep


def _deep_dict() -> dict[str, object]:
    deep: dict[str, object] = {}
    for _ in range(5_000):
        deep = {"a": deep}
    return deep
