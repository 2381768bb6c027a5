"""Every call of the HTTP API, once."""

from __future__ import annotations

import math
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from placet.client.asking import chosen_body, quoted_key, wish_body
from placet.client.documents import Cut, Further, PolicyDocument, ToolDocument, UrgentApprovals, WishDocument
from placet.client.errors import AnswerLost, AnswerUnreadable, NotHeard
from placet.client.outcomes import is_outcome
from placet.client.reading import is_end_of_export, listed, members, objects, outcome, read, refused
from placet.client.wire import Answer, Ask, AsyncWire, PlainHttp, Retries, Wire, look, sent
from placet.engine.desk import ApprovalView
from placet.engine.effect_views import EffectView
from placet.engine.grant_views import GrantView
from placet.engine.principal_views import PrincipalView
from placet.engine.questions import QuestionView
from placet.engine.run_views import RunDetails, RunView
from placet.engine.runs import RunReport
from placet.engine.settling import Truth
from placet.engine.several import ChosenAnswer
from placet.engine.switch import StopReport, StopView
from placet.model.approval import ApprovalDecision, ApprovalState, Chosen
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.model.grant import GrantWish
from placet.model.json import JsonObject, JsonValue
from placet.model.outcome import Outcome
from placet.model.run import LeftOpen, RunStatus
from placet.rules.documents import document_of
from placet.rules.run_refs import run_ref

Value = TypeVar("Value")
_MOST_IN_A_PAGE = 1_000
_MOST_EMPTY_PAGES = 100
"""Of one list: a page holds nothing where all that it was looked for in was altered, and the next one goes on."""
_LONGEST_CURSOR = 4_096
_LONGEST_END = 4_096
"""Of the line that closes an export, with its end of line before it."""
_DEFAULT = Retries()


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditWord:
    """Whether the whole audit of the server's store holds; `problems`: what does not, and how often."""

    holds: bool
    problems: tuple[str, ...]


