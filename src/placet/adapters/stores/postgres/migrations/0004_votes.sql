-- What each person said towards a quorum, and that it took it back. The signature is over the whole question and all of the
-- row but its place. Votes are added; they go with their question.
CREATE TABLE approval_votes (
    tenant      text COLLATE "C" NOT NULL,
    approval_id text COLLATE "C" NOT NULL,
    voter       text COLLATE "C" NOT NULL,
    kind        text COLLATE "C" NOT NULL CHECK (kind IN ('approve', 'withdraw')),
    vote        text NOT NULL,
    key_id      text NOT NULL,
    signature   text NOT NULL,
    voted_at    bigint NOT NULL,
    PRIMARY KEY (tenant, approval_id, voter, kind)
);

CREATE TRIGGER approval_votes_stay BEFORE UPDATE ON approval_votes FOR EACH ROW
EXECUTE FUNCTION refuse('a vote is not changed');

CREATE FUNCTION refuse_beside_a_question() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF EXISTS (SELECT FROM approvals WHERE tenant = OLD.tenant AND approval_id = OLD.approval_id) THEN
        RAISE EXCEPTION 'placet: %', TG_ARGV[0] USING ERRCODE = 'PL403';
    END IF;
    RETURN OLD;
END $$;

CREATE TRIGGER approval_votes_go_with_their_question BEFORE DELETE ON approval_votes FOR EACH ROW
EXECUTE FUNCTION refuse_beside_a_question('a vote is removed with its question only');

-- By which what a person made of a question is found by whoever asks the same again. It proves nothing: the edited
-- question says itself, under its MAC, what it was made of.
CREATE TABLE approval_edits (
    tenant          text COLLATE "C" NOT NULL,
    edited_id       text COLLATE "C" NOT NULL,
    subject         text COLLATE "C" NOT NULL,
    run_id          text COLLATE "C" NOT NULL,
    tool            text COLLATE "C" NOT NULL,
    argument_digest text COLLATE "C" NOT NULL,
    approval_id     text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, edited_id)
);

CREATE INDEX approval_edits_by_question ON approval_edits (tenant, subject, run_id, tool, argument_digest);

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['approval_votes', 'approval_edits'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY writing ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
        EXECUTE format(
            'CREATE POLICY reading ON %I FOR SELECT USING (tenant = nullif(current_setting(''placet.tenant'', true), ''''))',
            name);
    END LOOP;
END $$;

-- With votes and edits. A role that reads already is granted them by asking once more.
CREATE OR REPLACE FUNCTION let_read(reader name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    EXECUTE format('GRANT SELECT ON runs, step_fingerprints, denials, effects, approvals, approval_votes, approval_edits, audit_events TO %I', reader);
    EXECUTE format('GRANT EXECUTE ON FUNCTION effects_of(text, bigint), approvals_of(text, bigint), events_of(text, bigint) TO %I', reader);
END $$;
