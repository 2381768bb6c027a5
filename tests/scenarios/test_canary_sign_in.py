"""What is shown at the front doors can be read nowhere: keys, tokens, cookies, links; nor can the limits' password."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet.adapters.identity.issuer_sign_in import CodeFlow
from placet.bootstrap.records import audit_export
from placet.bootstrap.sign_in import FrontDoors, doors_of
from placet.bootstrap.stores import open_existing_store
from placet.errors import PlacetError
from placet.model.admission import Admission
from placet.model.credentials import CredentialKind
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuer_sign_in import ConsoleClient
from placet.model.issuers import Issuer, Network
from placet.model.principal import Principal, Standing
from placet.model.rates import RateLimits
from placet.testing import FakeClock
from tests.adapters.identity.issuer import LocalIssuer, reply
from tests.adapters.identity.provider import CLIENT, LocalProvider
from tests.scenarios.canary import LogEars, Outputs, Secrets
from tests.scenarios.test_canary import assert_exactly

MARA = Principal.person("mara", tenant="acme", scopes=["api_keys.manage"])


@placet.tool(effect="read")
async def look() -> str:
    """Look."""
    return "seen"


class Story:
    """Everything that may be shown at the doors, right and wrong, with what each of them says of it."""

    def __init__(self, doors: FrontDoors, secrets: Secrets, outputs: Outputs, clock: FakeClock) -> None:
        self.doors = doors
        self.secrets = secrets
        self.outputs = outputs
        self.clock = clock

    def note(self, name: str, text: str) -> str:
        """A secret that was made elsewhere."""
        self.secrets.made[name] = text
        return text

    async def tried(self, work: Any) -> None:
        try:
            self.outputs.hear("answers", repr(await work))
        except PlacetError as fault:
            self.outputs.hear("errors", fault, repr(fault), fault.hint, fault.code)

    async def keys(self) -> None:
        doors = self.doors
        usable = await doors.api_keys.create("bot", by=MARA)
        revoked = await doors.api_keys.create("gone", by=MARA)
        rotated = await doors.api_keys.rotate(usable.key.api_key_id, by=MARA)
        await doors.api_keys.revoke(revoked.key.api_key_id, by=MARA)
        for name, made in (("usablekey", usable), ("revokedkey", revoked), ("rotatedkey", rotated)):
            self.note(name, made.text.split("_")[2])
            await self.tried(doors.sign_in.principal_of(made.text))
            await self.tried(doors.sign_in.principal_of(made.text[:-1] + "x"))
            self.outputs.hear("answers", repr(made))
        await self.tried(doors.sign_in.principal_of(f"placet_{self.secrets('nokey')}"))
        await self.tried(doors.api_keys.revoke(self.secrets("keyid"), by=MARA))
        for view in await doors.api_keys.listed(by=MARA):
            self.outputs.hear("answers", repr(view))

    async def tokens(self, local: LocalIssuer) -> None:
        s, sign_in, now = self.secrets, self.doors.sign_in, self.clock.now().timestamp()
        claims = {"email": s.text("email"), "nonce": s("nonce"), s("claimname"): 1}
        good = local.token(now, **claims)
        self.note("signature", good.rpartition(".")[2])
        await self.tried(sign_in.principal_of(good))
        for token in (
            local.token(now, exp=1, iat=0, **claims),
            local.token(now, aud=s("audience"), **claims),
            local.token(now, iss=f"https://{s('issuer')}.test", **claims),
            local.token(now, header={"kid": s("kid")}, **claims),
            local.token(now, header={"alg": s("algorithm")}, **claims),
            local.token(now, header={"jku": f"https://{s('jku')}.test"}, **claims),
            local.token(now, **claims)[:-5],
            f"{s('first')}.{s('second')}.{s('third')}",
        ):
            await self.tried(sign_in.principal_of(token))
        local.answer = lambda request: reply(request, s.text("page").encode(), status=500)
        self.clock.advance(4_000)
        await self.tried(sign_in.principal_of(local.token(now + 4_000, **claims)))
        local.answer = lambda request: reply(request, json.dumps({"keys": s("document")}).encode())
        self.clock.advance(100_000)
        await self.tried(sign_in.principal_of(local.token(now + 104_000, **claims)))

    async def sessions(self, store: Any) -> None:
        sessions = self.doors.sessions
        link = self.note("link", await sessions.link(MARA))
        opened = await sessions.redeem(link)
        self.note("cookie", opened.cookie)
        self.note("csrf", opened.session.csrf)
        await self.tried(sessions.redeem(link))
        await sessions.session_of(opened.cookie)
        self.outputs.hear("answers", repr(await sessions.listed(MARA)))
        other = await sessions.open(MARA)
        self.outputs.hear("answers", repr(opened), repr(other))
        self.note("endedcookie", other.cookie)
        await sessions.end(other.cookie)
        await self.tried(sessions.session_of(other.cookie))
        await self.tried(sessions.session_of(self.secrets("nocookie")))

    async def ways(self, provider: LocalProvider) -> None:
        """Through an issuer's pages, rightly and wrongly."""
        s, flow = self.secrets, self.doors.issuers
        assert flow is not None
        provider.person |= {"email": s.text("idemail"), "auth_time": 1}

        async def tried(*, kept: str | None = None, **words: str) -> None:
            begun = await flow.begin("staff", wanted=f"/console/?q={s('wanted')}")
            self.outputs.hear("answers", repr(begun))
            back = dict(parse_qsl(urlsplit(provider.authorized(begun.address)).query))
            asked = provider.codes[back["code"]]
            count = len(provider.forms)
            for name in ("state", "nonce", "code_challenge"):
                self.note(f"{name}{count}", asked[name])
            self.note(f"kept{count}", begun.kept)
            await self.tried(self._shown(flow, back | words, begun.kept if kept is None else kept))

        await tried()
        self.note("verifier", provider.forms[-1]["code_verifier"])
        for words in (
            {"error": s("error"), "error_description": s("description"), "error_uri": s("uri")},
            {"state": s("otherstate")},
            {"iss": f"https://{s('otheriss')}.test"},
            {"code": s("othercode")},
        ):
            await tried(**words)
        await tried(kept=s("otherkept"))
        for answer in (
            (400, {"error": s("tokenerror"), "error_description": s("tokenwords")}),
            (200, {"token_type": "Bearer", "access_token": s("accesstoken"), "id_token": s("idtoken")}),
            (500, s("tokenpage").encode()),
        ):
            provider.token_answer = lambda given, answer=answer: answer  # type: ignore[misc]
            await tried()
        provider.token_answer = lambda given: (
            200,
            given | {"access_token": s("access"), "refresh_token": s("refresh")},
        )
        provider.person |= {"nonce": s("othernonce")}
        await tried()

    async def _shown(self, flow: CodeFlow, words: dict[str, str], kept: str) -> object:
        shown = await flow.finish("staff", words.items(), kept=kept)
        await self.doors.sessions.open(shown.principal, through=shown.through)
        return shown.principal


