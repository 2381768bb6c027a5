"""A GET that looks for an effect: which answers say that it is not there."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from placet.adapters.transports.http.carrying import Carried
from placet.adapters.transports.http.service import HttpService
from placet.model.context import Absent, CannotTell, ProbeAnswer, ProbeContext
from placet.model.contract import EffectClass, Risk
from placet.model.destinations import SecretRef
from placet.model.identifiers import OperationKey
from placet.model.issuers import Network
from placet.model.openapi import Operation, Success
from placet.model.upstreams import ProbeTerms, ToolTerms
from tests.openapi.conftest import Service, reply


def no_secret(ref: SecretRef) -> str:
    raise AssertionError(ref)


def an_operation(method: str) -> Operation:
    return Operation(
        tool=method.lower(), title=None, description=None, method=method, path="/thing", parameters=(), body=None,
        successes=(Success(statuses=(200,), media_types=("application/json",)),), key_header=None,
        arguments_schema={"type": "object"}, result_schema={"type": "object"},
    )  # fmt: skip


async def looked(url: str, *, refusals: frozenset[int]) -> ProbeAnswer:
    service = HttpService("desk", url, network=Network.LOOPBACK, secrets=no_secret, most_connections=1)
    write = ToolTerms(tool="put", effect=EffectClass.WRITE, risk=Risk.LOW, permission="desk")
    read = ToolTerms(tool="get", effect=EffectClass.READ, risk=Risk.LOW, permission=None, refusals=refusals)
    wrote = Carried(service=service, operation=an_operation("PUT"), terms=write)
    looks = Carried(service=service, operation=an_operation("GET"), terms=read)
    look = wrote.probe(looks, ProbeTerms(tool="get", arguments={}, found_if=(), absent_statuses=frozenset((404,))))
    try:
        return await look(ProbeContext(tenant="acme", operation_key=OperationKey("k"), arguments={}))
    finally:
        await service.aclose()


@pytest.mark.parametrize("refusals", [frozenset[int](), frozenset((404, 409))], ids=["none", "the same status"])
@pytest.mark.parametrize(("status", "answer"), [(404, Absent), (409, CannotTell), (301, CannotTell), (500, CannotTell)])
async def test_what_the_looking_operation_calls_a_refusal_takes_nothing_from_what_says_absent(
    serving: Callable[..., Service], refusals: frozenset[int], status: int, answer: type[ProbeAnswer]
) -> None:
    assert isinstance(await looked(serving(reply(status)).url, refusals=refusals), answer)
