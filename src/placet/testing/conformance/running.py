"""Runs as somebody looks at them: every run once, under its owner's name, and what is left open of it."""

# ruff: noqa: S101 - a conformance suite asserts

from __future__ import annotations

from typing import Any

from placet.model.approval import ApprovalState
from placet.model.effect import Effect, EffectState
from placet.model.identifiers import ApprovalId, RunId
from placet.model.ledger import Recorded
from placet.model.listing import Mark
from placet.model.run import LeftOpen, Run, RunStanding
from placet.rules.listing import mark_of_run
from placet.testing.conformance.samples import (
    A_MAC,
    MakeStore,
    Subject,
    a_question,
    a_step,
    an_event,
    claimed,
    settled,
    the_same_ask,
    unknown,
)


async def stepped(subject: Subject, run_id: str, /, *, denies: str | None = None, **changes: Any) -> None:
    """A proposal of the run that was only recorded."""
    answer = await subject.store.record((an_event(),), step=a_step(run_id=run_id, **changes), denies_tool=denies)
    assert isinstance(answer, Recorded), answer


async def asked(subject: Subject, approval_id: str, /, *, run_id: str, who: str = "agent-1", **changes: Any) -> None:
    question = a_question(
        approval_id,
        asked_at=subject.clock.now(),
        run_id=RunId(run_id),
        subject=who,
        argument_digest=approval_id * 9,
        **changes,
    )
    step = a_step(run_id=run_id, subject=who, tenant=question.tenant, call_id=question.call_id)
    await subject.store.ask(question, A_MAC, the_same_ask(question), step=step, events=())


async def did(subject: Subject, key: str, /, *, run_id: str, who: str = "agent-1", tenant: str = "acme") -> Effect:
    step = a_step(f"call-{key}", run_id=run_id, subject=who, tenant=tenant, fingerprint=key)
    return await claimed(subject, key, token=f"token-{key}", tenant=tenant, step=step)


async def names(
    subject: Subject,
    mark: Mark | None = None,
    *,
    who: str | None = None,
    left: LeftOpen | None = None,
    limit: int = 9,
    tenant: str = "acme",
) -> list[str]:
    found = await subject.store.runs_after(tenant, mark, subject=who, left=left, limit=limit)
    return [run.run_id for run in found]


