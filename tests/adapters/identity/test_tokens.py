"""Only what an issuer has signed, for us, now, lets anybody in; nothing in a token chooses how it is verified."""

import base64
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from placet.adapters.identity.fetching import Fetcher
from placet.adapters.identity.issuers import IssuerKeys
from placet.adapters.identity.tokens import TokenSignIn
from placet.errors import SignInRefused
from placet.model.issuers import Algorithm, Issuer, Network
from placet.model.principal import Principal, Role, Standing
from placet.testing.fakes import FakeClock
from tests.adapters.identity.issuer import LocalIssuer, a_key, encoded, signed

EVERY_ALGORITHM = frozenset(Algorithm)


class Gatehouse:
    def __init__(self, issuer: LocalIssuer, **more: Any) -> None:
        self.clock = FakeClock()
        self.local = issuer
        base = Issuer(
            issuer=issuer.url, audience="placet", network=Network.LOOPBACK, tenant="acme", algorithms=EVERY_ALGORITHM
        )
        self.issuer = replace(base, **more)
        self.door = self.door_for(self.issuer)

    def door_for(self, *issuers: Issuer) -> TokenSignIn:
        keys = {each.issuer: IssuerKeys(each, Fetcher(each.network, seconds=60), clock=self.clock) for each in issuers}
        return TokenSignIn(issuers, keys, clock=self.clock)

    @property
    def now(self) -> float:
        return self.clock.now().timestamp()

    def token(self, **more: Any) -> str:
        return self.local.token(self.now, **more)

    async def principal(self, **more: Any) -> Principal:
        return await self.door.principal_of(self.token(**more))

    async def refused(self, text: str, caplog: pytest.LogCaptureFixture, why: str) -> None:
        caplog.clear()
        with caplog.at_level(logging.INFO, "placet.sign_in"), pytest.raises(SignInRefused) as refusal:
            await self.door.principal_of(text)
        fault = refusal.value
        assert fault.__cause__ is None and fault.__context__ is None
        assert fault.code == ("sign_in_expired" if why == "expired" else "sign_in_refused")
        assert [record.getMessage() for record in caplog.records if record.name == "placet.sign_in"] == [
            f"a token was refused: {why}"
        ]


@pytest.fixture(scope="module")
def shared_issuer() -> Iterator[LocalIssuer]:
    issuer = LocalIssuer()
    for kind in ("ES256", "ES384", "ES512", "Ed25519", "RS256"):
        issuer.add(kind, kind)
    issuer.keys["k1"] = ("ES256", a_key("k1"))
    yield issuer
    issuer.close()


@pytest.fixture
def house(shared_issuer: LocalIssuer) -> Gatehouse:
    return Gatehouse(shared_issuer)


async def test_a_token_that_is_signed_for_us_now_lets_its_subject_in_as_an_agent(house: Gatehouse) -> None:
    assert await house.principal() == Principal.agent("u-17", tenant="acme")


@pytest.mark.parametrize("algorithm", sorted(EVERY_ALGORITHM))
async def test_every_algorithm_of_the_list_verifies_and_is_refused_where_it_is_not_listed(
    house: Gatehouse, caplog: pytest.LogCaptureFixture, algorithm: Algorithm
) -> None:
    kid = "RS256" if algorithm[0] in "RP" else algorithm.value
    key = house.local.keys[kid][1]
    if algorithm[0] in "RP":  # this key names no algorithm of its own
        assert "alg" not in key.as_dict()
    header = {"alg": algorithm.value, "kid": kid}
    text = signed(header, json.dumps(house.local.claims(house.now)).encode(), key, algorithm.value)
    assert (await house.door.principal_of(text)).subject == "u-17"

    other = Algorithm.ES256 if algorithm is not Algorithm.ES256 else Algorithm.RS256
    house.door = house.door_for(replace(house.issuer, algorithms=frozenset({other})))

    await house.refused(text, caplog, "algorithm")


# ---------------------------------------------------------------- what a token may not choose


def _with_header(**header: Any) -> Callable[[Gatehouse], str]:
    return lambda house: house.token(header=header)


def _none(house: Gatehouse) -> str:
    head = encoded(json.dumps({"alg": "none", "kid": "k1"}).encode())
    return f"{head}.{encoded(json.dumps(house.local.claims(house.now)).encode())}."


def _none_with_a_signature(house: Gatehouse) -> str:
    return house.token(header={"alg": "none"})


