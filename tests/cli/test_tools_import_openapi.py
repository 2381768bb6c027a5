"""`placet tools import openapi`: what it shows, what it writes, and that it overwrites nothing."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from placet.rules.manifests import read_manifest
from tests.cli.conftest import Project, Ran
from tests.openapi.conftest import FINE, a_body, a_document, in_query
from tests.openapi.desk_actors import document

DESTROYED = {"delete": {"operationId": "destroy", "responses": {"204": {"description": ""}}}}
ODD = 'A "new"\n[tools.x] one'
PATHS: dict[str, Any] = {
    "/a": {
        "get": {"operationId": "look", "responses": FINE, "parameters": [{"name": "c", "in": "cookie", "schema": {}}]},
        "post": {"operationId": "make", "summary": ODD, "responses": FINE, "requestBody": a_body({"type": "array"})},
        "put": {"operationId": "shape", "responses": FINE, "requestBody": a_body({}, media_type="text/xml")},
    },
    "/b": DESTROYED,
    "/c": {"get": {"operationId": "fetch", "responses": FINE, "parameters": [in_query("url")]}},
    "/d": {"get": {"operationId": "hidden", "description": "a\u202eb", "responses": FINE}},
}  # fmt: skip


@pytest.fixture
def imported(bare: Project) -> Callable[..., Ran]:
    """`placet tools import openapi`, in a project without tools of its own."""
    (bare.folder / "placet.toml").write_text('[placet]\nstore = "placet.db"\n', encoding="utf-8")
    (bare.folder / "api.json").write_text(a_document(PATHS, servers=[{"url": "https://far.example"}]), encoding="utf-8")

    def run(*more: str, file: str = "api.json") -> Ran:
        return bare.run("tools", "import", "openapi", file, *more)

    return run


def test_operations_are_shown_and_without_a_name_nothing_is_written(
    bare: Project, imported: Callable[..., Ran]
) -> None:
    before = (bare.folder / "placet.toml").read_bytes()
    ran = imported("--json")
    assert ran.code == 0, ran
    shown = {each["operation"]: each for each in ran.data["operations"]}
    assert {name: (each["effect_class"], each["risk"]) for name, each in shown.items()} == {
        "look": ("read", "low"),
        "make": ("write", "medium"),
        "shape": ("idempotent_write", "medium"),
        "destroy": ("idempotent_write", "high"),
        "fetch": ("read", "low"),
        "hidden": ("read", "low"),
    }
    assert shown["look"]["left_out"] == ["cookie c"]
    assert shown["make"]["not_carried"] is None
    assert shown["shape"]["not_carried"] == "its body is not JSON"
    assert "generic executor" in shown["fetch"]["not_carried"]
    assert "U+202E" in shown["hidden"]["not_carried"]
    assert "--url https://far.example" in ran.err
    assert (bare.folder / "placet.toml").read_bytes() == before
    assert not (bare.folder / "upstreams").exists()


def test_with_a_name_the_upstream_and_careful_terms_are_written(bare: Project, imported: Callable[..., Ran]) -> None:
    ran = imported("--name", "desk", "--url", "http://127.0.0.1:1/api")
    assert ran.code == 0, ran
    table = tomllib.loads((bare.folder / "placet.toml").read_text(encoding="utf-8"))["upstreams"]["desk"]
    assert table == {"kind": "openapi", "document": "api.json", "url": "http://127.0.0.1:1/api", "network": "loopback"}
    terms = read_manifest("desk", (bare.folder / "upstreams/desk.toml").read_text(encoding="utf-8")).terms
    first = {name: (each.effect, each.risk, each.approval, each.permission) for name, each in terms.items()}
    assert first == {
        "look": ("read", "low", "by_policy", "desk.look"),
        "make": ("write", "medium", "always", "desk.make"),
        "destroy": ("idempotent_write", "high", "always", "desk.destroy"),
    }  # fmt: skip
    listed = bare.run("tools", "list", "--json")
    assert listed.code == 0, listed
    assert {each["name"] for each in listed.data["tools"]} == {"desk.look", "desk.make", "desk.destroy"}


def test_nothing_that_exists_is_overwritten(bare: Project, imported: Callable[..., Ran]) -> None:
    manifest = bare.folder / "upstreams/desk.toml"
    manifest.parent.mkdir()
    manifest.write_text("# mine\n", encoding="utf-8")
    before = (bare.folder / "placet.toml").read_bytes()
    ran = imported("--name", "desk", "--url", "https://far.example")
    assert ran.code == 2
    assert (manifest.read_text(encoding="utf-8"), (bare.folder / "placet.toml").read_bytes()) == ("# mine\n", before)
    manifest.unlink()
    assert imported("--name", "desk", "--url", "https://far.example").code == 0
    written = (bare.folder / "placet.toml").read_bytes()
    assert imported("--name", "desk", "--url", "https://far.example").code == 2
    assert (bare.folder / "placet.toml").read_bytes() == written


@pytest.mark.parametrize(
    "more",
    [["--name", "desk"], ["--name", "Desk!", "--url", "https://far.example"], ["--name", "desk", "--url", "http://10.0.0.1"]],
    ids=["no url", "no id", "in clear"],
)  # fmt: skip
def test_what_cannot_be_declared_writes_nothing(bare: Project, imported: Callable[..., Ran], more: list[str]) -> None:
    before = (bare.folder / "placet.toml").read_bytes()
    ran = imported(*more)
    assert ran.code == 2, ran
    assert (bare.folder / "placet.toml").read_bytes() == before
    assert not (bare.folder / "upstreams").exists()


def test_what_is_no_document_is_refused_with_its_code(bare: Project, imported: Callable[..., Ran]) -> None:
    (bare.folder / "other.json").write_text('{"swagger": "2.0"}', encoding="utf-8")
    ran = imported("--json", file="other.json")
    assert ran.code == 2
    assert ran.data["code"] == "openapi_invalid"
    assert imported(file="absent.yaml").code == 2


def test_an_address_is_not_read_and_it_is_said_what_is(bare: Project) -> None:
    ran = bare.run("tools", "import", "openapi", "https://desk.example.com/openapi.json", "--json")

    assert (ran.code, ran.data["code"]) == (2, "usage")
    assert ran.data["message"] == "A document is a file, reviewed with the project; no address is read."
    assert ran.data["hint"].startswith("Save it first: curl -sf https://desk.example.com/openapi.json > ")


def test_an_address_that_was_given_is_the_one_that_is_suggested(bare: Project, imported: Callable[..., Ran]) -> None:
    ran = imported("--url", "https://mine.example.com")

    assert ran.code == 0
    assert "To have them as tools: --name NAME --url https://mine.example.com\n" in ran.err


def test_the_desk_of_the_demo_can_be_imported(bare: Project, imported: Callable[..., Ran]) -> None:
    ran = bare.run("tools", "import", "openapi", str(document()), "--json")
    shown = ran.data["operations"]
    assert [each["operation"] for each in shown] == ["find_tickets", "create_ticket", "get_ticket"]
    assert shown[1]["key_header"] == "Idempotency-Key"
    assert all(each["not_carried"] is None for each in shown)
