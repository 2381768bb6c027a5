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
    "a number behind it": form(pwd1=TEXT),
    "two scripts": form(x={**TEXT, "title": "P\u0430ssword"}),
    "two scripts in the message": form("Enter your p\u0430ssword", x=TEXT),
    "nested, whatever it says": form(x={"type": "object", "properties": {"y": TEXT}}),
    "a list of forms": form(x={"type": "array", "items": {"type": "object", "properties": {"y": TEXT}}}),
    "a list of lists": form(x={"type": "array", "items": {"type": "array", "items": TEXT}}),
    "more places than anybody reads": form(**{f"x{number}": TEXT for number in range(101)}),
    "a name without end": form(**{"x" * 257: TEXT}),
    "words without end": form(**{name: {**TEXT, "description": "y" * 8_000} for name in "abc"}),
    "words without end, of lists": form("y" * 8_000, x={"type": "array", "items": {**TEXT, "title": "y" * 8_000},
        "title": "y" * 1_000}),
    "a list of hidden words": form(x={"type": "array", "items": {**TEXT, "format": "password"}}),
    "chosen, and hidden": form(x={**TEXT, "enum": ["a"], "format": "password"}),
    **{f"closed by {name}": form(password={**TEXT, "title": "Password", **member}) for name, member in {
        "anyOf of nothing said": {"anyOf": [{"minLength": 1}]}, "anyOf empty": {"anyOf": []},
        "anyOf of something": {"anyOf": [{}]}, "oneOf pattern": {"oneOf": [{"pattern": "."}]},
        "oneOf empty": {"oneOf": []}, "one of them open": {"oneOf": [{"const": "a"}, {}]}, "enum empty": {"enum": []},
        "enum of nothing": {"enum": [None]}, "const of nothing": {"const": None}, "properties": {"properties": {}},
        "items boolean": {"items": {"type": "boolean"}}, "items enum": {"items": {"enum": ["x"]}},
    }.items()},
}  # fmt: skip
PASSWORD: dict[str, Any] = {**TEXT, "title": "Password"}
ELSEWHERE: dict[str, dict[str, Any]] = {
    "a reference": form(x={"$ref": "#/$defs/x"}),
    "parts": form(x={"allOf": [PASSWORD]}),
    "one of several": form(x={"anyOf": [PASSWORD, {"type": "null"}]}),
    "one of several, in a list": form(x={"type": "array", "items": {"oneOf": [TEXT, {"title": "PIN"}]}}),
    "one of several forms": form(x={"anyOf": [{"type": "object"}, TEXT]}),
    "one of several of several": form(x={"anyOf": [{"anyOf": [PASSWORD]}]}),
    "one of several, hidden": form(x={"anyOf": [{**TEXT, "format": "password"}]}),
    "one of several that is none": form(x={"anyOf": [TEXT, True]}),
    "one of very many": form(x={"anyOf": [TEXT] * 9}),
    "many of several": form(**{f"x{number}": {"anyOf": [TEXT] * 8} for number in range(30)}),
    "a yes or no that is something else": form(x={"type": "boolean", "anyOf": [PASSWORD]}),
    "a choice that is something else": form(x={**TEXT, "enum": ["a"], "oneOf": [PASSWORD]}),
    "a condition": form(x={**TEXT, "if": {}, "then": PASSWORD}),
    "a list of first ones": form(x={"type": "array", "prefixItems": [PASSWORD]}),
    "marks": form(x={**TEXT, "title": "Passwo\u0323rd"}),
    "marks in the message": form("Enter your passwo\u0323\u0301rd", x=TEXT),
    "Greek": form(x={**TEXT, "title": "Passw\u03bfrd"}),
    "Armenian": form("Enter your passw\u0585rd", x=TEXT),
    **{f"beside {len(places)} places, in {name}": {"message": "Go on?", "requestedSchema": {
        "type": "object", "properties": places, name: said}}
        for name, said in {
            "allOf": [{"properties": {"password": TEXT}}], "anyOf": [{"properties": {"password": TEXT}}],
            "oneOf": [{"properties": {"password": TEXT}}], "then": {"properties": {"password": TEXT}},
            "patternProperties": {".": PASSWORD}, "additionalProperties": PASSWORD, "$ref": "#/$defs/x",
            "unevaluatedProperties": PASSWORD, "dependentSchemas": {"ok": {"properties": {"password": TEXT}}},
        }.items() for places in ({}, {"ok": {"type": "boolean"}})},
}  # fmt: skip
HARMLESS: dict[str, dict[str, Any]] = {
    "one that may be left out": form(
        nickname={"anyOf": [TEXT, {"type": "null"}], "title": "Nickname", "default": None}
    ),
    "closed": {
        "message": "Who?",
        "requestedSchema": {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "title": "Ask",
            "required": ["name"],
            "properties": {"name": TEXT},
            "additionalProperties": False,
            "$defs": {},
            "allOf": [],
        },
    },
    "marks, and units": form("Tên, größe", x={**TEXT, "title": "Länge in μm"}, y={**TEXT, "title": "kΩ"}),
    "name": form("Who are you?", name=TEXT, email={**TEXT, "format": "email"}, age={"type": "integer"}),
    "confirmation": form("Reset the password of ann?", confirm={"type": "boolean"}),
    "a choice": form("Which credentials?", which={**TEXT, "enum": ["staging", "production"]}),
    "choices": form(password_policy={"type": "array", "items": {"type": "string", "enum": ["weak", "strong"]}}),
    "titled choices": form(secret={**TEXT, "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]}),
    "titled choices, several": form(tokens={"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}),
    "a list of words": form(x={"type": "array", "items": TEXT}),
    "other words": form(secretary=TEXT, tokenizer=TEXT, secrétaire=TEXT, secretaría=TEXT, secretária=TEXT),
    "one script each": form("Имя, name", имя=TEXT),
    "nothing to fill in": form("Your password has run out. Go on?"),
    "words inside words": form("Which spinning compass, by author?", compass=TEXT, opinion=TEXT, spin=TEXT),
    "an order": form("Pin the message? Say why.", reason=TEXT, card_colour=TEXT),
    "how many": form(max_tokens={"type": "integer"}, secrets_kept={"type": "number"}),
    "no schema": {"message": "password"},
    "nothing": {},
}


@pytest.mark.case("K08")
@pytest.mark.parametrize("params", (SECRETS | ELSEWHERE).values(), ids=SECRETS | ELSEWHERE)
def test_a_form_that_asks_for_a_secret_is_not_asked(params: dict[str, Any]) -> None:
    assert asks_for_secret(params)
    assert relaying.refusal_of("elicitation/create", params, abilities=ALL) == relaying.SECRET_ASKED


@pytest.mark.parametrize("params", HARMLESS.values(), ids=HARMLESS)
def test_a_form_that_asks_for_none_is_asked(params: dict[str, Any]) -> None:
    assert not asks_for_secret(params)
    assert relaying.refusal_of("elicitation/create", params, abilities=ALL) is None


@pytest.mark.parametrize(
    "more",
    [{"enum": ["x"] * 5_000}, {"default": {"x": "y" * 8_000, **{f"z{each}": "y" * 8_000 for each in range(8)}}}],
    ids=["values", "words"],
)
def test_what_nobody_reads_to_its_end_is_not_asked_and_not_looked_at_to_its_end(more: dict[str, Any]) -> None:
    asked = form(x={**TEXT, **more})
    assert relaying.refusal_of("elicitation/create", asked, abilities=ALL) == relaying.NOT_ASKED


def test_letters_that_stand_for_many_are_not_spelled_out() -> None:
    """One of these is eighteen, and a form of nothing else would be looked at for as much longer."""
    assert asks_for_secret(form(x={**TEXT, "title": "\ufdfa" * 200}))
    assert not asks_for_secret(form(x={**TEXT, "title": "\ufdfa"}))


def test_a_page_is_the_place_for_secrets() -> None:
    page = {"mode": "url", "message": "Enter your password there.", "url": "https://desk.example/in"}
    assert relaying.refusal_of("elicitation/create", page, abilities=ALL) is None
