"""Where people give standing grants, see them and take them back. Giving one runs nothing, and decides nothing waiting.

Whoever may not approve a tool's calls for a subject gives no grant for them either: it is the same question to the same
policy, asked when the grant is given and again each time that it is used.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final, Protocol

from placet.engine.chronicle import Chronicle
from placet.engine.deciding import Decider
from placet.engine.entitling import UNCERTAIN, Entitling
from placet.engine.grant_views import UNSIGNED, GrantView, GrantViews, view_of
from placet.engine.pages import MOST_IN_A_PAGE, read_page
from placet.engine.registry import Registry
from placet.engine.standing import named, suspect_of
from placet.engine.verifying import EVERYWHERE, stored_arguments, verify, verify_grant
from placet.errors import DecisionRefused, MisuseError, NotFound
from placet.model.approval import Leave
from placet.model.audit import AuditEvent, EventKind
from placet.model.contract import Contract
from placet.model.decision import GrantTerms, Requirement, Terms
from placet.model.exact import is_limit, is_seconds
from placet.model.grant import DEFAULT_SECONDS, DEFAULT_USES, Grant, GrantId, GrantState, GrantWish, Limit, StoredGrant
from placet.model.identifiers import ApprovalId, Digest, PolicyVersion, RunId
from placet.model.json import JsonObject
from placet.model.listing import Mark, Page
from placet.model.principal import Principal, Standing, identity_of, is_identity, is_principal, subjects_of
from placet.ports.clock import IdSource
from placet.ports.keys import KeyPurpose, Keys
from placet.ports.store import Store
from placet.ports.waiting import paying
from placet.rules import grant_limits
from placet.rules import grants as rules
from placet.rules.decoding import LONE_SURROGATE, decode_object
from placet.rules.grants import GrantMisfit
from placet.rules.listing import mark_of_grant
from placet.rules.policy import DECIDE_SCOPE

__all__ = ["GrantView", "GrantWish", "Granting"]

MAX_REASON_CHARACTERS: Final = 500
_MOST_SUBJECTS: Final = 16
_STANDING: Final = frozenset({GrantState.USABLE, GrantState.ALTERED})
_NO_LEAVE: Final = Leave(roles=(), scopes=(), is_listed=False)


class _Look(Protocol):
    async def __call__(self, tenant: str, mark: Mark | None, /, *, limit: int) -> tuple[StoredGrant, ...]: ...


class Granting:
    """Gives, shows and revokes the standing grants of one store."""

    def __init__(
        self,
        *,
        store: Store,
        keys: Keys,
        chronicle: Chronicle,
        registry: Registry,
        decider: Decider,
        entitling: Entitling,
        ids: IdSource,
    ) -> None:
        self._store = store
        self._keys = keys
        self._chronicle = chronicle
        self._registry = registry
        self._decider = decider
        self._entitling = entitling
        self._ids = ids
        self._views = GrantViews(keys=keys, registry=registry, decider=decider)

    @paying
    async def draft(self, wish: GrantWish, *, by: Principal) -> GrantView:
        """What giving it would sign, in words and with its digest. Nothing is stored.

        Raises:
            NotFound: no such tool in this tenant.
            LimitsRefused: an argument has no limit, or one that is none.
            DecisionRefused: policy lets nobody grant this, or not this person, so long or so often; `code` says which.
            MisuseError: something in the wish is not of its kind.
        """
        await self._may_look(by)
        grant, limits = await self._allowed(wish, by)
        return view_of(StoredGrant(grant=grant, mac=UNSIGNED), limits, GrantState.USABLE)

    @paying
    async def give(self, wish: GrantWish, *, digest: str, by: Principal) -> GrantView:
        """Sign a grant. From its return on it answers the asks that it covers; one that waits, when it is asked again.

        Args:
            digest: that of the draft that was read.

        Raises:
            What `draft` raises, and DecisionRefused with `other_digest`, `reason_missing` or `too_many_grants`.
        """
        await self._may_look(by)
        grant, limits = await self._allowed(wish, by)
        if type(digest) is not str or digest != rules.wish_digest(grant):
            raise await self._refusal(by, "other_digest", grant)
        if grant.terms.reason_to_approve and not grant.reason.strip():
            raise await self._refusal(by, "reason_missing", grant)
        standing = await self._store.standing_grants(
            tenant=grant.tenant, subject=grant.subject, tool=grant.tool, limit=rules.MOST_UNENDED
        )
        states = [self._views.shown(each, grant.given_at).state for each in standing]
        if len(states) >= rules.MOST_UNENDED or states.count(GrantState.USABLE) >= rules.MOST_STANDING:
            raise await self._refusal(by, "too_many_grants", grant)
        mac = self._keys.mac(KeyPurpose.GRANT, rules.grant_form(grant))
        event = self._event(EventKind.GRANT_GIVEN, grant, by, decided_at=grant.given_at, expires_at=grant.expires_at)
        stored = await self._store.add_grant(grant, mac, events=(event,))
        return view_of(stored, limits, GrantState.USABLE)

    @paying
    async def like(self, approval_id: str, *, by: Principal) -> GrantWish:
        """A wish for calls like one that somebody asked about: the same subject, run, tool and arguments, no others.

        What the contract redacts is left open, as nobody sees it. The question itself is decided apart.

        Raises:
            NotFound: no such approval in this tenant, or its tool, or its contract, is not here.
            DecisionRefused: the stored row was altered.
        """
        await self._may_look(by)
        found = await self._store.approval(by.tenant, ApprovalId(approval_id)) if is_identity(approval_id) else None
        if found is None or found.question.tenant != by.tenant:
            raise NotFound("There is no such approval in your tenant.", hint="placet approvals list")
        question = found.question
        canonical = stored_arguments(question, self._keys) if verify(found, self._keys) is None else None
        if canonical is None:
            raise DecisionRefused(
                "The stored approval does not hold, so nothing is granted like it.",
                code="approval_suspect",
                hint="placet approvals show says what is wrong with it.",
            )
        contract = self._contract(question.tool, by)
        if contract.digest != question.contract_digest:
            raise NotFound("The tool is not what it was when this was asked.", hint="Ask anew, and look at that one.")
        arguments = decode_object(canonical, wide=EVERYWHERE)
        limits: JsonObject = {
            name: {"one_of": [arguments[name]]}
            if name in arguments and name not in contract.redact
            else grant_limits.ANY
            for name in contract.argument_names
        }
        terms = await self._grantable(contract, by)
        most = terms.grants if terms is not None else None
        return GrantWish(
            tool=question.tool,
            subjects=subjects_of(question.subject),
            limits=limits,
            seconds=DEFAULT_SECONDS if most is None else min(DEFAULT_SECONDS, most.max_seconds),
            max_uses=DEFAULT_USES if most is None else min(DEFAULT_USES, most.max_uses),
            run_id=question.run_id,
        )

    @paying
    async def listed(self, *, by: Principal, limit: int = 100) -> tuple[GrantView, ...]:
        """The newest grants of the person's tenant, those that have ended too."""
        page = await self.page(by=by, limit=limit)
        return page.rows

    @paying
    async def page(self, *, by: Principal, limit: int = 100, after: Mark | None = None) -> Page[GrantView]:
        """What `listed` lists, a page of at most 1,000 at a time."""
        return await self._page(self._store.grants_after, frozenset(GrantState), by, limit, after)

    @paying
    async def standing(self, *, by: Principal, limit: int = 100) -> tuple[GrantView, ...]:
        """The newest of those that answer questions now, however many have ended, and the altered rows that stop calls.

        None means that there is none.
        """
        found: list[GrantView] = []
        after: Mark | None = None
        while True:
            page = await self.standing_page(by=by, limit=limit - len(found), after=after)
            found += page.rows
            after = page.after
            if after is None or len(found) == limit:
                return tuple(found)

    @paying
    async def standing_page(self, *, by: Principal, limit: int = 100, after: Mark | None = None) -> Page[GrantView]:
        """What `standing` lists, a page of at most 1,000 at a time. One that is not full may have others after it."""
        return await self._page(self._store.standing_grants_after, _STANDING, by, limit, after)

    @paying
    async def show(self, grant_id: str, *, by: Principal) -> GrantView:
        """One grant.

        Raises:
            NotFound: there is none in this person's tenant.
            DecisionRefused: the stored row was altered; an alarm is recorded.
        """
        await self._may_look(by)
        stored = await self._known(grant_id, by)
        misfit = verify_grant(stored, self._keys)
        if isinstance(misfit, GrantMisfit) and misfit.is_alarm:
            await self._store.record((suspect_of(self._chronicle, by, stored, misfit),))
            raise DecisionRefused(
                "The stored grant was altered; it lets nothing through.",
                code="grant_suspect",
                hint="Find out who can write the store, and end the grant: placet grants revoke",
            )
        return self._views.shown(stored, await self._store.now())

    @paying
    async def revoke(self, grant_id: str, *, by: Principal) -> GrantView:
        """Take a grant back, on every host: no claim that comes after its return uses it. Twice changes nothing.

        For its giver, whoever it is for, and the entitled. A row that was altered, or whose key is retired, is
        marked as ended: it stays as it is, and stops no call any more.

        Raises:
            NotFound: there is none in this person's tenant.
            DecisionRefused: this person may not.
        """
        await self._may_look(by)
        stored = await self._known(grant_id, by)
        grant = stored.grant
        if by.subject not in (grant.given_by, *subjects_of(grant.subject)) and DECIDE_SCOPE not in by.scopes:
            raise await self._refusal(by, "scope_missing", grant)
        now = await self._store.now()
        misfit = verify_grant(stored, self._keys)
        if isinstance(misfit, GrantMisfit):
            facts = self._chronicle.of_principal(by)
            event = self._chronicle.event(
                EventKind.GRANT_REVOKED,
                facts,
                detail=misfit.value,
                reasons=(named(stored),),
                decided_by=by.subject,
                model_suggested=False,
            )
            await self._store.end_grant(stored, events=(event,))
            return self._views.shown(stored, now)
        if grant.revoked_at is not None:
            return self._views.shown(stored, now)
        revoked = rules.revoked(grant, by=by.subject, at=now)
        mac = self._keys.mac(KeyPurpose.GRANT, rules.grant_form(revoked))
        event = self._event(EventKind.GRANT_REVOKED, grant, by)
        after = await self._store.revoke_grant(stored, revoked, mac, events=(event,))
        return self._views.shown(after if after is not None else replace(stored, grant=revoked, mac=mac), now)

    # ------------------------------------------------------------ within

    async def _page(
        self, look: _Look, states: frozenset[GrantState], by: Principal, limit: int, after: Mark | None
    ) -> Page[GrantView]:
        if not is_limit(limit) or limit > MOST_IN_A_PAGE:
            raise MisuseError(f"limit= is a whole number from 1 to {MOST_IN_A_PAGE}.")
        await self._may_look(by)
        now = await self._store.now()

        async def fetch(mark: Mark | None, count: int) -> tuple[StoredGrant, ...]:
            return await look(by.tenant, mark, limit=count)

        def shown(stored: StoredGrant) -> GrantView | None:
            view = self._views.shown(stored, now) if stored.grant.tenant == by.tenant else None
            return None if view is None or view.state not in states else view

        return await read_page(fetch, mark_of=mark_of_grant, shown=shown, after=after, limit=limit)

    async def _allowed(self, wish: GrantWish, by: Principal) -> tuple[Grant, dict[str, Limit]]:
        """The grant that the person may give, not signed yet, and its limits."""
        _require_sound(wish)
        contract = self._contract(wish.tool, by)
        if not rules.may_be_granted(contract):
            raise await self._refusal(by, "never_granted", None)
        requirement = await self._grantable(contract, by)
        version = self._decider.policy_version
        if requirement is None or requirement.grants is None or requirement.terms is None or version is None:
            raise await self._refusal(by, "not_grantable", None)
        limits = grant_limits.read_limits(wish.limits, contract)
        if (code := _beyond(wish, requirement.grants)) is not None:
            raise await self._refusal(by, code, None)
        now = await self._store.now()
        grant = self._grant(wish, contract, requirement.terms, version, limits, by, now)
        leave = await self._entitling.leave_to_decide(rules.as_question(grant), by, now=now)
        if isinstance(leave, str):
            raise await self._refusal(by, leave, grant)
        return replace(grant, leave=leave), limits

    def _grant(
        self,
        wish: GrantWish,
        contract: Contract,
        terms: Terms,
        version: PolicyVersion,
        limits: dict[str, Limit],
        by: Principal,
        now: datetime,
    ) -> Grant:
        grant_id = GrantId(self._ids.new_id("grt"))
        canonical = grant_limits.spelled_limits(limits)
        return Grant(
            grant_id=grant_id,
            tenant=by.tenant,
            environment=by.environment,
            subject=identity_of(wish.subjects, environment=by.environment),
            run_id=None if wish.run_id is None else RunId(wish.run_id),
            tool=contract.name,
            tool_version=contract.version,
            contract_digest=contract.digest,
            limits_digest=Digest(grant_limits.limits_digest(contract.name, canonical)),
            policy_version=version,
            terms=terms,
            max_uses=wish.max_uses,
            given_by=by.subject,
            given_at=now,
            expires_at=now + timedelta(seconds=wish.seconds),
            leave=_NO_LEAVE,
            reason=wish.reason,
            nonce=self._ids.new_id("n"),
            sealed_limits=self._keys.seal(canonical, bound_to=rules.limits_binding(by.tenant, grant_id)),
        )

    def _contract(self, tool: str, by: Principal) -> Contract:
        found = self._registry.tools.get(tool) if type(tool) is str else None
        allowed = None if found is None else found.contract.allowed_tenants
        if found is None or (allowed is not None and by.tenant not in allowed):
            raise NotFound("There is no such tool here.", hint="placet tools list")
        return found.contract

    async def _grantable(self, contract: Contract, by: Principal) -> Requirement | None:
        return await self._decider.grantable(contract, by.tenant)

    async def _known(self, grant_id: str, by: Principal) -> StoredGrant:
        found = await self._store.grant(by.tenant, GrantId(grant_id)) if is_identity(grant_id) else None
        if found is None or found.grant.tenant != by.tenant:
            raise NotFound("There is no such grant in your tenant.", hint="placet grants list")
        return found

    async def _refusal(self, by: Principal, code: str, grant: Grant | None) -> DecisionRefused:
        """Every refused grant is on record."""
        facts = self._chronicle.of_principal(by) if grant is None else self._chronicle.of_grant(grant)
        event = self._chronicle.event(
            EventKind.GRANT_REFUSED, facts, detail=code, decided_by=by.subject, model_suggested=False
        )
        await self._store.record((event,))
        message, hint = _REFUSALS.get(code, _MAY_NOT)
        refused = DecisionRefused(message, code=code, hint=hint)
        refused.retryable = code in UNCERTAIN
        return refused

    def _event(self, kind: EventKind, grant: Grant, by: Principal, **more: object) -> AuditEvent:
        facts = self._chronicle.of_grant(grant)
        return self._chronicle.event(kind, facts, decided_by=by.subject, model_suggested=False, **more)

    async def _may_look(self, by: Principal) -> None:
        if not is_principal(by):
            raise MisuseError("by= is the signed-in Principal.")
        if by.standing is not Standing.PERSON:
            raise await self._refusal(by, "not_a_person", None)


