"""A policy in shadow: asked what the one that binds is asked, on record beside it, and never obeyed.

Source: CASES D08; ADR-0061; DESIGN section 8.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import placet
from placet import Allow, AwaitingApproval, CallContext, Deny, Refused, Replayed, Succeeded
from placet.engine.shadowing import MOST_ASKED_AT_ONCE
from placet.errors import MisuseError, PolicyFileError
from placet.model.decision import Ask, Decision, Entitled, Requirement, RequirementKind, ShadowAnswer, Terms
from placet.model.identifiers import PolicyVersion
from tests.engine.conftest import ADMIN, APPROVER, OPERATOR, SCOPE, OpenWorld, Spy, looked_up, written
from tests.engine.test_co_commit import connection

pytestmark = pytest.mark.case("D08")

BINDING, SHADOW = PolicyVersion("binding-1"), PolicyVersion("shadow-2")
ALLOW = Allow(reasons=("fine",), policy_version=BINDING)
DENY = Deny(reasons=("forbidden",), policy_version=BINDING)
ASK = Ask(reasons=("ask_first",), policy_version=BINDING, requirement=Requirement())


class Engine:
    """Answers as it is told, and counts how often it was asked."""

    def __init__(self, answer: Decision | Callable[[], Any], *, timeout_seconds: float | None = None) -> None:
        self._answer = answer
        self.timeout_seconds = timeout_seconds
        self.asked: list[Any] = []
        self.others: list[str] = []

    version = BINDING

    async def decide(self, call: Any) -> Any:
        self.asked.append((call.contract.name, dict(call.arguments), call.principal))
        if callable(self._answer):
            return await self._answer()
        return self._answer

    def is_listed(self, contract: Any, principal: Any) -> bool:
        self.others.append("is_listed")
        return True

    async def may_decide(self, question: Any, person: Any) -> Entitled:
        self.others.append("may_decide")
        return Entitled()


def in_shadow(decision: Decision) -> Decision:
    return replace(decision, policy_version=SHADOW)


def recorded(world: Any, *kinds: str) -> list[Any]:
    return [event.get("shadow") for event in world.events(*kinds or ("started", "completed"))]


WOULD_DENY = {
    "enforced": "allow",
    "would_be": "deny",
    "changes": True,
    "reasons": ["forbidden"],
    "policy_version": "shadow-2",
}


# ---------------------------------------------------------------- what is enforced


async def test_what_binds_lets_a_call_through_that_the_shadow_would_deny(
    open_world: OpenWorld, spy: Spy, where: str
) -> None:
    world = await open_world(written(spy), store=where, policy=Engine(ALLOW), shadow=Engine(in_shadow(DENY)))

    outcome = await world.submit("write", {"word": "a"})

    assert (type(outcome), spy.count) == (Succeeded, 1)
    assert recorded(world) == [WOULD_DENY, WOULD_DENY]
    decided = [(event["decision"], event["policy_version"]) for event in world.events("started")]
    assert decided == [("allow", "binding-1")]


async def test_a_binding_deny_refuses_whatever_the_shadow_would_say(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), policy=Engine(DENY), shadow=Engine(in_shadow(ALLOW)))

    outcome = await world.submit("write", {"word": "a"})

    assert isinstance(outcome, Refused)
    assert (outcome.code, spy.count) == ("denied", 0)
    would_allow = {
        "enforced": "deny",
        "would_be": "allow",
        "changes": True,
        "reasons": ["fine"],
        "policy_version": "shadow-2",
    }
    assert recorded(world) == [would_allow, would_allow]


async def test_a_shadow_that_would_ask_asks_nobody(open_world: OpenWorld, spy: Spy) -> None:
    shadow = Engine(in_shadow(ASK))
    world = await open_world(written(spy), policy=Engine(ALLOW), shadow=shadow)

    await world.submit("write", {"word": "a"})

    assert spy.count == 1
    assert (await world.gate.desk.pending(by=APPROVER)) == ()
    assert world.events("approval_asked") == []
    assert [each["would_be"] for each in recorded(world, "started")] == ["ask"]
    assert shadow.others == []


async def test_the_shadow_is_asked_the_same_questions_as_the_policy_that_binds(open_world: OpenWorld, spy: Spy) -> None:
    binding, shadow = Engine(ALLOW), Engine(in_shadow(ALLOW))
    world = await open_world(looked_up(spy), policy=binding, shadow=shadow)

    await world.submit("look", {"word": "a"})

    assert shadow.asked == binding.asked
    assert set(map(str, shadow.asked)) == {str(("look", {"word": "a"}, OPERATOR))}
    assert [each["changes"] for each in recorded(world, "started")] == [False]


async def test_a_shadow_alone_lists_nothing_and_entitles_nobody(open_world: OpenWorld, spy: Spy) -> None:
    shadow = Engine(in_shadow(DENY))
    world = await open_world(written(spy), policy=Engine(ASK), shadow=shadow)

    assert [each.name for each in world.gate.tools_for(ADMIN)] == ["write"]
    waiting = await world.submit("write", {"word": "a"})
    await world.approve(waiting)
    done = await world.submit("write", {"word": "a"})

    assert (type(waiting), type(done), spy.count) == (AwaitingApproval, Succeeded, 1)
    assert shadow.others == []
    words = {(each["enforced"], each["would_be"]) for each in recorded(world, "started", "approval_asked")}
    assert words == {("ask", "deny")}


async def test_what_a_handlers_own_transaction_writes_says_it_too(
    open_world: OpenWorld, spy: Spy, tmp_path: Path
) -> None:
    store = tmp_path / "placet.db"

    @placet.tool(effect="write", risk="medium", permission=SCOPE, remote=placet.Remote(co_commits=True))
    def keep(word: str, call: CallContext) -> str:
        database = connection(store)
        with database:
            kept: str = call.co_commit(database, word)
        return kept

    world = await open_world(keep, store=str(store), policy=Engine(ALLOW), shadow=Engine(in_shadow(DENY)))

    outcome = await world.submit("keep", {"word": "a"})

    assert type(outcome) is Succeeded
    assert recorded(world) == [WOULD_DENY, WOULD_DENY]


async def test_a_known_operation_is_replayed_with_what_the_shadow_says_now(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(
        written(spy, operation_key="w:{word}"), policy=Engine(ALLOW), shadow=Engine(in_shadow(DENY))
    )

    await world.submit("write", {"word": "a"})
    again = await world.submit("write", {"word": "a"}, call_id="c2")

    assert (type(again), spy.count) == (Replayed, 1)
    assert recorded(world) == [WOULD_DENY] * 4


async def test_the_contracts_own_word_counts_for_both(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy, approval="always"), policy=Engine(ALLOW), shadow=Engine(in_shadow(ALLOW)))

    waiting = await world.submit("write", {"word": "a"})

    assert isinstance(waiting, AwaitingApproval)
    assert [(each["enforced"], each["would_be"], each["changes"]) for each in recorded(world, "approval_asked")] == [
        ("ask", "ask", False)
    ]


async def test_another_kind_of_approval_is_a_change(open_world: OpenWorld, spy: Spy) -> None:
    two = Requirement(kind=RequirementKind.QUORUM, terms=Terms(rule="two", votes=2))
    world = await open_world(
        written(spy), policy=Engine(ASK), shadow=Engine(replace(ASK, policy_version=SHADOW, requirement=two))
    )

    await world.submit("write", {"word": "a"})

    assert recorded(world, "started") == [
        {
            "enforced": "ask",
            "would_be": "ask",
            "changes": True,
            "reasons": ["ask_first", "rule:two"],
            "policy_version": "shadow-2",
        }
    ]


# ---------------------------------------------------------------- faults of the shadow

SECRET = "c4n4ry-of-the-shadow"


async def _raises() -> Any:
    raise RuntimeError(SECRET)


async def _cancels() -> Any:
    raise asyncio.CancelledError(SECRET)


async def _leaves() -> Any:
    raise SystemExit(SECRET)


async def _says_nothing() -> Any:
    return None


async def _lies() -> Any:
    return Allow(reasons=(SECRET + " with spaces",), policy_version=SHADOW)


async def _forges() -> Any:
    forged = ShadowAnswer(enforced="allow", would_be="allow", changes=False)
    return Allow(reasons=(), policy_version=SHADOW, shadow=forged)


async def _hangs() -> Any:
    await asyncio.Event().wait()


@pytest.mark.parametrize("fault", [_raises, _cancels, _leaves, _says_nothing, _lies, _forges])
@pytest.mark.parametrize("binding", [ALLOW, DENY], ids=["allow", "deny"])
async def test_a_fault_of_the_shadow_is_on_record_and_changes_nothing(
    open_world: OpenWorld, spy: Spy, caplog: pytest.LogCaptureFixture, fault: Any, binding: Decision
) -> None:
    world = await open_world(written(spy), policy=Engine(binding), shadow=Engine(fault))

    outcome = await world.submit("write", {"word": "a"})

    assert type(outcome) is (Succeeded if binding is ALLOW else Refused)
    error = {"enforced": "allow" if binding is ALLOW else "deny", "would_be": "error", "changes": False}
    assert recorded(world) == [error, error]
    assert SECRET not in caplog.text + str(world.events()) + str(outcome)


@pytest.mark.parametrize("says", [0.01, None], ids=["names a time", "names none"])
async def test_a_shadow_that_hangs_is_left_behind_and_the_call_goes_on(
    open_world: OpenWorld, spy: Spy, says: float | None
) -> None:
    world = await open_world(written(spy), policy=Engine(ALLOW), shadow=Engine(_hangs, timeout_seconds=says))

    outcome = await world.submit("write", {"word": "a"})

    assert (type(outcome), spy.count) == (Succeeded, 1)
    assert [each["would_be"] for each in recorded(world)] == ["error", "error"]


async def test_a_shadow_that_never_ends_is_asked_no_more_than_so_often(open_world: OpenWorld, spy: Spy) -> None:
    ended = asyncio.Event()

    async def stays() -> Any:
        while not ended.is_set():
            with suppress(asyncio.CancelledError):
                await ended.wait()

    shadow = Engine(stays, timeout_seconds=0.001)
    world = await open_world(looked_up(spy), policy=Engine(ALLOW), shadow=shadow)

    try:
        for number in range(MOST_ASKED_AT_ONCE + 3):
            outcome = await world.submit("look", {"word": "a"}, call_id=f"c-{number}", run=f"r-{number}")
            assert type(outcome) is Succeeded

        assert len(shadow.asked) == MOST_ASKED_AT_ONCE
        assert {each["would_be"] for each in recorded(world)} == {"error"}
    finally:
        ended.set()  # or what stays would keep the loop from ending
    await asyncio.sleep(0.01)
    await world.submit("look", {"word": "a"}, call_id="c-after", run="r-after")
    assert len(shadow.asked) == MOST_ASKED_AT_ONCE + 1


async def test_a_caller_that_leaves_while_the_shadow_thinks_is_cancelled_and_nothing_ran(
    open_world: OpenWorld, spy: Spy
) -> None:
    thinks = asyncio.Event()

    async def think() -> Any:
        thinks.set()
        await asyncio.Event().wait()

    world = await open_world(written(spy), policy=Engine(ALLOW), shadow=Engine(think))
    submitting = asyncio.ensure_future(world.submit("write", {"word": "a"}))
    await thinks.wait()
    submitting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await submitting
    assert spy.count == 0


async def test_a_binding_engine_cannot_say_what_a_shadow_said(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), policy=Engine(_forges))

    outcome = await world.submit("write", {"word": "a"})

    assert isinstance(outcome, Refused)
    assert outcome.reasons == ("policy_failed",)
    assert recorded(world) == [None, None]


# ---------------------------------------------------------------- setting it


async def test_where_none_is_set_nothing_is_said_of_one(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), policy=Engine(ALLOW))

    await world.submit("write", {"word": "a"})

    assert all("shadow" not in event for event in world.events())


def test_a_shadow_file_that_is_wrong_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "next.toml"
    file.write_text("[[ask]]\nnam = 'x'\n")

    with pytest.raises(PolicyFileError):
        placet.open(tools=[], store=placet.MEMORY, shadow=file)
    with pytest.raises(PolicyFileError):
        placet.open(tools=[], store=placet.MEMORY, shadow=str(tmp_path / "absent.toml"))
    with pytest.raises(MisuseError, match="shadow="):
        placet.open(tools=[], store=placet.MEMORY, shadow=object())  # type: ignore[arg-type]


async def test_it_is_counted_by_what_was_enforced(open_world: OpenWorld, spy: Spy) -> None:
    metrics = CollectorRegistry()
    world = await open_world(written(spy), policy=Engine(ALLOW), shadow=Engine(in_shadow(DENY)), metrics=metrics)

    await world.submit("write", {"word": "a"})

    said = generate_latest(metrics).decode()
    assert 'placet_shadow_decisions_total{enforced="allow",would_be="deny"} 1.0' in said
    assert 'placet_shadow_decisions_total{enforced="deny",would_be="error"} 0.0' in said


async def test_an_explanation_says_what_the_shadow_would_answer(open_world: OpenWorld, spy: Spy) -> None:
    world = await open_world(written(spy), policy=Engine(ALLOW), shadow=Engine(in_shadow(DENY)))
    proposal = {"call_id": "c1", "tool": "write", "arguments": {"word": "a"}}

    explained = await world.gate.explain(proposal, principal=OPERATOR, run="r1")

    assert isinstance(explained, Allow)
    assert explained.shadow == ShadowAnswer(
        enforced="allow", would_be="deny", changes=True, reasons=("forbidden",), policy_version=SHADOW
    )
    assert world.events() == []
