"""What an upstream's calls reach is part of what is approved; the value of a secret, and a folder, are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from placet.model.context import CallContext
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.upstreams import Credential, CredentialForm, OpenApiWay, StdioWay, StreamableWay
from placet.rules.upstream_tools import tool_of
from placet.rules.upstream_ways import way_digest
from tests.rules.definitions import a_pin, some_terms

TOKEN = SecretRef(place=SecretPlace.ENVIRONMENT, name="DESK_TOKEN")
OTHER = replace(TOKEN, name="OTHER_TOKEN")
SHOWN = Credential(form=CredentialForm.BEARER, secret=TOKEN)
PROCESS = StdioWay(command="desk", args=("--env", "staging"), environment={"TOKEN": TOKEN}, folder=Path("/a"))
SERVER = StreamableWay(url="https://staging.example/mcp", credential=SHOWN)
SERVICE = OpenApiWay(document=Path("/a/d.json"), url="https://staging.example", headers={"X-Account": "1"})


@pytest.mark.parametrize(
    ("way", "change"),
    [
        (PROCESS, {"command": "other"}),
        (PROCESS, {"args": ("--env", "production")}),
        (PROCESS, {"environment": {"TOKEN": OTHER}}),
        (PROCESS, {"environment": {"TOKEN": "plain"}}),
        (PROCESS, {"environment_by_tenant": {"acme": {"TOKEN": OTHER}}}),
        (SERVER, {"url": "https://production.example/mcp"}),
        (SERVER, {"network": Network.PRIVATE}),
        (SERVER, {"credential": None}),
        (SERVER, {"credential": replace(SHOWN, secret=OTHER)}),
        (SERVER, {"credential_by_tenant": {"acme": SHOWN}}),
        (SERVICE, {"url": "https://production.example"}),
        (SERVICE, {"headers": {"X-Account": "2"}}),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else type(value).__name__,
)
def test_another_place_is_another_way(way: Any, change: dict[str, Any]) -> None:
    assert way_digest(replace(way, **change)) != way_digest(way)


def test_where_the_project_stands_and_how_a_header_is_spelt_decide_nothing() -> None:
    assert way_digest(replace(PROCESS, folder=Path("/b"))) == way_digest(PROCESS)
    moved = replace(SERVICE, document=Path("/b/d.json"), headers={"x-account": "1"})
    assert way_digest(moved) == way_digest(SERVICE)
    tokens = [SecretRef(place=SecretPlace.FILE, name=f"/{folder}/desk.token") for folder in "ab"]
    ways = {way_digest(replace(SERVER, credential=replace(SHOWN, secret=each))) for each in tokens}
    assert len(ways) == 1


def test_what_was_approved_for_one_place_is_not_what_runs_at_another() -> None:
    async def handler(arguments: dict[str, Any], context: CallContext) -> object:
        return {"id": "t-1"}

    def digest(way: Any) -> str:
        digest_of_way = None if way is None else way_digest(way)
        return tool_of(a_pin(), some_terms(), name="desk.create", handler=handler, way=digest_of_way).contract.digest

    moved = replace(SERVER, url="https://production.example/mcp")
    assert len({digest(SERVER), digest(moved), digest(None)}) == 3 and digest(SERVER) == digest(SERVER)
