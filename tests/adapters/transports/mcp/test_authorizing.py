"""Being let in at an upstream: by an operator's sign-in, kept in a file, refreshed, and never by anybody's caller."""

from __future__ import annotations

import asyncio
import json
import logging
import stat
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from placet.adapters.reaching import ReachingTransport
from placet.adapters.transports.mcp.authorizing import Authorized
from placet.adapters.transports.mcp.faults import NotAccepted, TurnedAway
from placet.adapters.transports.mcp.token_file import TokenFile
from placet.bootstrap.upstream_sign_in import KnownAs, oauth_credential, sign_in_at
from placet.errors import ConfigurationError, UpstreamUnreachable
from placet.model.destinations import SecretPlace, SecretRef
from placet.model.issuers import Network
from placet.model.upstreams import Credential, CredentialForm, StreamableWay, Upstream
from tests.adapters.transports.mcp.oauth_scene import Scene, browse, scene

MESSAGE = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {}}


def upstream(at: Scene, folder: Path, form: CredentialForm = CredentialForm.OAUTH) -> Upstream:
    kept = SecretRef(place=SecretPlace.FILE, name=str(folder / "tokens.json"))
    way = StreamableWay(url=at.server, network=Network.LOOPBACK, credential=Credential(form=form, secret=kept))
    return Upstream(name="files", way=way, manifest=folder / "files.toml")


async def signed_in(at: Scene, folder: Path) -> Path:
    visits: list[asyncio.Task[httpx.Response]] = []

    async def open_page(page: str) -> None:
        visits.append(asyncio.ensure_future(browse(page)))

    try:
        return await sign_in_at(upstream(at, folder), tenant=None, known_as=KnownAs(), port=0, open_page=open_page)
    finally:
        await asyncio.gather(*visits)


async def sent(at: Scene, folder: Path, **headers: str) -> int:
    transport = Authorized(at.server, ReachingTransport(Network.LOOPBACK), TokenFile(folder / "tokens.json"))
    try:
        answer = await transport.handle_async_request(httpx.Request("POST", at.server, json=MESSAGE, headers=headers))
        await answer.aclose()
        return answer.status_code
    finally:
        await transport.aclose()


def facts(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text()))


async def test_a_sign_in_is_kept_in_a_file_that_its_owner_alone_reads(tmp_path: Path) -> None:
    async with scene() as at:
        path = await signed_in(at, tmp_path)
        assert await sent(at, tmp_path) == 200
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert facts(path)["tokens"]["access_token"] == "token-1"
    assert at.granted[0]["resource"] == at.server
    assert sorted(each.name for each in tmp_path.iterdir()) == [".tokens.json.lock", "tokens.json"]


async def test_without_an_operator_nobody_is_let_in_and_nothing_is_sent_twice(tmp_path: Path) -> None:
    async with scene() as at:
        with pytest.raises(NotAccepted):
            await sent(at, tmp_path)
    assert at.seen == [""]
    assert at.granted == []


async def test_a_token_that_is_not_good_any_more_is_replaced_by_the_refresh_token(tmp_path: Path) -> None:
    async with scene() as at:
        path = await signed_in(at, tmp_path)
        at.good.clear()
        at.seen.clear()
        assert await sent(at, tmp_path) == 200
    assert at.seen == ["token-1", "token-2"]
    assert at.granted[1]["grant_type"] == "refresh_token"
    assert at.granted[1]["refresh_token"] == "again-token-1"
    assert facts(path)["tokens"]["access_token"] == "token-2"


@pytest.mark.parametrize("status", [400, 503, None], ids=["refused", "not now", "away"])
async def test_where_no_other_token_is_to_be_had_nothing_is_sent_again(tmp_path: Path, status: int | None) -> None:
    """That the one of before was not let in is known, whatever becomes of the refresh."""
    async with scene() as at:
        path = await signed_in(at, tmp_path)
        if status is None:
            kept = facts(path)
            kept["server"]["token_endpoint"] = "http://127.0.0.1:1/token"
            path.write_text(json.dumps(kept))
        at.refreshes = status
        at.good.clear()
        at.seen.clear()
        with pytest.raises(TurnedAway) as turned:
            await sent(at, tmp_path)
    assert at.seen == ["token-1"] and turned.value.sends == 1


