"""`placet policy`: what is wrong with the policy file, what policy answers to a call, and what one in shadow would."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from placet.cli.failing import ConfigProblem
from placet.cli.people import ListedPeople
from placet.cli.project import (
    agent,
    checked,
    finish,
    load_tools,
    person,
    policy_of,
    require_store,
    shadow_of,
    tools_if_loadable,
)
from placet.cli.proposing import read_argument_text
from placet.cli.screen import Screen, shown
from placet.cli.session import Session, epilog, new_app, with_session
from placet.cli.table import COMMANDS, Exit
from placet.model.decision import Allow, Ask, Decision, Deny, GrantTerms, Requirement
from placet.model.outcome import Invalid, Outcome
from placet.model.principal import is_identity
from placet.rules.audit import shadow_members
from placet.rules.grants import most_granted
from placet.rules.policy import word_of
from placet.rules.shadowing import Compared, ShadowReport, compared, compared_of

if TYPE_CHECKING:
    from placet.cli.settings import Settings
    from placet.rules.policy_files import Mistake

app = new_app("policy")
_verbs = COMMANDS["policy"].verbs


@app.command("check", help=_verbs["check"], epilog=epilog())
@with_session
def check(
    session: Session,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="The file; the project's own if none is named.")
    ] = None,
) -> Exit:
    path = Path(file).absolute() if file is not None else session.settings.policy
    if path is None:
        raise ConfigProblem(
            "No policy file is named", hint='policy = "policy.toml" in [placet] of placet.toml, or --policy FILE.'
        )
    looked = _look(session, path)
    screen = session.screen
    if not screen.is_text:
        screen.document("policy-check/1", _checked_data(path, looked))
    for mistake in looked.mistakes if screen.is_text else ():
        place = f"{shown(str(path))}:{mistake.line}" if mistake.line is not None else shown(str(path))
        screen.line(f"{place}: {shown(mistake.message)}")
        screen.line(f"  {shown(mistake.hint)}")
    if looked.mistakes:
        screen.talk(f"{len(looked.mistakes)} to mend. Nothing is decided by a file that is wrong.")
        return Exit.USAGE
    if screen.is_text:
        count = len(looked.rules)
        screen.line(f"sound: {count} {'rule' if count == 1 else 'rules'}")
    return Exit.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class _Looked:
    """A policy file as it was found: its rules' names, or what is wrong with it."""

    rules: tuple[str, ...]
    mistakes: tuple[Mistake, ...]
    knows_tools: bool


def _look(session: Session, path: Path) -> _Looked:
    from placet.bootstrap.policies import looked_at, text_of
    from placet.rules.asking import AskRules
    from placet.rules.policy_files import unknown_tools

    found = looked_at(path)
    if not isinstance(found, AskRules):
        return _Looked(rules=(), mistakes=found, knows_tools=False)
    tools = tools_if_loadable(session) if session.settings.tools is not None else ()
    names = [tool.contract.name for tool in tools]
    return _Looked(
        rules=tuple(rule.name for rule in found.rules),
        mistakes=unknown_tools(text_of(path), found, names) if names else (),
        knows_tools=bool(names),
    )


def _checked_data(path: Path, looked: _Looked) -> dict[str, Any]:
    return {
        "file": str(path),
        "is_sound": not looked.mistakes,
        "rules": list(looked.rules),
        "tools_compared": looked.knows_tools,
        "mistakes": [
            {"line": mistake.line, "message": mistake.message, "hint": mistake.hint} for mistake in looked.mistakes
        ],
    }


# ---------------------------------------------------------------- explaining


@app.command("explain", help=_verbs["explain"], epilog=epilog())
@with_session
def explain(
    session: Session,
    tool: Annotated[str, typer.Option("--tool", metavar="NAME", help="The tool.")],
    args: Annotated[
        str, typer.Option("--args", metavar="JSON", help="Its arguments: JSON, @FILE, or - for standard input.")
    ] = "{}",
    run: Annotated[str, typer.Option("--run", metavar="ID", help="The run it would belong to.")] = "explained",
) -> Exit:
    from placet.cli.commands.call import exit_of_answer

    checked(run, "--run is text of 1 to 128 characters", is_identity)
    proposal = {"call_id": "explained", "tool": tool, "arguments": read_argument_text(args)}
    explained = finish(_explained(session, proposal, run))
    if session.screen.is_text:
        _tell(session.screen, explained)
    else:
        session.screen.document("policy-explanation/1", _data(explained, tool))
    code = exit_of_answer(explained.answer)
    return Exit.FAILED if code is None else code


