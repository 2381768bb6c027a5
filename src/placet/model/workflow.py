"""A workflow: a closed set of states, each with its typed inputs, its tools, its next states and one failure exit.

    State --Next--> State --Wait--> (a person answers) --> State --Next--> End
      |                                                     |
      +--- Fail, an exception, anything not declared -------+--> on_failure (inputs: Failure)

A step is a plain async function of its input and a `StepContext`. It has no other effects than the calls it makes
through the context, and it may be run again from its beginning at any time: after a crash, after a person answered,
in another process. Every call has an id made of state, visit and position, so the ledger answers what was done.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, Protocol, TypeVar

from placet.errors import MisuseError
from placet.model.json import JsonObject, JsonValue
from placet.model.outcome import (
    AwaitingApproval,
    Conflict,
    Failed,
    Invalid,
    NotRun,
    Outcome,
    Refused,
    Replayed,
    Succeeded,
    TimedOut,
)

Input = TypeVar("Input")

MOST_STATES: Final = 64
MOST_ENTRIES: Final = 10_000
_STATE_NAME = re.compile(r"[A-Z][A-Z0-9_]{0,47}")
_NAME = re.compile(r"[a-z][a-z0-9_.-]{0,63}")
_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
_CALL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TOOL = re.compile(r"[a-zA-Z0-9_.-]{1,64}")

Settled = Succeeded | Replayed | Invalid | Refused | Conflict | TimedOut | Failed | NotRun
"""What a call of a step comes back with. What has to be waited for (a person, a probe, somebody else who is doing it, a
stop to be lifted) never comes back: the step is left there, and run again when there is something to know."""


# ---------------------------------------------------------------- what a step says


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The input of every failure exit.

    Attributes:
        state: where it failed.
        code: of `Fail`, or `step_raised`, `step_broken`, `state_outside`, `tool_outside`, `input_broken`,
            `too_many_states`, `deadline_passed`; fixed words, never data. A spent budget is the step's to say.
    """

    state: str
    code: str


@dataclass(frozen=True, slots=True)
class Next:
    """Go on to `state`, which the definition must allow, with its input."""

    state: str
    inputs: object = None


@dataclass(frozen=True, slots=True)
class Wait:
    """Stay in this state until a person has answered `question`, whatever the answer; then do `then`.

    The answer is nobody's word but the gate's: a later call is asked again like any other.
    """

    question: AwaitingApproval
    then: Next


@dataclass(frozen=True, slots=True)
class Fail:
    """Leave by the failure exit, with a fixed code of the step's own (`[a-z][a-z0-9_]*`)."""

    code: str


Move = Next | Wait | Fail


class StepContext(Protocol):
    """What a step may do. It goes through the gate like every proposal: nothing here decides anything."""

    @property
    def run_id(self) -> str: ...

    @property
    def tenant(self) -> str: ...

    @property
    def state(self) -> str: ...

    @property
    def visit(self) -> int:
        """How often this state has been entered, this time included."""
        ...

    async def call(self, tool: str, arguments: JsonObject, *, name: str | None = None) -> Settled:
        """Propose a call and wait for its end, for days if need be: the step is left here and run again from its start.

        Where a person edited the call, that is what was asked about and done: the outcome has `edited_arguments`. Where
        a person took the question back, it is `Refused` (`approval_withdrawn`), in the rest of the run too.

        A write that was answered is answered the same in every later run of the step, from the ledger; a read reads
        again. So what depends on what was read is done in a state of its own, with that as its input.

        Args:
            tool: one of the state's `tools`; any other leaves by the failure exit, with nothing proposed.
            name: makes it the same call in every state of the run that names it so; otherwise the id is made of
                state, visit and position.
        """
        ...

    async def propose(self, tool: str, arguments: JsonObject, *, name: str | None = None) -> Outcome:
        """Like `call`, but what waits for a person comes back too, to be given to `Wait`."""
        ...


# ---------------------------------------------------------------- the definition


@dataclass(frozen=True, slots=True, kw_only=True)
class State(Generic[Input]):
    """One state with a step.

    Attributes:
        inputs: a type that Pydantic validates strictly: a model, a dataclass, or `type(None)`. Kept sealed.
        step: has no effects but its calls; run again from its start, it must do the same with the same answers.
        next: every state it may go on to; `Next` to another leaves by the failure exit.
        tools: every tool it may call.
        on_failure: the state it is left for when it fails; that one's inputs are `Failure`.
        about: one sentence for the table and the diagram.
    """

    name: str
    inputs: type[Input]
    step: Callable[[Input, StepContext], Awaitable[Move]]
    next: tuple[str, ...]
    on_failure: str
    tools: tuple[str, ...] = ()
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Generic[Input]):
    """A state in which the run is over."""

    name: str
    inputs: type[Input]
    is_failure: bool = False
    about: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resting:
    """Where a run rests, as an older version of the workflow left it: given to an upgrade, and answered by it."""

    state: str
    inputs: JsonValue


