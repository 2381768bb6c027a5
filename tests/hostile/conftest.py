"""One cell of a matrix: a hostile value in one position, and everything that could give its text away."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet import EffectState, PlacetError, Succeeded
from placet.adapters.telemetry.logs import JsonFormatter
from placet.testing.hostile import HostileValues
from tests.engine.conftest import APPROVER, OpenWorld, Spy, World, looked_up, open_world, spy, where, written

__all__ = ["open_world", "spy", "where"]

SECRET = "zq7f3a91" + "canary"
BOUND_SECONDS = 60.0


class _Ears(logging.Handler):
    """Hears every record at DEBUG, and writes it as our formatter does and as a plain program would."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        extras = {name: value for name, value in vars(record).items() if name not in ("args", "msg", "exc_info")}
        self.texts += [JsonFormatter().format(record), logging.Formatter("%(message)s").format(record), repr(extras)]


@dataclass
class Watch:
    """Everything a cell said, and what was made for it."""

    ears: _Ears
    registry: CollectorRegistry
    capsys: pytest.CaptureFixture[str]
    made: list[HostileValues] = field(default_factory=list)

    def values(self, kind: type[BaseException] = RuntimeError) -> HostileValues:
        self.made.append(HostileValues(SECRET, kind=kind))
        return self.made[-1]

    def each(self, kinds: tuple[type[BaseException], ...] = (KeyboardInterrupt,)) -> Iterator[tuple[str, Any]]:
        """Every hostile value with its name, once for every kind of exception it may raise.

        One kind is enough where no method may run at all: which one it would have raised makes no difference then.
        """
        for kind in kinds:
            for name, make in self.values(kind).values().items():
                yield f"{name} ({kind.__name__})", make()

    @property
    def ran(self) -> list[str]:
        """The hostile methods that ran, of all values together."""
        return [name for values in self.made for name in values.ran]

    async def ended(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """What came out: a value, or an error of ours that holds nothing of anybody else."""
        came_out = ""
        try:
            async with asyncio.timeout(BOUND_SECONDS):
                return await work()
        except PlacetError as error:
            self.hear_error(error)
            return error
        except BaseException as error:
            trace = traceback.extract_tb(error.__traceback__)[-6:]
            came_out = f"{type(error).__name__} at {[f'{place.filename}:{place.lineno}' for place in trace]}"
        pytest.fail(f"not an error of ours came out: {came_out}")

    def ended_at_once(self, work: Callable[[], Any]) -> Any:
        """As `ended`, for what does not wait."""
        came_out = ""
        try:
            return work()
        except PlacetError as error:
            self.hear_error(error)
            return error
        except BaseException as error:
            trace = traceback.extract_tb(error.__traceback__)[-6:]
            came_out = f"{type(error).__name__} at {[f'{place.filename}:{place.lineno}' for place in trace]}"
        pytest.fail(f"not an error of ours came out: {came_out}")

    def hear_error(self, error: PlacetError) -> None:
        assert error.code
        assert error.__cause__ is None
        assert error.__context__ is None or (error.__suppress_context__ is False and error.__context__ is None)
        assert not getattr(error, "__notes__", ())
        self.ears.texts += [str(error), repr(error), repr(error.args), repr(vars(error)), error.hint]
        self.ears.texts += traceback.format_exception(error)

    def hear_outcome(self, outcome: Any) -> None:
        self.ears.texts += [repr(outcome), str(outcome)]
        if hasattr(outcome, "as_data"):
            shown = (outcome.as_data(), outcome.for_openai(), outcome.for_anthropic(), outcome.for_mcp())
            self.ears.texts += [repr(each) for each in shown]
            if not outcome.is_success:
                try:
                    outcome.unwrap()
                except PlacetError as error:
                    self.hear_error(error)

    def assert_nothing_leaked(self, *worlds: World) -> None:
        told = self.capsys.readouterr()
        leaks = [text[:300] for text in (*self.ears.texts, told.out, told.err) if SECRET in text]
        assert leaks == []
        assert SECRET.encode() not in generate_latest(self.registry)
        for world in worlds:
            assert SECRET.encode() not in world.bodies()

    async def assert_serves(self, world: World, *, run: str = "good") -> None:
        """The books are closed, no effect hangs, and the gate still does its work."""
        assert EffectState.DISPATCHED not in {effect.state for effect in await world.effects()}
        outcome = await world.submit("look", {"word": "good"}, run=run, call_id="good")
        assert isinstance(outcome, Succeeded), outcome
        world.check_pairs()


class answering:
    """What is worked out whenever somebody asks."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


@pytest.fixture
def watch(capsys: pytest.CaptureFixture[str]) -> Iterator[Watch]:
    ears = _Ears()
    root, ours = logging.getLogger(), logging.getLogger("placet")
    before = root.level, ours.level, ours.propagate
    root.addHandler(ears)
    root.setLevel(logging.DEBUG)
    ours.setLevel(logging.DEBUG)
    ours.propagate = True
    yield Watch(ears=ears, registry=CollectorRegistry(), capsys=capsys)
    root.removeHandler(ears)
    root.setLevel(before[0])
    ours.setLevel(before[1])
    ours.propagate = before[2]


@pytest.fixture
async def world(open_world: OpenWorld, spy: Spy, watch: Watch) -> World:
    """A gate in memory with a read, a write and a write that asks."""
    tools = (looked_up(spy), written(spy), written(spy, name="asked", approval="always"))
    return await open_world(*tools, metrics=watch.registry)


@pytest.fixture
async def waiting(world: World) -> tuple[World, placet.ApprovalView]:
    """The same, with one call that waits for a person."""
    outcome = await world.submit("asked", {"word": "x"})
    assert isinstance(outcome, placet.AwaitingApproval)
    return world, await world.gate.desk.show(outcome.approval_id, by=APPROVER)