def _require_sound(wish: GrantWish) -> None:
    """Raises:
    MisuseError: something in the wish is not of its kind; the limits are looked at apart.
    """
    if type(wish) is not GrantWish:
        raise MisuseError("A wish is a GrantWish.")
    subjects = wish.subjects
    if type(subjects) is not tuple or not 0 < len(subjects) <= _MOST_SUBJECTS or not all(map(is_identity, subjects)):
        raise MisuseError("subjects= is a tuple of texts of 1 to 128 characters: who acts, and whom it acts for.")
    if wish.run_id is not None and not is_identity(wish.run_id):
        raise MisuseError("run_id= is text of 1 to 128 characters, or None for every run.")
    if not is_seconds(wish.seconds) or type(wish.max_uses) is not int or wish.max_uses < 1:
        raise MisuseError("seconds= is a number above zero, max_uses= a whole number of at least 1.")
    reason = wish.reason
    is_text = type(reason) is str and LONE_SURROGATE.search(reason) is None and "\x00" not in reason
    if not is_text or len(reason) > MAX_REASON_CHARACTERS:
        raise MisuseError(f"reason= is text of at most {MAX_REASON_CHARACTERS} characters.")


def _beyond(wish: GrantWish, most: GrantTerms) -> str | None:
    """What of the wish is more than policy lets one grant be."""
    if wish.seconds > most.max_seconds:
        return "grant_too_long"
    return "grant_too_often" if wish.max_uses > most.max_uses else None


