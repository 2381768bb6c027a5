-- An expand step: processes of before go on, and let nobody in.

-- What people and agents show at the door. The MAC is over kind, name and body; the other columns are for finding.
CREATE TABLE credentials (
    kind    TEXT NOT NULL CHECK (kind IN ('api_key', 'session', 'sign_in_link')),
    name    TEXT NOT NULL,
    tenant  TEXT NOT NULL,
    subject TEXT NOT NULL,
    body    TEXT NOT NULL,
    key_id  TEXT NOT NULL,
    mac     TEXT NOT NULL,
    made_at INTEGER NOT NULL,
    ends_at INTEGER NOT NULL,
    used_at INTEGER,
    PRIMARY KEY (kind, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX credentials_of_tenant ON credentials (kind, tenant, subject, made_at);

CREATE INDEX credentials_by_end ON credentials (kind, ends_at);
