"""The client for programs without an event loop: the same calls, run to their end right where they are made."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import datetime
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from placet.client.calls import AsyncClient
from placet.client.wire import PlainHttp, Retries, SyncWire, Wire

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")
_DEFAULT = Retries()


def at_once(work: Coroutine[Any, Any, Value]) -> Value:
    """Run what never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        value: Value = done.value
        return value
    work.close()
    raise AssertionError("a synchronous wire waits for nobody")


def _run(
    method: Callable[Concatenate[Any, Parameters], Coroutine[Any, Any, Value]],
) -> Callable[Concatenate[Any, Parameters], Value]:
    """The same method with the same parameters, run to its end."""

    def call(client: Client, /, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
        return at_once(method(client._calls, *args, **kwargs))

    call.__doc__ = method.__doc__
    call.__name__ = method.__name__
    return call


class _Calls(AsyncClient):
    def _make_wire(self, url: str, token: Callable[[], str], plain: PlainHttp) -> Wire:
        return SyncWire(url, token, plain)


class Client:
    """`AsyncClient`, waited for. Takes and raises what it does."""

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str],
        retries: Retries = _DEFAULT,
        plain_http: PlainHttp = PlainHttp.LOOPBACK,
    ) -> None:
        self._calls = _Calls(url, token=token, retries=retries, plain_http=plain_http)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def answered_at(self) -> datetime | None:
        """When the last answer was given, by the server's clock, to the second; None before one came."""
        return self._calls.answered_at

    close = _run(AsyncClient.close)
    submit = _run(AsyncClient.submit)
    submit_all = _run(AsyncClient.submit_all)
    submit_until_failure = _run(AsyncClient.submit_until_failure)
    question = _run(AsyncClient.question)
    answer = _run(AsyncClient.answer)
    approvals = _run(AsyncClient.approvals)
    approvals_by_risk = _run(AsyncClient.approvals_by_risk)
    approval = _run(AsyncClient.approval)
    approve = _run(AsyncClient.approve)
    deny = _run(AsyncClient.deny)
    deny_several = _run(AsyncClient.deny_several)
    approve_several = _run(AsyncClient.approve_several)
    edit = _run(AsyncClient.edit)
    withdraw_vote = _run(AsyncClient.withdraw_vote)
    withdraw = _run(AsyncClient.withdraw)
    grants = _run(AsyncClient.grants)
    standing_grants = _run(AsyncClient.standing_grants)
    grant = _run(AsyncClient.grant)
    grant_like = _run(AsyncClient.grant_like)
    draft_grant = _run(AsyncClient.draft_grant)
    give_grant = _run(AsyncClient.give_grant)
    revoke_grant = _run(AsyncClient.revoke_grant)
    effects = _run(AsyncClient.effects)
    effect = _run(AsyncClient.effect)
    settle = _run(AsyncClient.settle)
    probe = _run(AsyncClient.probe)
    runs = _run(AsyncClient.runs)
    own_runs = _run(AsyncClient.own_runs)
    run = _run(AsyncClient.run)
    pause_run = _run(AsyncClient.pause_run)
    resume_run = _run(AsyncClient.resume_run)
    cancel_run = _run(AsyncClient.cancel_run)
    whoami = _run(AsyncClient.whoami)
    tools = _run(AsyncClient.tools)
    policy_version = _run(AsyncClient.policy_version)
    events = _run(AsyncClient.events)
    export_audit = _run(AsyncClient.export_audit)
    verify_audit = _run(AsyncClient.verify_audit)
    stops = _run(AsyncClient.stops)
    stop = _run(AsyncClient.stop)
    resume = _run(AsyncClient.resume)