def _hmac_with_the_public_key(form: str) -> Callable[[Gatehouse], str]:
    """The oldest trick: the public key, which everybody has, taken for a shared secret."""

    def made(house: Gatehouse) -> str:
        import hashlib
        import hmac

        key = house.local.keys["RS256"][1]
        secret = {
            "pem": key.as_pem(private=False),
            "jwk": json.dumps(key.as_dict(private=False)).encode(),
            "n": base64.urlsafe_b64decode(key.as_dict(private=False)["n"] + "=="),
            "empty": b"",
        }[form]
        head = encoded(json.dumps({"alg": "HS256", "kid": "RS256"}).encode())
        body = f"{head}.{encoded(json.dumps(house.local.claims(house.now)).encode())}"
        return f"{body}.{encoded(hmac.new(secret, body.encode(), hashlib.sha256).digest())}"

    return made


def _brings_its_own_key(member: str) -> Callable[[Gatehouse], str]:
    def made(house: Gatehouse) -> str:
        mine = a_key("k1")
        value: Any = {
            "jwk": mine.as_dict(private=False), "jku": f"{house.local.url}/jwks", "x5u": f"{house.local.url}/x",
            "x5c": ["MIIB"],
        }[member]  # fmt: skip
        header = {"alg": "ES256", "kid": "k1", member: value}
        return signed(header, json.dumps(house.local.claims(house.now)).encode(), mine, "ES256")

    return made


def _signed_by_another(house: Gatehouse) -> str:
    claims = json.dumps(house.local.claims(house.now)).encode()
    return signed({"alg": "ES256", "kid": "k1"}, claims, a_key("k1"), "ES256")


def _other_claims(house: Gatehouse) -> str:
    head, _, signature = house.token().split(".")
    return f"{head}.{encoded(json.dumps(house.local.claims(house.now, sub='root')).encode())}.{signature}"


