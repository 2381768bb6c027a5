"""`placet verify` on a sound configuration, and on one fault after another that it has to see."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from xml.etree import ElementTree as Xml

import pytest
from pydantic import AfterValidator

import placet
from placet.adapters.transports import python
from placet.bootstrap import stores
from placet.engine import approval_views, approving, capacity, deciding, preconditions, registry, verifying
from placet.engine.gate import Gate
from placet.engine.settings import GateSettings
from placet.errors import ContractError
from placet.model.attempt import DeadlinePassed, Returned, Unsent
from placet.model.decision import Allow, Deny, Entitled
from placet.model.identifiers import PolicyVersion
from placet.proof.verify import Configuration, Finding, Guarantee, Origin, Verdict, stage, verify
from placet.proof.verify.findings import Once
from placet.proof.verify.junit import junit
from placet.proof.verify.scenarios import SCENARIOS, bounds, processes
from placet.rules import approvals, operations
from placet.rules.canonical import canonical_bytes
from placet.rules.chain_check import ChainReport
from placet.rules.decoding import decode_object
from tests.proof import verified_tools
from tests.proof.verified_tools import TOOLS, get_card, get_order, place_order, ship, tag_order, wipe

HERE = Path(__file__).resolve()
AGENT = placet.Principal.agent(
    "agent", tenant="acme", roles=("operator",), scopes=("orders.read", "orders.write", "orders.wipe")
)
ORIGIN = Origin(folder=HERE.parents[2], module="tests.proof.verified_tools", attribute="TOOLS")
SOUND = Configuration(tools=tuple(TOOLS), policy=placet.Matrix(), agent=AGENT, origin=ORIGIN)
ALONE = replace(SOUND, origin=None)


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(verified_tools.TRACE, str(tmp_path / "trace"))
    return tmp_path / "trace"


Found = dict[tuple[str, str | None], Finding]


def of(*guarantees: Guarantee, tools: tuple[placet.Tool, ...] = (), **changes: Any) -> Found:
    """What is found of a few guarantees, by scenario and tool."""
    configuration = replace(ALONE, **({"tools": tools} if tools else {}), **changes)
    found = verify(configuration, only=frozenset(guarantees)).findings
    return {(each.scenario, each.tool): each for each in found}


def broken(found: Found) -> set[str]:
    for each in found.values():
        assert bool(each.next_step) == (each.verdict is Verdict.BROKEN)
    return {each.scenario for each in found.values() if each.verdict is Verdict.BROKEN}


# ---------------------------------------------------------------- a sound configuration


IN_PROCESSES = {"two_processes", "killed_after_acting", "killed_before_acting"}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_sound_configuration_holds_and_none_of_its_code_runs(trace: Path) -> None:
    heard: list[Finding] = []
    verification = verify(ALONE, heard=heard.append)

    assert [each for each in verification.findings if each.verdict is Verdict.BROKEN] == []
    unplayed = {(each.scenario, each.tool) for each in verification.findings if each.verdict is Verdict.NOT_PLAYED}
    writes = [tool.contract.name for tool in TOOLS if tool.contract.effect_class.is_write]
    assert unplayed == {(scenario, tool) for scenario in IN_PROCESSES for tool in writes}
    assert verification.unproven == ()
    assert tuple(heard) == verification.findings
    assert not trace.exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "tool", [wipe, pytest.param(tag_order, marks=pytest.mark.exhaustive)], ids=lambda tool: str(tool.contract.name)
)
def test_a_sound_configuration_holds_between_real_processes(trace: Path, tool: placet.Tool) -> None:
    found = of(Guarantee.G6, Guarantee.G7, tools=(tool,), origin=ORIGIN)

    assert {found[scenario, tool.contract.name].verdict for scenario in IN_PROCESSES} == {Verdict.HELD}, found
    assert broken(found) == set()
    assert not trace.exists()


def test_every_guarantee_has_a_scenario_that_plays_the_users_own_tools() -> None:
    per_tool = {each.guarantee for each in SCENARIOS if not isinstance(each, Once)}

    assert per_tool >= set(Guarantee) - {Guarantee.G1, Guarantee.G11}
    names = [each.id for each in SCENARIOS]
    assert len(names) == len(set(names))


def test_the_readme_says_the_same_of_each_guarantee() -> None:
    readme = (HERE.parents[2] / "README.md").read_text("utf-8")

    for guarantee in Guarantee:
        assert f"{guarantee.name}" in readme and guarantee.value.rstrip(".") in readme


def test_the_document_lists_every_scenario_with_its_guarantee() -> None:
    text = (HERE.parents[2] / "docs" / "proof.md").read_text("utf-8")
    rows = [line.split("|") for line in text.splitlines() if line.startswith("| G")]
    listed = {(row[1].strip(), name) for row in rows for name in re.findall(r"`(\w+)`", row[2])}

    assert listed == {(each.guarantee.name, each.id) for each in SCENARIOS}


# ---------------------------------------------------------------- what cannot be played is not green


async def test_arguments_that_cannot_be_made_up_are_not_run_and_counted() -> None:
    @placet.tool(effect="write", risk="low", permission="x", name="stubborn")
    async def stubborn(colour: Stubborn) -> str:
        return colour

    found = await asyncio.to_thread(of, *Guarantee, tools=(stubborn,))

    of_tool = {scenario: each for (scenario, tool), each in found.items() if tool == "stubborn"}
    assert of_tool and {each.verdict for each in of_tool.values()} == {Verdict.NOT_PLAYED}
    assert of_tool["unknown_member"].told == (
        "no arguments could be made up that the contract accepts: /colour value_error"
    )


def _never(colour: str) -> str:
    raise ValueError("secret words")


Stubborn = Annotated[str, AfterValidator(_never)]


def test_processes_are_not_played_with_tools_that_no_other_process_can_import() -> None:
    found = of(Guarantee.G6, tools=(place_order,))

    for scenario in ("two_processes", "killed_after_acting"):
        assert found[scenario, "place_order"].verdict is Verdict.NOT_PLAYED
    lost = of(Guarantee.G7, tools=(place_order,), origin=replace(ORIGIN, module="tests.proof.no_such_module"))
    assert lost["killed_before_acting", "place_order"].told == "the tools could not be loaded by another process"


def test_without_tools_hardly_anything_is_proven() -> None:
    verification = verify(replace(ALONE, tools=()))

    assert verification.count(Verdict.BROKEN) == 0
    assert set(verification.unproven) == set(Guarantee) - {Guarantee.G8, Guarantee.G11}


def test_tools_that_cannot_be_registered_are_refused() -> None:
    with pytest.raises(ContractError):
        verify(replace(ALONE, tools=(ship, ship)))


# ---------------------------------------------------------------- faults of the configuration


class Permissive:
    """A policy that lets everybody."""

    version = PolicyVersion("permissive")
    timeout_seconds = None

    async def decide(self, call: Any) -> Any:
        return self.always()

    @classmethod
    def always(cls) -> Allow:
        return Allow(reasons=("fine",), policy_version=cls.version)

    def is_listed(self, contract: object, principal: object) -> bool:
        return True

    async def may_decide(self, question: object, person: object) -> Entitled:
        return Entitled()


class Talkative(Permissive):
    """A policy whose reasons hold what it was asked about."""

    async def decide(self, call: Any) -> Any:
        return Deny(reasons=(str(call.arguments["order_id"]),), policy_version=self.version)


class Listing(Talkative):
    async def decide(self, call: Any) -> Any:
        return Allow(reasons=(str(call.arguments["order_id"]),), policy_version=self.version)


def test_a_policy_that_lets_viewers_do_everything_is_seen() -> None:
    found = of(Guarantee.G4, policy=Permissive())

    assert broken(found) == {"as_policy_says", "without_scope"}
    assert found["as_policy_says", "place_order"].told == (
        "the policy says allow to a viewer, where the built-in matrix says deny"
    )
    assert found["as_policy_says", "get_order"].verdict is Verdict.HELD  # a low read is a viewer's


def test_a_policy_that_gives_values_as_reasons_is_seen() -> None:
    found = of(Guarantee.G10, tools=(get_order,), policy=Listing())

    assert broken(found) == {"marks"}
    assert "the audit" in found["marks", "get_order"].told and "policy" in found["marks", "get_order"].next_step


def test_a_policy_that_lets_nobody_leaves_scenarios_unplayed() -> None:
    class Deaf(Permissive):
        async def decide(self, call: Any) -> Any:
            return Deny(reasons=("no",), policy_version=self.version)

    found = of(Guarantee.G4, Guarantee.G6, tools=(place_order,), policy=Deaf())

    assert found["as_policy_says", "place_order"].told == "viewer deny, operator deny, admin deny"
    assert found["asked_again", "place_order"].verdict is Verdict.NOT_PLAYED


# ---------------------------------------------------------------- faults of placet, planted


def patched_store(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    original = stores.open_store

    def open_store(*args: Any, **kwargs: Any) -> Any:
        keys, store = original(*args, **kwargs)
        change(store)
        return keys, store

    monkeypatch.setattr(stores, "open_store", open_store)


def drops_ends(store: Any) -> None:
    settle, record = store.settle, store.record

    async def forgetful(settlement: Any) -> Any:
        return await settle(replace(settlement, events=()))

    async def halting(events: Any, **more: Any) -> Any:
        kept = tuple(event for event in events if event.kind != "completed" or event.attempt is None) or events[:1]
        return await record(kept, **more)

    store.settle, store.record = forgetful, halting


def counts_no_steps(store: Any) -> None:
    record = store.record

    async def careless(events: Any, *, step: Any = None, **more: Any) -> Any:
        return await record(events, **more)

    store.record = careless


def lists_everybody(store: Any) -> None:
    effects = store.effects

    async def generous(*, tenant: Any, **more: Any) -> Any:
        return await effects(tenant=None, **{**more, "subject": None})

    store.effects = generous


def finds_everywhere(store: Any) -> None:
    approval = store.approval

    async def generous(tenant: str, approval_id: Any) -> Any:
        return await approval("acme", approval_id)

    store.approval = generous


def test_a_store_that_drops_ends_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    patched_store(monkeypatch, drops_ends)
    assert broken(of(Guarantee.G9, tools=(ship,))) == {"every_ending", "sinks_that_fail"}


def test_a_store_that_counts_no_steps_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    patched_store(monkeypatch, counts_no_steps)
    assert "steps_of_a_run" in broken(of(Guarantee.G8, tools=(get_order,)))


@pytest.mark.parametrize(
    ("change", "scenario"), [(lists_everybody, "effects_of_another"), (finds_everywhere, "approvals_of_another")]
)
def test_a_store_that_mixes_tenants_is_seen(monkeypatch: pytest.MonkeyPatch, change: Any, scenario: str) -> None:
    patched_store(monkeypatch, change)
    assert scenario in broken(of(Guarantee.G12, tools=(place_order,)))


def test_a_store_that_forgets_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    original = stores.open_store

    def open_store(where: Any, **kwargs: Any) -> Any:
        return original("memory:", **{**kwargs, "key": None})

    monkeypatch.setattr(stores, "open_store", open_store)
    found = of(Guarantee.G5, Guarantee.G6, Guarantee.G8, tools=(place_order,))

    assert broken(found) >= {"spent_once", "asked_again", "at_once", "steps_of_a_run"}


def test_a_registry_that_guesses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    require = registry.Registry.require

    def guessing(self: Any, name: str, version: str | None) -> Any:
        return require(self, name.strip().lower().rstrip("s"), version)

    monkeypatch.setattr(registry.Registry, "require", guessing)
    assert broken(of(Guarantee.G1, tools=(ship,))) == {"unlisted_names"}


class Lenient:
    """A check of arguments that takes whatever comes, and reads of it what it knows."""

    def __init__(self, inner: Any, *known: str) -> None:
        self._inner = inner
        self._known = known

    def accepted(self, decoded: Any) -> Any:
        return self._inner.accepted({name: self.read(decoded.get(name)) for name in self._known})

    def read(self, value: object) -> str:
        return value if isinstance(value, str) else "other"

    def reads_back(self, canonical: bytes) -> bool:
        return True

    def keywords(self, canonical: bytes, context: Any) -> Any:
        return {}


class Boundless(Lenient):
    def read(self, value: object) -> str:
        return super().read(value)[:100]


@pytest.mark.parametrize("check", [Lenient, Boundless])
def test_a_contract_that_checks_nothing_is_seen(check: Any) -> None:
    lax = replace(get_order, _arguments=check(get_order._arguments, "order_id"))
    found = of(Guarantee.G2, Guarantee.G3, tools=(lax,))

    assert broken(found) >= {"unknown_member", "server_names"}
    assert ("oversize" in broken(found)) == (check is Boundless)
    assert found["wrong_type", "get_order"].verdict is Verdict.NOT_PLAYED


def test_a_result_that_nobody_checks_is_seen() -> None:
    class Credulous:
        def accepted(self, returned: Any, text: Any) -> Any:
            plain = {name: "shown" for name in returned} if isinstance(returned, dict) else returned
            return plain, canonical_bytes({"r": "x"})

    found = of(Guarantee.G2, tools=(replace(place_order, _result=Credulous()),))
    assert "broken_result" in broken(found)


def test_an_approval_that_fits_every_call_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def same(self: Any, call: Any, ask: Any) -> Any:
        return replace(original(self, call, ask), argument_digest=NEVER_MIND[0], operation_key=None)

    NEVER_MIND: list[Any] = []
    original = approving.Approver._same

    def first(self: Any, call: Any, ask: Any) -> Any:
        NEVER_MIND.append(call.argument_digest)
        return same(self, call, ask)

    monkeypatch.setattr(approving.Approver, "_same", first)
    monkeypatch.setattr(approvals, "misfit", lambda *args, **kwargs: None)
    assert "one_member_changed" in broken(of(Guarantee.G5, tools=(get_order,)))


def test_a_row_that_is_believed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(approving, "verify", lambda approval, keys: None)
    monkeypatch.setattr(approvals, "misfit", lambda *args, **kwargs: None)
    assert "forged_row" in broken(of(Guarantee.G5, tools=(get_order,)))


def test_a_state_that_nobody_compares_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert broken(of(Guarantee.G5, tools=(wipe,))) == set()

    async def never_compared(self: Any, approval: Any, call: Any, *, deadline: float) -> Any:
        return preconditions.Unchanged(state=None)

    monkeypatch.setattr(preconditions.Preconditions, "held", never_compared)
    assert broken(of(Guarantee.G5, tools=(wipe,))) == {"in_another_state"}


def test_silence_that_is_taken_for_failure_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python, "report_of", lambda error: Unsent(is_handlers_word=True))
    assert broken(of(Guarantee.G7, tools=(ship,))) == {"silence_after_dispatch"}


def test_what_is_shown_in_spite_of_redaction_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    view = approval_views.ApprovalViews._view

    async def open_view(self: Any, approval: Any, *about: Any, **more: Any) -> Any:
        arguments = verifying.stored_arguments(approval.question, self._keys) or b"{}"
        return replace(await view(self, approval, *about, **more), arguments=decode_object(arguments))

    monkeypatch.setattr(approval_views.ApprovalViews, "_view", open_view)
    assert broken(of(Guarantee.G10, tools=(get_card,))) == {"redacted_for_the_approver"}


def test_what_is_logged_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    submit = Gate.submit

    async def chatty(self: Any, proposal: Any, **more: Any) -> Any:
        logging.getLogger("placet.gate").debug("asked", extra={"ask": proposal})
        return await submit(self, proposal, **more)

    monkeypatch.setattr(Gate, "submit", chatty)
    found = of(Guarantee.G10, tools=(get_order,))
    assert found["marks", "get_order"].told == "an argument can be read in the log"


def test_an_audit_check_that_sees_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from placet.proof.verify import scratch

    async def blind(store: Any, keys: Any) -> ChainReport:
        events = len([event async for event in store.chained()])
        return ChainReport(writers=1, events=events, breaks=(), unpaired=0)

    monkeypatch.setattr(scratch, "verify_audit", blind)
    assert broken(of(Guarantee.G11, tools=(get_order,))) == {"altered", "deleted", "reordered", "cut_off"}


def test_an_audit_check_that_always_cries_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from placet.proof.verify import scratch
    from placet.rules.chain_check import Break

    async def crying(store: Any, keys: Any) -> ChainReport:
        return ChainReport(writers=1, events=1, breaks=(Break(writer="w", sequence=1, problem="x"),), unpaired=0)

    monkeypatch.setattr(scratch, "verify_audit", crying)
    assert broken(of(Guarantee.G11, tools=(get_order,))) == {"untouched"}


def patched_submit(monkeypatch: pytest.MonkeyPatch, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """An entrance that mends proposals before the gate sees them, as adapters are tempted to."""
    submit = Gate.submit

    async def mending(self: Any, proposal: Any, **more: Any) -> Any:
        return await submit(self, change(proposal), **more)

    monkeypatch.setattr(Gate, "submit", mending)


def coercing(proposal: dict[str, Any]) -> dict[str, Any]:
    arguments = proposal["arguments"]
    if isinstance(arguments, dict):
        arguments = {name: value if isinstance(value, str) else str(value) for name, value in arguments.items()}
    return {**proposal, "arguments": arguments}


def forgiving(proposal: dict[str, Any]) -> dict[str, Any]:
    if isinstance(arguments := proposal["arguments"], str):
        with contextlib.suppress(ValueError):
            arguments, _ = json.JSONDecoder().raw_decode(arguments)
    return {**proposal, "arguments": arguments}


def selective(proposal: dict[str, Any]) -> dict[str, Any]:
    return {name: proposal[name] for name in ("call_id", "tool", "arguments")}


@pytest.mark.parametrize(
    ("change", "guarantee", "scenario"),
    [
        (coercing, Guarantee.G2, "wrong_type"),
        (forgiving, Guarantee.G2, "malformed_text"),
        (selective, Guarantee.G3, "words_beside_the_call"),
    ],
)
def test_an_entrance_that_mends_proposals_is_seen(
    monkeypatch: pytest.MonkeyPatch, change: Any, guarantee: Guarantee, scenario: str
) -> None:
    patched_submit(monkeypatch, change)
    assert scenario in broken(of(guarantee, tools=(get_order,)))


def test_a_gate_that_takes_any_tenant_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding.policy_rules, "effective", lambda decision, call: decision)
    assert "of_another_tenant" in broken(of(Guarantee.G4, tools=(ship,)))


def test_a_gate_that_takes_silence_for_leave_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = deciding.Decider._answer

    async def yielding(self: Any, call: Any, patience: float) -> Any:
        said = await answer(self, call, patience)
        return Permissive.always() if said is None else said

    monkeypatch.setattr(deciding.Decider, "_answer", yielding)
    assert "broken_policy" in broken(of(Guarantee.G4, tools=(ship,)))


def test_operations_that_are_named_by_their_calls_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def by_call(contract: Any, arguments: Any, principal: Any, *, run_id: Any, call_id: Any, caller_key: Any) -> Any:
        return operations.call_key(run_id, call_id)

    monkeypatch.setattr(operations, "operation_key", by_call)
    assert broken(of(Guarantee.G6, tools=(tag_order,))) == {"under_another_call_id"}


def test_a_deadline_that_is_overlooked_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    attempt = python.PythonTransport.attempt

    async def patient(self: Any, *args: Any, **more: Any) -> Any:
        report = await attempt(self, *args, **more)
        return Returned(value={"order": "late"}) if isinstance(report, DeadlinePassed) else report

    monkeypatch.setattr(python.PythonTransport, "attempt", patient)
    assert "deadline" in broken(of(Guarantee.G8, tools=(get_order,)))


def test_room_without_bounds_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    lane_of = capacity.Capacity._lane_of

    def wide(self: Any, call: Any) -> Any:
        lane = lane_of(self, call)
        lane.contract = replace(lane.contract, max_concurrent=1_000)
        return lane

    monkeypatch.setattr(capacity.Capacity, "_lane_of", wide)
    monkeypatch.setattr(bounds, "_STAYS_SECONDS", 1.0)  # for so long the one that is let in keeps all waiting
    assert "room" in broken(of(Guarantee.G8, tools=(get_order,)))


FAULTS_PLANTED = """
unlisted_names unknown_member wrong_type malformed_text oversize broken_result server_names words_beside_the_call
as_policy_says without_scope of_another_tenant broken_policy one_member_changed spent_once forged_row asked_again
in_another_state under_another_call_id at_once two_processes killed_after_acting silence_after_dispatch
killed_before_acting steps_of_a_run deadline room every_ending sinks_that_fail marks redacted_for_the_approver
untouched altered deleted reordered cut_off effects_of_another approvals_of_another
"""


def test_every_scenario_has_a_fault_that_it_has_to_see() -> None:
    """A scenario that is added gets a planted fault first; its name stands in a test here."""
    source = HERE.read_text("utf-8").replace(FAULTS_PLANTED, "")

    assert {each.id for each in SCENARIOS} == set(FAULTS_PLANTED.split())
    assert [name for name in FAULTS_PLANTED.split() if f'"{name}"' not in source] == []


def impatient(**settings: Any) -> GateSettings:
    """Whoever finds the operation in progress does not wait for long to say so."""
    return GateSettings(**{**settings, "call_seconds": 1.0})


@pytest.mark.parametrize(
    "fault",
    ["own stores", *(pytest.param(each, marks=pytest.mark.exhaustive) for each in ("nobody dies", "leases of old"))],
)
def test_faults_between_processes_are_seen(monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    order, count = processes._order, iter(range(100))

    def planted(stage: Any, *args: Any) -> Any:
        asked = order(stage, *args)
        if fault == "own stores":
            own = stage.scratch.folder / f"own-{next(count)}.db"
            return {**asked, "store": str(own), "key": f"{own}.key"}
        return {**asked, "dies": ""} if fault == "nobody dies" else asked

    monkeypatch.setattr(processes, "_order", planted)
    if fault == "leases of old":
        from datetime import timedelta

        monkeypatch.setattr(processes, "LATER", timedelta(0))
        monkeypatch.setattr(stage, "GateSettings", impatient)
    found = of(Guarantee.G6, Guarantee.G7, tools=(ship,), origin=ORIGIN)

    expected = {
        "own stores": {"two_processes", "killed_after_acting", "killed_before_acting"},
        "nobody dies": {"killed_after_acting", "killed_before_acting"},
        "leases of old": {"killed_after_acting", "killed_before_acting"},
    }
    assert broken(found) == expected[fault]


def test_a_scenario_that_breaks_down_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    async def breaks_down(stage: Any) -> str:
        raise ZeroDivisionError("secret words")

    monkeypatch.setattr(
        "placet.proof.verify.SCENARIOS", (Once(guarantee=Guarantee.G1, id="breaks_down", play=breaks_down),)
    )
    (finding,) = verify(ALONE).findings

    assert (finding.verdict, finding.told) == (Verdict.BROKEN, "the scenario broke down: ZeroDivisionError")


# ---------------------------------------------------------------- telling


def test_junit_tells_what_was_broken_and_what_was_not_run() -> None:
    def finding(verdict: Verdict, told: str, next_step: str = "") -> Finding:
        return Finding(
            guarantee=Guarantee.G5,
            scenario=verdict.name,
            tool="t<o>ol",
            verdict=verdict,
            told=told,
            next_step=next_step,
        )

    from placet.proof.verify import Verification

    document = junit(
        Verification(
            findings=(
                finding(Verdict.HELD, "fine"),
                finding(Verdict.BROKEN, "bad & <worse> \x1b[31m", "mend it"),
                finding(Verdict.NOT_PLAYED, "why"),
            )
        )
    )

    suites = Xml.fromstring(document)
    (suite,) = suites
    assert {name: suite.get(name) for name in ("name", "tests", "failures", "skipped")} == {
        "name": "G5 What was approved is what runs.", "tests": "3", "failures": "1", "skipped": "1",
    }  # fmt: skip
    held, bad, unplayed = suite
    assert held.get("name") == "HELD[t<o>ol]" and held.find("failure") is None
    failure = bad.find("failure")
    assert failure is not None and failure.text == "mend it"
    assert str(failure.get("message")).startswith("bad & <worse>") and "\x1b" not in document.decode()
    assert unplayed.find("skipped") is not None