@pytest.fixture
def outputs() -> Iterator[Outputs]:
    heard = Outputs()
    yield from (heard for _ in LogEars(heard).listening())


@pytest.fixture
def local() -> Iterator[LocalIssuer]:
    issuer = LocalIssuer()
    issuer.add("k1")
    yield issuer
    issuer.close()


@pytest.fixture
def provider() -> Iterator[LocalProvider]:
    clock = FakeClock()
    found = LocalProvider(lambda: clock.now().timestamp())
    found.clients[CLIENT].addresses.append("https://desk.test/console/sign-in/back/staff")
    yield found
    found.close()


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.req("B121", "B176", "B202")
@pytest.mark.case("M02")
async def test_nothing_that_is_shown_at_the_doors_can_be_read_anywhere(
    tmp_path: Path,
    outputs: Outputs,
    local: LocalIssuer,
    provider: LocalProvider,
    capsys: pytest.CaptureFixture[str],
) -> None:
    logging.getLogger().setLevel(logging.DEBUG)
    secrets, clock, registry = Secrets(), FakeClock(), CollectorRegistry()
    issuer = Issuer(issuer=local.url, audience="placet", network=Network.LOOPBACK, tenant="acme")
    shared = f"valkey://user:{secrets('password')}@127.0.0.1:{closed_port()}/0"
    opening = placet.open(
        tools=[look], store=tmp_path / "placet.db", clock=clock, recovery="manual", metrics=registry,
        sinks=(placet.LogSink(),),
    )  # fmt: skip
    provider.clients[CLIENT].secret = secrets("clientsecret")
    (tmp_path / "client").write_text(secrets("clientsecret"))
    people = replace(
        issuer,
        issuer=provider.url,
        subject_prefix="id:",
        standing=Standing.PERSON,
        person_if={"amr": frozenset({"mfa"})},
    )
    client = ConsoleClient(
        issuer=people, name="staff", client_id=CLIENT,
        client_secret=SecretRef(place=SecretPlace.FILE, name=str(tmp_path / "client")),
    )  # fmt: skip
    admission = Admission(
        issuers=(issuer, people), clients=(client,), public_url="https://desk.test", rates=RateLimits(shared_at=shared)
    )
    outputs.hear("answers", repr(admission))
    async with opening as gate:
        doors = doors_of(opening, admission)
        story = Story(doors, secrets, outputs, clock)
        await story.keys()
        await story.sessions(gate.store)
        await story.ways(provider)
        await story.tokens(local)
        for _ in range(3):
            outputs.hear("answers", repr(await doors.rate_limiter.admit(MARA)))
        outputs.hear("answers", repr(doors), repr(issuer), str(doors.sign_in))
        rows = [await gate.store.credentials(kind, tenant="acme", limit=10) for kind in CredentialKind]
        outputs.hear("rows", *map(repr, rows))
        outputs.hear("audit", *[event.body async for event in gate.store.chained()])
        outputs.hear("metrics", generate_latest(registry))
        await doors.close()
        outputs.hear_files("store files", tmp_path, "placet.db*")
    outputs.hear_files("store files", tmp_path, "placet.db*")
    keys, store = open_existing_store(tmp_path / "placet.db")
    try:
        async with audit_export(store, keys, tenant=None) as lines:
            outputs.hear("audit export", *[line async for line in lines])
    finally:
        await store.close()
    told = capsys.readouterr()
    outputs.hear("streams", told.out, told.err)
    assert len(secrets.made) > 60
    assert_exactly(outputs, secrets, {})