def _cut(house: Gatehouse) -> str:
    body, _, signature = house.token().rpartition(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    return f"{body}.{encoded(raw[:-1])}"


@pytest.mark.parametrize(
    ("made", "why"),
    [
        pytest.param(_none, "malformed", id="none-without-signature"),
        pytest.param(_none_with_a_signature, "algorithm", id="none-with-signature"),
        *(pytest.param(_with_header(alg=word), "algorithm", id=f"alg-{word}") for word in (
            "None", "NONE", "nOnE", "HS256", "es256", "ES256K", "EdDSA", "dir", "RSA-OAEP", "",
        )),
        pytest.param(_with_header(alg=...), "algorithm", id="no-alg"),
        pytest.param(_with_header(alg=["ES256"]), "algorithm", id="alg-list"),
        *(pytest.param(_hmac_with_the_public_key(form), "algorithm", id=f"hs-{form}") for form in (
            "pem", "jwk", "n", "empty",
        )),
        *(pytest.param(_brings_its_own_key(m), "header", id=m) for m in ("jwk", "jku", "x5u", "x5c")),
        pytest.param(_with_header(crit=["exp"], exp=1), "header", id="crit"),
        pytest.param(_with_header(crit=[]), "header", id="crit-empty"),
        pytest.param(_with_header(b64=False, crit=["b64"]), "header", id="b64"),
        pytest.param(_with_header(zip="DEF"), "header", id="zip"),
        pytest.param(_with_header(cty="JWT"), "header", id="nested"),
        pytest.param(_with_header(enc="A128GCM"), "header", id="enc"),
        pytest.param(_with_header(typ="placet-approval+jwt"), "header", id="typ-other"),
        pytest.param(_with_header(typ="logout+jwt"), "header", id="typ-logout"),
        pytest.param(_with_header(typ=None), "header", id="typ-null"),
        pytest.param(_with_header(typ=["JWT"]), "header", id="typ-list"),
        pytest.param(_with_header(kid=...), "key", id="no-kid"),
        pytest.param(_with_header(kid=""), "key", id="kid-empty"),
        pytest.param(_with_header(kid=1), "key", id="kid-number"),
        pytest.param(_with_header(kid="k" * 257), "key", id="kid-long"),
        pytest.param(_with_header(kid="../../etc/passwd"), "key", id="kid-path"),
        pytest.param(_with_header(kid="ES384"), "key", id="kid-of-another-curve"),
        pytest.param(_with_header(kid="RS256"), "key", id="kid-of-another-kind"),
        pytest.param(_with_header(kid="ES256"), "signature", id="kid-of-another-key"),
        pytest.param(_with_header(alg="RS256"), "key", id="alg-of-another-kind"),
        pytest.param(_signed_by_another, "signature", id="another-key"),
        pytest.param(_other_claims, "signature", id="other-claims"),
        pytest.param(_cut, "signature", id="cut-signature"),
    ],
)  # fmt: skip
async def test_what_would_choose_how_it_is_verified_is_refused(
    house: Gatehouse, caplog: pytest.LogCaptureFixture, made: Callable[[Gatehouse], str], why: str
) -> None:
    await house.refused(made(house), caplog, why)


# ---------------------------------------------------------------- form


def _spelt(house: Gatehouse, payload: bytes, raw_header: bytes | None = None) -> str:
    return signed({"alg": "ES256", "kid": "k1"}, payload, house.local.keys["k1"][1], "ES256", raw_header=raw_header)


def _usual_payload(house: Gatehouse) -> bytes:
    return json.dumps(house.local.claims(house.now)).encode()


FORMS: dict[str, Callable[[Gatehouse], str]] = {
    "duplicate sub": lambda h: _spelt(h, _usual_payload(h)[:-1] + b',"sub":"root"}'),
    "duplicate nested": lambda h: _spelt(h, _usual_payload(h)[:-1] + b',"x":{"a":1,"a":2}}'),
    "duplicate alg": lambda h: _spelt(h, _usual_payload(h), b'{"alg":"none","alg":"ES256","kid":"k1"}'),
    "duplicate kid": lambda h: _spelt(h, _usual_payload(h), b'{"alg":"ES256","kid":"k1","\\u006bid":"k1"}'),
    "NaN": lambda h: _spelt(h, _usual_payload(h)[:-1] + b',"x":NaN}'),
    "infinite exp": lambda h: _spelt(h, _usual_payload(h)[:-1].replace(b'"exp"', b'"y"') + b',"exp":1e999}'),
    "list": lambda h: _spelt(h, b"[1]"),
    "text": lambda h: _spelt(h, b'"x"'),
    "token in a token": lambda h: _spelt(h, h.token().encode()),
    "no JSON": lambda h: _spelt(h, b"sub=root"),
    "trailing": lambda h: _spelt(h, _usual_payload(h) + b"{}"),
    "BOM": lambda h: _spelt(h, b"\xef\xbb\xbf" + _usual_payload(h)),
    "UTF-16": lambda h: _spelt(h, _usual_payload(h).decode().encode("utf-16-le")),
    "deep": lambda h: _spelt(h, _usual_payload(h)[:-1] + b',"x":' + b"[" * 30 + b"]" * 30 + b"}"),
    "many members": lambda h: _spelt(h, json.dumps({f"m{n}": 1 for n in range(501)}).encode()),
    "long text": lambda h: _spelt(h, _usual_payload(h)[:-1] + b',"x":"' + b"a" * 2_100 + b'"}'),
    "oversized": lambda h: _spelt(h, _usual_payload(h)[:-1] + b',"x":["' + b'a","' * 2_000 + b'a"]}'),
    "huge header": lambda h: _spelt(h, _usual_payload(h), b'{"alg":"ES256","kid":"k1","x":"' + b"a" * 1_100 + b'"}'),
    "huge signature": lambda h: h.token().rpartition(".")[0] + "." + encoded(b"s" * 9_000),
    "padding": lambda h: h.token() + "=",
    "white space": lambda h: h.token().replace(".", ".\n", 1),
    "plus": lambda h: h.token() + "+/",
    "other bits": lambda h: _other_bits(h.token()),
    "two parts": lambda h: h.token().rpartition(".")[0],
    "four parts": lambda h: h.token() + ".x",
    "five parts": lambda h: "a.b.c.d.e",
    "no header": lambda h: "." + h.token().split(".", 1)[1],
    "empty payload": lambda h: "{0}..{2}".format(*h.token().split(".")),
    "dots": lambda h: "..",
    "empty": lambda h: "",
    "not ASCII": lambda h: h.token() + "é",
}  # fmt: skip


def _other_bits(token: str) -> str:
    """The same bytes in another spelling: the last character of a part holds bits that nobody reads."""
    head, claims, signature = token.split(".")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    last = alphabet[alphabet.index(signature[-1]) ^ 1]
    other = signature[:-1] + last
    assert base64.urlsafe_b64decode(other + "==") == base64.urlsafe_b64decode(signature + "==")
    return f"{head}.{claims}.{other}"


@pytest.mark.parametrize("form", FORMS)
async def test_a_token_with_more_than_one_meaning_or_none_is_refused_before_its_key_is_looked_for(
    house: Gatehouse, caplog: pytest.LogCaptureFixture, form: str
) -> None:
    text = FORMS[form](house)
    house.door._keys = {}

    await house.refused(text, caplog, "malformed")


async def test_a_token_with_any_one_character_changed_lets_nobody_in(house: Gatehouse) -> None:
    token = house.token()
    assert (await house.door.principal_of(token)).subject == "u-17"
    for place, character in enumerate(token):
        for other in {"A", "B", "z", "9", "_", ".", "="} - {character}:
            with pytest.raises(SignInRefused):
                await house.door.principal_of(token[:place] + other + token[place + 1 :])


# ---------------------------------------------------------------- claims


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"iss": ...}, "issuer"),
        ({"iss": "https://other.example"}, "issuer"),
        ({"iss": ["x"]}, "issuer"),
        ({"aud": ...}, "audience"),
        ({"aud": "other"}, "audience"),
        ({"aud": []}, "audience"),
        ({"aud": ["other", "placet "]}, "audience"),
        ({"aud": ["placet", 1]}, "audience"),
        ({"aud": {"placet": 1}}, "audience"),
        ({"sub": ...}, "subject"),
        ({"sub": ""}, "subject"),
        ({"sub": 17}, "subject"),
        ({"sub": None}, "subject"),
        ({"sub": "u" * 129}, "subject"),
        ({"exp": ...}, "malformed"),
        ({"exp": None}, "malformed"),
        ({"exp": True}, "malformed"),
        ({"exp": "9999999999"}, "malformed"),
        ({"exp": [1]}, "malformed"),
        ({"exp": 1e300}, "malformed"),
        ({"exp": 9e15}, "too_long_lived"),
        ({"iat": ...}, "malformed"),
        ({"iat": "now"}, "malformed"),
        ({"iat": 0}, "too_long_lived"),
        ({"nbf": "soon"}, "malformed"),
        ({"nbf": None}, "malformed"),
    ],
    ids=lambda value: None if isinstance(value, str) else ",".join(f"{k}={v}"[:24] for k, v in value.items()),
)
async def test_a_claim_that_is_missing_or_wrong_is_refused(
    house: Gatehouse, caplog: pytest.LogCaptureFixture, changes: dict[str, Any], why: str
) -> None:
    await house.refused(house.token(**changes), caplog, why)


