"""What the name of a field says about its value: a secret, what people or models said, or the name of a thing.

Source: REQUIREMENTS B144-B148, B163.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from enum import Enum
from typing import Final

from placet.rules.placeholders import MAX_TEXT

# fmt: off
SECRET_WORDS: Final = frozenset((
    "authorization", "api_key", "apikey", "access_key", "private_key", "credential", "cookie", "secret", "token",
    "password", "passwd", "passphrase", "pwd", "phone", "mobile", "msisdn", "密码", "密钥", "令牌", "手机", "电话",
))
"""A key that contains one of these, in any case and with any separators, holds a secret."""
SECRET_PARTS: Final = frozenset(("auth", "bearer", "cvc", "cvv", "jwt", "otp", "pin", "pw", "ssn"))
"""Too short to look for inside other words: secret only as a whole part of a key, as in `db_pw`."""
CONTENT_KEYS: Final = frozenset((
    "question", "answer", "prompt", "completion", "query", "transcript", "messages", "message_text", "document_text",
    "text", "arguments", "args", "kwargs", "input", "result", "results", "output", "content", "contents", "body",
    "reason", "comment", "note", "justification",
))
"""A key that is one of these, or ends in one as in `system_prompt`, holds what people or models said."""
IDENTIFIER_PARTS: Final = frozenset(("id", "ids", "uuid", "guid", "no", "number", "ref"))
"""A key whose last part is one of these names a thing."""
# fmt: on


class KeyKind(Enum):
    """What a key says about its value; a key is of the first kind that fits."""

    SECRET = "secret"  # noqa: S105 - names a kind of key
    CONTENT = "content"
    IDENTIFIER = "identifier"
    PLAIN = "plain"


class KeyRules:
    """Which keys hold secrets and which hold content: ours, and those a deployment adds.

    Attributes:
        known: kinds already worked out, at most 4,096; read it first where speed matters.
    """

    __slots__ = ("_content", "_secret", "known")

    def __init__(self, *, also_secret: Iterable[str] = (), also_content: Iterable[str] = ()) -> None:
        self._secret = tuple(sorted({_squeezed(word) for word in SECRET_WORDS | frozenset(also_secret)} - {""}))
        self._content = tuple(sorted("_" + _in_parts(word) for word in CONTENT_KEYS | frozenset(also_content)))
        self.known: dict[str, KeyKind] = {}

    def kind(self, key: str) -> KeyKind:
        """Say what `key`, an exact `str`, tells of its value."""
        kind = self.known.get(key)
        if kind is None:
            kind = self._judge(key)
            if len(key) <= 128:
                if len(self.known) >= 4096:
                    self.known.clear()
                self.known[key] = kind
        return kind

    def _judge(self, key: str) -> KeyKind:
        if len(key) > MAX_TEXT:
            return KeyKind.SECRET  # nobody names a field like that, and a word could hide anywhere in it
        squeezed, in_parts = _squeezed(key), _in_parts(key)
        parts = in_parts.split("_")
        if any(word in squeezed for word in self._secret) or not SECRET_PARTS.isdisjoint(parts):
            return KeyKind.SECRET
        if ("_" + in_parts).endswith(self._content):
            return KeyKind.CONTENT
        return KeyKind.IDENTIFIER if parts[-1] in IDENTIFIER_PARTS else KeyKind.PLAIN


def _squeezed(key: str) -> str:
    """`X-Api_Key`, in full-width letters or with invisible characters inside, is `xapikey`."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", key).casefold()))


def _in_parts(key: str) -> str:
    """`systemPrompt` and `System-Prompt` are `system_prompt`."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", unicodedata.normalize("NFKC", key))
    return re.sub(r"[\W_]+", "_", spaced).strip("_").casefold()


STANDARD_KEYS: Final = KeyRules()
