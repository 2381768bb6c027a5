"""Whether a form asks a person for a secret, by the words it uses. What is typed into a form goes to the server behind
it, through the client and through us: a page of the server's own (`mode = "url"`) is the place for secrets.

It is the form's own word that is looked at, so a server that calls a password something else is not found out.

Source: CASES K08; the protocol forbids servers to ask for passwords, keys, tokens and payment credentials in forms.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Final

from placet.model.json import JsonObject, JsonValue

# fmt: off
_IN_NAMES: Final = (
    "password", "passwd", "passphrase", "passcode", "passwort", "kennwort", "motdepasse", "contrasena", "contraseña",
    "senha", "пароль", "密码", "密碼", "パスワード", "비밀번호", "creditcard", "debitcard", "cardnumber", "cardno",
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
    r"""pass\W?(?:words?|wd|phrases?|codes?)\b | passwort | kennwort | mot\sde\spasse | contraseña | \bsenha\b | пароль
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
_CLOSED: Final = ("enum", "const", "oneOf", "anyOf")
"""Who chooses from what the server offers tells it no secret."""
_MOST_NAMES: Final = 1_000


def asks_for_secret(params: JsonObject) -> bool:
    """Whether a form with these params has a place for free text or digits, and says that a secret belongs there."""
    schema = params.get("requestedSchema")
    free = list(_free(schema.get("properties"))) if isinstance(schema, dict) else []
    if not free:
        return False
    if _is_secret_prose(params.get("message")) or any(_is_secret_prose(_word(schema, name)) for name in _SAID):
        return True
    return any(_is_asking(name, said) for name, said in free)


_SAID: Final = ("title", "description")


def _free(properties: JsonValue) -> Iterator[tuple[str, JsonObject]]:
    """Each place of a form, at any depth, where whatever somebody likes can be written; the names around it count."""
    waiting: list[tuple[str, JsonValue]] = list(properties.items()) if isinstance(properties, dict) else []
    for count, (name, said) in enumerate(waiting):
        if count >= _MOST_NAMES or not isinstance(said, dict):
            yield name, {}
        elif isinstance(inner := said.get("properties"), dict):
            waiting.extend((f"{name} {each}", value) for each, value in inner.items())
        elif isinstance(items := said.get("items"), dict):
            waiting.append((name, {**items, **{each: said[each] for each in _SAID if each in said}}))
        elif said.get("type") != "boolean" and not any(each in said for each in _CLOSED):
            yield name, said


def _is_asking(name: str, said: JsonObject) -> bool:
    title, prose = _word(said, "title"), _word(said, "description")
    if said.get("format") == "password" or said.get("writeOnly") is True:
        return True
    words = _IN_NAMES if said.get("type") in ("integer", "number") else _IN_NAMES + _IN_NAMES_OF_TEXT
    return any(_is_secret_name(each, words) for each in (name, title)) or any(map(_is_secret_prose, (title, prose)))


def _word(said: JsonValue, name: str) -> str:
    value = said.get(name) if isinstance(said, dict) else None
    return value if isinstance(value, str) else ""


def _is_secret_name(name: str, words: tuple[str, ...]) -> bool:
    plain = unicodedata.normalize("NFKC", name)
    parts = re.sub(r"[\W_]+", " ", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", plain)).casefold().split()
    squeezed = "".join(parts)
    return any(word in squeezed for word in words) or not _PARTS_OF_NAMES.isdisjoint(parts)


def _is_secret_prose(text: JsonValue) -> bool:
    if not isinstance(text, str):
        return False
    plain = re.sub(r"[\s_]+", " ", unicodedata.normalize("NFKC", text)).casefold()
    return _IN_PROSE.search(plain) is not None