async def test_times_are_held_against_the_clock_with_thirty_seconds_of_skew(
    house: Gatehouse, caplog: pytest.LogCaptureFixture
) -> None:
    now = int(house.now)
    for changes in (
        {"exp": now - 29, "iat": now - 300},
        {"iat": now + 30, "exp": now + 300},
        {"nbf": now + 30},
        {"exp": now + 86_400, "iat": now},
        {"exp": now - 29.5, "iat": now - 300.5},
    ):
        assert (await house.principal(**changes)).subject == "u-17"
    for changes, why in (
        ({"exp": now - 30, "iat": now - 300}, "expired"),
        ({"iat": now + 31, "exp": now + 300}, "not_yet"),
        ({"nbf": now + 31}, "not_yet"),
        ({"exp": now + 86_401, "iat": now}, "too_long_lived"),
    ):
        await house.refused(house.token(**changes), caplog, why)


async def test_a_forged_token_is_not_told_that_it_is_too_late(
    house: Gatehouse, caplog: pytest.LogCaptureFixture
) -> None:
    claims = json.dumps(house.local.claims(house.now, exp=1, iat=0)).encode()

    await house.refused(signed({"alg": "ES256", "kid": "k1"}, claims, a_key("k1"), "ES256"), caplog, "signature")


async def test_a_token_for_several_audiences_is_for_us_too(house: Gatehouse) -> None:
    assert (await house.principal(aud=["other", "placet"])).subject == "u-17"


# ---------------------------------------------------------------- what it makes of its holder


