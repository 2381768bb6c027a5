"""Standing grants through the client of a real server."""

from __future__ import annotations

import pytest

from placet.client import AsyncClient
from placet.errors import DecisionRefused
from placet.model.grant import GrantState, GrantWish
from placet.model.outcome import AwaitingApproval, Succeeded
from placet.serve.http_server import HttpServer, listening_socket
from tests.http_api.conftest import MakeApi
from tests.http_api.test_grants import POLICY


async def test_grants_are_drafted_given_listed_and_revoked(make_api: MakeApi) -> None:
    """One server and one kind of client: both kinds run the same code."""
    wish = GrantWish(tool="pay", subjects=("agent",), limits={"amount": {"at_most": 10}, "card": "any"}, max_uses=2)
    api = await make_api(policy=POLICY)
    server = HttpServer(api.app, listening_socket("127.0.0.1", 0), grace_seconds=1.0)
    await server.start()
    try:
        async with AsyncClient(server.url, token="t-agent") as agent, AsyncClient(server.url, token="t-mara") as mara:
            waiting = await agent.submit("pay", {"amount": 5}, run="r1", call_id="c1")
            assert isinstance(waiting, AwaitingApproval)
            like = await mara.grant_like(waiting.approval_id)
            assert (like.limits, like.run_id) == ({"amount": {"one_of": [5]}, "card": "any"}, "r1")

            draft = await mara.draft_grant(wish)
            grant = await mara.give_grant(wish, digest=draft.digest)
            assert (grant.digest, grant.covers, grant.state) == (draft.digest, draft.covers, GrantState.USABLE)
            assert isinstance(await agent.submit("pay", {"amount": 10}, run="r1", call_id="c2"), Succeeded)
            (listed,) = await mara.grants()
            assert (listed.uses, listed) == (1, await mara.grant(grant.grant_id))
            assert await mara.standing_grants() == (listed,)
            assert (await mara.revoke_grant(grant.grant_id)).state is GrantState.REVOKED
            assert await mara.standing_grants() == ()
            assert (await mara.revoke_grant(grant.grant_id)).state is GrantState.REVOKED
            with pytest.raises(DecisionRefused):
                await agent.grants()
    finally:
        await server.stop()
