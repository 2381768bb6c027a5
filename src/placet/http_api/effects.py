"""`/v1/effects`: what the ledger knows, and settling what is unknown. Arguments and results are nowhere in it."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from placet.engine.effect_views import EffectView, standing_of_effect
from placet.engine.settling import Truth
from placet.errors import DecisionRefused, NotFound
from placet.http_api import describing
from placet.http_api.bodies import choice_member, member_refused, read_document, text_member
from placet.http_api.door import door_of, refuse_repeated, signed_in
from placet.http_api.outcomes import effect_id_of, json_response, operation_key_of
from placet.http_api.paging import CURSOR, LIMIT, cursor_of, mark_of
from placet.http_api.problems import HttpProblem
from placet.model.effect import EffectState
from placet.model.json import JsonObject
from placet.model.principal import Principal, Standing
from placet.rules.documents import document_of
from placet.rules.policy import RECONCILE_SCOPE

router = APIRouter(tags=["effects"])
SignedIn = Annotated[Principal, Depends(signed_in)]
_CODE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.:-]{0,127}")
_MOST_INSTANT = 40
_LOOK: JsonObject = {
    "looked_at": {"type": "string", "format": "date-time", "description": "When your look began."},
    "reason": {"type": "string", "pattern": "^[a-zA-Z][a-zA-Z0-9_.:-]{0,127}$", "description": "The kind of evidence."},
}
_TRUTH: JsonObject = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"truth": {"enum": ["committed", "absent"], "description": "What you saw."}, **_LOOK},
            "required": ["truth", "looked_at", "reason"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"truth": {"const": "probe", "description": "Ask the probe, now."}},
            "required": ["truth"],
            "additionalProperties": False,
        },
    ]
}


@router.get(
    "/v1/effects",
    operation_id="listEffects",
    summary="Effects of your tenant that you may see, the newest change first",
    responses={
        **describing.problems(400, 422),
        200: describing.answer("A page of them.", describing.listed("effects", "Effect")),
    },
)
async def list_effects(
    request: Request,
    principal: SignedIn,
    state: Annotated[list[EffectState] | None, Query(description="All if absent; repeatable.")] = None,
    limit: LIMIT = 100,
    cursor: CURSOR = None,
) -> Response:
    """One's own, or all of the tenant's with the scope `effects.read`."""
    door = door_of(request)
    refuse_repeated(request, many=frozenset({"state"}))
    states = tuple(sorted(set(state or EffectState)))
    of: JsonObject = {"list": "effects", "states": [each.value for each in states]}
    after = await mark_of(door, cursor, of=of, by=principal)
    page = await door.gate.reconciler.page(by=principal, states=states, limit=limit, after=after)
    return json_response(
        {"effects": [_document(view) for view in page.rows], "next": await cursor_of(door, page, of=of, by=principal)}
    )


@router.get(
    "/v1/effects/{effect_id}",
    operation_id="showEffect",
    summary="One effect",
    responses={**describing.problems(404), 200: describing.answer("The effect.", describing.named("Effect"))},
)
async def show_effect(effect_id: str, request: Request, principal: SignedIn) -> Response:
    """`effect_id` is the operation key in base64url, as `Location` and lists give it."""
    refuse_repeated(request)
    key = operation_key_of(effect_id)
    return json_response(_document(await door_of(request).gate.reconciler.show(key, by=principal)))


@router.post(
    "/v1/effects/{effect_id}/reconcile",
    operation_id="reconcile",
    summary="Learn what became of an unknown effect, and settle it",
    responses={
        **describing.problems(400, 403, 404, 408, 409, 413, 415, 422),
        200: describing.answer("The effect as it stands now.", describing.named("Effect")),
    },
    openapi_extra=describing.body(_TRUTH),
)
async def reconcile(effect_id: str, request: Request, principal: SignedIn) -> Response:
    """For people with `effects.reconcile`. `probe` asks the contract's probe now; otherwise say what you saw yourself,
    when your look began, and by which kind of evidence."""
    door = door_of(request)
    document = await read_document(request, door.settings, members=frozenset({"truth", "looked_at", "reason"}))
    truth = choice_member(document, "truth", ("committed", "absent", "probe"))
    key, reconciler = operation_key_of(effect_id), door.gate.reconciler
    if truth == "probe":
        if len(document) > 1:
            raise member_refused("truth", "committed or absent, where something was seen")
        return json_response(_document(await reconciler.probe_now(key, by=principal)))
    looked_at = _instant(text_member(document, "looked_at", most=_MOST_INSTANT))
    reason = text_member(document, "reason", most=128)
    if _CODE.fullmatch(reason) is None:
        raise member_refused("reason", "a code such as seen_in_desk")
    try:
        await reconciler.settle_by_person(key, Truth(truth), by=principal, looked_at=looked_at, reason=reason)
    except DecisionRefused as refused:
        refusal = refused
    else:
        return json_response(_document(await reconciler.show(key, by=principal)))
    may_look = principal.standing is Standing.PERSON and RECONCILE_SCOPE in principal.scopes
    try:
        view = await reconciler.show(key, by=principal) if may_look else None
    except NotFound:
        view = None
    if view is None:
        raise refusal
    raise HttpProblem.about(refusal, {"changed": standing_of_effect(view)})


def _document(view: EffectView) -> JsonObject:
    document = document_of(view)
    assert type(document) is dict  # noqa: S101  a view has members
    return {"effect_id": effect_id_of(view.operation_key), **document}


def _instant(text: str) -> datetime:
    instant: datetime | None = None
    with suppress(ValueError):
        instant = datetime.fromisoformat(text)
    if instant is None or instant.tzinfo is None or not 1 < instant.year < 9_999:
        raise member_refused("looked_at", "an instant with its zone, such as 2026-03-01T12:00:00Z")
    return instant
