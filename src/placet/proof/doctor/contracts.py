"""Whether the tools promise enough, whether policy answers, and whether somebody can decide what waits."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC

from placet.engine.herald import introduced
from placet.engine.registry import Registry
from placet.errors import PlacetError
from placet.model.contract import ApprovalMode, Contract, Isolation
from placet.model.principal import Principal, Role
from placet.ports.policy import PolicyEngine
from placet.proof.doctor.checks import Check, Patient, Saying, fail, of_error, ok, skipped, warn
from placet.proof.doctor.scopes import scopes
from placet.rules.policy import DECIDE_SCOPE, RECONCILE_SCOPE
from placet.rules.promises import lint

_OWN_CHECK = frozenset(("no_probe", "absence_unproven", "thread_write", "irreversible_unasked", "no_operation_key"))
_MOST_NAMED = 5
_ELSEWHERE = "For a tool of an upstream, placet tools lint says what to write in which manifest."


def contracts(patient: Patient) -> Saying:
    tools = patient.deployment.tools
    if isinstance(tools, PlacetError):
        return of_error(tools)
    try:
        Registry(tools)
    except PlacetError as error:
        return of_error(error)
    if not tools:
        return warn("no tool is registered", "Add tools, or nothing can be called.")
    return ok(f"{len(tools)} tools can be registered")


def _contracts(patient: Patient) -> tuple[Contract, ...]:
    tools = patient.deployment.tools
    return () if isinstance(tools, PlacetError) else tuple(tool.contract for tool in tools)


def _named(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "")


def _linted(code: str, *, none: str, found: str, next_step: str) -> Callable[[Patient], Saying]:
    """One rule of `placet tools lint`, over all tools."""

    def look(patient: Patient) -> Saying:
        if isinstance(patient.deployment.tools, PlacetError):
            return skipped("the tools cannot be loaded")
        those = [
            contract
            for contract in _contracts(patient)
            if any(finding.code == code for finding in lint(contract, agent=patient.deployment.agent))
        ]
        if not those:
            return ok(none)
        steps = dict.fromkeys(next_step if each.origin is None else _ELSEWHERE for each in those)
        return warn(f"{found}: {_named([each.name for each in those])}", " ".join(steps))

    return look


def contract_other(patient: Patient) -> Saying:
    if isinstance(patient.deployment.tools, PlacetError):
        return skipped("the tools cannot be loaded")
    found = [
        (finding.tool, finding.code)
        for contract in _contracts(patient)
        for finding in lint(contract, agent=patient.deployment.agent)
        if finding.code not in _OWN_CHECK
    ]
    if found:
        return warn(
            _named([f"{tool} ({code})" for tool, code in found]), "placet tools lint says what to do about each."
        )
    return ok("nothing else to mend")


def policy(patient: Patient) -> Saying:
    engine = patient.deployment.policy
    if isinstance(engine, PlacetError):
        return fail(str(engine), engine.hint)
    version: object = None
    with suppress(BaseException):  # a policy engine may be anybody's
        version = engine.version
    if type(version) is not str or not version:
        return fail("the policy has no version, so every call would be denied", "Mend the policy before you start.")
    silent = [contract.name for contract in _contracts(patient) if not _is_answered(engine, patient, contract)]
    if silent:
        return fail(f"the policy does not answer for {_named(silent)}", "Every such call is denied: mend the policy.")
    return ok(f"version {version[:12]}")


def shadow(patient: Patient) -> Saying:
    """A policy in shadow keeps nothing from being started but where it could not be read: then nothing would be."""
    engine, since = patient.deployment.shadow, patient.deployment.shadow_since
    if engine is None:
        return ok("none is set")
    if isinstance(engine, PlacetError):
        return fail(str(engine), engine.hint)
    version: object = None
    with suppress(BaseException):  # as above
        version = engine.version
    if type(version) is not str or not version:
        return warn("the policy in shadow has no version, so it answers nothing", "Mend it, or leave it out.")
    told = "" if since is None else f", unchanged since {since.astimezone(UTC).isoformat(timespec='seconds')}"
    return ok(f"version {version[:12]} is asked too{told}, and decides nothing: placet policy shadow")


def _is_answered(engine: PolicyEngine, patient: Patient, contract: Contract) -> bool:
    agent = patient.deployment.agent
    tenant = agent.tenant if agent is not None else "doctor"
    asked = [Principal.agent("doctor", tenant=tenant, roles=(role,)) for role in Role]
    with suppress(BaseException):
        return all(
            type(engine.is_listed(contract, each)) is bool
            for each in (*asked, *((agent,) if agent is not None else ()))
        )
    return False


def deciders(patient: Patient) -> Saying:
    agent, people = patient.deployment.agent, patient.deployment.people
    asking = [contract.name for contract in _contracts(patient) if contract.approval is not ApprovalMode.NEVER]
    writes = [contract.name for contract in _contracts(patient) if contract.effect_class.is_write]
    if not people:
        if not asking and not writes:
            return ok("no tool needs a person")
        return warn("nobody is listed who may decide or reconcile", "List people in placet.toml: [people.NAME]")
    tenants = sorted({person.tenant for person in people} | ({agent.tenant} if agent is not None else set()))
    for scope, needed in ((DECIDE_SCOPE, asking), (RECONCILE_SCOPE, writes)):
        without = [
            tenant
            for tenant in tenants
            if needed and not any(person.tenant == tenant and scope in person.scopes for person in people)
        ]
        if without:
            return warn(
                f"nobody in the tenant {_named(without)} has the scope {scope}",
                f'Add "{scope}" to the scopes of somebody under [people].',
            )
    return ok(f"{len(people)} people are listed")


def sinks(patient: Patient) -> Saying:
    try:
        listeners = introduced(patient.deployment.sinks)
    except PlacetError as error:
        return of_error(error)
    if not listeners:
        return ok("no sink is configured; the store keeps the audit")
    required = [listener.name for listener in listeners if listener.is_required]
    told = f"{len(listeners)} sinks"
    return ok(f"{told}; nothing is sent unless these hear of it first: {_named(required)}" if required else told)


def settings(patient: Patient) -> Saying:
    unread = patient.deployment.unread
    if not unread:
        return ok("every setting is read by somebody")
    meant = [f"{name} (did you mean {each}?)" if each else name for name, each in unread.items()]
    return warn(f"nobody reads {_named(meant)}", "Correct or unset it: placet config show --origin")


def isolation(patient: Patient) -> Saying:
    if isinstance(patient.deployment.tools, PlacetError):
        return skipped("the tools cannot be loaded")
    names = [
        contract.name
        for contract in _contracts(patient)
        if contract.isolation is Isolation.THREAD and contract.effect_class.is_write
    ]
    if names:
        return warn(
            f"a missed deadline cannot stop {_named(names)}, whose outcome is then unknown",
            'Make it a coroutine function, or isolation="process".',
        )
    return ok("every write ends at its deadline")


CHECKS = (
    Check(id="settings", about="settings", look=settings),
    Check(id="contracts", about="the tools", look=contracts),
    Check(
        id="contract_probes",
        about="writes that can be looked up",
        look=_linted(
            "no_probe",
            none="every write can be looked up",
            found="if the outcome is unknown, only a person can settle",
            next_step="Give it a probe= that looks the operation up by its key.",
        ),
    ),
    Check(
        id="contract_keys",
        about="names of operations",
        look=_linted(
            "no_operation_key",
            none="every write names its operation",
            found="a new call id is a new operation of",
            next_step='Give it operation_key="...", so that asking twice is asking once.',
        ),
    ),
    Check(
        id="contract_remotes",
        about="late requests",
        look=_linted(
            "absence_unproven",
            none='"absent" can be believed of every write',
            found="after an unknown outcome only a person may order again",
            next_step="Say what its remote system does: remote=Remote(honours_key=..., arrival_bound_seconds=...)",
        ),
    ),
    Check(id="contract_threads", about="deadlines of writes", look=isolation),
    Check(
        id="contract_irreversible",
        about="what cannot be taken back",
        look=_linted(
            "irreversible_unasked",
            none="nothing irreversible runs unasked",
            found="it cannot be taken back, and nobody is asked for",
            next_step='approval="always"',
        ),
    ),
    Check(id="contract_other", about="other promises", look=contract_other),
    Check(id="policy", about="policy", look=policy),
    Check(id="shadow", about="a policy in shadow", look=shadow),
    Check(id="deciders", about="people who may decide", look=deciders),
    Check(id="scopes", about="scopes that are handed out", look=scopes),
    Check(id="sinks", about="audit sinks", look=sinks),
)
