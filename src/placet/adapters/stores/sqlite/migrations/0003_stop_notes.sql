-- An expand step: processes of before go on with the tables they know. A test runs their statements on this schema.

-- Who stopped, with what leave, and why, beside `stops`, which processes of before write and delete by themselves. A note
-- whose stop they lifted is overwritten by the next stop of the scope. The reason is AES-GCM, bound to its scope.
CREATE TABLE stop_notes (
    scope         TEXT PRIMARY KEY,
    subject       TEXT NOT NULL,
    tenant        TEXT NOT NULL,
    leave         TEXT NOT NULL CHECK (leave IN ('tenant', 'deployment')),
    sealed_reason BLOB
) STRICT, WITHOUT ROWID;

-- What waits for a person, of every tenant, for the worker that expires it and for the gauge.
CREATE INDEX approvals_pending ON approvals (asked_at) WHERE state = 'pending';