Upgrade = Callable[[Resting], Resting]
"""From an older version's resting place to this one's, without effects. Visits, and so call ids, stay counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workflow:
    """An explicit state machine. The same definition runs on every driver.

    Attributes:
        version: changes with every change of states, transitions, tools or inputs. A run that rests in another version
            goes on only if `accepts` says how; otherwise it stays where it is, untouched, and says so.
        start: the first state.
        max_entries: states entered in one run at most; beyond, it leaves by the failure exit.

    Raises:
        MisuseError: a name that is not there, a state that cannot be reached, a failure exit that takes no `Failure`.
    """

    name: str
    version: str
    start: str
    states: tuple[State[Any] | End[Any], ...]
    accepts: Mapping[str, Upgrade] = field(default_factory=dict)
    max_entries: int = 1_000

    def __post_init__(self) -> None:
        _require(_is(_NAME, self.name), "A workflow's name is lower case, 1 to 64 of a-z, 0-9, `_`, `.` and `-`.")
        _require(_is(_VERSION, self.version), "A workflow's version is 1 to 32 letters, digits, `_`, `.` and `-`.")
        _require(
            type(self.max_entries) is int and 1 <= self.max_entries <= MOST_ENTRIES,
            f"max_entries= is a whole number from 1 to {MOST_ENTRIES}.",
        )
        _require(
            type(self.states) is tuple
            and 1 <= len(self.states) <= MOST_STATES
            and all(type(state) in (State, End) for state in self.states),
            f"states= is a tuple of at most {MOST_STATES} State and End.",
        )
        for state in self.states:
            _check_state(state)
        names = [state.name for state in self.states]
        _require(len(set(names)) == len(names), "Two states have one name.")
        self._check_moves()
        self._check_failure_exits()
        self._check_reach()
        _require(
            all(_is(_VERSION, version) and callable(upgrade) for version, upgrade in self.accepts.items())
            and self.version not in self.accepts,
            "accepts= maps older versions to functions.",
        )

    def state(self, name: str) -> State[Any] | End[Any] | None:
        return next((state for state in self.states if state.name == name), None)

    @property
    def tools(self) -> frozenset[str]:
        """Every tool that any state may call."""
        return frozenset(tool for state in self.states if isinstance(state, State) for tool in state.tools)

    def _check_moves(self) -> None:
        _require(self.state(self.start) is not None, f"start= is {self.start!r}, which is no state.")
        for state in self.states:
            for target in moves_of(state):
                _require(self.state(target) is not None, f"{state.name} may go on to {target!r}, which is no state.")

    def _check_reach(self) -> None:
        reached, waiting = set[str](), [self.start]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting.extend(moves_of(self.state(name)))
        lost = sorted(state.name for state in self.states if state.name not in reached)
        _require(not lost, f"No way leads to {', '.join(lost)}.")

    def _check_failure_exits(self) -> None:
        for state in self.states:
            if isinstance(state, State):
                way = [state.name]
                exit_name: str | None = state.on_failure
                while exit_name is not None:
                    _require(exit_name not in way, f"Failing in {state.name} goes round in a circle.")
                    way.append(exit_name)
                    target = self.state(exit_name)
                    _require(
                        target is not None and target.inputs is Failure,
                        f"{exit_name} is a failure exit, so its inputs are Failure.",
                    )
                    exit_name = target.on_failure if isinstance(target, State) else None


def moves_of(state: State[Any] | End[Any] | None) -> tuple[str, ...]:
    """Every state that may follow, the failure exit last."""
    return (*state.next, state.on_failure) if isinstance(state, State) else ()


def is_code(value: object) -> bool:
    """Whether it is a fixed word as `Fail` takes it."""
    return _is(_CODE, value)


def is_call_name(value: object) -> bool:
    """Whether a call may be named so: `[a-z][a-z0-9_-]*`, at most 32 characters."""
    return _is(_CALL_NAME, value)


def _check_state(state: State[Any] | End[Any]) -> None:
    _require(_is(_STATE_NAME, state.name), f"A state is named A-Z, 0-9 and `_`, not {state.name!r}.")
    _require(isinstance(state.inputs, type), f"inputs= of {state.name} is a type.")
    _require(type(state.about) is str and len(state.about) <= 200, f"about= of {state.name} is one sentence.")
    if isinstance(state, State):
        _require(callable(state.step), f"step= of {state.name} is an async function.")
        _require(_names(_STATE_NAME, state.next), f"next= of {state.name} is a tuple of names of states.")
        _require(_names(_TOOL, state.tools), f"tools= of {state.name} is a tuple of names of tools.")


def _names(pattern: re.Pattern[str], names: object) -> bool:
    return type(names) is tuple and all(_is(pattern, name) for name in names) and len(set(names)) == len(names)


def _is(pattern: re.Pattern[str], value: object) -> bool:
    return type(value) is str and pattern.fullmatch(value) is not None


def _require(holds: bool, words: str) -> None:
    if not holds:
        raise MisuseError(words)
