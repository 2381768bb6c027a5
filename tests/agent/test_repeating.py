"""A model that asks for the same over and over: warned first, then refused, and never where that is a tool's use."""

from __future__ import annotations

from typing import Any

import pytest

import placet
from placet.agent import Agent, Answered, Repeats, ScriptedModel, calls, text
from placet.errors import MisuseError, ModelError
from placet.model.principal import Principal
from placet.rules.evidence import NOTICE

AGENT = Principal.agent("agent", tenant="acme", roles=["admin"], scopes=["notes.write"])
A, B = ("look", {"at": "a"}), ("look", {"at": "b"})


class Looks:
    """What was looked at, and what was sent."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def tools(self) -> list[placet.Tool]:
        @placet.tool(effect="read", name="look")
        async def look(at: str) -> str:
            """Look."""
            self.done.append(at)
            return "nothing new"

        @placet.tool(effect="read", name="job.status")
        async def status(job: str) -> str:
            """How a job stands."""
            self.done.append(job)
            return "running"

        @placet.tool(effect="write", risk="medium", permission="notes.write", name="send")
        async def send(words: str) -> str:
            """Send."""
            self.done.append(words)
            return "sent"

        return [look, status, send]


async def worked(gate: Any, script: list[Any], **more: Any) -> tuple[list[str], list[str]]:
    """What became of each call, and what the model was told of each; one call a turn."""
    heard: list[Answered] = []
    model = ScriptedModel([*(calls(asked) for asked in script), text("Enough.")])
    await Agent(gate=gate, model=model, principal=AGENT, run="r1", heard=heard.append, **more).work("Look.")
    told = [str(message["content"]) for message in model.heard[-1] if message["role"] == "tool"]
    return [each.outcome.code for each in heard], told


def is_warned(told: str) -> bool:
    return told.startswith("You have asked for exactly this before")


@pytest.mark.case("J03")
@pytest.mark.parametrize(
    ("script", "codes", "warned"),
    [
        pytest.param([A] * 5, ["succeeded"] * 4 + ["repeated"], [2, 3], id="the same"),
        pytest.param([A, B] * 4, ["succeeded"] * 8, [4, 5, 6, 7], id="two in turn are warned of"),
        pytest.param([A, B] * 5, ["succeeded"] * 8 + ["repeated"] * 2, [4, 5, 6, 7], id="and then refused"),
        pytest.param([("job.status", {"job": "7"})] * 20, ["succeeded"] * 20, [], id="a tool that is polled"),
        pytest.param([("look", {"at": str(n)}) for n in range(12)], ["succeeded"] * 12, [], id="other calls each time"),
        pytest.param(
            [("send", '{"words": "x"}'), ("send", '{ "words" : "x" }'), ("send", {"words": "x"})],
            ["succeeded"] * 2 + ["repeated"],
            [1],
            id="a tool with a threshold of its own, and however it is written",
        ),
    ],
)
async def test_what_is_asked_for_again_and_again_is_warned_of_and_then_not_made(
    script: list[Any], codes: list[str], warned: list[int]
) -> None:
    looks = Looks()
    repeats = Repeats(polls=frozenset({"job.status"}), per_tool={"send": 2})
    async with placet.open(tools=looks.tools(), store=placet.MEMORY) as gate:
        came, told = await worked(gate, script, repeats=repeats)

    assert came == codes
    assert [place for place, content in enumerate(told) if is_warned(content)] == warned
    assert len(looks.done) == codes.count("succeeded")
    for content in told:
        assert NOTICE in content or '"status":"refused"' in content


@pytest.mark.case("J03")
async def test_what_was_asked_for_before_the_work_was_begun_again_counts(tmp_path: Any) -> None:
    looks, send = Looks(), ("send", {"words": "x"})
    async with placet.open(tools=looks.tools(), store=tmp_path / "placet.db") as gate:
        with pytest.raises(ModelError):  # its script ends, as a model that fails
            model = ScriptedModel([calls(send)] * 3)
            await Agent(gate=gate, model=model, principal=AGENT, run="r1").work("Send.")

    async with placet.open(tools=looks.tools(), store=tmp_path / "placet.db") as gate:
        came, told = await worked(gate, [send] * 5)

    assert came == ["replayed"] * 3 + ["succeeded", "repeated"]
    assert [is_warned(content) for content in told] == [True] * 4 + [False]
    assert looks.done == ["x"] * 4  # in both together


async def test_only_the_calls_of_a_turn_that_are_repeated_are_left_out_and_each_has_its_own_answer() -> None:
    looks = Looks()
    async with placet.open(tools=looks.tools(), store=placet.MEMORY) as gate:
        heard: list[Answered] = []
        model = ScriptedModel([calls(*[A] * 5, B, ("no_such", {}), *[("no_such", {})] * 4, A), text("Enough.")])
        await Agent(gate=gate, model=model, principal=AGENT, run="r1", heard=heard.append).work("Look.")

    expected = ["succeeded"] * 4 + ["repeated", "succeeded"] + ["unknown_tool"] * 4 + ["repeated"] * 2
    assert [each.outcome.code for each in heard] == expected
    said, *answers = model.heard[1][2:]
    ids = [call["id"] for call in said["tool_calls"]]  # type: ignore[union-attr,index,call-overload]
    assert [answer["tool_call_id"] for answer in answers] == ids


async def test_a_turn_that_was_cut_off_counts_for_nothing() -> None:
    looks = Looks()
    async with placet.open(tools=looks.tools(), store=placet.MEMORY) as gate:
        cut = [calls(A, finish_reason="length")] * 6
        heard: list[Answered] = []
        model = ScriptedModel([*cut, calls(A), text("Enough.")])
        await Agent(gate=gate, model=model, principal=AGENT, run="r1", heard=heard.append).work("Look.")

    assert [each.outcome.code for each in heard] == ["invalid_arguments"] * 6 + ["succeeded"]


@pytest.mark.parametrize("name", [["look"], {"a": 1}, 7, None], ids=["list", "object", "number", "null"])
async def test_a_name_that_is_no_text_is_answered_and_the_work_goes_on(name: Any) -> None:
    looks = Looks()
    asked = calls(("look", {"at": "a"}))
    asked["choices"][0]["message"]["tool_calls"][0]["function"]["name"] = name
    model = ScriptedModel([asked, text("Enough.")])
    async with placet.open(tools=looks.tools(), store=placet.MEMORY) as gate:
        ended = await Agent(gate=gate, model=model, principal=AGENT, run="r1").work("Look.")

    assert (ended.words, looks.done) == ("Enough.", [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"most": 1},
        {"most": True},
        {"per_tool": {"look": 1}},
        {"window": 4},
        {"most": 2, "per_tool": {"look": 20}},
        {"polls": frozenset({7})},
        {"per_tool": {7: 2}},
    ],
    ids=str,
)
def test_numbers_and_names_without_a_meaning_are_misuse(wrong: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        Repeats(**wrong)
