"""The rug-pull as it is told.

accepted -> called with an approval -> changed between approval and dispatch, and said so: nothing is sent, the rest
goes on -> the difference is read, and the tool accepted as it is after a complaint -> asked anew, and sent -> changed
again without a word -> seen all the same -> the audit
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from placet.demos.mcp.gateway import Agent, Answered, gateway
from placet.demos.mcp.project import AGENT, SERVER, Operator, Supplier
from placet.demos.mcp.releases import (
    SHIP,
    SHIP_THAT_ASKS,
    SHIP_WITH_INSURANCE,
    TRACK,
    TRACK_THAT_WRITES,
)
from placet.demos.stage.checks import Checks
from placet.demos.stage.talk import Talk, shown

SHIP_TOOL: Final = f"{SERVER}.ship"
TRACK_TOOL: Final = f"{SERVER}.track"
_RUN: Final = "monday"
_REFUSED: Final = ("schema_drift", "quarantined")
"""Seen by the process that was about to send, or by the claim before it; which of the two is a matter of moments."""
_EXPORT: Final = "audit.jsonl"


class Declined(Exception):
    """The person at the keyboard said no, or a command did not do what a script wanted; which ends the story."""


@dataclass(slots=True, kw_only=True)
class Scene:
    """Everything the story is told with.

    Attributes:
        audit: how many events of each kind there are in the end.
        has_declined: the person said no, which ends the story.
    """

    operator: Operator
    supplier: Supplier
    talk: Talk
    checks: Checks
    chapters: int = 0
    audit: Counter[str] = field(default_factory=Counter)
    has_declined: bool = False

    def chapter(self, title: str) -> None:
        """Begin the next chapter."""
        self.chapters += 1
        self.talk.heading(f"{self.chapters}  {title}")

    async def ask(self, agent: Agent, tool: str, **arguments: Any) -> Answered:
        """A call of the agent's, told."""
        answer = await agent.call(tool, arguments)
        is_fine = answer.status in ("succeeded", "replayed")
        colour = "green" if is_fine else "yellow" if answer.status == "awaiting_approval" else "red"
        self.talk.step(tool, arguments, f"{answer.status}: {answer.code}", "", colour=colour)
        return answer

    async def accepts(self) -> list[dict[str, Any]]:
        """Show the operator how what is said differs from what was accepted, and have it accepted.

        Returns:
            The differences, as the command says them.

        Raises:
            Declined: the operator did not.
        """
        found: list[dict[str, Any]] = (await self.operator.run("mcp", "diff", SERVER, "--json")).data.get("tools", [])
        self.show(found)
        if self.operator.is_asked:
            code = await self.operator.run_at_the_terminal("mcp", "accept", SERVER)
        else:
            digests = [word for each in found for word in ("--digest", str(each["described"]))]
            code = (await self.operator.run("mcp", "accept", SERVER, *digests)).code
        self._require_yes("accepting", code)
        return found

    async def approves(self, asked: Answered) -> None:
        """Have the operator read exactly what would run, and approve it.

        Raises:
            Declined: the operator did not.
        """
        approval = asked.approval or ""
        if self.operator.is_asked:
            code = await self.operator.run_at_the_terminal("approvals", "approve", approval)
        else:
            found = (await self.operator.run("approvals", "show", approval, "--json")).data
            self.talk.line(f"{shown(found.get('tool'))} {shown(found.get('arguments'))}")
            digest = str(found.get("digest", ""))[:12]
            code = (await self.operator.run("approvals", "approve", approval, "--digest", digest)).code
        self._require_yes("approving", code)

    def _require_yes(self, what: str, code: int) -> None:
        if code == 0:
            return
        self.has_declined = self.operator.is_asked
        if not self.has_declined:
            self.checks.expect(f"{what} ended with 0", False)
        raise Declined

    def show(self, found: list[dict[str, Any]]) -> None:
        """Tell how what is said differs from what was accepted."""
        for tool in found:
            self.talk.line(f"{shown(tool['server'])} {shown(tool['tool'])}  {shown(tool['state'])}")
            for each in tool["differences"]:
                self.talk.line(f"  {shown(each['place'])}")
                for mark, colour, lines in (("-", "red", each["removed"]), ("+", "green", each["added"])):
                    for line in lines:
                        self.talk.line(self.talk.painted(colour, f"    {mark} {shown(line)}"))


async def told(scene: Scene) -> None:
    """Tell the story.

    Raises:
        Declined: the person at the keyboard said no.
    """
    await _accepted(scene)
    async with gateway(scene.operator.folder, run=_RUN) as agent:
        await _shipped(scene, agent)
        await _rug_pulled(scene, agent)
        await _read_and_accepted(scene, agent)
    async with gateway(scene.operator.folder, run=_RUN) as agent:
        await _asked_anew(scene, agent)
        await _changed_in_silence(scene, agent)
    await _verified(scene)


async def _accepted(scene: Scene) -> None:
    scene.chapter("A courier's MCP server is declared. Nothing of it is served before a person has accepted it")
    scene.supplier.deploys(SHIP, TRACK)
    await scene.operator.run("init", "--store-only")
    added = await scene.operator.run("mcp", "add", SERVER, "--", *scene.supplier.command)
    scene.checks.expect("the server is in placet.toml, with the most careful terms", added.code == 0)
    scene.talk.line(
        "The operator says in the manifest what is true: ship writes and is always asked about, track reads."
    )
    scene.operator.says_terms()
    found = await scene.accepts()
    states = {each["tool"]: each["state"] for each in found}
    scene.checks.expect("both tools were new, and are accepted now", states == {"ship": "new", "track": "new"})
    scene.checks.expect("the courier was only asked what it has", scene.supplier.calls("ship") == [])


