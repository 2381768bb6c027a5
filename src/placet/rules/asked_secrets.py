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
_MOST_PLACES: Final = 100
_MOST_NAME_CHARACTERS: Final = 256
_MOST_CHARACTERS: Final = 16_384
"""Of all that a form says that is looked at, names, titles and descriptions together."""
_TWO_SCRIPTS: Final = re.compile("[a-z][\u0400-\u04ff]|[\u0400-\u04ff][a-z]")
"""Latin and Cyrillic letters side by side in one word look like another word."""
_SAID: Final = ("title", "description")


def asks_for_secret(params: JsonObject) -> bool:
    """Whether a form with these params has a place for free text or digits, and says that a secret belongs there.

    Also where it is none that could be judged: one that nests, or of too many places or words.
    """
    schema = params.get("requestedSchema")
    places = schema.get("properties") if isinstance(schema, dict) else None
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


def _can_be_judged(message: JsonValue, schema: JsonValue, places: JsonObject) -> bool:
    if len(places) > _MOST_PLACES or any(len(name) > _MOST_NAME_CHARACTERS for name in places):
        return False
    if any(not isinstance(said, dict) or not _is_flat(said) for said in places.values()):
        return False
    words = [message if isinstance(message, str) else "", *places]
    for said in (schema, *places.values(), *(_items(said) for said in places.values())):
        words.extend(_word(said, name) for name in _SAID)
    return sum(map(len, words)) <= _MOST_CHARACTERS


def _is_flat(said: JsonObject) -> bool:
    """Whether it is one place, and no form within the form. What is listed is one, too."""
    nests = ("properties", "patternProperties", "additionalProperties")
    if said.get("type") == "object" or any(each in said for each in nests):
        return False
    items = said.get("items")
    if items is None:
        return True
    return isinstance(items, dict) and "items" not in items and _is_flat(items)


def _items(said: JsonValue) -> JsonObject:
    items = said.get("items") if isinstance(said, dict) and said.get("type") == "array" else None
    return items if isinstance(items, dict) else {}


def _is_closed(said: JsonValue) -> bool:
    """Whether whoever fills it in chooses from what the server offers, and so tells it no secret."""
    if not isinstance(said, dict) or _is_hidden(said):
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
    for kind in ("oneOf", "anyOf"):
        if isinstance(offered := said.get(kind), list) and offered:
            return all(isinstance(each, dict) and isinstance(each.get("const"), str) for each in offered)
    return False


def _is_hidden(said: JsonObject) -> bool:
    """Whether what is written there is not to be seen."""
    return said.get("format") == "password" or said.get("writeOnly") is True


def _is_asking(name: str, said: JsonValue) -> bool:
    if not isinstance(said, dict):
        return True
    items = _items(said)
    if _is_hidden(said) or _is_hidden(items):
        return True
    words = _IN_NAMES if said.get("type") in ("integer", "number") else _IN_NAMES + _IN_NAMES_OF_TEXT
    titles = (name, _word(said, "title"), _word(items, "title"))
    return any(_is_secret_name(each, words) for each in titles) or any(
        _is_secret_prose(_word(each, kind)) for each in (said, items) for kind in _SAID
    )


def _word(said: JsonValue, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


def _is_many(spelled: str, text: str) -> bool:
    """Whether letters that stand for many make it so long that nobody writes so."""
    return len(spelled) > 2 * len(text) + 64


def _is_secret_name(name: str, words: tuple[str, ...]) -> bool:
    plain = unicodedata.normalize("NFKC", name)
    if _is_many(plain, name):
        return True
    parts = re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", plain)).casefold().split()
    squeezed = "".join(parts).replace("secretar", "").replace("tokeniz", "")  # who writes, and who cuts up texts
    if any(word in squeezed for word in words) or any(_TWO_SCRIPTS.search(part) for part in parts):
        return True
    return not _PARTS_OF_NAMES.isdisjoint((*parts, *(part.rstrip("0123456789") for part in parts)))


def _is_secret_prose(text: JsonValue) -> bool:
    if not isinstance(text, str):
        return False
    spelled = unicodedata.normalize("NFKC", text)
    if _is_many(spelled, text):
        return True
    plain = re.sub(r"[\s_]+", " ", spelled).casefold()
    return _IN_PROSE.search(plain) is not None or _TWO_SCRIPTS.search(plain) is not None
