"""Whether a form asks a person for a secret, by the words it uses. What is typed into a form goes to the server behind
it, through the client and through us: a page of the server's own (`mode = "url"`) is the place for secrets.

It is the form's own word that is looked at, so a server that calls a password something else is not found out. Forms of
the protocol are flat and short: one that is not is judged to ask for a secret, because nobody could tell.

Source: CASES K08; the protocol forbids servers to ask for passwords, keys, tokens and payment credentials in forms.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from placet.model.json import JsonObject, JsonValue

# fmt: off
_IN_NAMES: Final = (
    "password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "motdepasse", "contrasena", "contraseña",
    "senha", "wachtwoord", "hasło", "lösenord", "salasana",
    "пароль", "密码", "密碼", "パスワード", "비밀번호", "creditcard", "debitcard", "cardnumber", "cardno",
    "securitycode", "onetimecode", "verificationcode", "seedphrase", "recoveryphrase", "recoverycode", "socialsecurity",
)
"""A name that contains one of these, in any case and with any separators, asks for a secret."""
_IN_NAMES_OF_TEXT: Final = (
    "secret", "credential", "apikey", "accesskey", "privatekey", "signingkey", "encryptionkey", "token", "bearer",
    "cookie",
)
"""The same, of what takes more than digits: a number of tokens is no secret."""
_PARTS_OF_NAMES: Final = frozenset(
    ("pwd", "pw", "pass", "pin", "otp", "totp", "mfa", "2fa", "cvv", "cvc", "cvv2", "cvc2", "jwt", "ssn", "mnemonic")
)
"""Too short to look for inside other words."""
_IN_PROSE: Final = re.compile(
    r"""pass\W?(?:words?|wd|phrases?|codes?)\b | wachtwoord | hasło | lösenord | salasana
    | passwort | kennwort | mot\sde\spasse | contraseña | \bsenha\b | пароль
    | 密码 | 密碼 | パスワード | 비밀번호
    | \b(?:api|access|secret|private|signing|encryption)\W?keys?\b | \bclient\W?secrets?\b | \bcredentials?\b
    | \b(?:access|auth|authentication|api|bearer|refresh|id|session|personal|security)\W?tokens?\b
    | \byour\W(?:secret|token|pin|cookie)\b | \bpin\W?(?:code|number)\b
    | \b(?:credit|debit|bank|payment)\W?cards?\b | \bcard\W?(?:number|details)\b | \bcv[vc]2?\b
    | \b(?:one\W?time|verification|security|2fa|mfa|recovery|backup)\W?(?:code|phrase|password)s?\b | \botp\b
    | \bseed\W?phrase\b | \bsocial\W?security\b | \bssn\b""",
    re.VERBOSE,
)
# fmt: on
_OTHER_WORDS: Final = re.compile("secret[aá]i?r|tokeniz")
"""Who writes, and who cuts up texts."""
_MOST_PLACES: Final = 100
_MOST_PARTS: Final = 256
"""Places, with what is listed there, and what may be written there instead of each other."""
_MOST_ALTERNATIVES: Final = 8
_MOST_NAME_CHARACTERS: Final = 256
_MOST_CHARACTERS: Final = 16_384
"""Of all that a form says that is looked at, names, titles and descriptions together."""
_ALIKE: Final = "\u0400-\u04ff\u0530-\u058f\u13a0-\u13ff\uab70-\uabbf\u03b9\u03ba\u03bf\u03c1"
"""Letters of other scripts that are drawn as Latin ones: Cyrillic, Armenian, Cherokee, and those of Greek that stand in
no sign of a unit."""
_TWO_SCRIPTS: Final = re.compile(f"[a-z][{_ALIKE}]|[{_ALIKE}][a-z]")
"""Side by side in one word they look like another word."""
_SAID: Final = ("title", "description")
_SEVERAL: Final = ("anyOf", "oneOf")
_BESIDE: Final = (
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "dependentSchemas",
    "dependencies",
    "$ref",
    "$dynamicRef",
    "$recursiveRef",
    "allOf",
    "not",
    "if",
    "then",
    "else",
    "prefixItems",
    "contains",
    "unevaluatedItems",
    "additionalItems",
    "contentSchema",
)
"""Members that put further places, or their words, where no form of the protocol has any."""


def asks_for_secret(params: JsonObject) -> bool:
    """Whether a form with these params has a place for free text or digits, and says that a secret belongs there.

    Also where it is none that could be judged: one that nests, or of too many places or words.
    """
    schema = params.get("requestedSchema")
    if not isinstance(schema, dict):
        return False
    if any(isinstance(said := schema.get(name), dict | list | str) and said for name in (*_BESIDE, *_SEVERAL)):
        return True
    places = schema.get("properties")
    if not isinstance(places, dict) or not places:
        return False
    if not _can_be_judged(params.get("message"), schema, places):
        return True
    free = [(name, said) for name, said in places.items() if not _is_closed(said)]
    if not free:
        return False
    if _is_secret_prose(params.get("message")) or any(_is_secret_prose(_word(schema, name)) for name in _SAID):
        return True
    return any(_is_asking(name, said) for name, said in free)


def _can_be_judged(message: JsonValue, schema: JsonObject, places: JsonObject) -> bool:
    if len(places) > _MOST_PLACES or any(len(name) > _MOST_NAME_CHARACTERS for name in places):
        return False
    parts = [schema]
    for said in places.values():
        if not isinstance(said, dict) or not _is_flat(said):
            return False
        parts += _parts(said)
        if len(parts) > _MOST_PARTS:
            return False
    words = [message if isinstance(message, str) else "", *places, *(word for part in parts for word in _words(part))]
    return sum(map(len, words)) <= _MOST_CHARACTERS


def _is_flat(said: JsonObject, *, above: tuple[str, ...] = ()) -> bool:
    """Whether it is one place, and no form within the form. What is listed is one, too, and so is one of several.

    Args:
        above: what it may not have, since it is within one.
    """
    kind = said.get("type")
    if "object" in (kind if isinstance(kind, list) else (kind,)):
        return False
    if any(name in said for name in ("properties", *_BESIDE, *above)):
        return False
    items = said.get("items")
    if items is not None and not (isinstance(items, dict) and _is_flat(items, above=(*above, "items"))):
        return False
    alternatives = _alternatives(said)
    if len(alternatives) > _MOST_ALTERNATIVES:
        return False
    return all(isinstance(each, dict) and _is_flat(each, above=(*above, *_SEVERAL)) for each in alternatives)


def _alternatives(said: JsonObject) -> list[JsonValue]:
    """What may be written there instead of each other, but for what is only chosen."""
    several = (said.get(kind) for kind in _SEVERAL)
    return [each for some in several if isinstance(some, list) for each in some if not _is_choice(each)]


def _is_choice(said: JsonValue) -> bool:
    return isinstance(said, dict) and isinstance(said.get("const"), str)


def _parts(said: JsonObject) -> list[JsonObject]:
    """A flat place, and all that stands in it: what is listed, and what it may be one of."""
    within = [each for each in (said.get("items"), *_alternatives(said)) if isinstance(each, dict)]
    return [said, *(part for each in within for part in _parts(each))]


def _items(said: JsonObject) -> JsonObject:
    items = said.get("items") if said.get("type") == "array" else None
    return items if isinstance(items, dict) else {}


def _is_closed(said: JsonValue) -> bool:
    """Whether whoever fills it in chooses from what the server offers, and so tells it no secret."""
    if not isinstance(said, dict) or _is_hidden(said) or _alternatives(said):
        return False
    match said.get("type"):
        case "boolean":
            return True
        case "array":
            return _offers(_items(said))
        case _:
            return _offers(said)


def _offers(said: JsonObject) -> bool:
    if _is_hidden(said):
        return False
    if isinstance(offered := said.get("enum"), list) and offered:
        return all(isinstance(each, str) for each in offered)
    for kind in _SEVERAL:
        if isinstance(offered := said.get(kind), list) and offered:
            return all(map(_is_choice, offered))
    return False


def _is_hidden(said: JsonObject) -> bool:
    """Whether what is written there is not to be seen."""
    return said.get("format") == "password" or said.get("writeOnly") is True


def _is_asking(name: str, said: JsonValue) -> bool:
    if not isinstance(said, dict):
        return True
    parts = _parts(said)
    if any(map(_is_hidden, parts)):
        return True
    kinds = {part["type"] for part in parts if isinstance(part.get("type"), str)} - {"null"}
    words = _IN_NAMES if kinds and kinds <= {"integer", "number"} else _IN_NAMES + _IN_NAMES_OF_TEXT
    titles = (name, *(_word(part, "title") for part in parts))
    return any(_is_secret_name(each, words) for each in titles) or any(
        _is_secret_prose(word) for part in parts for word in _words(part)
    )


def _words(said: JsonObject) -> list[str]:
    return [_word(said, name) for name in _SAID]


def _word(said: JsonObject, name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""


def _spelled(text: str) -> tuple[str, ...]:
    """A text as it is read, and again without the marks on its letters; nothing, where letters that stand for many make
    it so long that nobody writes so."""
    whole = unicodedata.normalize("NFKC", text)
    if len(whole) > 2 * len(text) + 64:
        return ()
    if whole.isascii():
        return (whole,)
    letters = "".join(each for each in unicodedata.normalize("NFKD", whole) if not unicodedata.combining(each))
    return whole, unicodedata.normalize("NFKC", letters)


def _is_secret_name(name: str, words: tuple[str, ...]) -> bool:
    spelled = _spelled(name)
    return not spelled or any(_is_secret_word(each, words) for each in spelled)


def _is_secret_word(plain: str, words: tuple[str, ...]) -> bool:
    parts = re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", plain)).casefold().split()
    squeezed = _OTHER_WORDS.sub("", "".join(parts))
    if any(word in squeezed for word in words) or any(_TWO_SCRIPTS.search(part) for part in parts):
        return True
    return not _PARTS_OF_NAMES.isdisjoint((*parts, *(part.rstrip("0123456789") for part in parts)))


def _is_secret_prose(text: JsonValue) -> bool:
    if not isinstance(text, str):
        return False
    spelled = _spelled(text)
    return not spelled or any(_is_secret_text(re.sub(r"[\s_]+", " ", each).casefold()) for each in spelled)


def _is_secret_text(plain: str) -> bool:
    return _IN_PROSE.search(plain) is not None or _TWO_SCRIPTS.search(plain) is not None
