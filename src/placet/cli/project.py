"""The project behind the settings: its tools, its people, its store.

The tools module is the user's own code: it is imported with the project folder first on the path, and whatever it
prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, redirect_stdout
from importlib import import_module
from inspect import iscoroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from placet.cli.failing import ConfigProblem, NotListed, ToolsNotLoaded, UsageProblem, WorkflowsNotLoaded
from placet.cli.people import ListedPeople
from placet.cli.session import Session
from placet.cli.settings import FILE_NAME, Origin, Settings
from placet.errors import (
    ConfigurationError,
    ContractError,
    KeyMaterialError,
    PlacetError,
    PolicyFileError,
    StoreNotWritable,
)
from placet.model.principal import Principal
from placet.rules.addresses import shown_word

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from placet.bootstrap.joined import Joined
    from placet.bootstrap.opening import Opening
    from placet.engine.gate import Gate
    from placet.engine.workflow import Workflows
    from placet.ports.policy import PolicyEngine
    from placet.rules.contracts import Tool

Value = TypeVar("Value")
Asked = TypeVar("Asked")

_PLACE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)


def finish(work: Coroutine[Any, Any, Value]) -> Value:
    """Run to the end; an interrupt cancels the work, which closes its attempt, and is raised."""
    return asyncio.run(work)


Place = Callable[[], AbstractAsyncContextManager[Value]]
"""Where a command asks: opens what answers it, of the store here or of a server."""


def ask(place: Place[Asked], work: Callable[[Asked], Awaitable[Value]]) -> Value:
    """Open a place, ask there, and close it again."""

    async def asked() -> Value:
        async with place() as opened:
            return await work(opened)

    return finish(asked())


# ---------------------------------------------------------------- tools


def load_tools(settings: Settings) -> tuple[Tool, ...]:
    """The project's tools: its own, and those of its upstreams that were accepted and have terms. Nothing is connected.

    Raises:
        ConfigProblem: neither tools nor upstreams are named.
        ToolsNotLoaded: they could not be imported; PLACET_DEBUG=1 shows the traceback.
        ContractError: a tool promises too little or too much.
        ManifestError: an upstream's manifest is not there or cannot be used.
    """
    own = () if settings.tools is None and settings.upstreams else _own_tools(settings)
    return (*own, *(tool for each in joined_upstreams(settings) for tool in each.tools))


def joined_upstreams(settings: Settings) -> tuple[Joined, ...]:
    """What the project's gate is opened together with. Without a key nothing that was accepted is believed.

    Raises:
        ManifestError: a manifest is not there or cannot be used.
        ConfigurationError: what is declared, or a document, cannot be used, or a contract cannot be made.
    """
    if not settings.upstreams:
        return ()
    from placet.bootstrap.declared import accepted, joined
    from placet.model.pins import Pins

    try:
        pins = accepted(settings.pins_file, key=settings.key_file)
    except KeyMaterialError:  # told when the store is opened; a list of tools needs none
        pins = Pins()
    return joined(settings.upstreams, pins)


def _own_tools(settings: Settings) -> tuple[Tool, ...]:
    if settings.tools is None:
        raise ConfigProblem(
            f'No tools are named: [placet] in placet.toml needs tools = "module:ATTRIBUTE"{_no_file(settings)}',
            hint="" if settings.file is not None else "placet init",
        )
    place = settings.tools
    return _imported("tools", place, settings.folder, lambda value: _tools_of(value, place))


def _tools_of(value: Any, place: str) -> tuple[Tool, ...]:
    from placet.rules.contracts import Tool

    hint = "Name a collection of what @placet.tool(...) makes: TOOLS = [look, put] in the module."
    if isinstance(value, Tool):
        raise ToolsNotLoaded(f"{shown_word(place)} is one tool, where a collection of them is meant.", hint=hint)
    tools = tuple(value)
    for number, each in enumerate(tools, start=1):
        if not isinstance(each, Tool):
            raise ContractError(f"Entry {number} of {shown_word(place)} was not made with placet.tool.", hint=hint)
    return tools


def load_workflows(settings: Settings, place: str) -> Callable[[Gate], Workflows]:
    """What makes the project's workflows on a gate: a collection of definitions, or a function of the gate's own.

    It raises `WorkflowsNotLoaded`, too, where that function raises whatever it is, or makes something else.

    Raises:
        ConfigProblem: the place is none.
        WorkflowsNotLoaded: nothing of that kind could be imported; PLACET_DEBUG=1 shows the traceback.
    """
    maker = _imported("workflows", place, settings.folder, lambda value: _maker_of(value, place))
    return lambda gate: _made(maker, gate, place, settings.folder)


def _maker_of(value: Any, place: str) -> Callable[[Gate], object]:
    from placet.engine.workflow import Workflows
    from placet.model.workflow import Workflow

    if callable(value):
        return value  # type: ignore[no-any-return]  # what it makes is looked at where it is called
    if isinstance(value, Workflow):
        raise WorkflowsNotLoaded(
            f"{shown_word(place)} is one workflow, where a collection of them is meant.",
            hint="Name a collection: WORKFLOWS = (ORDER,) in the module, and its name in [placet] workflows.",
        )
    definitions = tuple(value)
    return lambda gate: Workflows(gate, definitions)


def _made(maker: Callable[[Gate], object], gate: Gate, place: str, folder: Path) -> Workflows:
    from placet.engine.workflow import Workflows

    happened = "it returned something else"
    try:
        with redirect_stdout(sys.stderr):
            made = maker(gate)
            if isinstance(made, Workflows):
                return made
            if iscoroutine(made):
                made.close()  # else Python says that nobody waited for it
                happened = "it has to be awaited"
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # an exit, too: it would end the worker as if its work were done
        if _is_ours(error):
            raise
        _show_traceback()
        happened = _what_happened(error, folder)
    raise WorkflowsNotLoaded(
        f"What {shown_word(place)} names made no workflows: {happened}",
        hint="It is a plain function that is given the gate, and returns placet.Workflows. "
        "PLACET_DEBUG=1 shows the traceback.",
    )


def tools_if_loadable(session: Session) -> tuple[Tool, ...]:
    """The project's tools, or none; then standard error says why, and what is missing because of it."""
    try:
        return load_tools(session.settings)
    except PlacetError as error:
        session.screen.warn(f"placet: {_one_line(error)}")
        session.screen.warn("  so risks are not shown, arguments stay hidden, and nothing can be approved here")
        return ()


