"""A model of the user's own at a demo's gate, with a person who decides what it asks for.

Source: REQUIREMENTS C055, C056.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import placet
from placet.agent import Agent, Answered, Ending, Model, ModelMeter, OpenAICompatible

_A_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelChoice:
    """A model behind an endpoint that speaks Chat Completions. The credential is the variable OPENAI_API_KEY."""

    name: str
    base_url: str | None


def add_model_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--model", metavar="NAME", help="a model of your own in place of the script; its key is OPENAI_API_KEY"
    )
    parser.add_argument("--base-url", metavar="URL", help="the endpoint of --model; it speaks Chat Completions")


def chosen_model(options: Namespace) -> ModelChoice | None:
    """What the command line says."""
    return None if options.model is None else ModelChoice(name=options.model, base_url=options.base_url)


def mistake_about_model(options: Namespace) -> str | None:
    """What is wrong with the options about a model."""
    if options.model is None and options.base_url is not None:
        return "--base-url is the endpoint of --model NAME. Say both"
    return "--model names a model" if options.model == "" else None


@contextlib.asynccontextmanager
async def opened_model(choice: ModelChoice | None, meter: ModelMeter | None = None) -> AsyncIterator[Model | None]:
    """The model, for as long as the block; none where a script plays.

    Args:
        meter: hears of each answer, and that there was none.

    Raises:
        placet.PlacetError: the extra `agent` is not installed, or there is no credential.
    """
    if choice is None:
        yield None
        return
    async with OpenAICompatible(model=choice.name, base_url=choice.base_url, meter=meter) as model:
        yield model


async def worked(
    task: str,
    *,
    gate: placet.Gate,
    model: Model,
    principal: placet.Principal,
    run: str,
    decide: Callable[[placet.AwaitingApproval], Awaitable[Any]],
    heard: Callable[[Answered], None],
) -> Ending:
    """Give the model the task and the gate's tools. Each question to a person is taken to `decide`, one at a time.

    Raises:
        placet.PlacetError: the model gave no answer that can be used; what was proposed before stands.
    """
    asked: asyncio.Queue[placet.AwaitingApproval] = asyncio.Queue()

    def hear(answered: Answered) -> None:
        heard(answered)
        if isinstance(answered.outcome, placet.AwaitingApproval):
            asked.put_nowait(answered.outcome)

    async def decided() -> None:
        while True:
            await decide(await asked.get())

    agent = Agent(gate=gate, model=model, principal=principal, run=run, wait_seconds=_A_DAY, heard=hear)
    deciding = asyncio.ensure_future(decided())
    working = asyncio.ensure_future(agent.work(task))
    try:
        await asyncio.wait((working, deciding), return_when=asyncio.FIRST_COMPLETED)
        if deciding.done():
            deciding.result()  # it ends only by a fault
        return await working
    finally:
        for each in (working, deciding):
            each.cancel()
        await asyncio.gather(working, deciding, return_exceptions=True)


def arguments_of(answered: Answered) -> dict[str, object]:
    """What the model asked with, for the eye; nothing where it is no object."""
    given = answered.proposal.arguments
    try:
        found = json.loads(given) if isinstance(given, str | bytes) else given
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {}