async def test_sessions_that_lose_their_token_at_once_spend_the_refresh_token_once(tmp_path: Path) -> None:
    """Whoever shows it a second time is taken for a thief (RFC 9700), and an operator has to sign in again."""
    async with scene() as at:
        await signed_in(at, tmp_path)
        at.good.clear()

        answers = await asyncio.gather(*(sent(at, tmp_path) for _ in range(5)))

    assert answers == [200] * 5
    assert [each["grant_type"] for each in at.granted] == ["authorization_code", "refresh_token"]


async def test_whoever_replaces_tokens_waits_for_whoever_does_in_another_process(tmp_path: Path) -> None:
    """Where a lock of this process alone would not hold anybody back, one that only looks at the file does."""
    path = tmp_path / "tokens.json"
    program = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from placet.adapters.transports.mcp.token_file import TokenFile\n"
        "async def hold():\n"
        "    async with TokenFile(Path(sys.argv[1])).turn():\n"
        "        print('held', flush=True); sys.stdin.readline(); print('left', flush=True)\n"
        "asyncio.run(hold())\n"
    )
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", program, str(path), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert holder.stdin is not None and holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    turns: list[str] = []

    async def take() -> None:
        async with TokenFile(path).turn():
            turns.append("taken")

    taking = asyncio.create_task(take())
    for _ in range(20):
        await asyncio.sleep(0)
    assert turns == []
    holder.stdin.write(b"\n")
    await taking
    assert turns == ["taken"] and await holder.wait() == 0


def test_what_an_upstream_says_is_missing_never_costs_the_tokens(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    path.write_text('{"tokens": {"access_token": "a", "token_type": "Bearer"}}')
    tokens = TokenFile(path)
    tokens.note_missing("x" * 70_000)
    tokens.note_missing('Bearer scope="more"')

    assert facts(path)["tokens"]["access_token"] == "a" and tokens.missing() == 'Bearer scope="more"'
    path.write_text("broken")
    with pytest.raises(OSError, match="cannot be read"):
        tokens.note_missing("other")
    assert path.read_text() == "broken"


async def test_a_callers_own_token_is_never_shown(tmp_path: Path) -> None:
    async with scene() as at:
        await signed_in(at, tmp_path)
        at.seen.clear()
        assert await sent(at, tmp_path, authorization="Bearer the-callers") == 200
    assert at.seen == ["token-1"]


async def test_an_answer_of_another_issuer_lets_nobody_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with scene() as at:
        at.issuer_said = "https://issuer.example.org"
        with pytest.raises(UpstreamUnreachable):
            await signed_in(at, tmp_path)
    assert at.granted == []
    of_the_browser = ("httpx", "httpcore")
    said = [record.getMessage() for record in caplog.records if not record.name.startswith(of_the_browser)]
    assert not [words for words in said if "issuer.example.org" in words or "OAuth" in words]
    assert "tokens" not in facts(tmp_path / "tokens.json")


async def test_a_visit_that_answers_nothing_is_answered_nothing(tmp_path: Path) -> None:
    statuses: list[int] = []
    visits: list[asyncio.Task[None]] = []

    async def visit(page: str) -> None:
        back = httpx.URL(page).params["redirect_uri"]
        async with httpx.AsyncClient(trust_env=False) as browser:
            statuses.append((await browser.get(back.replace("/callback", "/"))).status_code)
            statuses.append((await browser.get(f"{back}?code=a&code=b&state=s")).status_code)
        await browse(page)

    async def open_page(page: str) -> None:
        visits.append(asyncio.ensure_future(visit(page)))

    async with scene() as at:
        await sign_in_at(upstream(at, tmp_path), tenant=None, known_as=KnownAs(), port=0, open_page=open_page)
        await asyncio.gather(*visits)
    assert statuses == [404, 404]


async def test_an_upstream_with_a_fixed_credential_takes_no_sign_in(tmp_path: Path) -> None:
    fixed = upstream(Scene(url="http://127.0.0.1:1"), tmp_path, CredentialForm.BEARER)
    with pytest.raises(ConfigurationError):
        oauth_credential(fixed, None)
    with pytest.raises(ConfigurationError):
        oauth_credential(upstream(Scene(url="http://127.0.0.1:1"), tmp_path), "acme")