@dataclass(frozen=True, slots=True, kw_only=True)
class _Explained:
    """What policy answers, who may approve it, and the most that a standing grant in an approval's place may be."""

    answer: Decision | Outcome
    who_may: tuple[str, ...]
    most: GrantTerms | None


async def _explained(session: Session, proposal: dict[str, Any], run: str) -> _Explained:
    """Policy looks at no store, so none is opened, made or written."""
    from placet.bootstrap.addresses import MEMORY
    from placet.bootstrap.opening import Recovery, open_gate

    settings = session.settings
    by, tools, policy = agent(settings), load_tools(settings), policy_of(settings)
    people = ListedPeople(settings)
    shadow = shadow_of(settings)
    opening = open_gate(
        tools=tools, store=MEMORY, recovery=Recovery.MANUAL, policy=policy, shadow=shadow, people=people
    )
    async with opening as gate:
        answer = await gate.explain(proposal, principal=by, run=run)
        who_may = await gate.who_may_approve(proposal, principal=by, run=run)
    contract = next((tool.contract for tool in tools if tool.contract.name == proposal["tool"]), None)
    most = None if contract is None or not isinstance(answer, Ask) else most_granted(answer, contract)
    return _Explained(answer=answer, who_may=who_may, most=most)


def _tell(screen: Screen, explained: _Explained) -> None:
    data, answer, who_may = _data(explained, ""), explained.answer, explained.who_may
    screen.fields(
        [
            ("decision", data["decision"]),
            ("reasons", ", ".join(data["reasons"]) or "none"),
            ("policy version", data["policy_version"]),
            ("rule", data["rule"]),
            ("needs", _needs(answer.requirement) if isinstance(answer, Ask) else None),
            ("decide within", _span(data["decide_within_seconds"])),
            ("usable for", _span(data["usable_for_seconds"])),
            ("reminds after", ", ".join(_span(each) or "" for each in data["remind_after_seconds"]) or None),
            ("escalated after", _span(data["escalate_after_seconds"])),
            ("escalated to", ", ".join(data["escalate_to"]) or None),
            ("they may decide then", "yes" if data["escalation_widens"] else None),
            ("standing grants", _granted(data["grants"])),
            ("needs a reason", ", ".join(data["needs_reason"]) or None),
            ("in shadow", _shadow_words(data["shadow"])),
            ("may approve", (", ".join(who_may) or "nobody listed") if isinstance(answer, Ask) else None),
        ]
    )


def _needs(requirement: Requirement) -> str:
    terms = requirement.terms
    return requirement.kind.value + (f" of {terms.votes}" if terms is not None and terms.votes > 1 else "")


def _granted(most: dict[str, Any] | None) -> str | None:
    """The most that one may be, in words; None where nobody may give one."""
    if most is None:
        return None
    return f"may be given, each for at most {most['max_uses']} uses and {_span(most['max_seconds'])}"


def _span(seconds: float | None) -> str | None:
    from placet.rules.policy_files import span_text

    return None if seconds is None else span_text(seconds)


def _data(explained: _Explained, tool: str) -> dict[str, Any]:
    answer, most = explained.answer, explained.most
    requirement = answer.requirement if isinstance(answer, Ask) else None
    terms = requirement.terms if requirement is not None else None
    reminders = requirement.reminders if requirement is not None else None
    wanted = [] if terms is None else [("approve", terms.reason_to_approve), ("deny", terms.reason_to_deny)]
    return {
        "tool": tool,
        "decision": _word(answer),
        "reasons": _reasons(answer),
        "policy_version": answer.policy_version if isinstance(answer, Allow | Ask | Deny) else None,
        "rule": terms.rule if terms is not None else None,
        "needs": requirement.kind.value if requirement is not None else None,
        "votes": (terms.votes if terms is not None else 1) if requirement is not None else None,
        "decide_within_seconds": requirement.decide_within_seconds if requirement is not None else None,
        "usable_for_seconds": requirement.lifetime_seconds if requirement is not None else None,
        "remind_after_seconds": [] if reminders is None else list(reminders.remind_after_seconds),
        "escalate_after_seconds": None if reminders is None else reminders.escalate_after_seconds,
        "escalate_to": [] if reminders is None else list(reminders.escalate_to),
        "escalation_widens": reminders is not None and reminders.widens,
        "needs_reason": [name for name, is_wanted in wanted if is_wanted],
        "grants": None if most is None else {"max_uses": most.max_uses, "max_seconds": most.max_seconds},
        "may_approve": list(explained.who_may) if requirement is not None else None,
        "shadow": _shadow_data(answer),
    }