async def _shipped(scene: Scene, agent: Agent) -> None:
    scene.chapter(f"{AGENT} works through the gateway. A parcel needs a person")
    told_of = await agent.tools()
    scene.checks.expect(
        "the agent is told what was accepted",
        told_of.keys() >= {SHIP_TOOL, TRACK_TOOL} and told_of[SHIP_TOOL].startswith(SHIP["description"]),
    )
    asked = await scene.ask(agent, SHIP_TOOL, order="A7")
    scene.checks.expect("a person has to be asked, and nothing was sent", _is_waiting(asked) and _parcels(scene) == [])
    await scene.approves(asked)
    sent = await scene.ask(agent, SHIP_TOOL, order="A7")
    scene.checks.expect("sent, once", sent.status == "succeeded" and _parcels(scene) == ["A7"])
    again = await scene.ask(agent, SHIP_TOOL, order="A7")
    scene.checks.expect("asked again, it is a replay", again.status == "replayed" and _parcels(scene) == ["A7"])


async def _rug_pulled(scene: Scene, agent: Agent) -> None:
    scene.chapter("The next parcel is approved. Before it is sent, the courier describes its tool otherwise")
    asked = await scene.ask(agent, SHIP_TOOL, order="B2")
    await scene.approves(asked)
    scene.supplier.deploys(SHIP_THAT_ASKS, TRACK)
    await scene.supplier.tells()
    scene.talk.line("the courier: notifications/tools/list_changed")
    refused = await scene.ask(agent, SHIP_TOOL, order="B2")
    scene.talk.line(shown(refused.text))
    scene.checks.expect("refused, although it was approved", refused.code in _REFUSED and not refused.was_sent)
    scene.checks.expect("and nothing reached the courier", _parcels(scene) == ["A7"])
    found = await scene.ask(agent, TRACK_TOOL, order="A7")
    scene.checks.expect("its other tool goes on", found.status == "succeeded")
    words = " ".join((await agent.tools()).values())
    scene.checks.expect("no word of the new text reached the agent", "customs_note" not in words + refused.text)


async def _read_and_accepted(scene: Scene, agent: Agent) -> None:
    scene.chapter("The operator reads the difference, and complains")
    found = (await scene.operator.run("mcp", "diff", SERVER, "--json")).data.get("tools", [])
    scene.show(found)
    places = {each["place"] for tool in found for each in tool["differences"]}
    scene.checks.expect(
        "the one tool differs, in its text and in its arguments",
        [tool["tool"] for tool in found] == ["ship"] and len(places) > 1,
    )
    scene.talk.line("The courier takes it back, and offers insurance instead. Of that, too, a person is asked:")
    scene.supplier.deploys(SHIP_WITH_INSURANCE, TRACK)
    await scene.accepts()
    refused = await scene.ask(agent, SHIP_TOOL, order="B2")
    scene.checks.expect(
        "the gateway that runs was told another text, and goes on refusing",
        refused.code in _REFUSED and _parcels(scene) == ["A7"],
    )


async def _asked_anew(scene: Scene, agent: Agent) -> None:
    scene.chapter("The gateway is started anew, and serves what was accepted")
    told_of = await agent.tools()
    scene.checks.expect(
        "the agent is told the new text", told_of[SHIP_TOOL].startswith(SHIP_WITH_INSURANCE["description"])
    )
    asked = await scene.ask(agent, SHIP_TOOL, order="B2")
    scene.checks.expect(
        "the approval was given for another text, so it is asked about anew",
        _is_waiting(asked) and _parcels(scene) == ["A7"],
    )
    await scene.approves(asked)
    sent = await scene.ask(agent, SHIP_TOOL, order="B2")
    scene.checks.expect("sent, once", sent.status == "succeeded" and _parcels(scene) == ["A7", "B2"])


async def _changed_in_silence(scene: Scene, agent: Agent) -> None:
    scene.chapter("The courier's process ends, and the next one has other hints. Nobody was told")
    before = len(scene.supplier.calls("track"))
    scene.supplier.deploys(SHIP_WITH_INSURANCE, TRACK_THAT_WRITES)
    scene.supplier.restarts()
    refused = await scene.ask(agent, TRACK_TOOL, order="B2")
    scene.checks.expect(
        "seen before the call reached it",
        not refused.was_sent and len(scene.supplier.calls("track")) == before,
    )
    scene.supplier.deploys(SHIP_WITH_INSURANCE, TRACK)
    still = await scene.ask(agent, TRACK_TOOL, order="B2")
    scene.checks.expect("gone back to what was accepted, it waits for a person", still.code in _REFUSED)


async def _verified(scene: Scene) -> None:
    scene.chapter("The audit is held against its chain")
    verified = await scene.operator.run("audit", "verify", "--json")
    scene.checks.expect("every link holds", verified.code == 0)
    await scene.operator.run("audit", "export", "--out", _EXPORT)
    scene.audit = scene.operator.exported(_EXPORT)
    scene.checks.expect("three definitions were accepted", scene.audit["tool_accepted"] == 3)
    scene.checks.expect("two were quarantined", scene.audit["tool_quarantined"] == 2)
    keys = [call["key"] for call in scene.supplier.calls("ship")]
    scene.checks.expect("each parcel was sent once, under its operation's own key", len(set(keys)) == len(keys) == 2)


def _is_waiting(answer: Answered) -> bool:
    return answer.status == "awaiting_approval" and answer.approval is not None


def _parcels(scene: Scene) -> list[str]:
    """What reached the courier, by its own book."""
    return [call["arguments"]["order"] for call in scene.supplier.calls("ship")]
