"""What clients of the MCP door call what upstreams have; and back again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import placet
from placet.errors import ConfigurationError
from placet.model.contract import Contract, Origin
from placet.model.identifiers import Digest
from placet.rules.outward_names import OutwardNames, outward_names

CLOSED = {"type": "object", "properties": {}, "additionalProperties": False}


def nothing(arguments: dict[str, Any]) -> Any:
    """Reads."""


def contract(name: str, *, origin: Origin | None = None) -> Contract:
    return placet.tool_from_schema(nothing, arguments=CLOSED, effect="read", name=name, origin=origin).contract


def upstream(server: str, tool: str, *, name: str | None = None) -> Contract:
    return contract(name or f"{server}.{tool}", origin=Origin(server=server, tool=tool, pin=Digest("0" * 64)))


PREFIXED = outward_names([])
PLAIN = outward_names([], plain="files")
servers = st.from_regex(r"[a-z][a-z0-9_-]{0,23}", fullmatch=True)
names = st.text(min_size=1, max_size=60)


@pytest.mark.req("B183")
def test_names_of_two_upstreams_never_meet() -> None:
    read, other = upstream("files", "read"), upstream("mail", "read")
    known = outward_names([read, other])
    assert [known.tool(read), known.tool(other)] == ["files.read", "mail.read"]
    assert [known.contract("files.read"), known.contract("read")] == ["files.read", None]


def test_one_upstream_may_keep_its_own_names() -> None:
    read, own = upstream("files", "read"), contract("count")
    known = outward_names([read, own], plain="files")
    assert [known.tool(read), known.tool(own)] == ["read", "count"]
    assert [known.contract("read"), known.contract("count")] == ["files.read", "count"]


def test_a_name_that_no_client_could_take_stays_with_its_prefix() -> None:
    strange = upstream("files", "read/all", name="files.read_all-0a1b2c3d")
    assert outward_names([strange], plain="files").tool(strange) == "files.read_all-0a1b2c3d"


def test_two_tools_of_one_name_refuse_to_start() -> None:
    with pytest.raises(ConfigurationError):
        outward_names([upstream("files", "count"), contract("count")], plain="files")


@given(server=servers, name=names)
@pytest.mark.parametrize(
    "known", [PREFIXED, OutwardNames(plain="files", contracts_by_name={})], ids=["prefix", "plain"]
)
def test_every_prompt_and_resource_is_found_by_the_name_it_was_given(
    known: OutwardNames, server: str, name: str
) -> None:
    server = known.plain or server
    assert known.prompt_of(known.prompt(server, name)) == (server, name)
    assert known.uri_of(known.uri(server, name)) == (server, name)


@pytest.mark.parametrize("name", ["review", ".review", "files.", ""], ids=["bare", "no-server", "no-name", "empty"])
def test_a_prompt_of_no_server_is_of_none(name: str) -> None:
    found = PREFIXED.prompt_of(name)
    assert found is None or found[0] == ""


@pytest.mark.parametrize(
    "uri", ["file:///a", "placet:files", "placet:files/", "x" * 4_097], ids=["bare", "no-address", "empty", "too-long"]
)
def test_an_address_of_no_server_is_of_none(uri: str) -> None:
    assert PREFIXED.uri_of(uri) is None


def test_the_address_of_a_resource_names_its_server_and_stays_whole() -> None:
    assert PREFIXED.uri("files", "file:///a.txt?x=1#y") == "placet:files/file:///a.txt?x=1#y"
    assert PREFIXED.uri("notes", "note://{id}/text") == "placet:notes/note://{id}/text"
    assert PLAIN.uri("files", "file:///a.txt") == "file:///a.txt"
