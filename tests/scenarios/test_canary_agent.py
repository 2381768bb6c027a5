"""What a model says, is told and works with can be read at its endpoint and by its user, and nowhere else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.agent import Agent, Answered, OpenAICompatible, calls, text
from placet.errors import ModelError
from tests.agent.endpoint import endpoint
from tests.scenarios.canary import LogEars, Outputs, Secrets
from tests.scenarios.test_canary import assert_exactly

AGENT = placet.Principal.agent("agent", tenant="acme", roles=("operator",), scopes=("w",))
TOLD = "the model is told it"
SAID = "the model said it, so it is told it again"
BELONGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "task": (TOLD, ("conversation",)),
    "instructions": (TOLD, ("conversation",)),
    "result": (TOLD, ("conversation", "outcomes")),
    "modelname": ("the endpoint is asked for it", ("conversation",)),
    "argument": (SAID, ("conversation",)),
    "refusedargument": (SAID, ("conversation",)),
    "twice": (SAID, ("conversation",)),
    "toolname": (SAID, ("conversation",)),
    "aside": (SAID, ("conversation",)),
    "lastwords": ("they are the answer", ("ending",)),
    "credential": ("the endpoint is shown it", ("credential",)),
}


def tools(secrets: Secrets) -> list[placet.Tool]:
    @placet.tool(effect="read", text="free")
    async def look(word: str) -> str:
        """Look."""
        return secrets("result")

    @placet.tool(effect="write", risk="medium", permission="w", text="free", approval="always")
    async def write(word: str) -> str:
        """Write."""
        return "written"

    @placet.tool(effect="read", breaker=None, retry=placet.RetryPolicy(max_attempts=1))
    async def broken() -> str:
        """Break."""
        raise RuntimeError(secrets("exception"))

    return [look, write, broken]


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    heard = Outputs()
    yield from (heard for _ in LogEars(heard).listening())


@pytest.mark.req("B121", "C056")
@pytest.mark.case("M01", "M02")
async def test_what_passes_through_an_agent_is_read_at_its_endpoint_and_nowhere_else(
    tmp_path: Path, outputs: Outputs, capsys: pytest.CaptureFixture[str]
) -> None:
    secrets, registry = Secrets(), CollectorRegistry()
    asked_first: Any = calls(
        ("look", {"word": secrets("argument")}),
        ("look", {"word": "x", "more": secrets("refusedargument")}),
        ("look", f'{{"word": "{secrets("twice")}", "word": "x"}}'),
        (secrets("toolname"), {}),
        ("broken", {}),
    )
    asked_first["choices"][0]["message"]["content"] = secrets("aside")
    script = [
        (503, {"error": {"message": secrets("fault")}}),
        asked_first,
        text(secrets("lastwords")),
        (400, {"error": {"message": secrets("refusal"), "code": secrets("faultcode")}}),
        f'{{"choices": "{secrets("malformed")}'.encode(),
        {"choices": [{"message": secrets("nomessage")}]},
    ]

    def heard(answered: Answered) -> None:
        outputs.hear_outcome(answered.outcome)

    with endpoint(script) as there:
        there.headers["x-request-id"] = secrets("header")
        async with (
            placet.open(tools=tools(secrets), store=tmp_path / "placet.db", metrics=registry) as gate,
            OpenAICompatible(
                model=secrets("modelname"),
                base_url=f"{there.url}/{secrets('path')}",
                api_key=secrets("credential"),
                max_retries=1,
            ) as model,
        ):
            agent = Agent(
                gate=gate, model=model, principal=AGENT, run="r1", instructions=secrets("instructions"), heard=heard
            )
            ending = await agent.work(secrets("task"))
            outputs.hear("ending", repr(ending))
            for code in ("model_refused", "model_answer_malformed", "model_answer_malformed"):
                with pytest.raises(ModelError) as caught:
                    await agent.work("again")
                assert caught.value.code == code
                outputs.hear_error(caught.value)
            outputs.hear("audit", *[event.body async for event in gate.store.chained()])
            outputs.hear("metrics", generate_latest(registry))
            outputs.hear_files("store files", tmp_path, "placet.db*")
    for credential, body in there.asked:
        outputs.hear("credential", credential)
        outputs.hear("conversation", json.dumps(body))
    told = capsys.readouterr()
    outputs.hear("streams", told.out, told.err)

    assert ending.turns == 2
    assert_exactly(outputs, secrets, BELONGS)
