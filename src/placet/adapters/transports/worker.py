"""Runs one handler once, in a process that was made for it, and says what is known afterwards.

It is given the tool's place (module and name), the canonical arguments and the context; it finds the tool, holds its
contract against the gate's by digest, and builds the arguments anew. The fact CALLING is in the pipe before the
handler is called, so its absence proves that it was not. Nothing of this process is used twice.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
from contextlib import suppress
from datetime import datetime
from importlib import import_module
from typing import Any, Never

from placet.adapters.transports import wire
from placet.adapters.transports.reports import report_of, returned, words_of
from placet.adapters.transports.wire import GUARDED, Fact, frame, read_order, steady_seconds, wall_seconds
from placet.errors import InvalidArguments, NotSent
from placet.model.attempt import Answered, CallerLeft, DeadlinePassed, Raised, Rejected, Report, Returned, Unsent
from placet.model.context import CallContext
from placet.model.identifiers import CallId, OperationKey, RunId
from placet.rules.contracts import Tool
from placet.rules.foreign import safe_exception_name
from placet.rules.written_principals import read_principal

_LONGEST_HEADER = 64


def serve(orders: int, answers: int) -> Never:
    """Import what the gate names, wait for the call, answer it, and end."""
    wire.becomes_an_attempt()
    says = _Answers(answers)
    with suppress(BaseException):
        _prepare(orders)
        order = read_order(orders)
        os.close(orders)
        if order is not None:
            _carry_out(order, says)
    os._exit(0)


def _prepare(orders: int) -> None:
    """Import beforehand; what fails is tried again, and told, when a call needs it."""
    preparation = read_order(orders) or {}
    for name in preparation.get("modules", ()):
        with suppress(BaseException):
            import_module(name)


class _Answers:
    """The way back. A handler may have closed it, or its number may mean another file by now."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._identity = _identity(descriptor)

    def say(self, fact: Fact, payload: bytes = b"") -> None:
        rest = frame(fact, payload)
        if _identity(self._descriptor) != self._identity:
            os._exit(1)
        while rest:
            rest = rest[os.write(self._descriptor, rest) :]

    def finish(self, fact: Fact, payload: bytes = b"") -> Never:
        """Say the last word; whatever the handler left running ends with its process."""
        try:
            self.say(fact, payload)
        finally:
            os._exit(0)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _carry_out(order: dict[str, Any], says: _Answers) -> Never:
    try:
        tool = _find(order)
    except BaseException as error:  # whatever an import raises; its text stays here
        says.finish(Fact.NOT_CALLED, f"import_failed {safe_exception_name(type(error))}".encode())
    if tool is None:
        says.finish(Fact.NOT_CALLED, b"tool_changed")
    limits = _Limits(steady=order["steady_limit"], wall=order["wall_limit"])
    try:
        keywords = tool.handler_arguments(order["arguments"].encode(), _context(order["context"], limits))
    except BaseException:  # the stored call no longer fits the code of its contract
        says.finish(Fact.NOT_CALLED, b"arguments_refused")
    if limits.have_passed():
        says.finish(Fact.NOT_CALLED, b"too_late")
    says.say(Fact.CALLING)
    if inspect.iscoroutinefunction(tool.function):
        asyncio.run(_call_in_loop(tool, keywords, limits, says))
    says.finish(*_call(tool, keywords, limits))


def _find(order: dict[str, Any]) -> Tool | None:
    """The tool at its place, if it still promises what the gate decided about."""
    found: object = import_module(order["module"])
    for name in order["attribute"].split("."):
        found = getattr(found, name)
    return found if type(found) is Tool and found.contract.digest == order["digest"] else None


def _call(tool: Tool, keywords: dict[str, Any], limits: _Limits) -> tuple[Fact, bytes]:
    try:
        return _fact_of(tool, returned(tool.function(**keywords)))
    except BaseException as error:
        return _fact_of_error(tool, error, limits)


async def _call_in_loop(tool: Tool, keywords: dict[str, Any], limits: _Limits, says: _Answers) -> Never:
    """Ends the process from inside the loop, which would wait for threads and tasks that nobody asked for."""
    try:
        fact, payload = _fact_of(tool, returned(await tool.function(**keywords)))
    except BaseException as error:
        fact, payload = _fact_of_error(tool, error, limits)
    says.finish(fact, payload)


def _fact_of_error(tool: Tool, error: BaseException, limits: _Limits) -> tuple[Fact, bytes]:
    report = report_of(error)
    if type(report) is Unsent and limits.have_kept_back:
        return Fact.NOT_SENT, GUARDED
    if type(report) is Rejected:  # the words as they were written: the gate makes them safe, once
        return Fact.REJECTED, words_of(error).encode(errors="surrogatepass")
    return _fact_of(tool, report)


def _fact_of(tool: Tool, report: Report) -> tuple[Fact, bytes]:
    match report:
        case Returned(value=value):
            return _checked(tool, value)
        case Unsent():
            return Fact.NOT_SENT, b""
        case Answered(status=status, retry_after=retry_after):
            return Fact.STATUS, json.dumps([status, retry_after and retry_after[:_LONGEST_HEADER]]).encode()
        case Raised(error_type=error_type):
            return Fact.RAISED, error_type.encode()
        case Rejected() | DeadlinePassed() | CallerLeft():  # the gate's own words
            raise AssertionError


def _checked(tool: Tool, value: object) -> tuple[Fact, bytes]:
    """The value as its contract holds it; the gate checks it again."""
    try:
        return Fact.RETURNED, tool.check_result(value)[1]
    except InvalidArguments as broken:
        return Fact.BROKEN, broken.reason.encode()


class _Limits:
    """The deadline by both clocks of this host: one may stand still while it sleeps, one may be set."""

    def __init__(self, *, steady: float, wall: float) -> None:
        self._steady = steady
        self._wall = wall
        self.have_kept_back = False

    def have_passed(self) -> bool:
        return steady_seconds() >= self._steady or wall_seconds() >= self._wall

    def remaining_seconds(self) -> float:
        return max(0.0, self._steady - steady_seconds())

    def guard(self) -> None:
        if self.have_passed():
            self.have_kept_back = True
            raise NotSent("It is too late to send this attempt.")


def _context(facts: dict[str, Any], limits: _Limits) -> CallContext:
    return CallContext(
        tenant=facts["tenant"],
        principal=read_principal(facts["principal"]),
        run_id=RunId(facts["run_id"]),
        call_id=CallId(facts["call_id"]),
        operation_key=OperationKey(facts["operation_key"]),
        attempt=facts["attempt"],
        deadline_at=datetime.fromisoformat(facts["deadline_at"]),
        is_approved=facts["is_approved"],
        precondition=facts["precondition"],
        _remaining=limits.remaining_seconds,
        _guard=limits.guard,
    )
