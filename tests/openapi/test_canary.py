"""A distinct secret in all that goes to a service or comes from it: each is read where it belongs and nowhere else.

Source: REQUIREMENTS B121, B176, B202; DESIGN section 14.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.bootstrap.openapi import openapi_upstream
from placet.bootstrap.records import audit_export
from placet.bootstrap.stores import open_existing_store
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.outcome import Outcome
from placet.model.upstreams import Credential, CredentialForm, OpenApiWay
from placet.rules.manifests import read_manifest
from tests.openapi.conftest import (
    Service,
    a_body,
    a_document,
    an_upstream,
    answers,
    in_header,
    in_path,
    in_query,
    reply,
)
from tests.openapi.desk_actors import SETTINGS
from tests.scenarios.canary import LogEars, Outputs, Secrets

pytestmark = pytest.mark.req("B121", "B176", "B202")

AGENT = placet.Principal.agent("agent", tenant="shop", roles=("operator",), scopes=("desk",))
TEXT = {"type": "string"}
NOTE = {"type": "object", "properties": {"note": TEXT}, "required": ["note"]}
DOCUMENT = a_document(
    {
        "/things/{id}": {
            "post": {
                "operationId": "change",
                "parameters": [in_path(), in_query(), in_header()],
                "requestBody": a_body({"type": "object", "properties": {"note": TEXT}}),
                "responses": answers(("200", NOTE)),
            },
            "get": {"operationId": "look", "parameters": [in_path()], "responses": answers(("200", NOTE))},
        }
    }
)
MANIFEST = """
[tools.change]
effect = "write"
risk = "medium"
permission = "desk"
refusals = [409]
key_header = "X-Key"
retry = { max_attempts = 1 }

[tools.change.probe]
tool = "look"
arguments = { id = { from = "argument", at = "/id" } }
found_if = [{ at = "/body/note", equals = "never" }]

[tools.look]
effect = "read"
risk = "low"
permission = "desk"
retry = { max_attempts = 1 }
"""

BELONGS = {("result", "outcomes")}
"""What was answered in due form is the proposer's."""


def answers_of(secrets: Secrets) -> list[bytes]:
    """One for each way in which a service may answer, each with secrets of its own."""

    def said(name: str) -> bytes:
        return b'{"note": "' + secrets(name).encode() + b'"}'

    return [
        reply(200, said("result"), x_mark=secrets("header"), set_cookie=f"a={secrets('cookie')}"),
        reply(200, said("brokenresult")[:-1], x_mark=secrets("brokenheader")),
        reply(200, b'{"' + secrets("membername").encode() + b'": 1}'),
        reply(200, b"<p>" + secrets("page").encode(), content_type="text/html"),
        reply(200, said("zipped"), content_encoding="gzip"),
        reply(200, b'{"note": "' + b"a" * 400_000 + secrets("toolong").encode() + b'"}'),
        reply(302, said("redirectbody"), location=f"https://{secrets('location')}.test/"),
        reply(409, said("refusal")),
        reply(503, said("unavailable"), retry_after=secrets("retryafter")),
        reply(500, said("errortext")),
        f"HTTP/1.1 200 {secrets('reason')}\r\ncontent-length: 99\r\n\r\n{secrets('cut')}".encode(),
        f"{secrets('garbage')}\r\n\r\n".encode(),
    ]


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


async def test_what_goes_to_a_service_and_comes_from_it_is_read_only_where_it_belongs(
    tmp_path: Path, secrets: Secrets, monkeypatch: pytest.MonkeyPatch, serving: Callable[..., Service]
) -> None:
    outputs, registry = Outputs(), CollectorRegistry()
    listening = LogEars(outputs).listening()
    next(listening)
    monkeypatch.setenv("SERVICE_TOKEN", secrets("token"))
    answers = answers_of(secrets)
    here = serving(*answers, reply(500))
    credential = Credential(
        form=CredentialForm.QUERY, name="key", secret=SecretRef(place=SecretPlace.ENVIRONMENT, name="SERVICE_TOKEN")
    )
    declared = an_upstream(tmp_path, DOCUMENT, f"{here.url}/{secrets('basepath')}")
    assert isinstance(declared.way, OpenApiWay)
    declared = replace(
        declared, way=replace(declared.way, credential=credential, headers={"X-By": secrets("ownheader")})
    )
    store = tmp_path / "placet.db"
    async with placet.open(
        upstreams=[openapi_upstream(declared, read_manifest("desk", MANIFEST))],
        store=store,
        settings=SETTINGS,
        recovery=placet.Recovery.MANUAL,
        metrics=registry,
    ) as gate:
        outcomes = [
            await gate.submit(proposal(number, secrets), principal=AGENT, run=f"run-{number}")
            for number in range(len(answers))
        ]
        monkeypatch.delenv("SERVICE_TOKEN")
        outcomes.append(await gate.submit(proposal(99, secrets), principal=AGENT, run="run-99"))
        hear(outputs, outcomes)
        await gate.reconciler.recover()
        outputs.hear("metrics", generate_latest(registry))
        outputs.hear("audit", *[event.body async for event in gate.store.chained()])
    keys, opened = open_existing_store(store)
    async with audit_export(opened, keys, tenant="shop") as lines:
        outputs.hear("audit export", *[line async for line in lines])
    await opened.close()
    outputs.hear_files("store files", tmp_path, "placet.db*")
    next(listening, None)
    assert len(here.came) >= len(answers)
    assert all(secrets("token").encode() in came for came in here.came[: len(answers)])
    assert {outcome.status for outcome in outcomes} >= {"succeeded", "unknown", "failed"}
    assert {"log as text", "metrics", "audit", "errors", "store files"} <= set(outputs.channels)
    assert set(outputs.found(secrets)) == BELONGS


def proposal(number: int, secrets: Secrets) -> dict[str, Any]:
    return {
        "call_id": f"c{number}",
        "tool": "desk.change",
        "arguments": {
            "id": secrets("inpath"),
            "q": secrets.text("inquery"),
            "X-Mark": secrets("inheader"),
            "note": secrets.text("inbody"),
        },
    }


def hear(outputs: Outputs, outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        outputs.hear_outcome(outcome)
