"""The client of one request, as an upstream may reach it: asked at once or by the answer, and told of logs.

Who asks is always said: a person sees which server wants to know, and that it is not placet that asks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import BaseModel, ValidationError

from placet.mcp_server.relay_record import Record
from placet.mcp_server.state import can_come_back
from placet.model.json import JsonObject
from placet.model.relaying import Ability, Needed, Refusal, Resumption
from placet.ports.relay import RelayRefused
from placet.rules import relaying

Context = ServerRequestContext[Any, Any]

_MOST_ASKED: Final = relaying.MAX_QUESTIONS
"""Questions of one request that reach its client while it waits; a person answers no more."""
_STATE: Final = "relay"
_UNRECORDED: Final = "That somebody is asked cannot be put on record now, so nobody was."
_ANSWERS: Final[Mapping[str, type[BaseModel]]] = {
    relaying.ELICIT: types.ElicitResult,
    relaying.SAMPLE: types.CreateMessageResultWithTools,
    relaying.LIST_ROOTS: types.ListRootsResult,
}
_QUESTIONS: Final[Mapping[str, type[types.ElicitRequest | types.CreateMessageRequest | types.ListRootsRequest]]] = {
    relaying.ELICIT: types.ElicitRequest,
    relaying.SAMPLE: types.CreateMessageRequest,
    relaying.LIST_ROOTS: types.ListRootsRequest,
}


class ClientCaller:
    """One request of one client.

    Args:
        server: our id of the upstream that the request goes to.
        names_asker: whether a form is introduced with that id; a page to open always is.
        log_level: what the client set for its session; since 2026-07-28 each request says it.
        given: what the request came back with.
        record: takes note of each question that reaches the client, and of what kind of answer goes back.
    """

    def __init__(
        self,
        ctx: Context,
        *,
        server: str,
        names_asker: bool,
        log_level: str | None,
        given: Brought | None,
        record: Record,
    ) -> None:
        self._ctx = ctx
        self._server = server
        self._names_asker = names_asker
        self._level = log_level
        self._given = given
        self._record = record
        self._asked = 0
        self._needed: Needed | None = None
        self._refusal: Refusal | None = None
        declared = ctx.session.client_capabilities
        said = {} if declared is None else declared.model_dump(by_alias=True, mode="json", exclude_none=True)
        self._abilities = relaying.declared_abilities(said)

    # ------------------------------------------------------------ what an upstream may do

    @property
    def abilities(self) -> frozenset[Ability]:
        return self._abilities

    @property
    def can_be_asked(self) -> bool:
        return self._ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS and self._ctx.session.can_send_request

    @property
    def log_level(self) -> str | None:
        if self._ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return self._level
        wanted = (self._ctx.meta or {}).get(types.LOG_LEVEL_META_KEY)
        return wanted if isinstance(wanted, str) and wanted in relaying.LOG_LEVELS else None

    def resumption(self) -> Resumption | None:
        return None if self._given is None else self._given.resumption

    async def ask(self, method: str, params: JsonObject) -> JsonObject:
        if not self.can_be_asked:
            raise RelayRefused(relaying.NOT_ASKED)
        kind = relaying.question_kind(method, params)
        self._asked += 1
        if self._asked > _MOST_ASKED:
            self._record.refused(kind)
            raise RelayRefused(relaying.NOT_ASKED)
        if not await self._record.asked((kind,)):
            raise RelayRefused(relaying.NOT_ASKED)
        refusal: Refusal | None = None
        said: JsonObject | None = None
        try:
            question = _QUESTIONS[method].model_validate({"method": method, "params": self._introduced(method, params)})
            metadata = ServerMessageMetadata(related_request_id=self._ctx.request_id)
            answer = await self._ctx.session.send_request(question, _ANSWERS[method], metadata=metadata)
            said = answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        except MCPError as error:
            refusal = Refusal(code=error.code, message="The client did not answer.")
        except (ValidationError, KeyError):
            refusal = Refusal(code=relaying.INVALID_REQUEST, message="That cannot be asked, or was not answered.")
        word = relaying.FAILED if said is None else relaying.answer_kind(method, said)
        if not await self._record.answered(((kind, word),)):
            raise RelayRefused(relaying.NOT_ASKED)
        if said is not None:
            return said
        raise RelayRefused(refusal or relaying.NOT_ASKED)

    async def bring(self) -> None:
        """Put on record what it came back with, before any of it goes out.

        Raises:
            MCPError: it cannot be put on record, so none of it goes out.
        """
        if self._given is not None and not await self._record.answered(self._given.answers):
            raise MCPError(types.INTERNAL_ERROR, "The answers cannot be put on record now, so none was passed on.")

    def leave(self, needed: Needed) -> None:
        self._needed = needed

    def refuse(self, refusal: Refusal) -> None:
        self._refusal = refusal

    async def logged(self, params: JsonObject) -> None:
        logger = params.get("logger")
        said = {
            "level": params.get("level"),
            "logger": f"{self._server}.{logger}" if isinstance(logger, str) else self._server,
            "data": params.get("data"),
        }
        try:
            notification = types.LoggingMessageNotification.model_validate(
                {"method": "notifications/message", "params": said}
            )
        except ValidationError:
            return
        await self._ctx.session.send_notification(notification, related_request_id=self._ctx.request_id)

    # ------------------------------------------------------------ how the request is answered

    async def answer(self, kept: JsonObject) -> types.InputRequiredResult | None:
        """What is to be answered in place of a result; None if the result is the answer.

        Args:
            kept: what the client has to bring back, sealed, besides what the upstream wants back.

        Raises:
            MCPError: the answer is an error.
        """
        if self._refusal is not None:
            raise MCPError(self._refusal.code, self._refusal.message, self._refusal.data)
        if self._needed is None:
            return None
        kept_here: dict[str, Any] = {
            _STATE: self._server,
            "state": self._needed.state,
            "kept": kept,
            "asked": {
                question.key: relaying.question_kind(question.method, question.params)
                for question in self._needed.questions
            },
        }
        state = json.dumps(kept_here, separators=(",", ":"))
        requests = {
            question.key: {"method": question.method, "params": self._introduced(question.method, question.params)}
            for question in self._needed.questions
        }
        fault = "The server behind this asks something that cannot be asked."
        if not can_come_back(state):
            raise MCPError(types.INTERNAL_ERROR, fault)
        try:
            result = types.InputRequiredResult.model_validate(
                {"resultType": "input_required", "inputRequests": requests or None, "requestState": state}
            )
            if await self._record.asked(tuple(kept_here["asked"].values())):
                return result
            fault = _UNRECORDED
        except ValidationError:
            pass
        raise MCPError(types.INTERNAL_ERROR, fault)

    def _introduced(self, method: str, params: JsonObject) -> JsonObject:
        introduced = {name: value for name, value in params.items() if name not in ("_meta", "task")}
        message = introduced.get("message")
        is_said = self._names_asker or params.get("mode") == "url"  # a page could look like the one of an approval
        if method == relaying.ELICIT and is_said and isinstance(message, str):
            introduced["message"] = f"[{self._server}] {message}"
        return introduced


@dataclass(frozen=True, slots=True, kw_only=True)
class Brought:
    """What a client came back with.

    Attributes:
        answers: the kind of each question that it answers, and how.
    """

    resumption: Resumption
    answers: tuple[tuple[str, str], ...]


def brought_by(params: types.InputResponseRequestParams, *, server: str) -> Brought | None:
    """What a client came back with for this upstream; the state was opened before.

    Nothing without a state of ours, and no answer that was not asked for: neither contract nor policy nor the name of
    the operation would know of it.
    """
    opened = _opened(params.request_state)
    if opened is None or opened[_STATE] != server:
        return None
    responses: JsonObject | None = None
    answers: list[tuple[str, str]] = []
    if params.input_responses is not None:
        responses = {
            key: response.model_dump(by_alias=True, mode="json", exclude_none=True)
            for key, response in params.input_responses.items()
            if key in opened["asked"]
        }
        for key, said in responses.items():
            kind = _kind_of(opened["asked"], key)
            method = relaying.ELICIT if kind in relaying.ELICITED else ""
            answers.append((kind, relaying.answer_kind(method, said if isinstance(said, dict) else {})))
    state = opened["state"]
    if responses is None and state is None:
        return None
    return Brought(resumption=Resumption(responses=responses, state=state), answers=tuple(answers))


def _kind_of(asked: Any, key: str) -> str:
    """What was asked under this key; states that were sealed before kinds were kept have the keys alone."""
    kind = asked.get(key) if isinstance(asked, dict) else None
    return kind if kind in relaying.QUESTIONS else relaying.UNKNOWN_QUESTION


def kept_in(request_state: str) -> JsonObject | None:
    """What was kept in a state of ours; None where the state is another's. The seal has shown that we wrote it."""
    opened = _opened(request_state)
    return None if opened is None else opened["kept"]


def _opened(request_state: str | None) -> Any:
    if request_state is None or not request_state.startswith(f'{{"{_STATE}":'):
        return None
    return json.loads(request_state)
