"""Whether a store's tables in a database are as they were made, who may do what with them, and what waits in them."""

from __future__ import annotations

from placet.errors import PlacetError
from placet.ports.examining import ServerExamination
from placet.proof.doctor.checks import (
    Check,
    Patient,
    Saying,
    fail,
    of_error,
    of_store_on_server,
    ok,
    skipped,
    warn,
)
from placet.proof.doctor.layout import layout_saying

_WAITING_WARN_SECONDS, _WAITING_FAIL_SECONDS = 600.0, 86_400.0
_LEASE_FAIL_SECONDS = 3_600.0
_MOST_NAMED = 3


def schema(patient: Patient) -> Saying:
    if patient.server is None or isinstance(patient.server, PlacetError):
        return skipped("the database cannot be reached")
    if isinstance(patient.store, PlacetError):
        return of_error(patient.store)
    layout = patient.store.layout()
    if not layout.is_ours:
        return fail("the schema is there, and is no placet store", "Look at placet_schema in the store's URL.")
    return layout_saying(layout)


def _role(patient: Patient, look: ServerExamination) -> Saying:
    role = look.server().role
    if not role.may_write:
        return fail(
            f"the user {role.name!r} is not the owner of every table of the store, and cannot write it",
            "Connect as the owner of the schema, or as a member of its role.",
        )
    if role.is_superuser:
        return warn(
            f"the user {role.name!r} is a superuser: no right and no trigger of the store binds it",
            "Make a role that owns the database or the schema and nothing else, and connect as it.",
        )
    if role.is_exempt:
        return warn(
            f"row-level security does not bind the user {role.name!r} (BYPASSRLS)",
            f"ALTER ROLE {role.name} NOBYPASSRLS",
        )
    return ok(f"the user {role.name!r} owns the tables, and is no superuser")


def _tenants(patient: Patient, look: ServerExamination) -> Saying:
    grants = look.grants()
    if grants.unguarded:
        return fail(
            f"row-level security does not stand on {', '.join(grants.unguarded)}",
            "ALTER TABLE ... ENABLE ROW LEVEL SECURITY; ALTER TABLE ... FORCE ROW LEVEL SECURITY",
        )
    if grants.is_public or grants.writing:
        who = "everybody" if grants.is_public else ", ".join(grants.writing[:_MOST_NAMED])
        return fail(
            f"{who} has rights on the store's tables that placet gives nobody",
            "REVOKE ALL ON ALL TABLES IN SCHEMA ... FROM ...; reading roles are let in with let_read.",
        )
    if grants.exempt:
        return fail(
            f"{', '.join(grants.exempt[:_MOST_NAMED])} may read, and row-level security does not bind it",
            "ALTER ROLE ... NOSUPERUSER NOBYPASSRLS, or revoke what it was given.",
        )
    readers = f"; {len(grants.readers)} roles read for one tenant at a time" if grants.readers else ""
    return ok(f"rows are kept apart by tenant{readers}")


def _waiting_events(patient: Patient, look: ServerExamination) -> Saying:
    found = look.waiting_events()
    if found.refused:
        return fail(
            f"{found.refused} events wait that no placet wrote, and are in no chain",
            "Find out who can write unchained_events. Keep them: they are evidence.",
        )
    if not found.waiting:
        return ok("every event is in a chain")
    age = 0.0 if found.oldest_at is None else (look.clock() - found.oldest_at).total_seconds()
    told = f"{found.waiting} events of co-commits wait to be chained, the oldest for {max(age, 0.0):,.0f} s"
    run = "An open gate, or placet worker, chains them. If one is open, look into its log."
    if found.oldest_at is None or age >= _WAITING_FAIL_SECONDS:
        return fail(told, run)
    return warn(told, run) if age >= _WAITING_WARN_SECONDS else ok(told)


def _leases(patient: Patient, look: ServerExamination) -> Saying:
    found = look.expired_leases()
    if not found.effects and not found.reads:
        return ok("no lease is over")
    told = (
        f"{found.effects} effects and {found.reads} reads were left by owners that are gone, "
        f"one for {found.oldest_seconds:,.0f} s"
    )
    recover = "An open gate, or placet worker, takes them over. Is one running?"
    return fail(told, recover) if found.oldest_seconds >= _LEASE_FAIL_SECONDS else warn(told, recover)


def _sizes(patient: Patient, look: ServerExamination) -> Saying:
    sizes = look.sizes()
    if sizes.uncleaned:
        return warn(
            f"autovacuum is off for {', '.join(sizes.uncleaned[:_MOST_NAMED])}",
            "ALTER TABLE ... RESET (autovacuum_enabled)",
        )
    total = sum(size for _, size in sizes.tables)
    largest = ", ".join(f"{name} {_mebibytes(size)}" for name, size in sizes.tables[:_MOST_NAMED])
    return ok(f"{_mebibytes(total)} in all: {largest}")


def _mebibytes(size: int) -> str:
    return f"{size / (1024 * 1024):,.1f} MiB"


CHECKS = (
    Check(id="store_schema", about="the schema", look=schema),
    Check(id="store_role", about="the user who connects", look=of_store_on_server(_role)),
    Check(id="store_tenants", about="who else may read or write", look=of_store_on_server(_tenants)),
    Check(id="waiting_events", about="events that wait", look=of_store_on_server(_waiting_events)),
    Check(id="expired_leases", about="leases that are over", look=of_store_on_server(_leases)),
    Check(id="store_sizes", about="sizes", look=of_store_on_server(_sizes)),
)
