"""People who come back from an issuer's own pages: their code becomes an ID token, and that a person.

What the browser keeps meanwhile is sealed under the store's keys: every host reads it, and nobody else. The code is
shown to the issuer together with what only this attempt knows; the ID token is verified by the code that verifies all
tokens, and no other token of the issuer's answer is looked at, or kept.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from placet.adapters.identity.fetching import Fetcher, NotFetched
from placet.adapters.identity.issuers import IssuerKeys, discovered
from placet.adapters.identity.remembered import Remembered
from placet.adapters.identity.tokens import TokenSignIn
from placet.errors import BoundaryUnavailable, KeyMaterialError, NotFound, SignInRefused
from placet.model.issuer_sign_in import Attempt, Begun, ConsoleClient, Shown, Way
from placet.model.principal import Standing
from placet.ports.clock import Clock
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.sign_in import SecretSource
from placet.rules import issuer_sign_in as rules
from placet.rules.tokens import Token

_MOST_AT_ONCE: Final = 32
"""How many codes are shown to issuers at the same time; who comes then waits a little, and no connection is wasted."""
_LONGEST_KEPT: Final = 4_096
_MOST_ENDED: Final = 100_000
_REMEMBERED: Final = timedelta(seconds=2 * rules.ATTEMPT_SECONDS)

_log = logging.getLogger("placet.sign_in")


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuerDesk:
    """All that one way needs.

    Attributes:
        secret: reads the client's secret, empty where it is not; None for a public client.
    """

    client: ConsoleClient
    fetcher: Fetcher
    tokens: TokenSignIn
    endpoints: Remembered[rules.Endpoints]
    secret: Callable[[], str] | None = None


def desk_of(
    client: ConsoleClient, keys: IssuerKeys, fetcher: Fetcher, *, clock: Clock, secret: Callable[[], str] | None
) -> IssuerDesk:
    """A way through one issuer, whose keys are those that its API tokens are verified with."""

    async def endpoints() -> rules.Endpoints:
        document = await discovered(client.issuer, fetcher)
        try:
            return rules.endpoints_of(document, client.issuer)
        except rules.DiscoveryRefused as refused:
            reason = refused.reason
        raise NotFetched(reason)

    issuer = rules.id_token_issuer(client)
    return IssuerDesk(
        client=client,
        fetcher=fetcher,
        tokens=TokenSignIn((issuer,), {issuer.issuer: keys}, clock=clock),
        endpoints=Remembered(endpoints, what="the addresses", issuer=issuer.issuer, clock=clock),
        secret=secret,
    )


class CodeFlow:
    """Fulfils `ports.issuer_sign_in.IssuerSignIn`. Use it from one event loop.

    Args:
        public_url: of this site; what the issuers send people back to begins with it, whatever a request says.
        root: where the console is mounted there.
    """

    def __init__(
        self,
        desks: Sequence[IssuerDesk],
        *,
        public_url: str,
        root: str,
        keys: Keys,
        clock: Clock,
        secrets: SecretSource,
        meter: Meter,
    ) -> None:
        self._desks = {desk.client.name: desk for desk in desks}
        self._public_url = public_url
        self._root = root
        self._keys = keys
        self._clock = clock
        self._secrets = secrets
        self._meter = meter
        self._places = asyncio.Semaphore(_MOST_AT_ONCE)
        self._ended: OrderedDict[str, datetime] = OrderedDict()

    @property
    def ways(self) -> tuple[Way, ...]:
        return tuple(Way(name=name, issuer=desk.client.issuer.issuer) for name, desk in self._desks.items())

    async def close(self) -> None:
        for desk in self._desks.values():
            await desk.endpoints.close()

    async def begin(self, name: str, *, wanted: str) -> Begun:
        desk = self._desk(name)
        endpoints = await desk.endpoints.value()
        attempt = Attempt(
            name=name,
            state=self._secrets.fresh().hex(),
            nonce=self._secrets.fresh().hex(),
            verifier=self._secrets.fresh().hex(),
            wanted=wanted,
            began_at=self._clock.now(),
        )
        redirect = rules.redirect_address(self._public_url, self._root, name)
        sealed = self._keys.seal(rules.attempt_bytes(attempt), bound_to=rules.ATTEMPT_BINDING)
        return Begun(
            address=rules.authorization_address(endpoints, desk.client, attempt, redirect=redirect),
            kept=base64.urlsafe_b64encode(sealed).rstrip(b"=").decode(),
        )

    async def finish(self, name: str, answer: Iterable[tuple[str, str]], *, kept: str) -> Shown:
        desk = self._desk(name)
        outcome = "unavailable"
        try:
            shown = await self._finished(desk, answer, kept)
            outcome = "let_in"
            return shown
        except SignInRefused as refused:
            outcome = "refused"
            _log.info("a sign-in through %r was refused: %s", name, refused.code)
            raise
        finally:
            self._meter.signed_in(kind="issuer", outcome=outcome)

    async def way_out(self, through: str | None) -> str | None:
        """The first way of that issuer says; one that cannot be asked now has no way out now."""
        desk = next((each for each in self._desks.values() if each.client.issuer.issuer == through), None)
        if desk is None or not desk.client.ends_there:
            return None
        try:
            endpoints = await desk.endpoints.value()
        except BoundaryUnavailable:
            return None
        return rules.way_out(endpoints, desk.client, back=f"{self._public_url}{self._root}/sign-in")

    # ------------------------------------------------------------ within

    def _desk(self, name: str) -> IssuerDesk:
        desk = self._desks.get(name)
        if desk is None:
            raise NotFound("There is no such way to sign in.")
        return desk

    async def _finished(self, desk: IssuerDesk, answer: Iterable[tuple[str, str]], kept: str) -> Shown:
        attempt = self._attempt(desk, kept)
        endpoints = await desk.endpoints.value()
        code = rules.code_of(answer, attempt, endpoints, desk.client.issuer, now=self._clock.now())
        self._require_first(attempt)
        id_token = rules.id_token_of(await self._answer(desk, endpoints, attempt, code))

        def require(token: Token) -> None:
            rules.require_id_token(token, desk.client, attempt)

        principal = await desk.tokens.holder_of(id_token, require)
        if principal.standing is not Standing.PERSON:
            raise rules.refused("sign_in_not_a_person")
        return Shown(principal=principal, wanted=attempt.wanted, through=desk.client.issuer.issuer)

    def _require_first(self, attempt: Attempt) -> None:
        """An attempt shows one code to its issuer, from this process: nobody has it asked again and again.

        Raises:
            SignInRefused: it has shown one.
        """
        now = self._clock.now()
        while (self._ended and next(iter(self._ended.values())) + _REMEMBERED < now) or len(self._ended) >= _MOST_ENDED:
            self._ended.popitem(last=False)
        if attempt.state in self._ended:
            raise rules.refused("sign_in_not_given")
        self._ended[attempt.state] = now

    def _attempt(self, desk: IssuerDesk, kept: str) -> Attempt:
        """What this browser began, here.

        Raises:
            SignInRefused: nothing, or something through another issuer.
        """
        if not kept.isascii() or len(kept) > _LONGEST_KEPT:
            raise rules.refused("sign_in_not_begun")
        try:
            sealed = base64.b64decode(kept + "=" * (-len(kept) % 4), altchars=b"-_", validate=True)
            attempt = rules.attempt_of(self._keys.unseal(sealed, bound_to=rules.ATTEMPT_BINDING))
        except (KeyMaterialError, binascii.Error, ValueError):
            attempt = None
        if attempt is None:
            raise rules.refused("sign_in_not_begun")
        if attempt.name != desk.client.name:
            raise rules.refused("sign_in_mixed_up")
        return attempt

    async def _answer(self, desk: IssuerDesk, endpoints: rules.Endpoints, attempt: Attempt, code: str) -> bytes:
        """Raises:
        SignInRefused: the issuer does not take the code.
        BoundaryUnavailable: it cannot be asked now.
        """
        redirect = rules.redirect_address(self._public_url, self._root, desk.client.name)
        form, headers = rules.token_request(
            endpoints, desk.client, attempt, code=code, redirect=redirect, secret=_secret(desk)
        )
        try:
            async with self._places:
                return await desk.fetcher.post(endpoints.token, form, headers)
        except NotFetched as fault:
            reason = fault.reason
        _log.warning("the issuer %r gave no token for a code: %s", desk.client.issuer.issuer, reason)
        if reason == "refused":
            raise rules.refused("sign_in_not_given")
        raise _unavailable("The identity provider cannot be asked now.")


def _secret(desk: IssuerDesk) -> str | None:
    """Raises:
    BoundaryUnavailable: it is not where the configuration says.
    """
    if desk.secret is None:
        return None
    secret = desk.secret()
    if secret:
        return secret
    _log.error("the client secret for the issuer %r is not there", desk.client.issuer.issuer)
    raise _unavailable("This placet cannot show the identity provider who it is.")


def _unavailable(message: str) -> BoundaryUnavailable:
    return BoundaryUnavailable(
        message,
        code="sign_in_unavailable",
        hint="Begin again in a minute. If it goes on, look into the log of placet.sign_in, and at the issuer.",
    )
