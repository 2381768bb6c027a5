-- The first schema. Instants are microseconds since 1970-01-01 UTC; sealed columns are AES-GCM, bound to their row.
-- Effects, approvals and events keep their rowid: without one a row beyond some 1,000 bytes spills onto a page of its own
-- (https://sqlite.org/withoutrowid.html), which made files three times and commits twice as large.

CREATE TABLE placet_meta (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    tenant         TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    subject        TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    max_steps      INTEGER NOT NULL CHECK (max_steps > 0),
    steps          INTEGER NOT NULL CHECK (steps >= 0),
    opened_at      INTEGER NOT NULL,
    status         TEXT NOT NULL DEFAULT 'open',
    state_version  INTEGER NOT NULL DEFAULT 1,
    checkpoint     BLOB,
    PRIMARY KEY (tenant, run_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE steps (
    tenant  TEXT NOT NULL,
    run_id  TEXT NOT NULL,
    call_id TEXT NOT NULL,
    PRIMARY KEY (tenant, run_id, call_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE effects (
    tenant                TEXT NOT NULL,
    operation_key         TEXT NOT NULL,
    fingerprint           TEXT NOT NULL,
    tool                  TEXT NOT NULL,
    tool_version          TEXT NOT NULL,
    contract_digest       TEXT NOT NULL,
    argument_digest       TEXT NOT NULL,
    run_id                TEXT NOT NULL,
    call_id               TEXT NOT NULL,
    subject               TEXT NOT NULL,
    policy_version        TEXT NOT NULL,
    decision              TEXT NOT NULL,
    approval_id           TEXT,
    state                 TEXT NOT NULL CHECK (state IN (
                              'prepared', 'dispatched', 'committed', 'failed', 'unknown',
                              'reconciled_committed', 'reconciled_absent')),
    fence                 INTEGER NOT NULL CHECK (fence >= 0),
    attempts              INTEGER NOT NULL CHECK (attempts >= 0),
    attempt               INTEGER NOT NULL,
    token                 TEXT NOT NULL,
    owner                 TEXT NOT NULL,
    lease_until           INTEGER NOT NULL,
    send_by               INTEGER NOT NULL,
    arrival_bound_seconds REAL NOT NULL,
    ends_by_itself        INTEGER NOT NULL CHECK (ends_by_itself IN (0, 1)),
    attempt_ended_at      INTEGER,
    probes                INTEGER NOT NULL,
    probe_after           INTEGER,
    sealed_arguments      BLOB NOT NULL,
    sealed_result         BLOB,
    result_digest         TEXT,
    external_reference    TEXT,
    reason                TEXT,
    created_at            INTEGER NOT NULL,
    updated_at            INTEGER NOT NULL,
    PRIMARY KEY (tenant, operation_key)
) STRICT;

CREATE INDEX effects_by_state ON effects (state, updated_at) WHERE state IN ('dispatched', 'unknown');

CREATE INDEX effects_by_change ON effects (tenant, updated_at);

-- The table of rules.lifecycle once more, so that no hand can write an illegal step. A test holds the two together.
CREATE TRIGGER effects_are_born_legally BEFORE INSERT ON effects
WHEN NEW.state NOT IN ('prepared', 'dispatched')
BEGIN
    SELECT RAISE(ABORT, 'placet: an effect begins prepared or dispatched');
END;

CREATE TRIGGER effects_move_legally BEFORE UPDATE ON effects
WHEN (OLD.state <> NEW.state OR OLD.fence <> NEW.fence) AND NOT (
       (OLD.state IN ('prepared', 'failed', 'reconciled_absent') AND NEW.state = 'dispatched' AND NEW.fence = OLD.fence + 1)
    OR (OLD.state = 'dispatched' AND NEW.state IN ('committed', 'failed', 'unknown', 'reconciled_absent') AND NEW.fence = OLD.fence)
    OR (OLD.state = 'unknown' AND NEW.state IN ('reconciled_committed', 'reconciled_absent') AND NEW.fence = OLD.fence))
BEGIN
    SELECT RAISE(ABORT, 'placet: this state may not follow that one');
END;

CREATE TABLE voided_tokens (
    token     TEXT PRIMARY KEY,
    voided_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE approvals (
    approval_id      TEXT NOT NULL,
    tenant           TEXT NOT NULL,
    subject          TEXT NOT NULL,
    run_id           TEXT NOT NULL,
    tool             TEXT NOT NULL,
    argument_digest  TEXT NOT NULL,
    policy_version   TEXT NOT NULL,
    operation_key    TEXT NOT NULL,
    state            TEXT NOT NULL CHECK (state IN (
                         'pending', 'approved', 'denied', 'expired', 'withdrawn', 'spent', 'revoked')),
    question         TEXT NOT NULL,
    question_key_id  TEXT NOT NULL,
    question_mac     TEXT NOT NULL,
    sealed_arguments BLOB NOT NULL,
    answer           TEXT,
    signature_key_id TEXT,
    signature        TEXT,
    asked_at         INTEGER NOT NULL,
    spent_at         INTEGER,
    PRIMARY KEY (tenant, approval_id)
) STRICT;

CREATE UNIQUE INDEX one_open_approval_per_question
    ON approvals (tenant, subject, run_id, tool, argument_digest, policy_version, operation_key)
    WHERE state IN ('pending', 'approved');

CREATE INDEX approvals_by_question ON approvals (tenant, subject, run_id, tool, argument_digest, policy_version);

CREATE INDEX approvals_by_state ON approvals (tenant, state, asked_at);

CREATE TRIGGER approvals_move_legally BEFORE UPDATE OF state ON approvals
WHEN OLD.state <> NEW.state AND NOT (
       (OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired', 'withdrawn'))
    OR (OLD.state = 'approved' AND NEW.state IN ('spent', 'expired', 'revoked')))
BEGIN
    SELECT RAISE(ABORT, 'placet: this approval state may not follow that one');
END;

CREATE TABLE stops (
    scope      TEXT PRIMARY KEY,
    stopped_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `seal` is the version of the commit seal that covers the event; NULL until seals exist.
CREATE TABLE audit_events (
    writer   TEXT NOT NULL,
    sequence INTEGER NOT NULL CHECK (sequence > 0),
    body     TEXT NOT NULL,
    link     TEXT NOT NULL,
    key_id   TEXT NOT NULL,
    seal     INTEGER,
    tenant   TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.tenant')) VIRTUAL,
    at       TEXT NOT NULL GENERATED ALWAYS AS (json_extract(body, '$.at')) VIRTUAL,
    PRIMARY KEY (writer, sequence)
) STRICT;

CREATE INDEX audit_events_by_tenant ON audit_events (tenant, at);

-- Reads that were started and not completed yet: what recovery has to close if their owner is lost.
CREATE TABLE open_reads (
    writer      TEXT NOT NULL,
    sequence    INTEGER NOT NULL,
    owner       TEXT NOT NULL,
    lease_until INTEGER NOT NULL,
    PRIMARY KEY (writer, sequence)
) STRICT, WITHOUT ROWID;

-- `opened_after` names the ends of other chains that none had named yet when this one began, so that chains hold each
-- other; `remembered` is how far a later chain has named this one, and keeps those lists short.
CREATE TABLE audit_heads (
    writer       TEXT PRIMARY KEY,
    remembered   INTEGER NOT NULL DEFAULT 0,
    sequence     INTEGER NOT NULL,
    link         TEXT NOT NULL,
    opened_after TEXT NOT NULL,
    key_id       TEXT NOT NULL,
    mac          TEXT NOT NULL,
    seal         INTEGER
) STRICT, WITHOUT ROWID;