_FAULTS: dict[str, type[ConfigurationError]] = {"tools": ToolsNotLoaded, "workflows": WorkflowsNotLoaded}


def _imported(what: str, place: str, folder: Path, read: Callable[[Any], Value]) -> Value:
    if _PLACE.fullmatch(place) is None:
        raise ConfigProblem(
            f'{what} = {shown_word(place)!r} is not of the form "module:ATTRIBUTE"',
            hint=f'A module and a name in it, such as "{what}:{what.upper()}".',
        )
    module_name, _, attribute = place.partition(":")
    value: Any = None
    lacking: str | None = None
    try:
        with _project_first(folder), redirect_stdout(sys.stderr):
            value = import_module(module_name)
            for name in attribute.split("."):
                lacking = name
                value = getattr(value, name)
                lacking = None
            return read(value)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever the user's module raises, its text stays there
        _show_traceback()
        if _is_ours(error):
            if isinstance(error, PlacetError) and not error.hint:
                error.hint = f"Mend {_place_in(folder, error) or 'the module'}. PLACET_DEBUG=1 shows the traceback."
            raise
        is_lacking = lacking is not None and type(error) is AttributeError
        happened = f"there is no {lacking} in it" if is_lacking else _what_happened(error, folder)
        fault = _FAULTS[what](
            f"The {what} {module_name}:{attribute} could not be imported: {happened}",
            hint=f"Mend the module, or [placet] {what} in placet.toml. PLACET_DEBUG=1 shows the traceback.",
        )
    raise fault


