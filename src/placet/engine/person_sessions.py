"""People's sessions, seen and ended: one's own by whoever has them, a tenant's with a scope, each end on record.

Whose session it is stands in the row's signed body, so a row that somebody altered is in no list; ending a tenant's
removes it all the same, and tells. What ends here is over on every host: sessions are looked up each time.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from placet.engine.chronicle import Chronicle
from placet.engine.credentials import CredentialRows
from placet.errors import DecisionRefused, MisuseError, NotFound, SignInRefused
from placet.model.audit import AuditEvent, EventKind
from placet.model.credentials import (
    CredentialChange,
    CredentialKind,
    PersonSession,
    SessionLimits,
    SessionView,
    StoredCredential,
)
from placet.model.principal import Principal, Standing, is_principal
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules.credentials import NAME_DIGITS

MANAGE_SESSIONS_SCOPE: Final = "sessions.manage"
"""Lets a person see and end the sessions of everybody in its tenant."""
MOST_SESSIONS: Final = 10_000
"""How many of a tenant's sessions one look finds, the newest first."""
_AT_ONCE: Final = 100
_MOST_ROUNDS: Final = 100
_NAME: Final = re.compile(rf"[0-9a-f]{{{NAME_DIGITS},64}}", re.ASCII)
_KINDS: Final = (CredentialKind.SIGN_IN_LINK, CredentialKind.SESSION)
"""In this order: a link that is gone opens no session behind the back of whoever ends them."""


