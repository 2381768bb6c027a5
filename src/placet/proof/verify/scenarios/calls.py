"""G1 to G3: what is not listed, not checked, or said by the wrong side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from placet.errors import InvalidArguments
from placet.model.json import JsonValue
from placet.model.outcome import Invalid, Succeeded
from placet.model.principal import Role
from placet.proof.verify.findings import REPORT, CannotApply, Guarantee, NotPlayed, Once, PerTool, Scenario, require
from placet.proof.verify.specimens import Specimen
from placet.proof.verify.stage import ALLOW, RUN, Stage, proposal
from placet.rules.contracts import Tool

_OTHERS: tuple[JsonValue, ...] = (None, True, 17, 1.5, "text", [], {})
_SERVER_NAMES = ("tenant", "tenant_id", "principal", "operation_key", "approval_id")


async def _all_refused(stage: Stage, tool: Tool, asks: Mapping[str, dict[str, Any]]) -> None:
    """Every proposal is refused before anything runs. The keys say what is wrong with each."""
    before = stage.uses
    async with stage.gate(policy=ALLOW) as gate:
        for index, (what, ask) in enumerate(asks.items()):
            by = stage.agent(tool.contract, Role.ADMIN)
            outcome = await gate.submit(ask, principal=by, run=f"{RUN}-{index}")
            require(
                isinstance(outcome, Invalid) and stage.uses == before,
                f"{what} was not refused as invalid (it was {outcome.status})",
                "Close the contract: name every member, its type and its bounds.",
            )


# ---------------------------------------------------------------- G1


async def unlisted_names(stage: Stage) -> str:
    """Names beside those that are listed, each with arguments that its neighbour would take."""
    if not stage.tools:
        raise NotPlayed("no tool is registered")
    tried = 0
    async with stage.gate(policy=ALLOW) as gate:
        for tool in stage.tools.values():
            by, arguments = stage.agent(tool.contract, Role.ADMIN), _arguments(stage, tool)
            for name in dict.fromkeys(_beside(tool.contract.name)):
                if name in stage.tools:
                    continue
                ask = {"call_id": "c1", "tool": name, "arguments": arguments}
                outcome = await gate.submit(ask, principal=by, run=f"{RUN}-{tried}")
                tried += 1
                require(
                    isinstance(outcome, Invalid) and outcome.code in ("unknown_tool", "protocol_rejected"),
                    f"a name that is not registered was {outcome.status} ({outcome.code})",
                    REPORT,
                )
    require(stage.uses == 0, "a handler ran under a name that is not registered", REPORT)
    return f"{tried} names beside those of {len(stage.tools)} tools"


def _arguments(stage: Stage, tool: Tool) -> JsonValue:
    try:
        return stage.specimens(tool)[0].proposed
    except NotPlayed:
        return {}


def _beside(name: str) -> Iterator[str]:
    yield from (name.upper(), name.swapcase(), f"{name} ", f" {name}", f"{name}s", name[:-1] or "x")
    yield from (f"{name}.__call__", f"__{name}__", f"{name}\u200b", "__class__", "os.system", "eval")


# ---------------------------------------------------------------- G2


async def unknown_member(stage: Stage, tool: Tool) -> str:
    if "" in tool.contract.open_members:
        raise CannotApply("the contract lets unknown members in on purpose")
    (specimen,) = stage.specimens(tool)
    name = "verify_unknown_member"
    await _all_refused(stage, tool, {"an unknown member": _with(tool, specimen, {**specimen.proposed, name: 1})})
    return "an unknown member is refused"


async def wrong_type(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    if not specimen.proposed:
        raise CannotApply("it has no arguments")
    asks: dict[str, dict[str, Any]] = {}
    open_to_all: list[str] = []
    for name, value in specimen.proposed.items():
        others = [other for other in _OTHERS if type(other) is not type(value)]
        refused = [other for other in others if not _is_accepted(tool, {**specimen.proposed, name: other})]
        if refused:
            asks[f"another type for {name!r}"] = _with(tool, specimen, {**specimen.proposed, name: refused[0]})
        else:
            open_to_all.append(name)
    if not asks:
        raise NotPlayed(f"every argument takes any type: {', '.join(open_to_all)}")
    await _all_refused(stage, tool, asks)
    told = f"{len(asks)} arguments refuse another type"
    return told + (f"; these take any: {', '.join(open_to_all)}" if open_to_all else "")


def _is_accepted(tool: Tool, arguments: JsonValue) -> bool:
    try:
        tool.read_arguments(arguments)
    except InvalidArguments:
        return False
    return True


async def malformed_text(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    text = json.dumps(specimen.proposed)
    texts = {
        "text after the end": text + " {}",
        "a list of arguments": f"[{text}]",
        "not a number": f'{{"verify": NaN{", " if specimen.proposed else ""}{text[1:]}',
        "half a text": text[:-1],
        "a text with U+0000": json.dumps({**specimen.proposed, "verify": "\0"}),
    }
    for name, value in list(specimen.proposed.items())[:1]:
        texts["a member that stands twice"] = f"{{{json.dumps(name)}: {json.dumps(value)}, {text[1:]}"
    asks = {what: {**proposal(tool, specimen, "c1"), "arguments": each} for what, each in texts.items()}
    await _all_refused(stage, tool, asks)
    return f"{len(texts)} malformed texts are refused"


async def oversize(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    limit = tool.contract.max_argument_bytes
    texts = [name for name, value in specimen.proposed.items() if type(value) is str]
    asks = {
        f"{name!r} of more than {limit} bytes": _with(tool, specimen, {**specimen.proposed, name: "v" * limit})
        for name in texts or ["verify"]
    }
    deep: JsonValue = 1
    for _ in range(tool.contract.max_depth + 1):
        deep = [deep]
    asks["too deep an argument"] = _with(tool, specimen, {**specimen.proposed, "verify": deep})
    await _all_refused(stage, tool, asks)
    return f"more than {limit} bytes, and more than {tool.contract.max_depth} levels, are refused"


async def broken_result(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    hand = stage.hand(tool)
    mark = "verify-broken-result"
    for what, broken in (("no JSON", {mark: object()}), ("too large", mark * tool.contract.max_result_bytes)):
        hand.does = lambda context, broken=broken: broken  # type: ignore[misc]  # bound now, not later
        async with stage.gate(policy=ALLOW) as gate:
            by = await stage.let(gate, tool, specimen)
            outcome = await stage.submitted(gate, tool, specimen, f"c-{len(hand.used)}", by=by, run=f"{RUN}-{what}")
        shown = json.dumps(outcome.as_data())
        require(mark not in shown, f"a result that is {what} was shown", REPORT)
        if tool.contract.effect_class.is_write:
            is_told = isinstance(outcome, Succeeded) and outcome.result_unavailable is not None
            require(
                is_told or outcome.status == "replayed",
                f"a write that was performed was told as {outcome.status}, because its result was {what}",
                REPORT,
            )
    return "a result that breaks its contract is withheld, and what was done stays done"


def _with(tool: Tool, specimen: Specimen, arguments: JsonValue) -> dict[str, Any]:
    return {**proposal(tool, specimen, "c1"), "arguments": arguments}


# ---------------------------------------------------------------- G3


async def server_names(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    asks = {
        f"an argument {name!r}": _with(tool, specimen, {**specimen.proposed, name: "other"}) for name in _SERVER_NAMES
    }
    await _all_refused(stage, tool, asks)
    return f"{len(_SERVER_NAMES)} names that only the server may say are refused as arguments"


async def words_beside_the_call(stage: Stage, tool: Tool) -> str:
    (specimen,) = stage.specimens(tool)
    asks = {
        f"a member {name!r} of a proposal": {**proposal(tool, specimen, "c1"), name: "other"}
        for name in ("principal", "tenant", "approval", "policy", "run", "operation_key")
    }
    await _all_refused(stage, tool, asks)
    async with stage.gate(policy=ALLOW) as gate:
        by = stage.agent(tool.contract, Role.ADMIN)
        await stage.submitted(gate, tool, specimen, "c2", by=by)
    for _, context in stage.hand(tool).used:
        require(
            (context.tenant, context.principal) == (by.tenant, by),
            "an attempt ran for somebody else than its principal",
            REPORT,
        )
    return "who acts comes with the principal alone"


SCENARIOS: tuple[Scenario, ...] = (
    Once(guarantee=Guarantee.G1, id="unlisted_names", play=unlisted_names),
    PerTool(guarantee=Guarantee.G2, id="unknown_member", play=unknown_member),
    PerTool(guarantee=Guarantee.G2, id="wrong_type", play=wrong_type),
    PerTool(guarantee=Guarantee.G2, id="malformed_text", play=malformed_text),
    PerTool(guarantee=Guarantee.G2, id="oversize", play=oversize),
    PerTool(guarantee=Guarantee.G2, id="broken_result", play=broken_result),
    PerTool(guarantee=Guarantee.G3, id="server_names", play=server_names),
    PerTool(guarantee=Guarantee.G3, id="words_beside_the_call", play=words_beside_the_call),
)