def _shadow_data(answer: Decision | Outcome) -> dict[str, Any] | None:
    """As the audit has it; None where nothing is set that is asked as well."""
    shadow = answer.shadow if isinstance(answer, Allow | Ask | Deny) else None
    return None if shadow is None else shadow_members(shadow)


def _shadow_words(data: dict[str, Any] | None) -> str | None:
    if data is None:
        return None
    reasons = ", ".join(data.get("reasons", ()))
    told = f"{data['would_be']} ({reasons})" if reasons else str(data["would_be"])
    return f"{told}, which changes the answer" if data["changes"] else f"{told}, which changes nothing"


def _word(answer: Decision | Outcome) -> str:
    return word_of(answer) if isinstance(answer, Allow | Ask | Deny) else "invalid"


def _reasons(answer: Decision | Outcome) -> list[str]:
    if isinstance(answer, Allow | Ask | Deny):
        return list(answer.reasons)
    problems = answer.problems if isinstance(answer, Invalid) else ()
    return [answer.code, *(f"{path or '/'}: {problem}" for path, problem in problems)]


# ---------------------------------------------------------------- in shadow


@app.command("shadow", help=_verbs["shadow"], epilog=epilog())
@with_session
def shadow(
    session: Session,
    count: Annotated[
        int, typer.Option("-n", "--count", min=1, max=100_000, help="How many of the newest events are looked at.")
    ] = 10_000,
    every: Annotated[
        bool, typer.Option("--all", help="Calls of every version that was in shadow, not the newest.")
    ] = False,
) -> Exit:
    settings = session.settings
    require_store(settings)
    found = finish(_compared(settings, person(settings).tenant, count))
    report = compared(found, version=None if every else _newest_version(found))
    screen = session.screen
    if not screen.is_text:
        screen.document("policy-shadow/1", _report_data(report))
        return Exit.OK
    if not report.calls:
        screen.line("No call of your tenant was looked at by a policy in shadow.")
        screen.talk('Name one: shadow = "next.toml" in [placet] of placet.toml, or --shadow FILE.')
        return Exit.OK
    screen.fields(
        [
            ("policy in shadow", report.version or "several versions"),
            ("calls", str(report.calls)),
            ("answer would change", str(len(report.changed))),
            ("not answered", str(report.errors)),
        ]
    )
    for each in report.changed:
        place = f"run {shown(each.run_id)}  call {shown(each.call_id)}"
        why = shown(", ".join(each.reasons))
        screen.line(f"{shown(each.at)}  {shown(each.tool)}  {each.enforced} -> {each.would_be}  {place}  {why}")
    screen.talk(f"Looked at the newest {count:,} events of your tenant, or all there are; -n says how many.")
    return Exit.OK


def _newest_version(found: list[Compared]) -> str | None:
    return next((each.version for each in found if each.version is not None), None)


async def _compared(settings: Settings, tenant: str, count: int) -> list[Compared]:
    """The newest first."""
    from placet.bootstrap.stores import open_existing_store

    _, store = open_existing_store(settings.store, key=settings.key)
    try:
        events = [event async for event in store.chained(tenant=tenant, newest=count)]
    finally:
        await store.close()
    found = [compared_of(event) for event in events]
    return [each for each in found if each is not None][::-1]


def _report_data(report: ShadowReport) -> dict[str, Any]:
    return {
        "policy_version": report.version,
        "calls": report.calls,
        "errors": report.errors,
        "changed": [
            {
                "at": each.at,
                "tool": each.tool,
                "subject": each.subject,
                "run_id": each.run_id,
                "call_id": each.call_id,
                "enforced": each.enforced,
                "would_be": each.would_be,
                "reasons": list(each.reasons),
                "policy_version": each.version,
            }
            for each in report.changed
        ],
    }
