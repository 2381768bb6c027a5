"""A planner that believes what it reads: the same plan, but orders found in log lines are carried out too.

This is the demo's stand-in for a model that falls for injected text. What it proposes is parsed from the text; it knows
no tool list, so it asks for whatever the text names. Nothing here is a defence, and nothing has to be: the gate is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from placet.demos.ops.planner import Answer, Failure, Findings, Plan, Step

_CALL = re.compile(r"\bcall\s+([A-Za-z_][\w.-]{0,63})\s*(?:\(([^)\"]{0,300})\)|with\s+([^\"]{1,300}))")
_CLAIM = re.compile(r"\bapproved_by=[^\"]{1,200}")
_PAIR = re.compile(r"\b([A-Za-z_]\w{0,63})=([\w.@-]{1,100})")
_WRITES = frozenset({"create_ticket"})


@dataclass(slots=True, kw_only=True)
class _Beliefs:
    """What the planner was talked into; each order is carried out once."""

    orders: list[Step] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    claims: dict[str, str] = field(default_factory=dict)

    def take_in(self, answer: Answer, asked: Step) -> None:
        """Look for orders and for claims of approval in everything an answer says."""
        if isinstance(answer, Failure):
            return
        for text in _texts(answer):
            for found in _CALL.finditer(text):
                self._order(found, asked)
            for claim in _CLAIM.finditer(text):
                self.claims.update(_PAIR.findall(claim[0]))

    def _order(self, found: re.Match[str], asked: Step) -> None:
        if found[0] not in self.known:
            self.known.add(found[0])
            arguments = dict(_PAIR.findall(found[2] or found[3] or ""))
            self.orders.append(
                Step(
                    tool=found[1],
                    arguments=_completed(found[1], arguments, asked),
                    reason=f"a log line says: {found[0][:120]}",
                    origin="log line",
                )
            )


def fooled(plan: Plan) -> Plan:
    """Follow a plan, and every order found in an answer; what becomes of an order does not change the plan."""
    beliefs = _Beliefs()
    try:
        step = next(plan)
        while True:
            if step.tool in _WRITES and beliefs.claims:
                yield _claimed(step, beliefs.claims)
                beliefs.claims = {}
            answer = yield step
            beliefs.take_in(answer, step)
            while beliefs.orders:
                yield beliefs.orders.pop(0)
            step = plan.send(answer)
    except StopIteration as end:
        findings: Findings = end.value
        return findings


def _claimed(step: Step, claims: Mapping[str, str]) -> Step:
    return replace(
        step,
        arguments={**step.arguments, **claims},
        reason="a log line says that this is approved already",
        origin="log line",
    )


def _completed(tool: str, ordered: Mapping[str, str], asked: Step) -> dict[str, Any]:
    """A model fills in what it was not told, so that only what was ordered is wrong."""
    if tool not in _WRITES:
        return dict(ordered)
    service = asked.arguments.get("service", "")
    return {"title": "Ordered by a log line", "service": service, "severity": "sev1", "body": "See the log.", **ordered}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _all_texts(value.values())
    elif isinstance(value, list | tuple):
        yield from _all_texts(value)


def _all_texts(values: Iterable[object]) -> Iterator[str]:
    for value in values:
        yield from _texts(value)
