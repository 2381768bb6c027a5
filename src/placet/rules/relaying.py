"""What of an upstream's questions may reach a client, and what of a client's abilities an upstream hears of.

Both sides have a say: the operator names what an upstream may ask (`allow`), the client declares what it can answer.
What is not in both is not advertised, and not asked either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from placet.model.json import JsonObject, JsonValue
from placet.model.ledger import upstream_scope
from placet.model.relaying import Ability, Needed, Question, Refusal
from placet.model.upstreams import Relayed
from placet.rules.asked_secrets import asks_for_secret
from placet.rules.showing import has_invisible
from placet.rules.styled_symbols import unstyled

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
LIST_ROOTS = "roots/list"

MAX_QUESTIONS = 16
"""Questions that an upstream may ask at once."""

MAX_WORDS = 8_192
"""Characters of a description."""
MAX_ASKED_VALUES, MAX_ASKED_CHARACTERS = 4_096, 65_536
"""Of a question to a person, all it offers to choose from included."""

INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
MISSING_CAPABILITY = -32021

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

NOT_THERE = frozenset((-32602, -32002))
"""By which a server says that it has no such resource or prompt."""
NOT_ASKED = Refusal(code=INVALID_REQUEST, message="Nobody can be asked that here.")
SECRET_ASKED = Refusal(code=INVALID_REQUEST, message="No form asks anybody for a secret here; a page of yours may.")
UNKNOWN_QUESTION = "unknown"
QUESTIONS = (*(ability.value for ability in Ability), UNKNOWN_QUESTION)
"""What is asked, as records and metrics name it."""
ELICITED = (Ability.FORM.value, Ability.URL.value)
GIVEN = "given"
ANSWERS = ("accept", "decline", "cancel", GIVEN)
"""How whoever was asked answered; `given`, where it is no person's answer to a form or a page."""
FAILED = "failed"
"""Whoever was asked did not answer."""
REFUSED, SECRET = "refused", "secret"
"""Nobody was asked: it may not be, or a form wants a secret."""

_ADDRESS = re.compile(r"https?://[!-\[\]-~]+")
"""Printable ASCII without a backslash, which browsers take for a slash."""
_THIS_HOST = frozenset(("127.0.0.1", "localhost", "::1"))
_NEEDS = {
    Ability.FORM: Relayed.ELICITATION,
    Ability.URL: Relayed.ELICITATION,
    Ability.SAMPLING: Relayed.SAMPLING,
    Ability.SAMPLING_TOOLS: Relayed.SAMPLING,
    Ability.ROOTS: Relayed.ROOTS,
}


def shared_abilities(relayed: frozenset[Relayed], declared: frozenset[Ability]) -> frozenset[Ability]:
    """What this client can be asked by this upstream."""
    return frozenset(ability for ability in declared if _NEEDS[ability] in relayed)


def declared_abilities(capabilities: JsonObject) -> frozenset[Ability]:
    """What `ClientCapabilities` declare; an elicitation capability with nothing in it means forms."""
    abilities: set[Ability] = set()
    elicitation = capabilities.get("elicitation")
    if isinstance(elicitation, Mapping):
        if "form" in elicitation or not elicitation:
            abilities.add(Ability.FORM)
        if "url" in elicitation:
            abilities.add(Ability.URL)
    sampling = capabilities.get("sampling")
    if isinstance(sampling, Mapping):
        abilities.add(Ability.SAMPLING)
        if "tools" in sampling:
            abilities.add(Ability.SAMPLING_TOOLS)
    if isinstance(capabilities.get("roots"), Mapping):
        abilities.add(Ability.ROOTS)
    return frozenset(abilities)


def capabilities_of(abilities: frozenset[Ability]) -> JsonObject:
    """The `ClientCapabilities` that declare exactly these."""
    capabilities: JsonObject = {}
    elicitation: JsonObject = {}
    if Ability.FORM in abilities:
        elicitation["form"] = {}
    if Ability.URL in abilities:
        elicitation["url"] = {}
    if elicitation:
        capabilities["elicitation"] = elicitation
    if Ability.SAMPLING in abilities:
        capabilities["sampling"] = {"tools": {}} if Ability.SAMPLING_TOOLS in abilities else {}
    if Ability.ROOTS in abilities:
        capabilities["roots"] = {}
    return capabilities


def ability_for(method: str, params: JsonObject) -> Ability | None:
    """What a client needs to be able to answer this question; None if it is none that may be asked at all."""
    match method:
        case "elicitation/create":
            match params.get("mode", "form"):
                case "form":
                    return Ability.FORM
                case "url":
                    return Ability.URL if _may_be_opened(params.get("url")) else None
                case _:
                    return None
        case "sampling/createMessage":
            return Ability.SAMPLING_TOOLS if "tools" in params or "toolChoice" in params else Ability.SAMPLING
        case "roots/list":
            return Ability.ROOTS
        case _:
            return None


