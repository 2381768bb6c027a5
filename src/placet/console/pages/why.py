"""Why a call was answered as it was: what policy said then, beside what the same policy says of the same input now.

Nothing is asked, run or recorded. The input is what is stored: the arguments that were signed, and who asked, as the
audit has it. Where something of it is not known any more, or never was on record, the page says what, and guesses
nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from placet.console.entries import Entry, read_entries
from placet.console.reasons import Reason, reasons_of
from placet.console.visit import Visit
from placet.engine.approval_views import CONTRACT_NOT_HERE
from placet.engine.desk import ApprovalView
from placet.model.audit import EventKind
from placet.model.decision import Allow, Ask, Deny
from placet.model.principal import Principal, Role
from placet.model.wanted_events import WantedEvents
from placet.rules.policy import word_of

CANNOT = {
    "not_on_record": "Among the newest events there is none any more that says who asked, with which roles.",
    "edited": "A person made this call of another one, so policy was asked about that person. Look at the other one.",
    "contract": "This server does not know the contract that it was asked under.",
    "redacted": "Some arguments are redacted here, and policy sees all of them.",
    "delegated": "Whoever asked acted for somebody else, whose roles are not on record.",
    "policy": "Another policy is in force here than the one that decided it, and no earlier one is kept.",
    "arguments": "The arguments do not make a call any more.",
}
"""Why nothing can be asked again, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What policy says: `allow`, `ask` or `deny`, and by which rules."""

    word: str
    reasons: tuple[Reason, ...]
    policy_version: str


async def why(visit: Visit) -> Response:
    """
    Raises:
        DecisionRefused: without leave to read the audit.
        NotFound: there is no such approval in this person's tenant.
    """
    view = await visit.gate.desk.show(visit.asked("approval"), by=visit.by)
    proposed = _proposed(await read_entries(visit, WantedEvents(run_id=view.run_id)), view)
    then = None if proposed is None else _recorded(proposed)
    now = _cannot(view, proposed) or await _again(visit, view, proposed)
    return visit.page(
        "why.html.jinja",
        view=view,
        then=then,
        now=now if isinstance(now, Said) else None,
        cannot=CANNOT[now] if isinstance(now, str) else "",
        is_same=isinstance(now, Said) and then is not None and (now.word, now.reasons) == (then.word, then.reasons),
        permission="" if proposed is None else proposed.word("permission"),
        roles=() if proposed is None else proposed.words("roles"),
    )


# ---------------------------------------------------------------- within


def _proposed(entries: list[Entry], view: ApprovalView) -> Entry | None:
    """The start of the proposal that led to the question."""
    found = [
        entry
        for entry in entries
        if entry.word("kind") == EventKind.STARTED
        and (entry.word("call_id"), entry.word("tool")) == (view.call_id, view.tool)
        and entry.word("decision") == "ask"
        and entry.word("policy_version") == view.policy_version
    ]
    return found[0] if found else None


def _recorded(proposed: Entry) -> Said:
    return Said(
        word=proposed.word("decision"),
        reasons=reasons_of(proposed.words("reasons")),
        policy_version=proposed.word("policy_version"),
    )


def _cannot(view: ApprovalView, proposed: Entry | None) -> str | None:
    if view.edited_by is not None:
        return "edited"
    if view.why_not == CONTRACT_NOT_HERE:
        return "contract"
    if view.redacted:
        return "redacted"
    if view.on_behalf_of is not None:
        return "delegated"
    roles = proposed.words("roles") if proposed is not None else ()
    return "not_on_record" if proposed is None or not set(roles) <= set(Role) else None


async def _again(visit: Visit, view: ApprovalView, proposed: Entry | None) -> Said | str:
    """What policy says of the stored input now, if it is the policy that decided then; otherwise why not."""
    if proposed is None:
        return "not_on_record"
    permission = proposed.word("permission")
    asked_by = Principal.agent(
        view.requested_by,
        tenant=visit.by.tenant,
        roles=proposed.words("roles"),
        scopes=(permission,) if permission else (),
        environment=view.environment,
    )
    proposal = {"call_id": view.call_id, "tool": view.tool, "arguments": view.arguments}
    match await visit.gate.explain(proposal, principal=asked_by, run=view.run_id):
        case Allow() | Ask() | Deny() as decision if decision.policy_version != view.policy_version:
            return "policy"
        case Allow() | Ask() | Deny() as decision:
            return Said(
                word=word_of(decision),
                reasons=reasons_of(decision.reasons),
                policy_version=decision.policy_version,
            )
        case _:
            return "arguments"
