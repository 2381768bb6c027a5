-- An expand step: processes of before go on with the tables they know. A test runs their statements on this schema.

-- A step is one wish under one call id: an id that is used again for something else is another step. `steps` stays for
-- processes of before, who are told of every new step there; a later version takes it away. What only they wrote has
-- no fingerprint, so that a run that goes on counts a call it asks for again once more, and never for free.
CREATE TABLE step_fingerprints (
    tenant      TEXT NOT NULL,
    run_id      TEXT NOT NULL,
    call_id     TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    PRIMARY KEY (tenant, run_id, call_id, fingerprint)
) STRICT, WITHOUT ROWID;

-- How often a tool was refused in a run, by policy, by its contract or by a person.
CREATE TABLE denials (
    tenant  TEXT NOT NULL,
    run_id  TEXT NOT NULL,
    tool    TEXT NOT NULL,
    denials INTEGER NOT NULL CHECK (denials > 0),
    PRIMARY KEY (tenant, run_id, tool)
) STRICT, WITHOUT ROWID;
