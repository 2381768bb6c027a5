-- An expand step: processes of before go on, and let no grant answer for an approval.

-- Leave given before the calls are made. The MAC is over all of it but how often it was used: uses are counted in the
-- transaction of the claim that each of them pays for.
CREATE TABLE grants (
    tenant        TEXT NOT NULL,
    grant_id      TEXT NOT NULL CHECK (length(grant_id) BETWEEN 1 AND 128 AND instr(grant_id, char(0)) = 0),
    subject       TEXT NOT NULL,
    run_id        TEXT,
    tool          TEXT NOT NULL,
    body          TEXT NOT NULL,
    sealed_limits BLOB NOT NULL,
    key_id        TEXT NOT NULL,
    mac           TEXT NOT NULL,
    max_uses      INTEGER NOT NULL,
    uses          INTEGER NOT NULL CHECK (uses >= 0 AND uses <= max_uses),
    used_at       INTEGER,
    given_at      INTEGER NOT NULL,
    expires_at    INTEGER NOT NULL,
    revoked_at    INTEGER,
    PRIMARY KEY (tenant, grant_id)
) STRICT;

CREATE INDEX grants_standing ON grants (tenant, subject, tool, expires_at, grant_id) WHERE revoked_at IS NULL;

CREATE INDEX grants_of_tenant ON grants (tenant, given_at, grant_id);

CREATE INDEX grants_not_ended ON grants (tenant, given_at, grant_id) WHERE revoked_at IS NULL;

CREATE TRIGGER grants_are_born_unused BEFORE INSERT ON grants
WHEN NEW.uses <> 0 OR NEW.revoked_at IS NOT NULL
    OR EXISTS (SELECT 1 FROM grants WHERE tenant = NEW.tenant AND grant_id = NEW.grant_id)
BEGIN
    SELECT RAISE(ABORT, 'placet: a grant begins unused, and once');
END;

-- Whoever could remove a row and put back the one of before would have uses, or the grant, back.
CREATE TRIGGER grants_stay BEFORE DELETE ON grants
BEGIN
    SELECT RAISE(ABORT, 'placet: a grant is revoked, and stays');
END;

CREATE TRIGGER grants_change_legally BEFORE UPDATE ON grants
WHEN OLD.revoked_at IS NOT NULL OR NEW.tenant <> OLD.tenant OR NEW.grant_id <> OLD.grant_id OR NOT (
       (NEW.uses = OLD.uses + 1 AND NEW.revoked_at IS NULL AND NEW.mac = OLD.mac)
    OR (NEW.uses = OLD.uses AND NEW.revoked_at IS NOT NULL))
BEGIN
    SELECT RAISE(ABORT, 'placet: a grant is used once more, or revoked for good');
END;
