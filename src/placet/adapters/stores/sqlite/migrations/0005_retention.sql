-- An expand step: processes of before go on, and forget nothing.

-- What is kept although it is old: everything, or what is one tenant's.
CREATE TABLE holds (
    scope   TEXT PRIMARY KEY,
    held_by TEXT NOT NULL,
    held_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Where chains begin whose oldest events were removed. The MAC is over all of it.
CREATE TABLE audit_tombstones (
    writer     TEXT PRIMARY KEY,
    first_kept INTEGER NOT NULL CHECK (first_kept > 1),
    link       TEXT NOT NULL,
    removed    INTEGER NOT NULL,
    cut_by     TEXT NOT NULL,
    cut_at     TEXT NOT NULL,
    key_id     TEXT NOT NULL,
    mac        TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Finished operations that are not purged yet: purging one takes its owner, and with it its entry here.
CREATE INDEX effects_finished ON effects (tenant, tool, updated_at)
    WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> '';

-- When a run last counted a step. Nobody knows it of the runs that are there, so they begin to age now. What processes
-- of before open from now on is as old as its opening.
ALTER TABLE runs ADD COLUMN stepped_at INTEGER;

UPDATE runs SET stepped_at = CAST(unixepoch('subsec') * 1000000 AS INTEGER);

CREATE INDEX runs_by_opening ON runs (tenant, opened_at);

CREATE INDEX voided_tokens_by_age ON voided_tokens (voided_at);

-- An index of some rows is used only where a statement's own words imply its condition, and no equality implies an IN: the
-- index of before was never used, and every heartbeat read the whole ledger.
DROP INDEX effects_by_state;

CREATE INDEX effects_dispatched ON effects (updated_at) WHERE state = 'dispatched';

CREATE INDEX effects_unknown ON effects (updated_at) WHERE state = 'unknown';

-- Rows that somebody changed by hand; without such a hand it is empty.
CREATE INDEX effects_of_no_state ON effects (tenant) WHERE state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent');

-- Events are added. They go only where their chain is cut, after its tombstone says so.
CREATE TRIGGER audit_events_stay BEFORE UPDATE OF writer, sequence, body, link, key_id ON audit_events
BEGIN
    SELECT RAISE(ABORT, 'placet: an audit event is not changed');
END;

CREATE TRIGGER audit_events_go_with_a_tombstone BEFORE DELETE ON audit_events
WHEN NOT EXISTS (SELECT 1 FROM audit_tombstones WHERE writer = OLD.writer AND first_kept > OLD.sequence)
BEGIN
    SELECT RAISE(ABORT, 'placet: an audit event is removed only where its chain is cut');
END;