def refusal_of(method: str, params: JsonObject, *, abilities: frozenset[Ability]) -> Refusal | None:
    """Why this question does not reach the client; None if it may."""
    needed = ability_for(method, params)
    if needed is None:
        return Refusal(code=METHOD_NOT_FOUND, message="Method not found")
    if needed not in abilities or (method == ELICIT and not (_is_short(params) and _is_drawn(params))):
        return NOT_ASKED
    if needed is Ability.FORM and asks_for_secret(params):
        return SECRET_ASKED
    return None


def question_kind(method: str, params: JsonObject) -> str:
    """What it is that is asked, in one of a few words."""
    needed = ability_for(method, params)
    return UNKNOWN_QUESTION if needed is None else needed.value


def needed_of(result: JsonObject, *, abilities: frozenset[Ability]) -> Needed | None:
    """What an `input_required` result needs; None unless every question of it may reach the client."""
    requests, state = result.get("inputRequests", {}), result.get("requestState")
    if not isinstance(requests, dict) or len(requests) > MAX_QUESTIONS or not (state is None or isinstance(state, str)):
        return None
    questions: list[Question] = []
    for key, request in requests.items():
        if not isinstance(request, dict):
            return None
        method, params = request.get("method"), request.get("params", {})
        if not isinstance(method, str) or not isinstance(params, dict):
            return None
        if refusal_of(method, params, abilities=abilities) is not None:
            return None
        questions.append(Question(key=key, method=method, params=params))
    return Needed(questions=tuple(questions), state=state) if questions or state is not None else None


def questions_in(result: JsonObject) -> tuple[tuple[str, JsonObject], ...]:
    """What an `input_required` result asks, method and params, as far as it can be read; no more than may be asked."""
    requests = result.get("inputRequests")
    found: list[tuple[str, JsonObject]] = []
    for request in list(requests.values())[:MAX_QUESTIONS] if isinstance(requests, dict) else ():
        if isinstance(request, dict) and isinstance(method := request.get("method"), str):
            params = request.get("params")
            found.append((method, params if isinstance(params, dict) else {}))
    return tuple(found)


def answer_kind(method: str, answer: JsonObject) -> str:
    """How a question was answered, in one of a few words; never what was answered."""
    if method != ELICIT:
        return GIVEN
    action = answer.get("action")
    return action if isinstance(action, str) and action in ANSWERS else UNKNOWN_QUESTION


def missing_capabilities(error: JsonObject) -> JsonObject | None:
    """The capabilities that an upstream missed, if that is what its error says, and nothing else of it."""
    data = error.get("data")
    if error.get("code") != MISSING_CAPABILITY or not isinstance(data, dict):
        return None
    required = data.get("requiredCapabilities")
    if not isinstance(required, dict):
        return None
    return {"requiredCapabilities": capabilities_of(declared_abilities(required))}


def is_at_least(level: JsonValue, wanted: str) -> bool:
    """Whether a log message of this level is to be heard by who wants that one and what is worse."""
    if not isinstance(level, str) or level not in LOG_LEVELS or wanted not in LOG_LEVELS:
        return False
    return LOG_LEVELS.index(level) >= LOG_LEVELS.index(wanted)


def halting_scopes(tenant: str, server: str) -> frozenset[str]:
    """The stops under which nothing of an upstream is passed on."""
    return frozenset(("all", f"tenant:{tenant}", f"upstream:{server}", upstream_scope(tenant, server)))


def is_presentable(text: str) -> bool:
    """Whether what an upstream says about itself hides nothing from whoever reads it, and is not endless."""
    if len(text) > MAX_WORDS:
        return False
    return not has_invisible(unstyled(text).replace("\r\n", " ").replace("\n", " ").replace("\t", " "))


def _is_short(params: JsonObject) -> bool:
    """Whether a person could read all of it. It is not looked at any further than that."""
    waiting: list[JsonValue] = [params]
    values = characters = 0
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            characters += len(value)
        elif isinstance(value, dict | list):
            values += len(value)
            if values <= MAX_ASKED_VALUES:
                waiting.extend(value.values() if isinstance(value, dict) else value)
                characters += sum(map(len, value)) if isinstance(value, dict) else 0
        if values > MAX_ASKED_VALUES or characters > MAX_ASKED_CHARACTERS:
            return False
    return True


def _is_drawn(value: JsonValue) -> bool:
    """Whether a person who is asked this sees all of what is asked; names of members too."""
    match value:
        case str():
            return is_presentable(value)
        case dict():
            return all(is_presentable(name) and _is_drawn(inner) for name, inner in value.items())
        case list():
            return all(_is_drawn(inner) for inner in value)
        case _:
            return True


def _may_be_opened(url: JsonValue) -> bool:
    """Whether a person may be sent there: a page of the web or of this host, whose address says where it leads."""
    if not isinstance(url, str) or len(url) > MAX_WORDS or not _ADDRESS.fullmatch(url):
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host or "@" in parts.netloc:
        return False
    return parts.scheme == "https" or host in _THIS_HOST
