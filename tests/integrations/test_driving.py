"""What every engine makes of a step: an answer in data, whatever was raised; and under which name it knows a run."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from placet.engine.workflow import Workflows
from placet.errors import StoreUnavailable
from placet.integrations.driving import Fault, advanced, engine_id
from placet.model.progress import Progress


class Raising:
    """Workflows of which every step raises this."""

    def __init__(self, fault: BaseException) -> None:
        self._fault = fault

    async def advance(self, tenant: str, run: str) -> Progress:
        raise self._fault


def raising(fault: BaseException) -> Workflows:
    return cast(Workflows, Raising(fault))


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (StoreUnavailable("LEAKED-7f3a91"), "store_unavailable"),
        (ValueError("LEAKED-7f3a91"), "engine_fault"),
        (BaseExceptionGroup("LEAKED-7f3a91", [asyncio.CancelledError()]), "engine_fault"),
        (asyncio.CancelledError("LEAKED-7f3a91"), "engine_fault"),
        (GeneratorExit(), "engine_fault"),
    ],
    ids=lambda each: each if type(each) is str else type(each).__name__,
)
async def test_whatever_a_step_raises_is_a_fault_and_the_engine_asks_again(fault: BaseException, code: str) -> None:
    assert await advanced(raising(fault), "acme", "run-1") == Fault(code=code)


async def test_a_step_whose_own_task_is_cancelled_is_cancelled() -> None:
    reached = asyncio.Event()

    class Waiting:
        async def advance(self, tenant: str, run: str) -> Progress:
            reached.set()
            await asyncio.get_running_loop().create_future()
            raise AssertionError

    step = asyncio.ensure_future(advanced(cast(Any, Waiting()), "acme", "run-1"))
    await reached.wait()
    step.cancel()
    with pytest.raises(asyncio.CancelledError):
        await step


async def test_what_ends_a_process_is_not_held_back() -> None:
    with pytest.raises(SystemExit):
        await advanced(raising(SystemExit(3)), "acme", "run-1")


def test_no_two_runs_have_one_name_and_none_is_longer_than_engines_take() -> None:
    long = ["\u7ecf" * 128, "\u7ecf" * 127 + "a"]
    pairs = [("a/b", "c"), ("a", "b/c"), ("a", "b"), ("#", "b"), *((tenant, run) for tenant in long for run in long)]
    names = [engine_id(tenant, run) for tenant, run in pairs]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 510
    assert names[2] == "placet/a/b"
