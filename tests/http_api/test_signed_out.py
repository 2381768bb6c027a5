"""Whoever is not let in any more is answered nothing more, although the request began before."""

from __future__ import annotations

import asyncio

from placet.testing import FixedSignIn
from tests.http_api.conftest import WHO, Api
from tests.http_api.test_approvals import Reader


def let_in(api: Api, **changed: object) -> None:
    """From now on: everybody as before, and these otherwise; None for not at all."""
    who = {name: principal for name, principal in {**WHO, **changed}.items() if principal is not None}
    api.app.state.door.sign_in = FixedSignIn(who)  # type: ignore[arg-type]


async def waiting_question(api: Api) -> dict[str, object]:
    while not (found := (await api.get("/v1/approvals")).json()["approvals"]):
        await asyncio.sleep(0)
    question: dict[str, object] = found[0]
    return question


async def test_a_credential_that_ends_while_a_person_is_waited_for_runs_nothing(api: Api) -> None:
    asking = asyncio.ensure_future(api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=30"}))
    question = await waiting_question(api)
    let_in(api, **{"t-agent": None})
    await api.decide(question)
    answer = await asyncio.wait_for(asking, 30)

    assert (answer.status_code, answer.json()["code"]) == (401, "sign_in_refused")
    assert answer.json()["may_have_acted"] is False
    assert api.desk.done == []


async def test_a_credential_that_is_somebody_elses_by_then_runs_nothing(api: Api) -> None:
    asking = asyncio.ensure_future(api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=30"}))
    question = await waiting_question(api)
    let_in(api, **{"t-agent": WHO["t-other"]})
    await api.decide(question)

    assert (await asyncio.wait_for(asking, 30)).status_code == 401
    assert api.desk.done == []


async def test_a_proposer_whose_credential_ends_waits_no_longer(api: Api) -> None:
    asking = asyncio.ensure_future(api.propose("pay", {"amount": 5}, headers={"Prefer": "wait=30"}))
    await waiting_question(api)
    let_in(api, **{"t-agent": None})

    answer = await asyncio.wait_for(asking, 30)
    assert (answer.status_code, answer.json()["code"]) == (401, "sign_in_refused")
    assert answer.json()["may_have_acted"] is False


async def test_a_look_that_waits_ends_with_its_credential(api: Api) -> None:
    question = await api.asked(1, call_id="c1")
    path = f"/v1/approvals/{question['approval_id']}"
    tag = (await api.get(path)).headers["etag"]
    looking = asyncio.ensure_future(api.get(path, headers={"If-None-Match": tag, "Prefer": "wait=30"}))
    while not api.app.state.door.waiting._room._inside:
        await asyncio.sleep(0)
    let_in(api, **{"t-mara": None})

    assert (await asyncio.wait_for(looking, 30)).status_code == 401


async def test_a_stream_ends_with_the_credential_it_was_opened_with(api: Api) -> None:
    await api.asked(1, call_id="c1")
    reader, other = Reader(api), Reader(api, who="t-omar")
    assert (await reader.event())[0] == (await other.event())[0] == "snapshot"

    let_in(api, **{"t-mara": None})
    await api.asked(2, call_id="c2")

    assert await reader.raw() == b"", "its end, and not what happened since"
    await asyncio.wait_for(reader.task, 30)
    assert (await other.event())[0] == "changed"
    other.leave()
    await asyncio.wait_for(other.task, 30)
