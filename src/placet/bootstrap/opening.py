"""What a program says, checked at once; and a gate that can be entered, once."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeGuard, TypeVar

from placet.adapters.clock import GuardedClock, GuardedIds, RandomIds, SystemClock
from placet.bootstrap.addresses import MEMORY, is_address
from placet.bootstrap.assembling import Plan, Running, assemble
from placet.bootstrap.isolating import process_tools
from placet.bootstrap.joined import Joined
from placet.bootstrap.policies import read_policy
from placet.engine.gate import Gate
from placet.engine.registry import Registry
from placet.engine.settings import GateSettings
from placet.engine.sync import LoopThread, SyncGate
from placet.errors import ContractError, MisuseError
from placet.model.contract import Isolation
from placet.model.exact import has_methods, items_of, member_of
from placet.ports.clock import Clock, IdSource
from placet.ports.people import NobodyListed, People
from placet.ports.policy import PolicyEngine
from placet.ports.sinks import AuditSink
from placet.ports.store import Store
from placet.rules.contracts import Tool
from placet.rules.decoding import LONE_SURROGATE
from placet.rules.policy import Matrix

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

Member = TypeVar("Member")
Port = TypeVar("Port")
_LONGEST_PATH = 4_096
_HOW_TO_ENTER = "Open it first: with placet.open(...) as gate."


class Recovery(StrEnum):
    """Who looks after stranded and unknown effects: the open gate itself, or the program when it says so."""

    AUTOMATIC = "automatic"
    MANUAL = "manual"


def open_gate(
    *,
    tools: Collection[Tool] = (),
    upstreams: Collection[Joined] = (),
    pins: str | Path | None = None,
    store: str | Path,
    key: str | Path | None = None,
    policy: PolicyEngine | str | Path | None = None,
    shadow: PolicyEngine | str | Path | None = None,
    people: People | None = None,
    settings: GateSettings | None = None,
    recovery: Recovery | str = Recovery.AUTOMATIC,
    sinks: Collection[AuditSink] = (),
    metrics: CollectorRegistry | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
) -> Opening:
    """Prepare a gate. Enter the answer with `async with` for a `Gate`, or with `with` for a `SyncGate`.

    Args:
        tools: what may run, made with `placet.tool`.
        upstreams: servers whose tools may run too, from `placet.upstreams_from`; they end with the gate.
        pins: the file of what was accepted of upstreams, where people accept, and quarantine, through this gate.
        store: the path of a SQLite file (made, with its key file, if absent), the URL of a PostgreSQL database
            (`postgresql://user@host/database`; its tables are made together with its key file), or `"memory:"`.
        key: the key file; `<store>.key` if absent, and always named for a database.
        policy: the path of a policy file, or an engine; the matrix if absent.
        shadow: a policy, as `policy` takes one, that is asked about every call as well and decides nothing: what it
            would have answered is in the audit beside what was enforced. None if absent.
        people: the list of those who may decide, where one is kept: whoever leaves it, or is left with less, may not
            decide any more, and what it approved is not spent. Without one, a person may what it signed in with.
        sinks: who else hears audit events, such as `placet.LogSink()`.
        metrics: a Prometheus registry to measure into; nothing is measured without one.

    Raises:
        ContractError: at once, if the tools cannot be registered together, or one cannot co-commit in the store.
        PolicyFileError: at once, if the policy file, or that of the shadow, cannot be used.
        On entering, whatever keeps the store from being opened: `StoreError`, `KeyMaterialError`.
    """
    joined = _joined(upstreams)
    registry = Registry((*_listed(tools, "tools"), *(tool for each in joined for tool in each.tools)))
    _refuse_unreachable(registry)
    place = _place(store, "store")
    _refuse_unsettled(registry, place)
    return Opening(
        Plan(
            registry=registry,
            upstreams=joined,
            pins=None if pins is None else Path(_place(pins, "pins")),
            store=place,
            key=None if key is None else Path(_place(key, "key")),
            policy=Matrix() if policy is None else _policy(policy, "policy"),
            shadow=None if shadow is None else _policy(shadow, "shadow"),
            people=NobodyListed() if people is None else _port(people, "people", "person", "people"),
            settings=GateSettings() if settings is None else _settings(settings),
            looks_after=_recovery(recovery) is Recovery.AUTOMATIC,
            sinks=_listed(sinks, "sinks"),
            metrics=metrics,
            clock=SystemClock() if clock is None else GuardedClock(_port(clock, "clock", "now", "monotonic", "sleep")),
            ids=RandomIds() if ids is None else GuardedIds(_port(ids, "ids", "new_id", "fraction")),
            around=_as_it_is,
        )
    )


def _policy(said: PolicyEngine | str | Path, what: str) -> PolicyEngine:
    if _is_place(said):
        return read_policy(Path(_place(said, what)))
    engine: Any = said
    checked: PolicyEngine = _port(engine, what, "decide", "may_decide", "is_listed")
    return checked


def _recovery(value: Recovery | str) -> Recovery:
    if (recovery := member_of(Recovery, value)) is not None:
        return recovery
    raise MisuseError("recovery= is 'automatic' or 'manual'.")


def _listed(values: Collection[Member], what: str) -> tuple[Member, ...]:
    found = items_of(values)
    if found is not None:
        return found
    raise MisuseError(f"{what}= is a list or a tuple.")


def _joined(upstreams: Collection[Joined]) -> tuple[Joined, ...]:
    return tuple(_port(each, "upstreams", "open", "close") for each in _listed(upstreams, "upstreams"))


def _port(given: Port, what: str, *methods: str) -> Port:
    """What somebody gave for a port. It is not asked what it is: its class has the methods, or has not."""
    if has_methods(given, *methods):
        return given
    raise MisuseError(f"{what}= is an object with the methods {', '.join(methods)}.")


def _is_place(value: object) -> TypeGuard[str | Path]:
    return type(value) is str or issubclass(type(value), Path)


def _place(value: str | Path, what: str) -> str | Path:
    if _is_place(value):
        text = str(value)
        if "\0" not in text and LONE_SURROGATE.search(text) is None and len(text) <= _LONGEST_PATH:
            return value
    raise MisuseError(f"{what}= is text of at most {_LONGEST_PATH} characters, or a pathlib.Path.")


def _settings(settings: GateSettings) -> GateSettings:
    """The settings, checked once more: a frozen value can be changed by those who insist."""
    if type(settings) is GateSettings:
        with suppress(AttributeError):  # made without its constructor, it lacks a field
            return replace(settings)
    raise MisuseError("settings= is a placet.GateSettings.")


open_gate.__qualname__ = "placet.open"  # the name it is called by, so Python's own words about its arguments use it


class _NotEntered(MisuseError, AttributeError):
    """A gate was asked for something before it was open; for `hasattr`, what is not there."""


class Opening:
    """A gate that can be entered, once."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._open: Running | None = None
        self._is_opening = False
        self._thread: LoopThread | None = None

    @property
    def running(self) -> Running | None:
        """The parts of the gate while it is open; None before."""
        return self._open

    async def __aenter__(self) -> Gate:
        if self._open is not None or self._is_opening:
            raise MisuseError("A gate is entered once; call placet.open again.")
        self._is_opening = True
        try:
            self._open = await assemble(self._plan)
        finally:
            self._is_opening = False
        try:
            await self._open.gate.announce()
        except BaseException:
            await self._open.close()
            raise
        return self._open.gate

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._open is not None:
            await self._open.close()

    def __enter__(self) -> SyncGate:
        self._thread = LoopThread()
        try:
            return SyncGate(self._thread.carry(self.__aenter__()), self._thread)
        except BaseException:
            self._thread.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None or not self._thread.is_ours:
            return  # a forked child leaves alone what is its parent's
        try:
            self._thread.carry(self.__aexit__(kind, error, trace))
        finally:
            self._thread.close()

    def __getattr__(self, name: str) -> NoReturn:
        """Whatever is asked of a gate that was not entered is misuse; what copying and debuggers ask is not."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise _NotEntered(f"This gate is not open, so it has no {name!r}. {_HOW_TO_ENTER}")


def around_store(opening: Opening, around: Callable[[Store], Store]) -> Opening:
    """For proofs whose processes die at a verb of their store: the gate will use what `around` makes of it."""
    opening._plan = replace(opening._plan, around=around)
    return opening


def _as_it_is(store: Store) -> Store:
    return store


def _refuse_unreachable(registry: Registry) -> None:
    """At once, and not when the first call finds out, that a new process cannot import a tool."""
    tools = process_tools(registry)
    if tools:
        from placet.adapters.transports.places import place_of

        for tool in tools:
            place_of(tool)


def _refuse_unsettled(registry: Registry, store: str | Path) -> None:
    """At once, and not at the first call, that a tool cannot co-commit in this store, or could hold it up."""
    settles_in = _settles_in(str(store))
    for contract in registry:
        if contract.remote.co_commits and contract.isolation is not settles_in:
            raise ContractError(
                f"The tool {contract.name!r} cannot co-commit in this store.",
                code="co_commit_unfit",
                hint=_FIT_TO_CO_COMMIT[settles_in],
                tool=contract.name,
            )


def _settles_in(store: str) -> Isolation | None:
    """Where a handler has to run whose transaction settles its effect.

    One on a SQLite file holds the write lock of all: a plain function, in a thread, cannot wait for the event loop
    while it does.
    """
    if store == MEMORY:
        return None
    return Isolation.ASYNC if is_address(store) else Isolation.THREAD


_FIT_TO_CO_COMMIT = {
    None: "A store in memory has no transactions: use a SQLite file, or PostgreSQL.",
    Isolation.THREAD: "On a SQLite file write the handler as a plain function, not a coroutine function.",
    Isolation.ASYNC: "On PostgreSQL write the handler as a coroutine function, with asyncpg.",
}
