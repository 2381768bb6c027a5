"""What the deployment says in every request is said by no argument, in its place or beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from placet.bootstrap.openapi import openapi_upstream
from placet.errors import ContractError
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.upstreams import Credential, CredentialForm
from placet.rules.manifests import read_manifest
from tests.openapi.conftest import an_upstream

SECRET = SecretRef(place=SecretPlace.ENVIRONMENT, name="DESK")
MANIFEST = '[tools.op]\neffect = "read"\nrisk = "low"\n'


def parameter(place: str, name: str) -> dict[str, Any]:
    return {"name": name, "in": place, "schema": {"type": "string"}}


def a_document(*parameters: dict[str, Any]) -> str:
    operation = {
        "operationId": "op",
        "parameters": list(parameters),
        "responses": {"200": {"description": "x", "content": {"application/json": {"schema": {"type": "object"}}}}},
    }
    return json.dumps({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": {"/a": {"get": operation}}})


def tools_of(folder: Path, *parameters: dict[str, Any], **way: Any) -> tuple[Any, ...]:
    upstream = an_upstream(folder, a_document(*parameters), "http://127.0.0.1:9", way=way)
    return openapi_upstream(upstream, read_manifest("desk", MANIFEST)).tools


@pytest.mark.req("B183")
@pytest.mark.parametrize(
    ("said", "way"),
    [
        (parameter("header", "x-realm"), {"headers": {"X-Realm": "acme"}}),
        (parameter("header", "X-Api-Key"),
         {"credential": Credential(form=CredentialForm.HEADER, name="x-api-key", secret=SECRET)}),
        (parameter("query", "key"), {"credential": Credential(form=CredentialForm.QUERY, name="key", secret=SECRET)}),
        (parameter("query", "key"), {"credential_by_tenant": {
            "acme": Credential(form=CredentialForm.QUERY, name="key", secret=SECRET)}}),
    ],
    ids=["header", "credential header", "credential query", "of a tenant"],
)  # fmt: skip
def test_an_argument_that_the_deployment_says_itself_is_refused(
    tmp_path: Path, said: dict[str, Any], way: dict[str, Any]
) -> None:
    with pytest.raises(ContractError) as raised:
        tools_of(tmp_path, said, **way)

    assert (raised.value.code, raised.value.may_have_acted) == ("terms_unfit", False)
    assert tools_of(tmp_path, parameter("query", "X-Realm"), parameter("query", "Key"), **way)


def test_a_header_that_makes_another_request_of_it_is_no_argument(tmp_path: Path) -> None:
    names = ("X-HTTP-Method-Override", "X-Original-URL", "X-Forwarded-Host", "Forwarded", "X-Mark")
    (tool,) = tools_of(tmp_path, *(parameter("header", name) for name in names))

    assert list(tool.contract.arguments_schema["properties"]) == ["X-Mark"]
