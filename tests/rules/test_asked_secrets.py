"""Which forms ask a person for a secret."""

from __future__ import annotations

from typing import Any

import pytest

from placet.model.relaying import Ability
from placet.rules import relaying
from placet.rules.asked_secrets import asks_for_secret

ALL = frozenset(Ability)
TEXT: dict[str, Any] = {"type": "string"}


def form(message: str = "Please fill in.", **properties: Any) -> dict[str, Any]:
    return {"message": message, "requestedSchema": {"type": "object", "properties": properties}}


SECRETS: dict[str, dict[str, Any]] = {
    "password": form(password=TEXT),
    "a part of a name": form(dbPassword=TEXT),
    "capitals": form(API_KEY=TEXT),
    "dashes": form(**{"api-key": TEXT}),
    "full width": form(**{"ｐａｓｓｗｏｒｄ": TEXT}),
    "token": form(github_token=TEXT),
    "pin": form(pin={"type": "integer"}),
    "otp": form(otpCode=TEXT),
    "card": form(cardNumber=TEXT),
    "cvv": form(cvv={"type": "number"}),
    "title": form(x={**TEXT, "title": "Client secret"}),
    "short title": form(x={**TEXT, "title": "PIN"}),
    "description": form(x={**TEXT, "description": "The access token of your account"}),
    "format": form(x={**TEXT, "format": "password"}),
    "write only": form(x={**TEXT, "writeOnly": True}),
    "message": form("Enter your password to go on", x=TEXT),
    "message over lines": form("Your one\ntime\ncode, please", x=TEXT),
    "other languages": form("Bitte das Kennwort eingeben", x=TEXT),
    "schema's description": {"message": "Go on?", "requestedSchema": {
        "type": "object", "description": "Credit card details", "properties": {"x": TEXT}}},
    "inside": form(account={"type": "object", "properties": {"password": TEXT}}),
    "named outside": form(password={"type": "object", "properties": {"value": TEXT}}),
    "a list of them": form(x={"type": "array", "title": "Recovery codes", "items": TEXT}),
    "a schema that is none": form(password=True),
    "no mode said": {**form(secret=TEXT), "mode": "form"},
}  # fmt: skip
HARMLESS: dict[str, dict[str, Any]] = {
    "name": form("Who are you?", name=TEXT, email={**TEXT, "format": "email"}, age={"type": "integer"}),
    "confirmation": form("Reset the password of ann?", confirm={"type": "boolean"}),
    "a choice": form("Which credentials?", which={**TEXT, "enum": ["staging", "production"]}),
    "choices": form(password_policy={"type": "array", "items": {"type": "string", "enum": ["weak", "strong"]}}),
    "nothing to fill in": form("Your password has run out. Go on?"),
    "words inside words": form("Which spinning compass, by author?", compass=TEXT, opinion=TEXT, spin=TEXT),
    "an order": form("Pin the message? Say why.", reason=TEXT, card_colour=TEXT),
    "how many": form(max_tokens={"type": "integer"}, secrets_kept={"type": "number"}),
    "no schema": {"message": "password"},
    "nothing": {},
}


@pytest.mark.case("K08")
@pytest.mark.parametrize("params", SECRETS.values(), ids=SECRETS)
def test_a_form_that_asks_for_a_secret_is_not_asked(params: dict[str, Any]) -> None:
    assert asks_for_secret(params)
    assert relaying.refusal_of("elicitation/create", params, abilities=ALL) == relaying.SECRET_ASKED


@pytest.mark.parametrize("params", HARMLESS.values(), ids=HARMLESS)
def test_a_form_that_asks_for_none_is_asked(params: dict[str, Any]) -> None:
    assert not asks_for_secret(params)
    assert relaying.refusal_of("elicitation/create", params, abilities=ALL) is None


def test_a_page_is_the_place_for_secrets() -> None:
    page = {"mode": "url", "message": "Enter your password there.", "url": "https://desk.example/in"}
    assert relaying.refusal_of("elicitation/create", page, abilities=ALL) is None