class RunConformance:
    async def test_runs_are_given_once_each_page_after_page_also_those_of_one_instant(
        self, make_store: MakeStore
    ) -> None:
        subject = await make_store()
        for n in range(6):
            await stepped(subject, f"run-{n}", subject=f"agent-{n % 2}")
            if n % 3 == 2:
                subject.clock.advance(1)
        await stepped(subject, "run-9", tenant="other")

        async def pages(who: str | None) -> list[list[str]]:
            found: list[list[str]] = []
            mark: Mark | None = None
            while page := await subject.store.runs_after("acme", mark, subject=who, left=None, limit=2):
                found.append([run.run_id for run in page])
                last = page[-1]
                assert isinstance(last, Run)
                mark = mark_of_run(last)
                await stepped(subject, "run-0", call_id=f"call-{len(found)}", subject="agent-0")
                subject.clock.advance(1)
            return found

        assert await pages(None) == [["run-5", "run-4"], ["run-3", "run-2"], ["run-1", "run-0"]]
        assert await pages("agent-1") == [["run-5", "run-3"], ["run-1"]]
        assert await pages("agent-9") == []

    async def test_a_run_is_found_under_its_tenant_and_counts_its_steps(self, make_store: MakeStore) -> None:
        subject = await make_store()
        opened_at = subject.clock.now()
        await stepped(subject, "run-1")
        subject.clock.advance(5)
        await stepped(subject, "run-1", call_id="call-2")
        await stepped(subject, "run-1", call_id="call-2")

        run = await subject.store.run("acme", RunId("run-1"))

        assert run is not None
        assert (run.subject, run.steps, run.max_steps, run.policy_version) == ("agent-1", 2, 50, "policy-1")
        assert (run.opened_at, run.stepped_at) == (opened_at, subject.clock.now())
        assert await subject.store.run("other", RunId("run-1")) is None
        assert await subject.store.run("acme", RunId("run")) is None
        assert await subject.store.steps_of_run("acme", RunId("run-1"), limit=9) == ("call-1", "call-2")
        assert await subject.store.steps_of_run("acme", RunId("run-1"), limit=1) == ("call-1",)
        assert await subject.store.steps_of_run("other", RunId("run-1"), limit=9) == ()

    async def test_runs_are_picked_by_what_is_left_open(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await stepped(subject, "run-0")
        lost = await did(subject, "key-1", run_id="run-1")
        await unknown(subject, "key-2", token="token-2", step=a_step("call-2", run_id="run-1"))  # noqa: S106
        await settled(subject, lost)
        await unknown(subject, "key-3", token="token-3", step=a_step(run_id="run-2", subject="bob"))  # noqa: S106
        await did(subject, "key-4", run_id="run-3")
        await asked(subject, "apr-1", run_id="run-4")
        await did(subject, "key-5", run_id="run-1", tenant="other")
        elsewhere = a_step("call-6", run_id="run-0", tenant="other")
        await unknown(subject, "key-6", token="token-6", tenant="other", step=elsewhere)  # noqa: S106
        await asked(subject, "apr-2", run_id="run-0", tenant="other")

        assert await names(subject, left=LeftOpen.UNKNOWN) == ["run-2", "run-1"]
        assert await names(subject, left=LeftOpen.UNKNOWN, who="bob") == ["run-2"]
        assert await names(subject, left=LeftOpen.UNKNOWN, limit=1) == ["run-2"]
        assert await names(subject, left=LeftOpen.IN_PROGRESS) == ["run-3"]
        assert await names(subject, left=LeftOpen.WAITING) == ["run-4"]
        assert await names(subject, left=LeftOpen.WAITING, who="bob") == []
        assert await names(subject, left=LeftOpen.IN_PROGRESS, tenant="other") == ["run-1"]
        last = await subject.store.run("acme", RunId("run-2"))
        assert last is not None
        assert await names(subject, mark_of_run(last), left=LeftOpen.UNKNOWN) == ["run-1"]

    async def test_a_run_stands_as_its_effects_its_questions_and_its_refusals_say(self, make_store: MakeStore) -> None:
        subject = await make_store()
        await settled(subject, await did(subject, "key-1", run_id="run-1"))
        await did(subject, "key-2", run_id="run-1")
        await did(subject, "key-3", run_id="run-1")
        await did(subject, "key-4", run_id="run-1", tenant="other")
        await asked(subject, "apr-2", run_id="run-1", call_id="c-2")
        subject.clock.advance(1)
        await asked(subject, "apr-1", run_id="run-1", call_id="c-1")
        await asked(subject, "apr-3", run_id="run-1", tenant="other")
        await stepped(subject, "run-1", call_id="c-3", denies="pay")
        await stepped(subject, "run-1", call_id="c-4", denies="pay")
        await stepped(subject, "run-2", denies="send")

        found = await subject.store.run_standings("acme", (RunId("run-2"), RunId("run-1"), RunId("run-9")))

        waiting = (ApprovalId("apr-2"), ApprovalId("apr-1"))
        effects = {EffectState.COMMITTED: 1, EffectState.DISPATCHED: 2}
        assert found == (
            RunStanding(run_id=RunId("run-2"), effects={}, waiting=(), denials={"send": 1}),
            RunStanding(run_id=RunId("run-1"), effects=effects, waiting=waiting, denials={"pay": 2}),
            RunStanding(run_id=RunId("run-9"), effects={}, waiting=(), denials={}),
        )

    async def test_what_a_run_did_and_asked_is_given_the_newest_first(self, make_store: MakeStore) -> None:
        subject = await make_store()
        first = await did(subject, "key-1", run_id="run-1")
        subject.clock.advance(1)
        await did(subject, "key-2", run_id="run-1")
        await did(subject, "key-3", run_id="run-2")
        await did(subject, "key-4", run_id="run-1", tenant="other")
        subject.clock.advance(1)
        await settled(subject, first)
        for n in range(3):
            await asked(subject, f"apr-{n}", run_id="run-1", call_id=f"c-{n}")
        await asked(subject, "apr-9", run_id="run-2")
        run, store = RunId("run-1"), subject.store

        effects = [
            effect.operation_key
            for effect in await store.effects_of_run("acme", run, limit=9)
            if isinstance(effect, Effect)
        ]
        asked_for = [each.question.approval_id for each in await store.approvals_of_run("acme", run, limit=9)]

        assert effects == ["key-1", "key-2"]
        assert asked_for == ["apr-2", "apr-1", "apr-0"]
        assert len(await store.effects_of_run("acme", run, limit=1)) == 1
        assert len(await store.approvals_of_run("acme", run, limit=2)) == 2
        assert await store.approvals_of_run("other", run, limit=9) == ()
        tool = (await store.approvals_of_run("acme", run, limit=1))[0].question.tool
        of_tool = [each.question.approval_id for each in await store.approvals_of_tool("acme", run, tool, limit=2)]
        assert of_tool == ["apr-2", "apr-1"]
        assert await store.approvals_of_tool("acme", run, "another", limit=9) == ()
        seen = await store.approval("acme", ApprovalId("apr-1"))
        assert seen is not None
        await store.retire(seen, ApprovalState.WITHDRAWN, events=(an_event(),))
        still = [each.question.approval_id for each in await store.open_approvals_of_run("acme", run, limit=9)]
        assert still == ["apr-2", "apr-0"]
        assert len(await store.open_approvals_of_run("acme", run, limit=1)) == 1
