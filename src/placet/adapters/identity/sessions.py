"""What a person's browser keeps: a random name, of which the store has a digest, signed with who it is and until when.

    open, redeem ──▶ in use ──▶ ended: signed out, unused for half an hour, or twelve hours old

A session is looked up each time, so that signing out holds on every host at once. The word that its forms carry is
derived from the cookie's own secret: nobody who reads the store can say it, and no rotation of keys changes it. When a
session was used is covered by no signature: a writer of the database can keep one from ending early, and none from
ending at all. Beginning a session never takes a name that somebody brought along.
"""

from __future__ import annotations

import hmac
import re
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from placet.engine.chronicle import Chronicle
from placet.engine.credentials import CredentialRows
from placet.engine.listing import NOT_LISTED, PEOPLE_FAILED, PEOPLE_HINT, AskedPeople
from placet.engine.person_sessions import PersonSessions, is_idle, require_person
from placet.errors import SignInRefused, StoreError, StoreUnavailable
from placet.model.audit import AuditEvent, EventKind
from placet.model.credentials import (
    CredentialChange,
    CredentialKind,
    PersonSession,
    SeenCredential,
    SessionLimits,
    SessionView,
    StoredCredential,
)
from placet.model.principal import Principal
from placet.ports.keys import Keys
from placet.ports.meter import Meter
from placet.ports.people import NobodyListed, People
from placet.ports.sessions import ConsoleSession, OpenedSession
from placet.ports.sign_in import SecretSource
from placet.ports.store import Store
from placet.rules.credentials import NAME_DIGITS, secret_digest

LINK_SECONDS: Final = 300.0
USED_EVERY_SECONDS: Final = 60.0
_TEXT: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_CLEARED_AT_ONCE: Final = 100


