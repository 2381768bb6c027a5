"""An operation whose description has what nobody sees is hidden, and none of the others with it."""

import json
import logging
from pathlib import Path

import pytest

from placet.bootstrap.declared import unfit_in_document
from placet.bootstrap.openapi import openapi_upstream
from placet.rules.manifests import read_manifest
from tests.openapi.conftest import an_upstream

MANIFEST = read_manifest(
    "desk", "".join(f'[tools.{name}]\neffect = "read"\nrisk = "low"\n' for name in ("good", "odd"))
)
RESPONSES = {"200": {"description": "x", "content": {"application/json": {"schema": {"type": "object"}}}}}


@pytest.mark.case("L04")
def test_one_odd_character_hides_one_operation_and_is_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = {"good": "10 km", "odd": "10\u2009km", "unnamed": "10\u2009km"}
    paths = {
        f"/{name}": {"get": {"operationId": name, "description": words, "responses": RESPONSES}}
        for name, words in said.items()
    }
    document = json.dumps({"openapi": "3.1.0", "info": {"title": "t", "version": "1"}, "paths": paths})
    upstream = an_upstream(tmp_path, document, "http://127.0.0.1:9")

    with caplog.at_level(logging.WARNING, "placet.upstreams"):
        found = openapi_upstream(upstream, MANIFEST)

    assert [tool.contract.name for tool in found.tools] == ["desk.good"]
    assert [(each.tool, each.code) for each in caplog.records] == [("desk.odd", "not_pinnable")]  # type: ignore[attr-defined]
    assert unfit_in_document(upstream, MANIFEST) == ("odd",)