async def test_tenant_roles_and_scopes_are_what_the_deployment_says_of_claims(
    shared_issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    house = Gatehouse(
        shared_issuer,
        tenant=None,
        tenant_claim=("org", "id"),
        tenants={"o-1": "acme", "o-2": "other"},
        subject_prefix="ci:",
        environment="staging",
        roles_claim=("https://example.com/groups",),
        roles_by_value={"ops": Role.OPERATOR, "root": Role.ADMIN},
        scopes_claim=("scope",),
        scopes=frozenset({"a.read", "a.write"}),
    )

    principal = await house.principal(
        org={"id": "o-2"}, scope="openid a.write x", **{"https://example.com/groups": ["ops", "nobody", "admin"]}
    )

    assert principal == Principal.agent(
        "ci:u-17", tenant="other", roles=["viewer", "operator"], scopes=["a.write"], environment="staging"
    )
    plain = await house.principal(org={"id": "o-1"}, scope=["a.read"], tenant="other", roles=["admin"])
    assert plain == Principal.agent("ci:u-17", tenant="acme", scopes=["a.read"], environment="staging")
    for org in (..., "o-1", {"id": "acme"}, {"id": ["o-1"]}, {}):
        await house.refused(house.token(org=org), caplog, "tenant")


PERSON = {"standing": Standing.PERSON, "person_if": {"amr": frozenset({"mfa", "hwk"}), "acr": frozenset({"gold"})}}


@pytest.mark.parametrize(
    ("claims", "standing"),
    [
        ({"amr": ["pwd", "mfa"], "acr": "gold"}, Standing.PERSON),
        ({"amr": "hwk", "acr": ["gold"]}, Standing.PERSON),
        ({"amr": ["mfa"], "acr": "gold", "azp": "console", "client_id": "console"}, Standing.PERSON),
        ({}, Standing.AGENT),
        ({"amr": ["mfa"]}, Standing.AGENT),
        ({"amr": ["pwd"], "acr": "gold"}, Standing.AGENT),
        ({"amr": [], "acr": "gold"}, Standing.AGENT),
        ({"amr": ["mfa", 1], "acr": "gold"}, Standing.AGENT),
        ({"amr": {"mfa": True}, "acr": "gold"}, Standing.AGENT),
        ({"amr": ["MFA"], "acr": "gold"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "azp": "u-17"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "client_id": "u-17"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "appid": "u-17"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "cid": "u-17"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "gty": "client-credentials"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "idtyp": "app"}, Standing.AGENT),
        ({"amr": ["mfa"], "acr": "gold", "preferred_username": "service-account-x"}, Standing.AGENT),
    ],
)
async def test_a_person_is_only_who_shows_all_that_a_person_shows_and_is_no_service(
    shared_issuer: LocalIssuer, claims: dict[str, Any], standing: Standing
) -> None:
    house = Gatehouse(shared_issuer, **PERSON)

    assert (await house.principal(**claims)).standing is standing


@pytest.mark.parametrize("kid", ["", "k" * 257, 1, None, ["k1"]])
async def test_a_name_of_a_key_that_can_be_none_has_nothing_looked_for(
    house: Gatehouse, caplog: pytest.LogCaptureFixture, kid: Any
) -> None:
    house.door._keys = {}

    await house.refused(house.token(header={"kid": kid}), caplog, "key")


async def test_what_shows_a_person_elsewhere_shows_none_where_only_agents_come_from(shared_issuer: LocalIssuer) -> None:
    """Even with a table that says both, which is refused when it is read."""
    house = Gatehouse(shared_issuer, standing=Standing.AGENT, person_if={"amr": frozenset({"mfa"})})

    assert (await house.principal(amr=["mfa"])).standing is Standing.AGENT


async def test_an_issuer_of_agents_sends_no_person_whatever_it_claims(house: Gatehouse) -> None:
    principal = await house.principal(amr=["mfa"], acr="gold", standing="person", tenant="other", roles=["admin"])

    assert principal == Principal.agent("u-17", tenant="acme")


async def test_nobody_of_one_issuer_is_somebody_of_another(
    shared_issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    """The one without a prefix sends nobody whose name begins with another's."""
    house = Gatehouse(shared_issuer)
    other = LocalIssuer()
    other.add("k1")
    try:
        agents = replace(house.issuer, issuer=other.url, subject_prefix="ci:")
        house.door = house.door_for(house.issuer, agents)
        assert (await house.door.principal_of(other.token(house.now, sub="bot"))).subject == "ci:bot"
        assert (await house.principal(sub="ci")).subject == "ci"
        await house.refused(house.token(sub="ci:bot"), caplog, "subject")
        await house.refused(other.token(house.now, iss=house.local.url), caplog, "signature")
    finally:
        other.close()


async def test_one_issuer_for_two_audiences_is_two_kinds_of_people(
    shared_issuer: LocalIssuer, caplog: pytest.LogCaptureFixture
) -> None:
    house = Gatehouse(shared_issuer)
    console = replace(house.issuer, audience="console", standing=Standing.PERSON, person_if={"amr": frozenset({"mfa"})})
    house.door = house.door_for(house.issuer, console)

    assert (await house.principal(amr=["mfa"])).standing is Standing.AGENT
    assert (await house.principal(aud="console", amr=["mfa"])).standing is Standing.PERSON
    await house.refused(house.token(aud=["console", "placet"], amr=["mfa"]), caplog, "audience")
