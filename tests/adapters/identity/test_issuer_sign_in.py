"""Only whoever began a sign-in in this browser, here, and whom the issuer shows for this very one, is signed in."""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from placet.adapters.identity.fetching import Fetcher
from placet.adapters.identity.issuer_sign_in import CodeFlow, desk_of
from placet.adapters.identity.issuers import FLOOR_SECONDS, IssuerKeys
from placet.adapters.identity.secrets import SystemSecrets
from placet.adapters.keys import KeyRing
from placet.errors import BoundaryUnavailable, NotFound, PlacetError, SignInRefused
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuer_sign_in import Begun, ConsoleClient, Shown
from placet.model.issuers import Issuer, Network
from placet.model.principal import Principal, Role, Standing
from placet.rules.issuer_sign_in import ATTEMPT_SECONDS
from placet.testing.fakes import FakeClock, RecordingMeter
from tests.adapters.identity.issuer import signed
from tests.adapters.identity.provider import CLIENT, SECRET, SECRET_WORDS, LocalProvider

HERE = "https://desk.example"
BACK = f"{HERE}/console/sign-in/back/staff"
NO_REF = SecretRef(place=SecretPlace.ENVIRONMENT, name="NONE")


def flow_of(*desks: Any, keys: KeyRing, clock: FakeClock, meter: RecordingMeter | None = None) -> CodeFlow:
    return CodeFlow(
        desks,
        public_url=HERE,
        root="/console",
        keys=keys,
        clock=clock,
        secrets=SystemSecrets(),
        meter=meter or RecordingMeter(),
    )


def client_of(provider: LocalProvider, **more: Any) -> ConsoleClient:
    issuer = Issuer(
        issuer=provider.url,
        audience="placet-api",
        network=Network.LOOPBACK,
        tenant="acme",
        subject_prefix="id:",
        roles=frozenset({Role.OPERATOR}),
        scopes=frozenset({"approvals.decide"}),
        standing=Standing.PERSON,
        person_if={"amr": frozenset({"mfa"})},
    )
    return replace(ConsoleClient(issuer=issuer, name="staff", client_id=CLIENT, client_secret=NO_REF), **more)


@dataclass
class Porch:
    """A provider, and a flow that sends people to it."""

    clock: FakeClock = field(default_factory=FakeClock)
    keys: KeyRing = field(default_factory=KeyRing.ephemeral)
    meter: RecordingMeter = field(default_factory=RecordingMeter)
    secret: str = SECRET

    def __post_init__(self) -> None:
        self.provider = LocalProvider(lambda: self.clock.now().timestamp())
        self.provider.clients[CLIENT].addresses.append(BACK)
        self.client = client_of(self.provider)
        self.flow = self.flow_for(self.client)

    def flow_for(self, *clients: ConsoleClient) -> CodeFlow:
        desks = []
        for client in clients:
            fetcher = Fetcher(client.issuer.network, seconds=60)
            keys = IssuerKeys(client.issuer, fetcher, clock=self.clock)
            secret = None if client.client_secret is None else (lambda: self.secret)
            desks.append(desk_of(client, keys, fetcher, clock=self.clock, secret=secret))
        return flow_of(*desks, keys=self.keys, clock=self.clock, meter=self.meter)

    async def begun(self, flow: CodeFlow | None = None) -> Begun:
        return await (flow or self.flow).begin("staff", wanted="/console/audit")

    def back(self, begun: Begun, **words: str) -> list[tuple[str, str]]:
        """What stands in the address that the browser comes back to."""
        return parse_qsl(urlsplit(self.provider.authorized(begun.address, **words)).query)

    async def shown(self, flow: CodeFlow | None = None) -> Shown:
        flow = flow or self.flow
        begun = await self.begun(flow)
        return await flow.finish("staff", self.back(begun), kept=begun.kept)

    async def refused(self, work: Any, code: str, kind: type[PlacetError] = SignInRefused) -> None:
        with pytest.raises(kind) as refusal:
            await work
        fault = refusal.value
        assert fault.code == code
        assert fault.__cause__ is None and fault.__context__ is None
        assert SECRET_WORDS not in f"{fault} {fault.hint}"


@pytest.fixture
async def porch() -> AsyncIterator[Porch]:
    made = Porch()
    yield made
    await made.flow.close()
    made.provider.close()


# ---------------------------------------------------------------- the way in


