-- An expand step: processes of before go on, and let nobody in.

-- What people and agents show at the door. The MAC is over kind, name and body; the other columns are for finding.
CREATE TABLE credentials (
    kind    text COLLATE "C" NOT NULL CHECK (kind IN ('api_key', 'session', 'sign_in_link')),
    name    text COLLATE "C" NOT NULL,
    tenant  text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    body    text NOT NULL,
    key_id  text NOT NULL,
    mac     text NOT NULL,
    made_at bigint NOT NULL,
    ends_at bigint NOT NULL,
    used_at bigint,
    PRIMARY KEY (kind, name)
);

CREATE INDEX credentials_of_tenant ON credentials (kind, tenant, subject, made_at);

CREATE INDEX credentials_by_end ON credentials (kind, ends_at);