def _show_traceback() -> None:
    if os.environ.get("PLACET_DEBUG") == "1":
        import traceback

        traceback.print_exc()


def _is_ours(error: BaseException) -> bool:
    """Whether it is one of placet's very classes, so that its text is placet's; a subclass may say anything."""
    from placet.rules.foreign import UNTRUSTED_EXCEPTION, safe_exception_name

    if type(error) in _FAULTS.values():
        return True
    return safe_exception_name(error) != UNTRUSTED_EXCEPTION and isinstance(error, PlacetError)


def _what_happened(error: BaseException, folder: Path) -> str:
    """The exception's safe name, and where in the project it came from. Never its text."""
    from placet.rules.foreign import safe_exception_name

    found = _place_in(folder, error)
    place = f" in {found}" if found else ""
    if type(error) is ModuleNotFoundError and type(error.name) is str:
        place += f" (no module named {error.name!r})"
    return f"{safe_exception_name(error)}{place}"


def _place_in(folder: Path, error: BaseException) -> str:
    """The innermost line of the project that it came through; empty where it came through none."""
    place = ""
    frame = error.__traceback__
    while frame is not None:
        file = Path(frame.tb_frame.f_code.co_filename)
        if file.is_relative_to(folder):
            place = f"{file.relative_to(folder)}, line {frame.tb_lineno}"
        frame = frame.tb_next
    return place