class StoreSessions:
    """Fulfils `ports.sessions.Sessions`, and makes links and lists for those who may."""

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        chronicle: Chronicle,
        secrets: SecretSource,
        meter: Meter,
        limits: SessionLimits | None = None,
        people: People | None = None,
    ) -> None:
        """
        Args:
            people: the list that links are made from; None or `NobodyListed` where none is kept.
        """
        self._people = None if people is None or isinstance(people, NobodyListed) else AskedPeople(people)
        self._store = store
        self._chronicle = chronicle
        self._secrets = secrets
        self._meter = meter
        self._limits = limits or SessionLimits()
        self._rows = CredentialRows(store=store, keys=keys, chronicle=chronicle)
        self.people = PersonSessions(store=store, rows=self._rows, chronicle=chronicle, limits=self._limits)

    async def open(self, principal: Principal, *, through: str | None = None) -> OpenedSession:
        require_person(principal)
        await self._clear()
        now = await self._store.now()
        secret, session = self._begun(principal, now, through)
        change = CredentialChange(added=(self._rows.of_session(session),))
        event = self._event(EventKind.SESSION_BEGUN, session, detail=None if through is None else "issuer")
        await self._store.put_credentials(change, events=(event,))
        return _opened(secret, session)

    async def link(self, principal: Principal, *, seconds: float = LINK_SECONDS) -> str:
        """The secret of a link that begins one session for this person, once, within so long. Told once.

        Whoever has it is this person, so it is for a terminal of the person's own, and for loopback.

        Raises:
            SignInRefused: an agent.
        """
        require_person(principal)
        now = await self._store.now()
        secret = self._secrets.fresh()
        made = PersonSession(
            kind=CredentialKind.SIGN_IN_LINK,
            name=secret_digest(CredentialKind.SIGN_IN_LINK, secret),
            principal=principal,
            began_at=now,
            ends_at=now + timedelta(seconds=seconds),
        )
        change = CredentialChange(added=(self._rows.of_session(made),))
        await self._store.put_credentials(change, events=(self._event(EventKind.SIGN_IN_LINK_MADE, made),))
        return secret.hex()

    async def redeem(self, link: str) -> OpenedSession:
        await self._clear()
        row, made, now = await self._found(CredentialKind.SIGN_IN_LINK, link)
        secret, session = self._begun(made.principal, now, None)
        change = CredentialChange(added=(self._rows.of_session(session),), dropped=(row,))
        event = self._event(EventKind.SESSION_BEGUN, session, detail="link")
        if not await self._store.put_credentials(change, events=(event,)):
            raise SignInRefused  # somebody else has used it up
        return _opened(secret, session)

    async def session_of(self, cookie: str) -> ConsoleSession:
        seen, session = await self._in_use(cookie)
        await self._note_use(seen)
        return session

    async def glance(self, cookie: str) -> ConsoleSession:
        return (await self._in_use(cookie))[1]

    async def _in_use(self, cookie: str) -> tuple[SeenCredential, ConsoleSession]:
        outcome = "unavailable"
        try:
            row, session, now = await self._found(CredentialKind.SESSION, cookie)
            if is_idle(row, now, self._limits):
                raise SignInRefused
            session = await self._as_listed(session)
            outcome = "let_in"
        except SignInRefused:
            outcome = "refused"
            raise
        finally:
            self._meter.signed_in(kind="session", outcome=outcome)
        return SeenCredential(row=row, at=now), _shown(bytes.fromhex(cookie), session)

    async def end(self, cookie: str) -> None:
        if not _is_text(cookie):
            return
        name = secret_digest(CredentialKind.SESSION, bytes.fromhex(cookie))
        seen = await self._store.credential(CredentialKind.SESSION, name)
        if seen is not None:
            ended = CredentialChange(dropped=(seen.row,))
            await self._store.put_credentials(ended, events=(self.people.ending(seen.row),))

    async def listed(self, principal: Principal) -> tuple[SessionView, ...]:
        return await self.people.own(by=principal)

    async def end_named(self, principal: Principal, name: str) -> None:
        await self.people.end_one_own(name, by=principal)

    async def end_all(self, principal: Principal) -> int:
        return await self.people.end_own(by=principal)

    # ------------------------------------------------------------ within

    def _begun(self, principal: Principal, now: datetime, through: str | None) -> tuple[bytes, PersonSession]:
        secret = self._secrets.fresh()
        return secret, PersonSession(
            kind=CredentialKind.SESSION,
            name=secret_digest(CredentialKind.SESSION, secret),
            principal=principal,
            began_at=now,
            ends_at=now + timedelta(seconds=self._limits.longest_seconds),
            through=through,
        )

    async def _found(self, kind: CredentialKind, text: str) -> tuple[StoredCredential, PersonSession, datetime]:
        """Raises:
        SignInRefused: unknown, altered or over.
        """
        if not _is_text(text):
            raise SignInRefused
        seen = await self._store.credential(kind, secret_digest(kind, bytes.fromhex(text)))
        if seen is None:
            raise SignInRefused
        session = self._rows.session(seen.row)
        if session is None:
            await self._rows.tell_of_altered(seen.row)
            raise SignInRefused
        if session.ends_at <= seen.at:
            raise SignInRefused
        return seen.row, session, seen.at

    async def _as_listed(self, session: PersonSession) -> PersonSession:
        """Whoever came by a link is what the list says now; an issuer vouches for whoever came through it.

        Raises:
            SignInRefused: the list has it no more.
            StoreUnavailable: the list does not say; `code` is `people_failed`.
        """
        if session.through is not None or self._people is None:
            return session
        who = session.principal
        match await self._people.person(who.tenant, who.subject):
            case Principal() as person:
                require_person(person)
                return replace(session, principal=person)
            case code if code == NOT_LISTED:
                raise SignInRefused
            case _:
                raise StoreUnavailable(
                    "The list of people does not answer, so nobody can tell now who is signed in.",
                    code=PEOPLE_FAILED,
                    hint=PEOPLE_HINT,
                )

    async def _note_use(self, seen: SeenCredential) -> None:
        last = seen.row.used_at
        every = min(USED_EVERY_SECONDS, self._limits.idle_seconds / 10)
        if last is not None and last > seen.at - timedelta(seconds=every):
            return
        with suppress(StoreError):  # then it ends sooner
            await self._store.credential_used(seen.row.kind, seen.row.name, every_seconds=every)

    async def _clear(self) -> None:
        """What is over goes when somebody signs in; nobody waits for more of it than this."""
        for kind in (CredentialKind.SESSION, CredentialKind.SIGN_IN_LINK):
            over = await self._store.ended_credentials(kind, limit=_CLEARED_AT_ONCE)
            if over:
                await self._store.put_credentials(CredentialChange(dropped=over), events=())

    def _event(self, kind: EventKind, session: PersonSession, *, detail: str | None = None) -> AuditEvent:
        return self._chronicle.event(
            kind,
            self._chronicle.of_principal(session.principal),
            detail=detail,
            reasons=(f"{session.kind.value}:{session.name[:NAME_DIGITS]}",),
            decided_by=session.principal.subject,
            expires_at=session.ends_at,
            model_suggested=False,
        )


def _opened(secret: bytes, session: PersonSession) -> OpenedSession:
    return OpenedSession(cookie=secret.hex(), session=_shown(secret, session))


def _shown(secret: bytes, session: PersonSession) -> ConsoleSession:
    csrf = hmac.new(secret, b"placet/csrf/1", "sha256").hexdigest()
    return ConsoleSession(
        principal=session.principal,
        csrf=csrf,
        ends_at=session.ends_at,
        name=session.name[:NAME_DIGITS],
        through=session.through,
    )


def _is_text(text: object) -> bool:
    return type(text) is str and _TEXT.fullmatch(text) is not None