class AsyncClient:
    """Calls one server's API as one principal.

    Args:
        url: the server's address, such as `https://placet.example`.
        token: an API key or a token of an issuer, or what gives the one to send now.
        plain_http: where it may be sent without TLS.

    Attributes:
        answered_at: when the last answer was given, by the server's clock, to the second; None before one came.

    Every call raises:
        ServerUnreachable, ServerNotTrusted: nothing was sent.
        AnswerLost: it may have been served; call again with the same arguments, where they name the call.
        AnswerTooLarge, AnswerUnreadable: it may have been served too, and calling again brings the same.
        ServerRedirects: it was not asked at that address; a credential is not sent on.
        SignInRefused, NotFound, DecisionRefused, InvalidArguments, ServerRefused: the server's word; `code` says which,
            and `changed`, where it is there, how it stands now.
    """

    answered_at: datetime | None = None

    def __init__(
        self,
        url: str,
        *,
        token: str | Callable[[], str],
        retries: Retries = _DEFAULT,
        plain_http: PlainHttp = PlainHttp.LOOPBACK,
    ) -> None:
        self._wire: Wire = self._make_wire(url, (lambda: token) if isinstance(token, str) else token, plain_http)
        self._retries = retries

    def _make_wire(self, url: str, token: Callable[[], str], plain: PlainHttp) -> Wire:
        return AsyncWire(url, token, plain)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._wire.close()

    # ------------------------------------------------------------ proposals

    async def submit(
        self,
        tool: str,
        arguments: JsonObject | str,
        *,
        run: str,
        call_id: str | None = None,
        idempotency_key: str | None = None,
        version: str | None = None,
        wait_seconds: float = 0.0,
    ) -> Outcome:
        """One proposal to its outcome. What the server cannot take now is asked again for a while, under its name.

        Args:
            arguments: an object, or JSON text as a model wrote it, which the server decodes strictly.
            call_id: names the call in its run. Without it, and without `idempotency_key`, one is made for this call:
                calling again is another operation then.
            wait_seconds: how long to wait for a person's answer.
        """
        named = call_id if call_id is not None or idempotency_key is not None else f"c-{secrets.token_hex(12)}"
        given: JsonObject = {"run": run, "tool": tool, "arguments": arguments, "call_id": named, "version": version}
        body: JsonObject = {name: value for name, value in given.items() if value is not None}
        headers = {} if idempotency_key is None else {"Idempotency-Key": quoted_key(idempotency_key)}
        ask = Ask(
            method="POST",
            path="/v1/proposals",
            body=body,
            headers=headers | _preferring(wait_seconds),
            wait_seconds=wait_seconds,
        )
        answer = await self._answered(ask)
        document = answer.document
        if not is_outcome(document):
            raise refused(answer, document)
        return outcome(answer, document)

    async def submit_all(self, batch: Sequence[JsonObject], *, run: str) -> tuple[Outcome, ...]:
        """All proposals of one model turn, in order; each has its `call_id`."""
        return await self._turn(batch, run, stops=False)

    async def submit_until_failure(self, batch: Sequence[JsonObject], *, run: str) -> tuple[Outcome, ...]:
        """Like `submit_all`, but after the first outcome that is no success the rest are `NotRun`."""
        return await self._turn(batch, run, stops=True)

    async def question(self, approval_id: str) -> QuestionView:
        """Where a question stands that this principal asked."""
        return await self._get(QuestionView, f"/v1/proposals/{_piece(approval_id)}")

    async def answer(self, approval_id: str, *, wait_seconds: float) -> QuestionView:
        """The same, once it waits no more, or as it is when the time is over."""
        pending = {"If-None-Match": '"pending"', **_preferring(wait_seconds)}
        path = f"/v1/proposals/{_piece(approval_id)}"
        answer = await self._asked(look(path, headers=pending, wait_seconds=wait_seconds), ok=(200, 304))
        return await self.question(approval_id) if answer.status == 304 else read(QuestionView, answer)

    # ------------------------------------------------------------ approvals

    async def approvals(
        self, *, states: Sequence[ApprovalState] = (ApprovalState.PENDING,), limit: int = 100
    ) -> tuple[ApprovalView, ...]:
        """Approvals of the person's tenant, the newest first."""
        query = {"state": [each.value for each in states]}
        return tuple(await self._listed(partial(members, ApprovalView), "/v1/approvals", "approvals", query, limit))

    async def approvals_by_risk(
        self, *, states: Sequence[ApprovalState] = (ApprovalState.PENDING,), limit: int = 100
    ) -> UrgentApprovals:
        """The same, critical ones first and of one risk the nearest deadline to decide first."""
        is_cut = False

        def taken(answer: Answer, member: str) -> list[ApprovalView]:
            nonlocal is_cut
            is_cut = is_cut or read(Cut, answer).is_cut
            return members(ApprovalView, answer, member)

        query = {"state": [each.value for each in states], "sort": "risk"}
        found = await self._listed(taken, "/v1/approvals", "approvals", query, limit)
        return UrgentApprovals(approvals=tuple(found), is_cut=is_cut)

    async def approval(self, approval_id: str) -> ApprovalView:
        return await self._get(ApprovalView, f"/v1/approvals/{_piece(approval_id)}")

    async def approve(self, approval_id: str, *, digest: str, reason: str = "") -> ApprovalView:
        """Sign that exactly the call with this digest may run, once. Nothing runs now."""
        return await self._decide(approval_id, ApprovalDecision.APPROVE, digest, reason)

    async def deny(self, approval_id: str, *, digest: str, reason: str = "") -> ApprovalView:
        return await self._decide(approval_id, ApprovalDecision.DENY, digest, reason)

    async def deny_several(self, chosen: Sequence[Chosen], *, reason: str) -> tuple[ChosenAnswer, ...]:
        """Refuse each of at most 100, for one reason. What became of each, in their order: one that is refused keeps
        no other back, and its `code` says why.
        """
        return await self._decide_several(ApprovalDecision.DENY, chosen, reason)

    async def approve_several(self, chosen: Sequence[Chosen], *, reason: str = "") -> tuple[ChosenAnswer, ...]:
        """Sign of each that exactly the call with its digest may run, once. Nothing runs now.

        Raises:
            DecisionRefused: they are not alike, or each has to be approved by itself; nothing was decided.
        """
        return await self._decide_several(ApprovalDecision.APPROVE, chosen, reason)

    async def edit(self, approval_id: str, *, digest: str, arguments: JsonObject | str) -> ApprovalView:
        """Make another question of one that waits, with other arguments; the answer is the new one. Nothing runs."""
        path = f"/v1/approvals/{_piece(approval_id)}/edit"
        ask = Ask(method="POST", path=path, body={"digest": digest, "arguments": arguments}, is_safe=False)
        return read(ApprovalView, await self._asked(ask, ok=(201,)))

    async def withdraw_vote(self, approval_id: str) -> ApprovalView:
        """Take back one's own vote, while other people's are waited for."""
        return await self._taken_back(f"/v1/approvals/{_piece(approval_id)}/withdraw-vote")

    async def withdraw(self, approval_id: str) -> ApprovalView:
        """Take a question, or an approval that nobody has used, back."""
        return await self._taken_back(f"/v1/approvals/{_piece(approval_id)}/withdraw")

    # ------------------------------------------------------------ grants

    async def grants(self, *, limit: int = 100) -> tuple[GrantView, ...]:
        """Standing grants of the person's tenant, the newest first, those that have ended too."""
        return tuple(await self._listed(partial(members, GrantView), "/v1/grants", "grants", {}, limit))

    async def standing_grants(self, *, limit: int = 100) -> tuple[GrantView, ...]:
        """Those only that answer questions now, however many have ended, and altered rows, which stop calls."""
        query = {"which": "standing"}
        return tuple(await self._listed(partial(members, GrantView), "/v1/grants", "grants", query, limit))

    async def grant(self, grant_id: str) -> GrantView:
        return await self._get(GrantView, f"/v1/grants/{_piece(grant_id)}")

    async def grant_like(self, approval_id: str) -> GrantWish:
        """The wish for a grant of calls like this one, and of no others; the approval is decided apart."""
        answer = await self._asked(look(f"/v1/approvals/{_piece(approval_id)}/grant-wish"))
        said = read(WishDocument, answer)
        return GrantWish(
            tool=said.tool,
            subjects=said.subjects,
            limits=said.limits,
            seconds=said.seconds,
            max_uses=said.max_uses,
            run_id=said.run,
        )

    async def draft_grant(self, wish: GrantWish) -> GrantView:
        """What it would cover, in words, with the digest that giving it takes. Nothing is stored."""
        ask = Ask(method="POST", path="/v1/grants/drafts", body=wish_body(wish), only_looks=True)
        return read(GrantView, await self._asked(ask))

    async def give_grant(self, wish: GrantWish, *, digest: str) -> GrantView:
        """Sign exactly what the draft with this digest said. Nothing runs now. Every answer is another grant.

        Raises:
            NotHeard: it may have been given; look at `standing_grants` before it is given once more.
        """
        ask = Ask(method="POST", path="/v1/grants", body={**wish_body(wish), "digest": digest}, is_safe=False)
        try:
            return read(GrantView, await self._asked(ask, ok=(201,)))
        except NotHeard as fault:
            lost = fault
        lost.hint, lost.retryable = (
            "It may have been given: look at the grants there are before you give it again.",
            False,
        )
        raise lost

    async def revoke_grant(self, grant_id: str) -> GrantView:
        """Take a grant back, on every host. Twice changes nothing."""
        return read(GrantView, await self._asked(Ask(method="POST", path=f"/v1/grants/{_piece(grant_id)}/revoke")))

    # ------------------------------------------------------------ effects

    async def effects(
        self, *, states: Sequence[EffectState] = tuple(EffectState), limit: int = 100
    ) -> tuple[EffectView, ...]:
        """Effects that this principal may see, the newest change first."""
        query = {"state": [each.value for each in states]}
        return tuple(await self._listed(partial(members, EffectView), "/v1/effects", "effects", query, limit))

    async def effect(self, operation_key: str) -> EffectView:
        return await self._get(EffectView, f"/v1/effects/{_effect_id(operation_key)}")

    async def settle(self, operation_key: str, truth: Truth, *, looked_at: datetime, reason: str) -> EffectView:
        """A person says what became of an unknown effect, from looking at the remote system."""
        body: JsonObject = {"truth": truth.value, "looked_at": document_of(looked_at), "reason": reason}
        return await self._reconciled(operation_key, body, is_safe=False)

    async def probe(self, operation_key: str) -> EffectView:
        """Have the probe of an unknown effect asked now."""
        return await self._reconciled(operation_key, {"truth": "probe"}, is_safe=True)

    # ------------------------------------------------------------ runs

    async def runs(
        self, *, left: LeftOpen | None = None, status: RunStatus | None = None, limit: int = 100
    ) -> tuple[RunView, ...]:
        """Runs that this principal may see, the last to be opened first; only those of which `left` is left open, and
        that have this `status`."""
        return await self._runs("all", left, status, limit)

    async def own_runs(
        self, *, left: LeftOpen | None = None, status: RunStatus | None = None, limit: int = 100
    ) -> tuple[RunView, ...]:
        """The principal's own runs, whatever else it may see."""
        return await self._runs("mine", left, status, limit)

    async def run(self, run_id: str, *, calls: int = 100) -> RunDetails:
        """One run, with so many of its calls, at most 1,000."""
        return read(RunDetails, await self._asked(look(f"/v1/runs/{run_ref(run_id)}", query={"calls": calls})))

    # ------------------------------------------------------------ who, tools, policy, audit

    async def whoami(self) -> PrincipalView:
        """Who the credential makes one there."""
        return await self._get(PrincipalView, "/v1/whoami")

    async def tools(self) -> tuple[JsonObject, ...]:
        """The tools this principal may see, by name."""
        answer = await self._asked(look("/v1/tools"))
        members(ToolDocument, answer, "tools")  # each is one
        return tuple(objects(answer, "tools"))

    async def policy_version(self) -> str | None:
        return read(PolicyDocument, await self._asked(look("/v1/policy"))).version

    async def events(
        self,
        *,
        kinds: Sequence[EventKind] = tuple(EventKind),
        run: str | None = None,
        tool: str | None = None,
        limit: int = 100,
    ) -> tuple[JsonObject, ...]:
        """Audit events of the tenant, the newest first."""
        said: dict[str, Any] = {"kind": [each.value for each in kinds], "run": run, "tool": tool}
        query = {name: value for name, value in said.items() if value is not None}
        return tuple(await self._listed(objects, "/v1/audit", "events", query, limit))

    async def export_audit(self, take: Callable[[bytes], object]) -> None:
        """Give the export of the tenant's audit away, piece by piece.

        Raises:
            AnswerLost: it ended before its end; what was given is no whole export.
        """
        ending = bytearray()

        def keep_the_end(piece: bytes) -> None:
            take(piece)
            ending[:] = (ending + piece)[-_LONGEST_END:]

        answer = await self._wire.send(look("/v1/audit/export"), keep_the_end)
        if answer.status != 200:
            raise refused(answer, answer.document)
        if not is_end_of_export(bytes(ending)):
            raise AnswerLost(only_looked=True)

    async def verify_audit(self) -> AuditWord:
        """Whether the whole audit of the server's store holds; takes as long as reading it."""
        return read(AuditWord, await self._asked(Ask(method="POST", path="/v1/audit/verify", only_looks=True)))

    async def pause_run(self, run_id: str, *, reason: str = "") -> RunReport:
        """Let nothing more of it be dispatched until it is resumed."""
        return await self._run_changed(run_id, "pause", reason)

    async def resume_run(self, run_id: str, *, reason: str = "") -> RunReport:
        """Let a paused run go on where it was, and count on."""
        return await self._run_changed(run_id, "resume", reason)

    async def cancel_run(self, run_id: str, *, reason: str = "") -> RunReport:
        """End it for good. Cancelling again changes nothing, and goes on with what was not taken back yet."""
        return await self._run_changed(run_id, "cancel", reason)

    # ------------------------------------------------------------ stops

    async def stops(self) -> tuple[StopView, ...]:
        return tuple(members(StopView, await self._asked(look("/v1/stops")), "stops"))

    async def stop(self, scope: str, *, reason: str = "", all_tenants: bool = False) -> StopReport:
        body: JsonObject = {"scope": scope, "reason": reason, "all_tenants": all_tenants}
        return read(StopReport, await self._asked(Ask(method="POST", path="/v1/stops", body=body)))

    async def resume(self, scope: str, *, all_tenants: bool = False) -> None:
        query = {"scope": scope, "all_tenants": "true" if all_tenants else "false"}
        await self._asked(Ask(method="DELETE", path="/v1/stops", query=query, is_safe=False), ok=(204,))

    # ------------------------------------------------------------ within

    async def _turn(self, batch: Sequence[JsonObject], run: str, *, stops: bool) -> tuple[Outcome, ...]:
        proposals: list[JsonValue] = [*batch]
        body: JsonObject = {"run": run, "proposals": proposals, "stop_on_failure": stops}
        answer = await self._asked(Ask(method="POST", path="/v1/proposals/batch", body=body), ok=(200, 422))
        return tuple(outcome(answer, each) for each in listed(answer, "outcomes"))

    async def _decide(self, approval_id: str, decision: ApprovalDecision, digest: str, reason: str) -> ApprovalView:
        body: JsonObject = {"decision": decision.value, "digest": digest, "reason": reason}
        path = f"/v1/approvals/{_piece(approval_id)}/decision"
        return read(ApprovalView, await self._asked(Ask(method="POST", path=path, body=body)))

    async def _decide_several(
        self, decision: ApprovalDecision, chosen: Sequence[Chosen], reason: str
    ) -> tuple[ChosenAnswer, ...]:
        ask = Ask(method="POST", path="/v1/approvals/decisions", body=chosen_body(decision, chosen, reason))
        answer = await self._asked(ask)
        found = members(ChosenAnswer, answer, "decisions")
        if [each.approval_id for each in found] != [each.approval_id for each in chosen]:
            raise AnswerUnreadable
        return tuple(found)

    async def _taken_back(self, path: str) -> ApprovalView:
        return read(ApprovalView, await self._asked(Ask(method="POST", path=path, is_safe=False)))

    async def _reconciled(self, operation_key: str, body: JsonObject, *, is_safe: bool) -> EffectView:
        path = f"/v1/effects/{_effect_id(operation_key)}/reconcile"
        return read(EffectView, await self._asked(Ask(method="POST", path=path, body=body, is_safe=is_safe)))

    async def _run_changed(self, run_id: str, verb: str, reason: str) -> RunReport:
        path = f"/v1/runs/{run_ref(run_id)}/{verb}"
        return read(RunReport, await self._asked(Ask(method="POST", path=path, body={"reason": reason})))

    async def _runs(
        self, whose: str, left: LeftOpen | None, status: RunStatus | None, limit: int
    ) -> tuple[RunView, ...]:
        said = {"left_open": left, "status": status}
        query = {"whose": whose, **{name: each.value for name, each in said.items() if each is not None}}
        return tuple(await self._listed(partial(members, RunView), "/v1/runs", "runs", query, limit))

    async def _get(self, kind: type[Value], path: str) -> Value:
        return read(kind, await self._asked(look(path)))

    async def _listed(
        self, taken: Callable[[Answer, str], list[Value]], path: str, member: str, query: dict[str, Any], limit: int
    ) -> list[Value]:
        """So many of a list, page after page.

        Raises:
            AnswerUnreadable: it goes on without an end, or from where it has been.
        """
        found: list[Value] = []
        cursor: str | None = None
        seen: set[str | None] = {None}
        empty = 0
        while len(found) < limit and empty <= _MOST_EMPTY_PAGES:
            size = {"limit": min(limit - len(found), _MOST_IN_A_PAGE)}
            at = {} if cursor is None else {"cursor": cursor}
            answer = await self._asked(look(path, query={**query, **size, **at}))
            page = taken(answer, member)
            found += page
            empty += not page
            cursor = read(Further, answer).next
            if cursor is None:
                return found[:limit]
            if cursor in seen or not 0 < len(cursor) <= _LONGEST_CURSOR or not cursor.isascii():
                raise AnswerUnreadable(only_looked=True)
            seen.add(cursor)
        if len(found) < limit:
            raise AnswerUnreadable(only_looked=True)
        return found[:limit]

    async def _asked(self, ask: Ask, *, ok: tuple[int, ...] = (200,)) -> Answer:
        answer = await self._answered(ask)
        if answer.status not in ok:
            raise refused(answer, answer.document)
        return answer

    async def _answered(self, ask: Ask) -> Answer:
        answer = await sent(self._wire, ask, self._retries)
        self.answered_at = answer.answered_at or self.answered_at
        return answer


def _preferring(seconds: float) -> dict[str, str]:
    return {"Prefer": f"wait={math.ceil(seconds)}"} if seconds > 0 else {}


def _piece(name: str) -> str:
    return quote(name, safe="")


def _effect_id(operation_key: str) -> str:
    return urlsafe_b64encode(operation_key.encode()).rstrip(b"=").decode("ascii")
