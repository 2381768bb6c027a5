"""An operation's handler, and the probe that another operation of the same service is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from placet.adapters.transports.http.service import HttpService
from placet.errors import RemoteStatus
from placet.model.attempt import BrokenResult
from placet.model.context import Absent, CallContext, CannotTell, Found, ProbeAnswer, ProbeContext
from placet.model.identifiers import OperationKey
from placet.model.json import JsonObject
from placet.model.openapi import HttpAnswer, HttpRequest, Operation
from placet.model.upstreams import ProbeTerms, ToolTerms
from placet.rules.contracts.limits import LIMITS, result_limits
from placet.rules.decoding import DecodingLimits
from placet.rules.openapi.answers import declared_body, result_of
from placet.rules.openapi.effects import key_header_of
from placet.rules.openapi.requests import key_text, request_of
from placet.rules.upstream_probes import probe_answer, probe_arguments

PROBE_SECONDS: Final = 30.0
"""For a whole look, its answer included; the gate's own limit may end it earlier."""
_MOST_SPACED: Final = 4
"""A body may have as many times the bytes of its canonical form: somebody may have indented it."""

Carry = Callable[[dict[str, Any], CallContext], Awaitable[object]]
Look = Callable[[ProbeContext], Awaitable[ProbeAnswer]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """One operation of one service on the deployment's terms.

    Attributes:
        headers: sent with every request of the service.
    """

    service: HttpService
    operation: Operation
    terms: ToolTerms
    headers: tuple[tuple[str, str], ...] = ()

    def handler(self) -> Carry:
        """Carries one call; raises what a handler raises, so that the engine's table decides the rest."""

        async def carry(arguments: dict[str, Any], context: CallContext) -> object:
            header = key_header_of(self.operation, self.terms)
            request = self._request(arguments, None if header is None else (header, context.operation_key))
            answer = await self._sent(request, context.tenant, context.guard, context.remaining_seconds())
            return result_of(self.operation, answer, refusals=self.terms.refusals, limits=self._limits())

        return carry

    def probe(self, other: Carried, terms: ProbeTerms) -> Look:
        """Tells by `other`, an operation that reads, what became of an effect of this one."""

        async def look(effect: ProbeContext) -> ProbeAnswer:
            effect = replace(effect, operation_key=self._key_as_sent(effect.operation_key))
            asked = probe_arguments(terms, effect)
            if asked is None:
                return CannotTell()
            try:
                request = other._request(asked, None)
                async with asyncio.timeout(PROBE_SECONDS):
                    came = await other._sent(request, effect.tenant, _nothing, PROBE_SECONDS)
                answer = result_of(other.operation, came, refusals=frozenset(), limits=other._limits())
            except TimeoutError:
                return CannotTell()
            except RemoteStatus as status:
                return Absent() if status.status in terms.absent_statuses else CannotTell()
            if isinstance(answer, BrokenResult):
                return CannotTell()
            return self._as_result(probe_answer(terms, answer, effect))

        return look

    # ------------------------------------------------------------ within

    def _request(self, arguments: JsonObject, key: tuple[str, str] | None) -> HttpRequest:
        return request_of(
            self.operation, arguments, base_path=self.service.base_path, key=key, headers=dict(self.headers)
        )

    async def _sent(self, request: HttpRequest, tenant: str, guard: Callable[[], None], seconds: float) -> HttpAnswer:
        return await self.service.send(
            request,
            tenant=tenant,
            guard=guard,
            seconds=seconds,
            reads_body=lambda status: declared_body(self.operation, status),
            max_bytes=self.terms.max_result_bytes * _MOST_SPACED,
        )

    def _limits(self) -> DecodingLimits:
        depth = LIMITS.max_depth if self.terms.max_depth is None else self.terms.max_depth
        limits = result_limits(depth, self.terms.max_result_bytes)
        return replace(limits, max_bytes=self.terms.max_result_bytes * _MOST_SPACED + len(b'{"body":}'))

    def _key_as_sent(self, key: OperationKey) -> OperationKey:
        """As the service knows it: a header cannot carry every character as it is."""
        return key if key_header_of(self.operation, self.terms) is None else OperationKey(key_text(key))

    def _as_result(self, answer: ProbeAnswer) -> ProbeAnswer:
        """What was found, in the form of this operation's own result; whether it keeps the contract is seen later."""
        if not isinstance(answer, Found) or answer.result is None:
            return answer
        exact = [status for each in self.operation.successes for status in each.statuses]
        return replace(answer, result={"status": exact[0] if exact else 200, "body": answer.result})


def _nothing() -> None:
    """A look needs no leave: it changes nothing."""
