"""Whether somebody has signed in at a server that wants tokens, as a deployment can tell without asking it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from placet.bootstrap.declared import lacking
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.upstreams import Credential, CredentialForm, StreamableWay, Upstream


@pytest.mark.parametrize(
    ("kept", "is_signed_in"),
    [
        (None, False),
        ("", False),
        ("{}", False),
        ("[" * 10_000, False),
        (json.dumps({"client": {"client_id": "c"}}), False),
        (json.dumps({"tokens": {"token_type": "Bearer"}}), False),
        (json.dumps({"tokens": {"access_token": "t", "token_type": "Bearer"}}, indent=2), True),
    ],
    ids=["no file", "empty", "nothing", "no JSON", "a client alone", "no token", "tokens"],
)
def test_it_is_said_where_nobody_has_signed_in_yet(tmp_path: Path, kept: str | None, is_signed_in: bool) -> None:
    file = tmp_path / "desk.tokens.json"
    if kept is not None:
        file.write_text(kept)
    secret = SecretRef(place=SecretPlace.FILE, name=str(file))
    way = StreamableWay(url="https://desk.test/mcp", credential=Credential(form=CredentialForm.OAUTH, secret=secret))
    upstream = Upstream(name="desk", way=way, manifest=tmp_path / "desk.toml")
    said = () if is_signed_in else ("nobody has signed in there: placet mcp login desk",)
    assert lacking(upstream) == said
