"""Whether the database can be reached, is one that placet was tested with, keeps its word, and has room."""

from __future__ import annotations

from placet.errors import PlacetError
from placet.ports.examining import IdleSessions, ServerExamination, ServerState
from placet.proof.doctor.checks import Check, Patient, Saying, fail, of_error, of_server, ok, skipped, warn

_TESTED = (15, 18)
_OLDEST = min(_TESTED)
_CLOCK_WARN_SECONDS, _CLOCK_FAIL_SECONDS = 5.0, 600.0
_OF_A_GATE = 5
"""Connections of one open gate: for writing, for look-ups, for lists, for wake-ups, and one for a long look."""
_FEW_GATES = 4
_IDLE_WARN_SECONDS, _IDLE_FAIL_SECONDS = 60.0, 3_600.0
_AGE_WARN, _AGE_FAIL = 1_000_000_000, 1_800_000_000


def database(patient: Patient) -> Saying:
    if patient.server is None:
        return skipped("the store is kept by no server")
    if isinstance(patient.server, PlacetError):
        return of_error(patient.server)
    server = patient.server.server()
    if server.is_standby:
        return fail("the server is a standby, which takes no changes", "Name the primary server in the store's URL.")
    if server.is_read_only:
        return fail(
            "connections begin read-only (default_transaction_read_only)",
            "ALTER ROLE or ALTER DATABASE ... RESET default_transaction_read_only.",
        )
    if server.encoding != "UTF8":
        return fail(
            f"the database is encoded in {server.encoding}, so not every text can be written",
            "Make a database with ENCODING 'UTF8' before anything is on record.",
        )
    return ok("it can be reached, and takes changes")


def _version(patient: Patient, look: ServerExamination) -> Saying:
    return version_saying(look.server().version)


def version_saying(version: int) -> Saying:
    """Of a server's version, as it numbers it."""
    major, minor = divmod(version, 10_000)
    tested = " and ".join(map(str, _TESTED))
    if major < _OLDEST:
        return fail(f"PostgreSQL {major}.{minor} is too old", f"Upgrade the server: placet is tested with {tested}.")
    if major not in _TESTED:
        return warn(
            f"PostgreSQL {major}.{minor}; placet is tested with {tested}",
            "Run the conformance suite against it first: PLACET_TEST_POSTGRES_URL=... make test.",
        )
    return ok(f"PostgreSQL {major}.{minor}")


def _durability(patient: Patient, look: ServerExamination) -> Saying:
    settings = look.server().settings
    off = [name for name in ("fsync", "full_page_writes", "synchronous_commit") if settings.get(name) == "off"]
    if "fsync" in off or "full_page_writes" in off:
        return fail(
            f"the server does not keep what it acknowledges: {' and '.join(off)} off",
            "Set fsync, full_page_writes and synchronous_commit on: after a lost commit an effect happens twice.",
        )
    if off:
        return fail(
            "synchronous_commit is off for this user or database: a handler that co-commits may lose its settle",
            "Set synchronous_commit on for the server, the database and the role. Placet's own connections have it on.",
        )
    return ok(f"fsync, full_page_writes, synchronous_commit {settings.get('synchronous_commit', 'on')}")


def _clock_difference(patient: Patient, look: ServerExamination) -> Saying:
    before = patient.clock.now()
    there = look.clock()
    after = patient.clock.now()
    return clock_saying((there - before - (after - before) / 2).total_seconds())


def clock_saying(seconds: float) -> Saying:
    """Of how far the server's clock is ahead of this host's. The store's clock is the server's, for all hosts."""
    told = f"the clock of the server is {abs(seconds):,.0f} s {'ahead of' if seconds > 0 else 'behind'} this host's"
    keep = "Keep both set: chrony, systemd-timesyncd. Leases and expiries go by the server's clock."
    if abs(seconds) >= _CLOCK_FAIL_SECONDS:
        return fail(told, keep)
    if abs(seconds) >= _CLOCK_WARN_SECONDS:
        return warn(f"{told}, so the audit's instants are not those of the ledger", keep)
    return ok(f"the clocks of server and host differ by {abs(seconds):.1f} s")


def _connections(patient: Patient, look: ServerExamination) -> Saying:
    return connections_saying(look.server())


def connections_saying(server: ServerState) -> Saying:
    """Of how many more connections there may be, by the tightest limit of server, database and role."""
    free = server.free_connections
    told = f"{max(free, 0)} connections are free of {server.max_connections}, and a gate needs {_OF_A_GATE}"
    raise_it = "Raise max_connections, or the limit of the database or role, or open fewer gates."
    if free < _OF_A_GATE:
        return fail(told, raise_it)
    return warn(told, raise_it) if free < _FEW_GATES * _OF_A_GATE else ok(told)


def _access(patient: Patient, look: ServerExamination) -> Saying:
    if look.server().is_open_to_all:
        return warn(
            "everybody who has a role on the server may connect, and can then delay stops and writes by holding locks",
            "REVOKE CONNECT ON DATABASE ... FROM PUBLIC; GRANT CONNECT to the roles that read. The owner keeps it.",
        )
    return ok("only roles that were let in may connect")


def _idle_sessions(patient: Patient, look: ServerExamination) -> Saying:
    return idle_saying(look.idle_sessions())


def idle_saying(idle: IdleSessions) -> Saying:
    """Of transactions that stand open and do nothing: they hold rows, and keep old ones from being cleaned up."""
    unseen = f"; {idle.hidden} sessions of others cannot be seen" if idle.hidden else ""
    longest = max(idle.seconds, default=0.0)
    count = sum(1 for seconds in idle.seconds if seconds >= _IDLE_WARN_SECONDS)
    if not count:
        return ok(f"no transaction stands open idle{unseen}")
    told = f"{count} transactions stand open idle, one for {longest:,.0f} s{unseen}"
    end = "Find its program in pg_stat_activity; SELECT pg_terminate_backend(pid) ends it."
    return fail(told, end) if longest >= _IDLE_FAIL_SECONDS else warn(told, end)


def _freezing(patient: Patient, look: ServerExamination) -> Saying:
    server = look.server()
    return freezing_saying(server.transaction_age, server.settings.get("autovacuum", "on"))


def freezing_saying(age: int, autovacuum: str) -> Saying:
    """Of transactions since the oldest rows were frozen; at two thousand million the server takes no more."""
    told = f"the oldest rows were frozen {age:,} transactions ago"
    clean = "Let autovacuum run, or VACUUM (FREEZE) the database; look for transactions that stand open."
    if age >= _AGE_FAIL:
        return fail(told, clean)
    if autovacuum == "off":
        return warn("autovacuum is off: tables grow, and the server stops in the end", "Set autovacuum = on.")
    return warn(told, clean) if age >= _AGE_WARN else ok(told)


CHECKS = (
    Check(id="database", about="the database", look=database),
    Check(id="database_version", about="the server's version", look=of_server(_version)),
    Check(id="database_durability", about="durable commits", look=of_server(_durability)),
    Check(id="database_clock", about="the clocks of server and host", look=of_server(_clock_difference)),
    Check(id="database_connections", about="room for connections", look=of_server(_connections)),
    Check(id="database_access", about="who may connect", look=of_server(_access)),
    Check(id="database_idle", about="transactions that stand open", look=of_server(_idle_sessions)),
    Check(id="database_freezing", about="old rows", look=of_server(_freezing)),
)
