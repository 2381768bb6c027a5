-- An expand step: processes of before go on, and let no grant answer for an approval.

-- Leave given before the calls are made. The MAC is over all of it but how often it was used: uses are counted in the
-- transaction of the claim that each of them pays for.
CREATE TABLE grants (
    tenant        text COLLATE "C" NOT NULL,
    grant_id      text COLLATE "C" NOT NULL CHECK (length(grant_id) BETWEEN 1 AND 128),
    subject       text COLLATE "C" NOT NULL,
    run_id        text COLLATE "C",
    tool          text COLLATE "C" NOT NULL,
    body          text NOT NULL,
    sealed_limits bytea NOT NULL,
    key_id        text NOT NULL,
    mac           text NOT NULL,
    max_uses      bigint NOT NULL,
    uses          bigint NOT NULL CHECK (uses >= 0 AND uses <= max_uses),
    used_at       bigint,
    given_at      bigint NOT NULL,
    expires_at    bigint NOT NULL,
    revoked_at    bigint,
    PRIMARY KEY (tenant, grant_id)
);

CREATE INDEX grants_standing ON grants (tenant, subject, tool, expires_at, grant_id) WHERE revoked_at IS NULL;

CREATE INDEX grants_of_tenant ON grants (tenant, given_at, grant_id);

CREATE INDEX grants_not_ended ON grants (tenant, given_at, grant_id) WHERE revoked_at IS NULL;

CREATE FUNCTION grants_are_born_unused() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NEW.uses <> 0 OR NEW.revoked_at IS NOT NULL THEN
        RAISE EXCEPTION 'placet: a grant begins unused' USING ERRCODE = 'PL403';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER grants_are_born_unused BEFORE INSERT ON grants FOR EACH ROW EXECUTE FUNCTION grants_are_born_unused();

CREATE FUNCTION grants_change_legally() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF OLD.revoked_at IS NOT NULL OR NEW.tenant <> OLD.tenant OR NEW.grant_id <> OLD.grant_id OR NOT (
           (NEW.uses = OLD.uses + 1 AND NEW.revoked_at IS NULL AND NEW.mac = OLD.mac)
        OR (NEW.uses = OLD.uses AND NEW.revoked_at IS NOT NULL)) THEN
        RAISE EXCEPTION 'placet: a grant is used once more, or revoked for good' USING ERRCODE = 'PL403';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER grants_change_legally BEFORE UPDATE ON grants FOR EACH ROW EXECUTE FUNCTION grants_change_legally();

-- Whoever could remove a row and put back the one of before would have uses, or the grant, back.
CREATE FUNCTION grants_stay() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    RAISE EXCEPTION 'placet: a grant is revoked, and stays' USING ERRCODE = 'PL403';
END $$;

CREATE TRIGGER grants_stay BEFORE DELETE ON grants FOR EACH ROW EXECUTE FUNCTION grants_stay();

CREATE TRIGGER grants_are_not_emptied BEFORE TRUNCATE ON grants FOR EACH STATEMENT EXECUTE FUNCTION grants_stay();

ALTER TABLE grants ENABLE ROW LEVEL SECURITY;
ALTER TABLE grants FORCE ROW LEVEL SECURITY;
CREATE POLICY writing ON grants TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY reading ON grants FOR SELECT USING (tenant = nullif(current_setting('placet.tenant', true), ''));

-- With grants. A role that reads already is granted them by asking once more.
CREATE OR REPLACE FUNCTION let_read(reader name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    EXECUTE format('GRANT SELECT ON runs, step_fingerprints, denials, effects, approvals, approval_votes, approval_edits, grants, audit_events TO %I', reader);
    EXECUTE format('GRANT EXECUTE ON FUNCTION effects_of(text, bigint), approvals_of(text, bigint), events_of(text, bigint) TO %I', reader);
END $$;