_MAY_NOT = ("This person may not give such a grant.", "Who may approve these calls may; see placet policy explain.")
_REFUSALS = {
    "never_granted": (
        "No standing grant reaches this tool: its risk is high or critical, it cannot be undone, or its approvals are "
        "bound to a state.",
        "Approve its calls one by one.",
    ),
    "not_grantable": (
        "The policy lets nobody give a standing grant for this tool.",
        'A rule of the policy file says that one may be given: grants = { uses = 20, usable_for = "8h" }.',
    ),
    "grant_too_long": (
        "The policy lets no grant for this tool be good for so long.",
        "placet policy explain says how long one may be.",
    ),
    "grant_too_often": (
        "The policy lets no grant for this tool be used so often.",
        "placet policy explain says how often one may be.",
    ),
    "other_digest": (
        "What was shown is not what would be signed now.",
        "Read it again: the tool, the policy or the wish has changed.",
    ),
    "reason_missing": ("The rule wants your reason with a grant as with an approval.", "Say why."),
    "too_many_grants": (
        f"There are {rules.MOST_STANDING} usable grants for this tool and these calls already,"
        f" or {rules.MOST_UNENDED} that have not ended.",
        "Revoke some: placet grants list --all",
    ),
    "people_failed": (
        "The list of people does not answer, so nobody can tell now whether this person may.",
        "Try again; if it stays so, look at who keeps the list.",
    ),
    "policy_failed": (
        "The policy does not answer, so nobody can tell now whether this person may.",
        "Try again; if it stays so, look at the policy engine.",
    ),
    "own_request": ("Nobody grants its own calls, or those made for it.", "Somebody else who may approve them has to."),
    "scope_missing": ("This needs the scope approvals.decide.", "An administrator adds it to the person's scopes."),
    "not_a_person": ("Only a person's own sign-in sees, gives and ends standing grants.", "Sign in as a person."),
}
