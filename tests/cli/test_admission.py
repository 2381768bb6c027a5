"""`[sign_in]` of placet.toml: what it says is what the doors go by, and a mistake in it is refused where it stands."""

import json
from pathlib import Path

import pytest

from placet.cli.failing import ConfigProblem
from placet.cli.settings import Origin, read_settings
from placet.model.admission import Admission
from placet.model.credentials import SessionLimits
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuer_sign_in import ConsoleClient
from placet.model.issuers import Algorithm, Issuer, Network
from placet.model.principal import Role, Standing
from placet.model.rates import Rate, RateLimits

from .conftest import CONFIG, ME

FULL = """
[sign_in]
per_principal = "60/minute"
per_tenant = "10/second"
rates_shared_at = "valkey://user:word-7f3a@cache/1"
rates_replicas = 3
session_idle_minutes = 15
session_hours = 8

[[sign_in.issuers]]
issuer = "https://id.acme.test"
audience = "placet"
algorithms = ["ES256", "Ed25519"]
jwks_url = "https://keys.acme.test/jwks"
network = "private"
ca_file = "ca.pem"
tenant_claim = ["org", "id"]
tenants = { "o-1" = "acme" }
environment = "staging"
subject_prefix = "id:"
roles = ["operator"]
roles_claim = "https://acme.test/groups"
roles_by_value = { ops = "admin" }
scopes = ["a", "b"]
scopes_claim = "scope"
standing = "person"
person_if = { amr = ["mfa", "hwk"], acr = "gold" }
longest_hours = 1

[[sign_in.issuers]]
issuer = "https://ci.test"
audience = "placet"
tenant = "acme"
"""


def admission(tmp_path: Path, text: str) -> Admission:
    file = tmp_path / "placet.toml"
    file.write_text(text)
    return read_settings(config=str(file), store=None, key=None).admission


def test_every_member_says_what_it_says(tmp_path: Path) -> None:
    found = admission(tmp_path, FULL)

    assert found.rates == RateLimits(
        per_principal=Rate(count=60, seconds=60), per_tenant=Rate(count=10, seconds=1),
        shared_at="valkey://user:word-7f3a@cache/1", replicas=3,
    )  # fmt: skip
    assert found.sessions == SessionLimits(idle_seconds=900, longest_seconds=28_800)
    assert found.issuers == (
        Issuer(
            issuer="https://id.acme.test",
            audience="placet",
            algorithms=frozenset({Algorithm.ES256, Algorithm.ED25519}),
            jwks_url="https://keys.acme.test/jwks",
            network=Network.PRIVATE,
            ca_file=tmp_path / "ca.pem",
            tenant_claim=("org", "id"),
            tenants={"o-1": "acme"},
            environment="staging",
            subject_prefix="id:",
            roles=frozenset({Role.OPERATOR}),
            roles_claim=("https://acme.test/groups",),
            roles_by_value={"ops": Role.ADMIN},
            scopes=frozenset({"a", "b"}),
            scopes_claim=("scope",),
            standing=Standing.PERSON,
            person_if={"amr": frozenset({"mfa", "hwk"}), "acr": frozenset({"gold"})},
            longest_seconds=3_600,
        ),
        Issuer(issuer="https://ci.test", audience="placet", tenant="acme"),
    )


CONSOLE = """
[serve]
public_url = "https://desk.test:8443"

[[sign_in.issuers]]
issuer = "https://id.acme.test"
audience = "placet"
tenant = "acme"
standing = "person"
person_if = { amr = "mfa" }
console = { name = "staff", client_id = "c-1", client_secret = "file:secrets/c", ask_for = ["openid", "profile"], \
sign_out_there = true }

[[sign_in.issuers]]
issuer = "https://partner.test"
audience = "placet"
tenant = "acme"
subject_prefix = "p:"
standing = "person"
person_if = { amr = "mfa" }

[sign_in.issuers.console]
name = "partners"
client_id = "c-2"
""".replace("\\\n", "")


def test_ways_into_the_console_stand_in_the_tables_of_their_issuers(tmp_path: Path) -> None:
    found = admission(tmp_path, CONSOLE)

    assert found.public_url == "https://desk.test:8443"
    secret = SecretRef(place=SecretPlace.FILE, name=str(tmp_path / "secrets/c"))
    assert found.clients == (
        ConsoleClient(
            issuer=found.issuers[0],
            name="staff",
            client_id="c-1",
            client_secret=secret,
            asked=("openid", "profile"),
            ends_there=True,
        ),
        ConsoleClient(issuer=found.issuers[1], name="partners", client_id="c-2"),
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "staff"', 'nmae = "staff"'),
        ('name = "staff"', 'name = "Staff"'),
        ('name = "staff"', 'name = "partners"'),
        ('client_id = "c-1"', "client_id = 1"),
        ('client_id = "c-1"', 'client_id = "c 1"'),
        ('"file:secrets/c"', '"secrets/c"'),
        ('["openid", "profile"]', '["profile"]'),
        ('["openid", "profile"]', '["openid", "a b"]'),
        ("sign_out_there = true", 'sign_out_there = "yes"'),
        ('public_url = "https://desk.test:8443"', ""),
        ('standing = "person"\nperson_if = { amr = "mfa" }\nconsole', "console"),
    ],
)
def test_a_way_that_is_said_wrongly_is_refused_where_it_stands(tmp_path: Path, old: str, new: str) -> None:
    assert old in CONSOLE
    with pytest.raises(ConfigProblem) as refused:
        admission(tmp_path, CONSOLE.replace(old, new, 1))
    assert "sign_in.issuers" in str(refused.value) and "placet.toml" in str(refused.value)


