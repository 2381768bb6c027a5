"""Every call of the HTTP API, once."""

from __future__ import annotations

import math
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from placet.client.errors import error_of
from placet.client.outcomes import is_outcome, outcome_of
from placet.client.wire import Answer, Ask, AsyncWire, PlainHttp, Retries, Wire, sent
from placet.engine.desk import ApprovalView
from placet.engine.effect_views import EffectView
from placet.engine.questions import QuestionView
from placet.engine.settling import Truth
from placet.engine.switch import StopReport, StopView
from placet.errors import MisuseError
from placet.model.approval import ApprovalDecision, ApprovalState
from placet.model.audit import EventKind
from placet.model.effect import EffectState
from placet.model.json import JsonObject, JsonValue
from placet.model.outcome import Outcome
from placet.rules.documents import NotADocument, document_of, value_of

Value = TypeVar("Value")
_MOST_IN_A_PAGE = 1_000
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

    Every call raises:
        ServerUnreachable: nothing was sent.
        AnswerLost: it may have been served; call again with the same arguments, where they name the call.
        SignInRefused, NotFound, DecisionRefused, ServerRefused: the server's word; `code` says which.
        NotADocument: what answers there is no placet of this age.
    """

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
        headers = {} if idempotency_key is None else {"Idempotency-Key": _quoted(idempotency_key)}
        ask = Ask(
            method="POST",
            path="/v1/proposals",
            body=body,
            headers=headers | _preferring(wait_seconds),
            wait_seconds=wait_seconds,
        )
        answer = await sent(self._wire, ask, self._retries)
        if not is_outcome(answer.document):
            raise _refused(answer)
        return outcome_of(answer.document)

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
        answer = await self._asked(
            Ask(method="GET", path=path, headers=pending, wait_seconds=wait_seconds), ok=(200, 304)
        )
        return await self.question(approval_id) if answer.status == 304 else _read(QuestionView, answer.document)

    # ------------------------------------------------------------ approvals

    async def approvals(
        self, *, states: Sequence[ApprovalState] = (ApprovalState.PENDING,), limit: int = 100
    ) -> tuple[ApprovalView, ...]:
        """Approvals of the person's tenant, the newest first."""
        found = await self._listed("/v1/approvals", "approvals", {"state": [each.value for each in states]}, limit)
        return tuple(_read(ApprovalView, each) for each in found)

    async def approval(self, approval_id: str) -> ApprovalView:
        return await self._get(ApprovalView, f"/v1/approvals/{_piece(approval_id)}")

    async def approve(self, approval_id: str, *, digest: str, reason: str = "") -> ApprovalView:
        """Sign that exactly the call with this digest may run, once. Nothing runs now."""
        return await self._decide(approval_id, ApprovalDecision.APPROVE, digest, reason)

    async def deny(self, approval_id: str, *, digest: str, reason: str = "") -> ApprovalView:
        return await self._decide(approval_id, ApprovalDecision.DENY, digest, reason)

    async def edit(self, approval_id: str, *, digest: str, arguments: JsonObject | str) -> ApprovalView:
        """Make another question of one that waits, with other arguments; the answer is the new one. Nothing runs."""
        path = f"/v1/approvals/{_piece(approval_id)}/edit"
        ask = Ask(method="POST", path=path, body={"digest": digest, "arguments": arguments}, is_safe=False)
        return _read(ApprovalView, (await self._asked(ask, ok=(201,))).document)

    async def withdraw_vote(self, approval_id: str) -> ApprovalView:
        """Take back one's own vote, while other people's are waited for."""
        path = f"/v1/approvals/{_piece(approval_id)}/withdraw-vote"
        return _read(ApprovalView, (await self._asked(Ask(method="POST", path=path, is_safe=False))).document)

    async def withdraw(self, approval_id: str) -> ApprovalView:
        path = f"/v1/approvals/{_piece(approval_id)}/withdraw"
        return _read(ApprovalView, (await self._asked(Ask(method="POST", path=path, is_safe=False))).document)

    # ------------------------------------------------------------ effects

    async def effects(
        self, *, states: Sequence[EffectState] = tuple(EffectState), limit: int = 100
    ) -> tuple[EffectView, ...]:
        """Effects that this principal may see, the newest change first."""
        found = await self._listed("/v1/effects", "effects", {"state": [each.value for each in states]}, limit)
        return tuple(_read(EffectView, each) for each in found)

    async def effect(self, operation_key: str) -> EffectView:
        return await self._get(EffectView, f"/v1/effects/{_effect_id(operation_key)}")

    async def settle(self, operation_key: str, truth: Truth, *, looked_at: datetime, reason: str) -> EffectView:
        """A person says what became of an unknown effect, from looking at the remote system."""
        body: JsonObject = {"truth": truth.value, "looked_at": document_of(looked_at), "reason": reason}
        return await self._reconciled(operation_key, body, is_safe=False)

    async def probe(self, operation_key: str) -> EffectView:
        """Have the probe of an unknown effect asked now."""
        return await self._reconciled(operation_key, {"truth": "probe"}, is_safe=True)

    # ------------------------------------------------------------ tools, policy, audit

    async def tools(self) -> tuple[JsonObject, ...]:
        """The tools this principal may see, by name."""
        answer = await self._asked(Ask(method="GET", path="/v1/tools"))
        return tuple(_member(answer.document, "tools", list))

    async def policy_version(self) -> str | None:
        version: Any = (await self._asked(Ask(method="GET", path="/v1/policy"))).document.get("version")
        return version if isinstance(version, str) else None

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
        return tuple(await self._listed("/v1/audit", "events", query, limit))

    async def export_audit(self, take: Callable[[bytes], object]) -> None:
        """Give the export of the tenant's audit away, piece by piece.

        Raises:
            AnswerLost: it ended before its end; what was given is no whole export.
        """
        answer = await self._wire.stream(Ask(method="GET", path="/v1/audit/export"), take)
        if answer.status != 200:
            raise _refused(answer)

    async def verify_audit(self) -> AuditWord:
        """Whether the whole audit of the server's store holds; takes as long as reading it."""
        return _read(AuditWord, (await self._asked(Ask(method="POST", path="/v1/audit/verify"))).document)

    # ------------------------------------------------------------ stops

    async def stops(self) -> tuple[StopView, ...]:
        answer = await self._asked(Ask(method="GET", path="/v1/stops"))
        return tuple(_read(StopView, each) for each in _member(answer.document, "stops", list))

    async def stop(self, scope: str, *, reason: str = "", all_tenants: bool = False) -> StopReport:
        body: JsonObject = {"scope": scope, "reason": reason, "all_tenants": all_tenants}
        return _read(StopReport, (await self._asked(Ask(method="POST", path="/v1/stops", body=body))).document)

    async def resume(self, scope: str, *, all_tenants: bool = False) -> None:
        query = {"scope": scope, "all_tenants": "true" if all_tenants else "false"}
        await self._asked(Ask(method="DELETE", path="/v1/stops", query=query, is_safe=False), ok=(204,))

    # ------------------------------------------------------------ within

    async def _turn(self, batch: Sequence[JsonObject], run: str, *, stops: bool) -> tuple[Outcome, ...]:
        proposals: list[JsonValue] = [*batch]
        body: JsonObject = {"run": run, "proposals": proposals, "stop_on_failure": stops}
        answer = await self._asked(Ask(method="POST", path="/v1/proposals/batch", body=body), ok=(200, 422))
        return tuple(outcome_of(each) for each in _member(answer.document, "outcomes", list))

    async def _decide(self, approval_id: str, decision: ApprovalDecision, digest: str, reason: str) -> ApprovalView:
        body: JsonObject = {"decision": decision.value, "digest": digest, "reason": reason}
        path = f"/v1/approvals/{_piece(approval_id)}/decision"
        return _read(ApprovalView, (await self._asked(Ask(method="POST", path=path, body=body))).document)

    async def _reconciled(self, operation_key: str, body: JsonObject, *, is_safe: bool) -> EffectView:
        path = f"/v1/effects/{_effect_id(operation_key)}/reconcile"
        answer = await self._asked(Ask(method="POST", path=path, body=body, is_safe=is_safe))
        return _read(EffectView, answer.document)

    async def _get(self, kind: type[Value], path: str) -> Value:
        return _read(kind, (await self._asked(Ask(method="GET", path=path))).document)

    async def _listed(self, path: str, member: str, query: dict[str, Any], limit: int) -> list[Any]:
        """So many of a list, page after page."""
        found: list[Any] = []
        cursor: object = None
        while len(found) < limit:
            size = {"limit": min(limit - len(found), _MOST_IN_A_PAGE)}
            at = {} if cursor is None else {"cursor": cursor}
            document = (await self._asked(Ask(method="GET", path=path, query={**query, **size, **at}))).document
            found += _member(document, member, list)
            cursor = document.get("next")
            if cursor is None:
                break
        return found[:limit]

    async def _asked(self, ask: Ask, *, ok: tuple[int, ...] = (200,)) -> Answer:
        answer = await sent(self._wire, ask, self._retries)
        if answer.status not in ok:
            raise _refused(answer)
        return answer


def _refused(answer: Answer) -> Exception:
    document = answer.document
    return error_of(answer.status, document if isinstance(document, dict) else {})


def _read(kind: type[Value], document: Any) -> Value:
    return value_of(kind, document)


def _member(document: Any, name: str, kind: type[Value]) -> Value:
    if isinstance(document, dict) and isinstance(document.get(name), kind):
        member: Value = document[name]
        return member
    raise NotADocument


def _preferring(seconds: float) -> dict[str, str]:
    return {"Prefer": f"wait={math.ceil(seconds)}"} if seconds > 0 else {}


def _quoted(key: str) -> str:
    """A key as the header has it.

    Raises:
        MisuseError: it cannot stand there.
    """
    if key.isascii() and key.isprintable():
        return '"' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    raise MisuseError("idempotency_key= is text of 1 to 128 printable ASCII characters.")


def _piece(name: str) -> str:
    return quote(name, safe="")


def _effect_id(operation_key: str) -> str:
    return urlsafe_b64encode(operation_key.encode()).rstrip(b"=").decode("ascii")
