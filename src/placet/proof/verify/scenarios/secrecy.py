"""G10: marks are put into arguments, results and exceptions, and looked for in everything that is said."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from placet.errors import InvalidArguments, PlacetError
from placet.model.audit import AuditEvent
from placet.model.context import CallContext
from placet.model.contract import ApprovalMode, Contract
from placet.model.json import JsonObject
from placet.model.outcome import AwaitingApproval, Outcome
from placet.proof.verify.findings import REPORT, CannotApply, Guarantee, NotPlayed, PerTool, Scenario, require
from placet.proof.verify.specimens import NoSpecimen, Specimen, marked, result_for
from placet.proof.verify.stage import ASK, RUN, STORE, Stage, proposal
from placet.rules.contracts import Tool


@dataclass
class _Said:
    """Everything that was said, by where."""

    by_channel: dict[str, list[str]] = field(default_factory=dict)

    def hear(self, channel: str, *texts: object) -> None:
        self.by_channel.setdefault(channel, []).extend(str(text) for text in texts)

    def where(self, mark: str) -> list[str]:
        return [channel for channel, texts in self.by_channel.items() if any(mark in text for text in texts)]


class _Ears(logging.Handler):
    def __init__(self, said: _Said) -> None:
        super().__init__(logging.DEBUG)
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.hear("the log", logging.Formatter("%(name)s %(message)s").format(record), vars(record))


class _Sink:
    name, is_required = "verify", False

    def __init__(self, said: _Said) -> None:
        self._said = said

    async def deliver(self, event: AuditEvent) -> None:
        self._said.hear("audit sinks", repr(event))


@contextmanager
def _listening(said: _Said) -> Iterator[None]:
    """Hear every logger of ours at its most talkative."""
    ours = logging.getLogger("placet")
    before = (ours.level, ours.propagate)
    ears = _Ears(said)
    ours.addHandler(ears)
    ours.setLevel(logging.DEBUG)
    ours.propagate = False
    try:
        yield
    finally:
        ours.removeHandler(ears)
        ours.setLevel(before[0])
        ours.propagate = before[1]


async def marks(stage: Stage, tool: Tool) -> str:
    """The policy of the configuration has its say too: what it gives as reasons is audited."""
    in_arguments, in_result, in_error = (f"zq{secrets.token_hex(8)}" for _ in range(3))
    specimen = _marked(tool, in_arguments)
    hand = stage.hand(tool)
    said = _Said()
    has_result = _has_marked_result(tool, in_result, hand)
    with _listening(said):
        outcomes = [
            await _heard(stage, tool, specimen, said, f"c{index}", does)
            for index, does in enumerate((lambda context: hand.result, _fails(in_error), _returns_nonsense(in_result)))
        ]
    said.hear("the audit", *await _audit(stage))
    for what, mark in (("an argument", in_arguments), ("a result", in_result), ("an exception's text", in_error)):
        found = said.where(mark)
        require(
            not found,
            f"{what} can be read in {', '.join(found)}",
            "If your policy gives values as reasons, let it give fixed codes. Else it is a fault of placet: report it.",
        )
    raw = await stage.scratch.texts(STORE)
    for what, mark in (("a result", in_result), ("an exception's text", in_error)):
        require(mark.encode() not in raw, f"{what} lies in the store in clear", REPORT)
    channels = ", ".join(sorted(said.by_channel))
    played = "arguments, results and exceptions" if has_result else "arguments and exceptions"
    return f"{played} of {len(outcomes)} calls are not in: {channels}"


def _marked(tool: Tool, mark: str) -> Specimen:
    try:
        return marked(tool, mark)
    except NoSpecimen as why:
        told = str(why)
    if not tool.contract.arguments_schema.get("properties"):
        raise CannotApply("it has no arguments")
    raise NotPlayed(told)


def _has_marked_result(tool: Tool, mark: str, hand: Any) -> bool:
    try:
        hand.result = result_for(tool, mark=mark)
    except NoSpecimen:
        return False
    return mark in json.dumps(hand.result)


def _fails(mark: str) -> Any:
    def does(context: CallContext) -> Any:
        error = RuntimeError(mark)
        error.add_note(mark)
        raise error

    return does


def _returns_nonsense(mark: str) -> Any:
    return lambda context: {mark: object()}


async def _heard(stage: Stage, tool: Tool, specimen: Specimen, said: _Said, run: str, does: Any) -> Outcome:
    from prometheus_client import CollectorRegistry, generate_latest

    stage.hand(tool).does = does
    metrics = CollectorRegistry()
    named = STORE if run == "c0" else run
    async with stage.gate(named=named, sinks=(_Sink(said),), metrics=metrics) as gate:
        by = await stage.let(gate, tool, specimen)
        outcome = await stage.submitted(gate, tool, specimen, run, by=by, run=run)
        said.hear("metrics", generate_latest(metrics).decode())
        if named != STORE:
            said.hear("the audit", *[event.body.decode() async for event in gate.store.chained()])
    said.hear("outcomes", outcome.message, outcome.code)
    if not outcome.is_success:
        said.hear("outcomes", outcome.as_data())
        _hear_error(outcome, said)
    return outcome


def _hear_error(outcome: Outcome, said: _Said) -> None:
    try:
        outcome.unwrap()
    except PlacetError as error:
        said.hear("errors", error, error.args, vars(error), error.__cause__, error.__context__)


async def _audit(stage: Stage) -> list[str]:
    async with stage.gate() as gate:
        return [event.body.decode() async for event in gate.store.chained()]


async def redacted_for_the_approver(stage: Stage, tool: Tool) -> str:
    """What the contract redacts, not even the approver sees."""
    mark = f"zq{secrets.token_hex(8)}"
    (specimen,) = stage.specimens(tool)
    arguments = _with_secret(tool, specimen, mark)
    by = stage.agents(tool.contract)[-2]
    async with stage.gate(policy=ASK) as gate:
        ask = {**proposal(tool, specimen, "c1"), "arguments": arguments}
        asked = await gate.submit(ask, principal=by, run=RUN)
        if not isinstance(asked, AwaitingApproval):
            raise NotPlayed(f"it could not be asked for here: {asked.code}")
        view = await gate.desk.show(asked.approval_id, by=stage.person(tool.contract))
    require(
        mark not in repr(view),
        "an argument that the contract redacts is shown to the approver",
        REPORT,
    )
    require(
        mark.encode() not in await stage.scratch.texts(STORE),
        "a redacted argument lies in the store in clear",
        REPORT,
    )
    return f"{', '.join(sorted(tool.contract.redact))} is shown to nobody"


def _with_secret(tool: Tool, specimen: Specimen, mark: str) -> JsonObject:
    for name in sorted(tool.contract.redact):
        arguments = {**specimen.proposed, name: mark}
        try:
            tool.read_arguments(arguments)
        except InvalidArguments:
            continue
        return arguments
    raise CannotApply("no redacted argument takes a free text")


def _redacts(contract: Contract) -> bool:
    return bool(contract.redact) and contract.approval is not ApprovalMode.NEVER


SCENARIOS: tuple[Scenario, ...] = (
    PerTool(guarantee=Guarantee.G10, id="marks", play=marks),
    PerTool(
        guarantee=Guarantee.G10,
        id="redacted_for_the_approver",
        play=redacted_for_the_approver,
        concerns=_redacts,
    ),
)