async def test_who_comes_back_with_a_code_is_the_person_that_the_issuers_rules_make_of_it(porch: Porch) -> None:
    shown = await porch.shown()

    person = Principal.person("id:u-17", tenant="acme", roles=["operator"], scopes=["approvals.decide"])
    assert shown == Shown(principal=person, wanted="/console/audit", through=porch.provider.url)
    assert ("signed_in", {"kind": "issuer", "outcome": "let_in"}) in porch.meter.heard


async def test_what_the_issuer_is_asked_is_the_protocols_and_the_way_back_is_the_configurations(porch: Porch) -> None:
    asked = dict(parse_qsl(urlsplit((await porch.begun()).address).query))
    again = dict(parse_qsl(urlsplit((await porch.begun()).address).query))

    fixed = {"response_type", "client_id", "redirect_uri", "scope", "code_challenge_method"}
    assert {name: asked[name] for name in fixed} == {
        "response_type": "code", "client_id": CLIENT, "redirect_uri": BACK, "scope": "openid",
        "code_challenge_method": "S256",
    }  # fmt: skip
    assert asked.keys() - fixed == {"state", "nonce", "code_challenge"}
    assert all(asked[name] != again[name] and len(asked[name]) >= 43 for name in asked.keys() - fixed)


async def test_a_browser_keeps_nothing_that_it_could_read_or_change(porch: Porch) -> None:
    begun = await porch.begun()
    asked = dict(parse_qsl(urlsplit(begun.address).query))
    raw = base64.urlsafe_b64decode(begun.kept + "=" * (-len(begun.kept) % 4))

    assert all(asked[name].encode() not in raw for name in ("state", "nonce"))
    for index in (0, len(begun.kept) // 2, len(begun.kept) - 2):
        changed = begun.kept[:index] + ("A" if begun.kept[index] != "A" else "B") + begun.kept[index + 1 :]
        await porch.refused(porch.flow.finish("staff", porch.back(begun), kept=changed), "sign_in_not_begun")
    assert porch.provider.forms == []


async def test_any_host_with_the_same_keys_ends_what_another_has_begun(porch: Porch) -> None:
    elsewhere = porch.flow_for(porch.client)
    begun = await porch.begun()

    assert (await elsewhere.finish("staff", porch.back(begun), kept=begun.kept)).principal.subject == "id:u-17"
    await elsewhere.close()


@pytest.mark.parametrize(
    ("methods", "place"),
    [
        (..., "header"),
        (["client_secret_post", "client_secret_basic"], "header"),
        (["client_secret_post"], "form"),
        (["private_key_jwt"], "header"),
    ],
    ids=["unsaid", "both", "post", "neither"],
)
async def test_the_secret_goes_where_the_issuer_takes_it(porch: Porch, methods: Any, place: str) -> None:
    porch.provider.discovery["token_endpoint_auth_methods_supported"] = methods
    if methods is ...:
        del porch.provider.discovery["token_endpoint_auth_methods_supported"]

    await porch.shown()

    assert ("client_secret" in porch.provider.forms[-1]) == (place == "form")
    assert (porch.provider.authorizations[-1] is not None) == (place == "header")


async def test_a_public_client_shows_its_verifier_alone(porch: Porch) -> None:
    porch.provider.clients[CLIENT].secret = None
    flow = porch.flow_for(replace(porch.client, client_secret=None))

    await porch.shown(flow)

    assert porch.provider.forms[-1].keys() == {"grant_type", "code", "redirect_uri", "code_verifier", "client_id"}
    await flow.close()


async def test_a_secret_that_is_not_there_is_told_and_nothing_is_sent(
    porch: Porch, caplog: pytest.LogCaptureFixture
) -> None:
    porch.secret = ""
    await porch.refused(porch.shown(), "sign_in_unavailable", BoundaryUnavailable)

    assert porch.provider.forms == []
    assert "the client secret for the issuer" in caplog.text


# ---------------------------------------------------------------- another browser, another time, another issuer


async def test_a_state_is_worth_nothing_without_the_browser_that_began(porch: Porch) -> None:
    """Login CSRF, and a stolen state: somebody else's answer is put before a browser that did not ask for it."""
    attacker, victim = await porch.begun(), await porch.begun()
    for kept in ("", victim.kept):
        await porch.refused(porch.flow.finish("staff", porch.back(attacker), kept=kept), "sign_in_not_begun")

    assert porch.provider.forms == []
    assert porch.meter.heard.count(("signed_in", {"kind": "issuer", "outcome": "refused"})) == 2


@pytest.mark.parametrize("kept", ["x", "A" * 5_000, "é", "!!!!", "AA==", "A" * 80])
async def test_a_cookie_that_is_none_of_ours_begins_nothing(porch: Porch, kept: str) -> None:
    begun = await porch.begun()
    await porch.refused(porch.flow.finish("staff", porch.back(begun), kept=kept), "sign_in_not_begun")


async def test_what_other_keys_have_sealed_is_nothing(porch: Porch) -> None:
    stranger = replace(porch, keys=KeyRing.ephemeral())
    begun = await stranger.flow_for(porch.client).begin("staff", wanted="/console/")
    await porch.refused(porch.flow.finish("staff", porch.back(begun), kept=begun.kept), "sign_in_not_begun")
    stranger.provider.close()


@pytest.mark.parametrize("words", [[("code", "code-1")], [("code", "code-1"), ("state", "")]], ids=["none", "empty"])
async def test_an_answer_without_its_state_is_none(porch: Porch, words: list[tuple[str, str]]) -> None:
    begun = await porch.begun()
    await porch.refused(porch.flow.finish("staff", words, kept=begun.kept), "sign_in_not_begun")


async def test_an_attempt_is_over_after_ten_minutes(porch: Porch) -> None:
    first, second = await porch.begun(), await porch.begun()
    back = porch.back(first), porch.back(second)
    porch.clock.advance(ATTEMPT_SECONDS - 0.001)
    assert (await porch.flow.finish("staff", back[0], kept=first.kept)).principal.subject == "id:u-17"
    porch.clock.advance(0.001)

    await porch.refused(porch.flow.finish("staff", back[1], kept=second.kept), "sign_in_too_late")


async def test_a_code_is_good_once(porch: Porch) -> None:
    begun = await porch.begun()
    back = porch.back(begun)
    await porch.flow.finish("staff", back, kept=begun.kept)

    await porch.refused(porch.flow.finish("staff", back, kept=begun.kept), "sign_in_not_given")


async def test_an_attempt_shows_its_issuer_one_code_however_often_it_comes_back(porch: Porch) -> None:
    begun = await porch.begun()
    (state,) = [value for name, value in porch.back(begun) if name == "state"]
    for number in range(20):
        made_up = [("state", state), ("code", f"made-up-{number}"), ("iss", porch.provider.url)]
        await porch.refused(porch.flow.finish("staff", made_up, kept=begun.kept), "sign_in_not_given")

    assert len(porch.provider.forms) == 1
    other = await porch.begun()
    await porch.flow.finish("staff", porch.back(other), kept=other.kept)


async def test_a_code_of_another_attempt_is_worth_nothing(porch: Porch) -> None:
    """PKCE: a stolen code put into one's own answer."""
    mine, theirs = await porch.begun(), await porch.begun()
    stolen = dict(porch.back(theirs))["code"]
    words = dict(porch.back(mine)) | {"code": stolen}

    await porch.refused(porch.flow.finish("staff", words.items(), kept=mine.kept), "sign_in_not_given")


@pytest.mark.parametrize("iss", ["https://other.example", "", ...], ids=["other", "empty", "absent"])
async def test_an_answer_of_another_issuer_is_none(porch: Porch, iss: Any) -> None:
    begun = await porch.begun()
    words = [(name, value) for name, value in porch.back(begun) if name != "iss"]
    words += [] if iss is ... else [("iss", iss)]

    await porch.refused(porch.flow.finish("staff", words, kept=begun.kept), "sign_in_mixed_up")
    assert porch.provider.forms == []


async def test_an_issuer_that_does_not_promise_to_say_who_answers_may_leave_it_out(porch: Porch) -> None:
    del porch.provider.discovery["authorization_response_iss_parameter_supported"]
    begun = await porch.begun()
    words = [(name, value) for name, value in porch.back(begun) if name != "iss"]

    assert (await porch.flow.finish("staff", words, kept=begun.kept)).principal.subject == "id:u-17"


async def test_an_attempt_at_one_issuer_is_not_ended_at_the_address_of_another(porch: Porch) -> None:
    """Mix-up: a wicked issuer has the honest one's code sent to it. Each has an address of its own here, so that it is
    found out also where neither says who answers.
    """
    wicked = Porch(clock=porch.clock, keys=porch.keys)
    for each in (porch, wicked):
        del each.provider.discovery["authorization_response_iss_parameter_supported"]
    other = replace(client_of(wicked.provider), name="partner")
    flow = porch.flow_for(porch.client, replace(other, issuer=replace(other.issuer, subject_prefix="partner:")))
    honest = await flow.begin("staff", wanted="/console/")

    words = [(name, value) for name, value in porch.back(honest) if name != "iss"]
    await porch.refused(flow.finish("partner", words, kept=honest.kept), "sign_in_mixed_up")
    assert (porch.provider.forms, wicked.provider.forms) == ([], [])
    await flow.close()
    wicked.provider.close()


async def test_a_word_that_is_there_twice_has_no_meaning(porch: Porch) -> None:
    begun = await porch.begun()
    for name in ("code", "state", "iss"):
        words = [*porch.back(begun), (name, dict(porch.back(begun))[name])]
        await porch.refused(porch.flow.finish("staff", words, kept=begun.kept), "sign_in_mixed_up")


async def test_there_are_no_ways_but_the_configured_ones(porch: Porch) -> None:
    begun = await porch.begun()
    for name in ("", "other", "Staff", "staff/"):
        await porch.refused(porch.flow.begin(name, wanted="/"), "not_found", NotFound)
        await porch.refused(porch.flow.finish(name, porch.back(begun), kept=begun.kept), "not_found", NotFound)


# ---------------------------------------------------------------- errors of the issuer


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("access_denied", "sign_in_denied"),
        ("temporarily_unavailable", "sign_in_issuer_busy"),
        ("server_error", "sign_in_issuer_busy"),
        ("login_required", "sign_in_not_given"),
        (SECRET_WORDS, "sign_in_not_given"),
        ("", "sign_in_not_given"),
    ],
)
async def test_an_issuers_no_is_told_in_words_of_ours(
    porch: Porch, error: str, code: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = await porch.begun()
    words = dict(porch.back(begun)) | {"error": error, "error_description": SECRET_WORDS, "error_uri": SECRET_WORDS}

    with caplog.at_level(logging.DEBUG):
        await porch.refused(porch.flow.finish("staff", words.items(), kept=begun.kept), code)
    assert SECRET_WORDS not in caplog.text
    assert porch.provider.forms == []


async def test_a_no_that_is_not_an_answer_to_this_attempt_says_nothing_of_it(porch: Porch) -> None:
    begun = await porch.begun()
    words = {"error": "access_denied", "state": "other", "iss": porch.provider.url}
    await porch.refused(porch.flow.finish("staff", words.items(), kept=begun.kept), "sign_in_not_begun")


BAD_ANSWERS: dict[str, tuple[Callable[[dict[str, Any]], tuple[int, Any]], str, type[PlacetError]]] = {
    "no": (lambda a: (400, {"error": SECRET_WORDS}), "sign_in_not_given", SignInRefused),
    "forbidden": (lambda a: (403, b""), "sign_in_not_given", SignInRefused),
    "down": (lambda a: (503, b""), "sign_in_unavailable", BoundaryUnavailable),
    "elsewhere": (lambda a: (302, b""), "sign_in_unavailable", BoundaryUnavailable),
    "no JSON": (lambda a: (200, SECRET_WORDS.encode()), "sign_in_not_given", SignInRefused),
    "twice": (
        lambda a: (200, json.dumps(a)[:-1].encode() + b', "id_token": "x"}'),
        "sign_in_not_given",
        SignInRefused,
    ),
    "no ID token": (lambda a: (200, {**a, "id_token": None}), "sign_in_not_given", SignInRefused),
    "no bearer": (lambda a: (200, {**a, "token_type": "N_A"}), "sign_in_not_given", SignInRefused),
    "no token": (lambda a: (200, {**a, "id_token": "x"}), "sign_in_refused", SignInRefused),
    "too long": (lambda a: (200, {**a, "more": "x" * 300_000}), "sign_in_unavailable", BoundaryUnavailable),
}


@pytest.mark.parametrize("how", BAD_ANSWERS)
async def test_an_answer_to_a_code_that_is_none_signs_nobody_in(
    porch: Porch, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    porch.provider.token_answer, code, kind = BAD_ANSWERS[how]
    with caplog.at_level(logging.DEBUG, "placet"):
        await porch.refused(porch.shown(), code, kind)
    assert SECRET_WORDS not in caplog.text and SECRET not in caplog.text


async def test_an_issuer_that_is_down_lets_nobody_begin_and_is_asked_again_later(porch: Porch) -> None:
    porch.provider.answer = lambda request: request.send_error(503)
    await porch.refused(porch.begun(), "sign_in_unavailable", BoundaryUnavailable)
    porch.provider.answer = None
    await porch.refused(porch.begun(), "sign_in_unavailable", BoundaryUnavailable)
    porch.clock.advance(FLOOR_SECONDS)

    assert (await porch.shown()).principal.subject == "id:u-17"


@pytest.mark.parametrize(
    "change",
    [
        {"issuer": "https://other.example"},
        {"authorization_endpoint": "http://elsewhere.example/authorize"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"authorization_endpoint": None},
        {"token_endpoint": "http://elsewhere.example/token"},
        {"token_endpoint": ["https://id.example/token"]},
        {"end_session_endpoint": "http://elsewhere.example/logout"},
        {"code_challenge_methods_supported": ["plain"]},
        {"code_challenge_methods_supported": "S256"},
        {"response_types_supported": ["token"]},
    ],
    ids=lambda change: "-".join(f"{name}={str(value)[:20]}" for name, value in change.items()),
)
async def test_an_issuer_that_says_nothing_usable_of_itself_is_not_gone_to(
    porch: Porch, change: dict[str, Any]
) -> None:
    porch.provider.discovery |= change
    await porch.refused(porch.begun(), "sign_in_unavailable", BoundaryUnavailable)


# ---------------------------------------------------------------- the ID token


@pytest.mark.parametrize(
    "claims",
    [
        {"nonce": "another"},
        {"nonce": ...},
        {"nonce": ["a"]},
        {"aud": "another-client"},
        {"aud": "placet-api"},
        {"aud": [CLIENT, "another-client"]},
        {"aud": [CLIENT, "another-client"], "azp": "another-client"},
        {"azp": "another-client"},
        {"iss": "https://other.example"},
        {"sub": ...},
    ],
    ids=lambda claims: "-".join(f"{name}={value}" for name, value in claims.items()).replace("Ellipsis", "absent"),
)
async def test_a_token_of_another_sign_in_client_or_issuer_signs_nobody_in(
    porch: Porch, claims: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    porch.provider.person |= claims
    with caplog.at_level(logging.INFO, "placet.sign_in"):
        await porch.refused(porch.shown(), "sign_in_refused")
    assert "a token was refused: " in caplog.text


@pytest.mark.parametrize(
    "claims",
    [{"aud": [CLIENT]}, {"azp": CLIENT}, {"aud": [CLIENT, "another-client"], "azp": CLIENT}],
    ids=["alone in a list", "named", "one of two, and named"],
)
async def test_a_token_that_says_that_it_was_given_to_us_is_ours(porch: Porch, claims: dict[str, Any]) -> None:
    porch.provider.person |= claims
    assert (await porch.shown()).principal.subject == "id:u-17"


async def test_a_token_that_is_over_or_not_yet_good_signs_nobody_in(porch: Porch) -> None:
    now = porch.clock.now().timestamp()
    porch.provider.person |= {"iat": int(now) - 400, "exp": int(now) - 31}
    await porch.refused(porch.shown(), "sign_in_expired")
    porch.provider.person |= {"iat": int(now) + 60, "exp": int(now) + 300}
    await porch.refused(porch.shown(), "sign_in_refused")


def rewritten(porch: Porch, header: dict[str, Any], how: str) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """The answer with its ID token signed in another way."""

    def answer(given: dict[str, Any]) -> tuple[int, Any]:
        payload = base64.urlsafe_b64decode(given["id_token"].split(".")[1] + "==")
        if how == "none":
            token = signed({"alg": "none", "kid": "k1"}, payload, porch.provider.keys["k1"][1], "ES256")
        elif how == "HS256":
            from joserfc import jwk

            public = json.dumps(porch.provider.keys["k1"][1].as_dict(private=False)).encode()
            token = signed({"alg": "HS256", "kid": "k1"}, payload, jwk.OctKey.import_key(public), "HS256")
        else:
            token = signed({"alg": "ES256", "kid": "k1", **header}, payload, porch.provider.keys["k1"][1], "ES256")
        return 200, given | {"id_token": token}

    return answer


@pytest.mark.parametrize(
    ("header", "how"),
    [({}, "none"), ({}, "HS256"), ({"typ": "at+jwt"}, "ES256"), ({"kid": "k9"}, "ES256"), ({"jku": "x"}, "ES256")],
    ids=["none", "HS256", "access token", "unknown key", "brings a key"],
)
async def test_nothing_in_the_token_chooses_how_it_is_verified(porch: Porch, header: dict[str, Any], how: str) -> None:
    porch.provider.token_answer = rewritten(porch, header, how)
    await porch.refused(porch.shown(), "sign_in_refused")


async def test_the_same_token_signed_as_it_should_be_signs_in(porch: Porch) -> None:
    """So that what the test before refuses is refused for what it changes."""
    porch.provider.token_answer = rewritten(porch, {"typ": "JWT"}, "ES256")
    assert (await porch.shown()).principal.subject == "id:u-17"


async def test_keys_that_change_in_the_middle_of_a_sign_in_are_fetched_anew(porch: Porch) -> None:
    await porch.shown()
    porch.clock.advance(FLOOR_SECONDS)
    begun = await porch.begun()
    del porch.provider.keys["k1"]
    porch.provider.keys["k1"] = ("RS256", porch.provider.add("k2", "RS256"))
    porch.provider.token = _signed_with("k2", porch.provider.token)  # type: ignore[method-assign]
    del porch.provider.keys["k1"]

    assert (await porch.flow.finish("staff", porch.back(begun), kept=begun.kept)).principal.subject == "id:u-17"
    assert porch.provider.asked["/jwks"] == 2


def _signed_with(kid: str, token: Callable[..., str]) -> Callable[..., str]:
    return lambda now, **claims: token(now, kid=kid, **claims)


@pytest.mark.parametrize(
    "claims",
    [{"amr": ["pwd"]}, {"amr": ...}, {"sub": CLIENT, "azp": CLIENT}, {"gty": "client-credentials"}],
    ids=["one factor", "no word of it", "the client itself", "a program"],
)
async def test_who_is_not_shown_to_be_a_person_has_no_way_in(porch: Porch, claims: dict[str, Any]) -> None:
    porch.provider.person |= claims
    await porch.refused(porch.shown(), "sign_in_not_a_person")


async def test_an_id_token_is_no_credential_of_the_api(porch: Porch) -> None:
    from placet.adapters.identity.tokens import TokenSignIn

    seen: list[str] = []
    porch.provider.token_answer = lambda given: (200, seen.append(given["id_token"]) or given)
    await porch.shown()
    keys = IssuerKeys(porch.client.issuer, Fetcher(Network.LOOPBACK, seconds=60), clock=porch.clock)
    api = TokenSignIn((porch.client.issuer,), {porch.provider.url: keys}, clock=porch.clock)

    await porch.refused(api.principal_of(seen[0]), "sign_in_refused")
    assert (await api.principal_of(porch.provider.token(porch.provider.now(), aud="placet-api"))).subject == "id:u-17"
    await api.close()


# ---------------------------------------------------------------- out, and at once


async def test_the_way_out_is_the_issuers_only_where_the_configuration_says_so(porch: Porch) -> None:
    flow = porch.flow_for(replace(porch.client, ends_there=True))
    place = await flow.way_out(porch.provider.url)

    assert place is not None and place.partition("?")[0] == f"{porch.provider.url}/logout"
    assert dict(parse_qsl(urlsplit(place).query)) == {
        "client_id": CLIENT, "post_logout_redirect_uri": f"{HERE}/console/sign-in",
    }  # fmt: skip
    assert await porch.flow.way_out(porch.provider.url) is None
    assert [await flow.way_out(through) for through in (None, "https://other.example")] == [None, None]
    await flow.close()


async def test_many_who_come_back_at_once_are_each_themselves(porch: Porch) -> None:
    begun = [await porch.begun() for _ in range(40)]
    backs = [porch.back(each) for each in begun]
    found = await asyncio.gather(
        *(porch.flow.finish("staff", back, kept=each.kept) for each, back in zip(begun, backs, strict=True))
    )

    assert len(found) == 40 and porch.provider.asked["/.well-known/openid-configuration"] == 2