@contextmanager
def _project_first(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    yield  # the path stays: handlers may import more of the project when they run


# ---------------------------------------------------------------- people


def user_name() -> str:
    """Who runs this, by the system's password database. Flags and environment have no say in it.

    Raises:
        NotListed: the system knows no name for this user id.
    """
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        pass
    raise NotListed(f"The system has no name for user id {os.getuid()}", hint="Sign in as a listed user.")


def person(settings: Settings) -> Principal:
    """The person at the keyboard, as placet.toml lists them.

    Raises:
        NotListed: it does not.
    """
    name = user_name()
    found = settings.people.get(name)
    if found is not None:
        return found
    if settings.file is None:
        raise NotListed(
            f"{name!r} is not listed under [people] in any {FILE_NAME} from here upwards",
            hint="Go to the project's folder, or name its file with --config. A new project: placet init DIR",
        )
    raise NotListed(
        f"{name!r} is not listed under [people] in {settings.file}", hint=f"An administrator adds [people.{name}]."
    )


def agent(settings: Settings) -> Principal:
    """The principal that `placet call` proposes for.

    Raises:
        ConfigProblem: the project file names none.
    """
    if settings.agent is None:
        raise ConfigProblem(
            f"No agent is named: placet.toml needs [agent] with subject and tenant{_no_file(settings)}",
            hint="" if settings.file is not None else "placet init",
        )
    return settings.agent


def _no_file(settings: Settings) -> str:
    return "" if settings.file is not None else f"; there is no {FILE_NAME} in this folder or above it"


# ---------------------------------------------------------------- policy


def policy_of(settings: Settings) -> PolicyEngine:
    """What decides in this project: the matrix, with the rules of the policy file if one is named.

    Raises:
        PolicyFileError: one is named, and cannot be used.
    """
    from placet.bootstrap.policies import read_policy
    from placet.rules.policy import Matrix

    return Matrix() if settings.policy is None else read_policy(settings.policy)


def shadow_of(settings: Settings) -> PolicyEngine | None:
    """What is asked as well in this project, and decides nothing; None where no file is named.

    Raises:
        PolicyFileError: one is named, and cannot be used.
    """
    from placet.bootstrap.policies import read_policy

    return None if settings.shadow is None else read_policy(settings.shadow)


def policy_or_none(settings: Settings) -> PolicyEngine:
    """The same; where the file cannot be used, one that says no to everything. Stopping and looking need no policy."""
    from placet.bootstrap.policies import NoPolicy

    try:
        return policy_of(settings)
    except PolicyFileError:
        return NoPolicy()


# ---------------------------------------------------------------- store


def require_store(settings: Settings) -> str | Path:
    """Where the store is, if there is one. Looking makes none: a misspelt schema would be an empty ledger.

    Raises:
        StoreMissing, StoreNotWritable, KeyMaterialError: there is none, or it or its key cannot be looked at.
    """
    from placet.bootstrap.stores import is_key_here, is_made, missing_store

    store, key = settings.store, settings.key_file
    if not (_is_file_there(store) if isinstance(store, Path) else is_made(store)):
        raise missing_store(store, key, make=_how_made(settings))
    is_key_here(key)
    return store


def _how_made(settings: Settings) -> str:
    """The command that makes this very store, and no other."""
    match settings.origins.get("store"):
        case Origin.FLAG:
            return "placet init --store-only, with the same --store, if that is the one you mean"
        case Origin.ENVIRONMENT:
            return "placet init --store-only"
        case _:
            return "placet init --store-only" if settings.file is not None else "placet init"


def _is_file_there(store: Path) -> bool:
    """Raises:
    StoreNotWritable: it cannot be looked at.
    """
    try:
        return store.exists()
    except OSError:
        pass
    raise StoreNotWritable(f"The store cannot be looked at: {store}")


def project_opening(
    settings: Settings, tools: Collection[Tool], *, metrics: CollectorRegistry | None = None
) -> Opening:
    """The gate over the project's existing store, with its upstreams, to be entered. It looks after nothing by itself.

    Upstreams without any tool are there too: something else of theirs may be relayed.
    """
    return _opening(settings, tools, joined_upstreams(settings), metrics)


def _opening(
    settings: Settings, tools: Collection[Tool], upstreams: tuple[Joined, ...], metrics: CollectorRegistry | None
) -> Opening:
    from placet.bootstrap.opening import Recovery, open_gate
    from placet.engine.settings import GateSettings

    store = require_store(settings)
    policy = None if settings.policy is None else policy_of(settings) if tools else policy_or_none(settings)
    shadow = shadow_of(settings) if tools else None  # without tools no call is decided
    kept = GateSettings(
        retention_seconds=settings.retention.seconds, audit_retention_seconds=settings.retention.audit_seconds
    )
    own = tuple(tool for tool in tools if tool.contract.origin is None)
    return open_gate(
        tools=own, upstreams=upstreams, pins=settings.pins_file, store=store, key=settings.key,
        recovery=Recovery.MANUAL, settings=kept, policy=policy, shadow=shadow, people=ListedPeople(settings),
        metrics=metrics,
    )  # fmt: skip


@asynccontextmanager
async def open_project(settings: Settings, tools: Collection[Tool]) -> AsyncIterator[Gate]:
    """The gate over the project's existing store, open; with upstreams where tools of theirs are among the tools."""
    has_any = any(tool.contract.origin is not None for tool in tools)
    opening = _opening(settings, tools, joined_upstreams(settings) if has_any else (), None)
    with redirect_stdout(sys.stderr):  # a handler's print is no data
        async with opening as gate:
            yield gate


# ---------------------------------------------------------------- words


def checked(value: str, what: str, is_good: Callable[[str], bool]) -> str:
    """An option's value, if it is good.

    Raises:
        UsageProblem: `what` says what it has to be.
    """
    if is_good(value):
        return value
    raise UsageProblem(what)


def is_text(value: str) -> bool:
    """Whether it can be written as UTF-8; bytes of a command line that are no text cannot."""
    return not any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def _one_line(error: PlacetError) -> str:
    from placet.cli.screen import shown

    return shown(str(error))
