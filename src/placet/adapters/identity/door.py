"""One bearer text to the one that knows its kind; nobody else is asked."""

from __future__ import annotations

from typing import Final

from placet.errors import SignInRefused
from placet.model.principal import Principal
from placet.ports.meter import Meter
from placet.ports.sign_in import SignIn
from placet.rules.credentials import API_KEY_PREFIX
from placet.rules.tokens import MAX_CHARACTERS

_DOTS_OF_A_TOKEN: Final = 2


class Door:
    """Fulfils `ports.sign_in.SignIn` for every kind of bearer credential. Use it from one event loop."""

    def __init__(self, *, api_keys: SignIn, tokens: SignIn | None, meter: Meter) -> None:
        self._api_keys = api_keys
        self._tokens = tokens
        self._meter = meter

    async def principal_of(self, credential: str) -> Principal:
        kind, way = self._way(credential)
        outcome = "unavailable"
        try:
            if way is None:
                raise SignInRefused
            principal = await way.principal_of(credential)
            outcome = "let_in"
            return principal
        except SignInRefused:
            outcome = "refused"
            raise
        finally:
            self._meter.signed_in(kind=kind, outcome=outcome)

    def _way(self, credential: object) -> tuple[str, SignIn | None]:
        if type(credential) is not str or len(credential) > MAX_CHARACTERS or not credential.isascii():
            return "unknown", None
        if credential.startswith(API_KEY_PREFIX):
            return "api_key", self._api_keys
        if credential.count(".") == _DOTS_OF_A_TOKEN and self._tokens is not None:
            return "token", self._tokens
        return "unknown", None