class PersonSessions:
    """The sessions of one store."""

    def __init__(self, *, store: Store, rows: CredentialRows, chronicle: Chronicle, limits: SessionLimits) -> None:
        self._store = store
        self._rows = rows
        self._chronicle = chronicle
        self._limits = limits

    async def own(self, *, by: Principal) -> tuple[SessionView, ...]:
        """The person's own sessions that go on, the newest first.

        Raises:
            SignInRefused: an agent has none.
        """
        require_person(by)
        return await self._seen(by.tenant, by.subject)

    async def of_tenant(self, *, by: Principal, subject: str | None = None) -> tuple[SessionView, ...]:
        """Everybody's of the tenant, or one person's.

        Raises:
            DecisionRefused: not a person, or without `sessions.manage`. It is on record.
        """
        await self._require(by)
        return await self._seen(by.tenant, subject)

    @paying
    async def end_one_own(self, name: str, *, by: Principal) -> SessionView:
        """End one of the person's own; it is over on every host on return.

        Raises:
            NotFound: the person has none of this name.
            MisuseError: the name could be two sessions', or is no name.
            SignInRefused: an agent has none.
        """
        require_person(by)
        return await self._end_one(name, by, by.subject)

    @paying
    async def end(self, name: str, *, by: Principal) -> SessionView:
        """End anybody's of the tenant; without the scope, one of the person's own. Raises what `end_one_own` raises."""
        require_person(by)
        return await self._end_one(name, by, None if MANAGE_SESSIONS_SCOPE in by.scopes else by.subject)

    @paying
    async def end_own(self, *, by: Principal) -> int:
        """Sign the person out everywhere, links that were not used included; how many sessions there were.

        Raises:
            SignInRefused: an agent has none.
        """
        require_person(by)
        return await self._end_all(by, by.subject)

    @paying
    async def end_of(self, subject: str, *, by: Principal) -> int:
        """The same for another person of the tenant.

        Raises:
            DecisionRefused: not a person, or without `sessions.manage`. It is on record.
        """
        await self._require(by)
        return await self._end_all(by, subject)

    @paying
    async def end_every(self, *, by: Principal) -> int:
        """The same for everybody of the tenant, whoever asks included. Raises what `end_of` raises."""
        await self._require(by)
        return await self._end_all(by, None)

    # ------------------------------------------------------------ within

    async def _seen(self, tenant: str, subject: str | None) -> tuple[SessionView, ...]:
        now = await self._store.now()
        rows = await self._rows_of(CredentialKind.SESSION, tenant, subject)
        known = [(row, self._rows.session(row)) for row in rows if self._goes_on(row, now)]
        return tuple(_view(row, session) for row, session in known if session is not None)

    def _goes_on(self, row: StoredCredential, now: datetime) -> bool:
        return row.ends_at > now and not is_idle(row, now, self._limits)

    async def _rows_of(self, kind: CredentialKind, tenant: str, subject: str | None) -> tuple[StoredCredential, ...]:
        return await self._store.credentials(kind, tenant=tenant, subject=subject, limit=MOST_SESSIONS)

    async def _end_one(self, name: str, by: Principal, subject: str | None) -> SessionView:
        if type(name) is not str or _NAME.fullmatch(name) is None:
            raise MisuseError(f"A session's name is {NAME_DIGITS} hexadecimal digits, as the list says it.")
        found = await self._rows_of(CredentialKind.SESSION, by.tenant, subject)
        rows = [row for row in found if row.name.startswith(name)]
        if not rows:
            raise NotFound("There is no such session.", hint="placet sessions list")
        if len(rows) > 1:
            raise MisuseError("Two sessions have names that begin so. Say more of it.")
        session = self._rows.session(rows[0])
        await self._dropped((rows[0],), by)
        return _view(rows[0], session)

    async def _end_all(self, by: Principal, subject: str | None) -> int:
        count = 0
        for kind in _KINDS:
            for _ in range(_MOST_ROUNDS):
                rows = await self._rows_of(kind, by.tenant, subject)
                if not rows:
                    break
                ended = await self._ended(rows, by)
                count += ended if kind is CredentialKind.SESSION else 0
        return count

    async def _ended(self, rows: tuple[StoredCredential, ...], by: Principal) -> int:
        """Some at once. Where one of them has just ended by itself, all of those stay, for the next look."""
        count = 0
        for first in range(0, len(rows), _AT_ONCE):
            some = rows[first : first + _AT_ONCE]
            count += len(some) if await self._dropped(some, by) else 0
        return count

    async def _dropped(self, rows: tuple[StoredCredential, ...], by: Principal) -> bool:
        events = tuple(self.ending(row, by) for row in rows)
        return await self._store.put_credentials(CredentialChange(dropped=rows), events=events)

    def ending(self, row: StoredCredential, by: Principal | None = None) -> AuditEvent:
        """The event of a session's end; by nobody named, it is its person that signed out."""
        session = self._rows.session(row)
        if session is None:
            return self._rows.suspect(row)
        return self._chronicle.event(
            EventKind.SESSION_ENDED,
            self._chronicle.of_principal(session.principal),
            detail=None if by is None else "ended",
            reasons=(f"{session.kind.value}:{session.name[:NAME_DIGITS]}",),
            decided_by=(by or session.principal).subject,
            expires_at=session.ends_at,
            model_suggested=False,
        )

    async def _require(self, by: Principal) -> None:
        if not is_principal(by):
            raise MisuseError("by= is the signed-in Principal.")
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, "not_a_person")
        if MANAGE_SESSIONS_SCOPE not in by.scopes:
            raise await self._refusal(by, "scope_missing")

    async def _refusal(self, by: Principal, code: str) -> DecisionRefused:
        event = self._chronicle.event(
            EventKind.SESSION_REFUSED,
            self._chronicle.of_principal(by),
            detail=code,
            decided_by=by.subject,
            model_suggested=False,
        )
        await self._store.record((event,))
        return DecisionRefused(_REFUSALS[code], code=code)


def require_person(principal: object) -> None:
    """Raises:
    MisuseError, SignInRefused: it is no principal, or an agent.
    """
    if not is_principal(principal):
        raise MisuseError("A session is a Principal's.")
    if principal.standing is not Standing.PERSON or principal.on_behalf_of is not None:
        raise SignInRefused("Only a person has a session.")


def is_idle(row: StoredCredential, now: datetime, limits: SessionLimits) -> bool:
    """Whether nobody has used it for so long that it is over."""
    return now - (row.used_at or row.made_at) >= timedelta(seconds=limits.idle_seconds)


def _view(row: StoredCredential, session: PersonSession | None) -> SessionView:
    return SessionView(
        name=row.name[:NAME_DIGITS],
        subject=row.subject,
        began_at=row.made_at,
        used_at=row.used_at,
        ends_at=row.ends_at,
        through=session.through if session is not None else None,
    )


_REFUSALS = {
    "not_a_person": "Only a person's own sign-in sees and ends sessions of others.",
    "scope_missing": f"Sessions of others need the scope {MANAGE_SESSIONS_SCOPE}.",
}
