"""A principal written as JSON is the same one when it is read, whoever it acts for."""

from __future__ import annotations

import dataclasses
import json

import pytest

from placet.errors import MisuseError
from placet.model.principal import Principal
from placet.rules.written_principals import read_principal, written

PERSON = Principal.person("mara", tenant="acme", roles=("admin", "viewer"), scopes=("b", "a"), environment="staging")
AGENT = Principal.agent("bot", tenant="acme", roles=("operator",), environment="staging", on_behalf_of=PERSON)


@pytest.mark.parametrize("principal", [PERSON, AGENT, Principal.agent("漢\x7f", tenant="t")], ids=lambda p: p.subject)
def test_what_was_written_is_read_as_it_was(principal: Principal) -> None:
    assert read_principal(json.loads(json.dumps(written(principal)))) == principal


def test_every_field_is_written() -> None:
    assert set(written(AGENT)) == {field.name for field in dataclasses.fields(Principal)}


def test_a_giver_of_another_tenant_is_not_read() -> None:
    form = written(AGENT)
    form["on_behalf_of"] = written(PERSON) | {"tenant": "other"}

    with pytest.raises(MisuseError):
        read_principal(form)