def test_messages_link_to_the_public_address_and_to_no_other(tmp_path: Path) -> None:
    file = tmp_path / "placet.toml"
    file.write_text('[serve]\npublic_url = "https://desk.test"\n')
    assert (
        read_settings(config=str(file), store=None, key=None).announcements.console_url == "https://desk.test/console"
    )
    file.write_text('[placet]\nconsole_url = "https://desk.test/console/"\n[serve]\npublic_url = "https://desk.test"\n')
    assert (
        read_settings(config=str(file), store=None, key=None).announcements.console_url == "https://desk.test/console"
    )
    file.write_text('[placet]\nconsole_url = "https://other.test/console"\n[serve]\npublic_url = "https://desk.test"\n')
    with pytest.raises(ConfigProblem, match="two places"):
        read_settings(config=str(file), store=None, key=None)


def test_without_the_table_there_are_limits_all_the_same(tmp_path: Path) -> None:
    assert admission(tmp_path, "") == admission(tmp_path, "[sign_in]\n") == Admission()
    assert Admission().rates.per_principal.count == 600
    assert read_settings(config=None, store=None, key=None).origins["sign_in"] is Origin.DEFAULT


ISSUER = '[[sign_in.issuers]]\nissuer = "https://id.test"\naudience = "placet"\ntenant = "acme"\n'


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("sign_in = 1", "[sign_in]"),
        ('[sign_in]\nper_pricipal = "1/minute"', "per_principal"),
        ('[sign_in]\nper_tenant = "1/fortnight"', "'per_tenant' in [sign_in]"),
        ("[sign_in]\nper_tenant = 5", "per_tenant"),
        ('[sign_in]\nrates_shared_at = "http://user:word-7f3a@h"', "rates_shared_at"),
        ("[sign_in]\nrates_replicas = 0", "rates_replicas"),
        ("[sign_in]\nrates_replicas = 1.5", "whole number"),
        ("[sign_in]\nsession_hours = -1", "session_hours"),
        ("[sign_in]\nsession_hours = true", "session_hours"),
        ('[sign_in]\nissuers = "https://id.test"', "issuers"),
        ("[sign_in]\nissuers = [1]", "number 1"),
        (ISSUER + 'isuer = "x"', "issuer"),
        (ISSUER + "scopes = [1]", "scopes"),
        (ISSUER + 'scopes = "a"', "scopes"),
        (ISSUER + 'algorithms = ["none"]', "RS256"),
        (ISSUER + 'algorithms = ["HS256"]', "RS256"),
        (ISSUER + 'network = "anywhere"', "loopback"),
        (ISSUER + 'standing = "persn"', "person"),
        (ISSUER + 'standing = "person"', "person_if"),
        (ISSUER + 'roles = ["king"]', "operator"),
        (ISSUER + 'roles_claim = "g"\nroles_by_value = { a = "king" }', "operator"),
        (ISSUER + 'roles_claim = "g"\nroles_by_value = { a = 1 }', "roles_by_value"),
        (ISSUER + "person_if = { amr = 1 }", "person_if"),
        (ISSUER + 'tenant_claim = ""', "tenant_claim"),
        (ISSUER + 'jwks_url = "http://id.test/jwks"', "https"),
        (ISSUER.replace("https://id.test", "http://id.test"), "https"),
        (ISSUER + ISSUER, "same issuer and audience"),
        (ISSUER + ISSUER.replace("id.test", "other.test"), "same subject"),
        (ISSUER + ISSUER.replace("id.test", "other.test") + "tennant = 1", "number 2"),
    ],
)
def test_a_mistake_is_refused_where_it_stands(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigProblem) as refused:
        admission(tmp_path, text)

    said = f"{refused.value} {refused.value.hint}"
    assert told in said and "placet.toml" in said and "7f3a" not in said


def test_what_is_shown_of_it_holds_no_password(project) -> None:
    (project.folder / "placet.toml").write_text(CONFIG.format(me=ME, scopes=json.dumps([])) + FULL)

    for words in (("config", "show"), ("config", "show", "--json"), ("config", "show", "--origin")):
        ran = project.run(*words)
        assert ran.code == 0 and "7f3a" not in ran.out + ran.err
        assert "60 in 60 s each, 10 in 1 s per tenant, shared; issuers: https://id.acme.test" in ran.out
