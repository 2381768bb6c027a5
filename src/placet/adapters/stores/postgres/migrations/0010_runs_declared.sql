-- An expand step: processes of before go on, and begin, pause, cancel and drive no runs.

-- What a run was begun with, as JSON; and how often its status or this was changed, which claims compare.
ALTER TABLE runs ADD COLUMN limits text, ADD COLUMN terms bigint NOT NULL DEFAULT 0;

-- Who paused or cancelled it last, and why. The reason is AES-GCM, bound to the run.
ALTER TABLE runs ADD COLUMN changed_by text, ADD COLUMN sealed_reason bytea;

-- Whatever a process of before knows of it: a run that is paused or over counts no step, so it claims nothing new.
CREATE TRIGGER runs_that_are_over_take_no_step BEFORE UPDATE ON runs FOR EACH ROW
WHEN (OLD.status <> 'open' AND NEW.steps > OLD.steps)
EXECUTE FUNCTION refuse('this run is paused or over');

CREATE TRIGGER runs_move_legally BEFORE UPDATE ON runs FOR EACH ROW
WHEN (OLD.status <> NEW.status AND NOT (
       (OLD.status = 'open' AND NEW.status IN ('paused', 'done', 'failed', 'cancelled'))
    OR (OLD.status = 'paused' AND NEW.status IN ('open', 'cancelled'))))
EXECUTE FUNCTION refuse('this status of a run may not follow that one');

-- What was taken of a run's declared budgets.
CREATE TABLE run_tallies (
    tenant text COLLATE "C" NOT NULL,
    run_id text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    taken  bigint NOT NULL CHECK (taken >= 0),
    PRIMARY KEY (tenant, run_id, name)
) WITH (fillfactor = 70);

-- Where a run of a workflow rests, who has taken it for a step, and when somebody has to look next. Apart from `runs`,
-- whose rows are written with every step that is counted.
CREATE TABLE run_checkpoints (
    tenant         text COLLATE "C" NOT NULL,
    run_id         text COLLATE "C" NOT NULL,
    workflow       text NOT NULL,
    version        text NOT NULL,
    state          text NOT NULL,
    visit          bigint NOT NULL,
    sealed         bytea NOT NULL,
    state_version  bigint NOT NULL,
    driver         text,
    lease_until    bigint,
    fence          bigint NOT NULL,
    due_at         bigint,
    code           text,
    waits          text NOT NULL,
    policy_version text NOT NULL,
    stale_writes   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, run_id)
);

CREATE INDEX run_checkpoints_due ON run_checkpoints (due_at) WHERE due_at IS NOT NULL;

CREATE TRIGGER run_checkpoints_move_on BEFORE UPDATE ON run_checkpoints FOR EACH ROW
WHEN (NEW.state_version < OLD.state_version OR NEW.fence < OLD.fence)
EXECUTE FUNCTION refuse('a checkpoint does not go back');

-- Whoever answers, withdraws or expires a question, also a process of before: the run that waits is to be looked at.
CREATE FUNCTION wake_run() RETURNS trigger LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    UPDATE run_checkpoints SET due_at = 0
    WHERE tenant = NEW.tenant AND run_id = NEW.run_id AND due_at IS NOT NULL AND driver IS NULL;
    RETURN NULL;
END $$;

CREATE TRIGGER approvals_wake_their_run AFTER UPDATE ON approvals FOR EACH ROW
WHEN (OLD.state = 'pending' AND NEW.state <> 'pending')
EXECUTE FUNCTION wake_run();

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['run_tallies', 'run_checkpoints'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY writing ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
        EXECUTE format(
            'CREATE POLICY reading ON %I FOR SELECT USING (tenant = nullif(current_setting(''placet.tenant'', true), ''''))',
            name);
    END LOOP;
END $$;

CREATE TYPE terms_form AS (tenant text, run_id text, terms bigint);

CREATE TYPE tally_form AS (tenant text, run_id text, name text, seen bigint, taken bigint);

-- A batch, under the terms of its runs: what the verbs presumed of their status and limits is compared first, and what
-- they took of budgets is counted. Terms change under the lock that a stop takes too, so nobody changes them meanwhile.
CREATE FUNCTION apply_within(
    terms_seen terms_form[], tallies tally_form[],
    decided_at bigint, not_after bigint, key_check text, stops_seen text[], unvoided text[],
    effects_seen seen_form[], approvals_seen seen_form[],
    new_effects effect_form[], changed_effects effect_form[],
    new_approvals approval_form[], changed_approvals approval_form[],
    runs_used run_form[], steps_taken step_form[], denials_seen denial_form[],
    reads_opened read_form[], reads_closed read_form[],
    of_writer text, in_epoch bigint, after_commits bigint, is_writing boolean,
    first_sequence bigint, bodies text[], links text[], key_ids text[],
    head_link text, head_opened_after text, head_key_id text, head_mac text,
    OUT at bigint, OUT mark xid, OUT is_anything_waiting boolean
) LANGUAGE plpgsql AS $$
DECLARE
    wanted bigint;
    done bigint;
BEGIN
    IF terms_seen IS NOT NULL THEN
        PERFORM enter_beside_others();
        IF EXISTS (
            SELECT FROM unnest(terms_seen) s LEFT JOIN runs r ON r.tenant = s.tenant AND r.run_id = s.run_id
            WHERE coalesce(r.terms, 0) <> s.terms) THEN
            PERFORM mismatch('runs');
        END IF;
    END IF;
    IF tallies IS NOT NULL THEN
        INSERT INTO run_tallies AS r SELECT t.tenant, t.run_id, t.name, t.taken FROM unnest(tallies) t
        WHERE t.seen = 0 AND t.taken > 0
        ON CONFLICT (tenant, run_id, name) DO UPDATE SET taken = excluded.taken WHERE r.taken = 0;  -- all given back
        GET DIAGNOSTICS done = ROW_COUNT;
        UPDATE run_tallies r SET taken = t.taken FROM unnest(tallies) t
        WHERE t.seen > 0 AND r.tenant = t.tenant AND r.run_id = t.run_id AND r.name = t.name AND r.taken = t.seen;
        GET DIAGNOSTICS wanted = ROW_COUNT;
        IF done + wanted <> (SELECT count(*) FROM unnest(tallies) t WHERE t.seen > 0 OR t.taken > 0)
            OR EXISTS (  -- what was taken and given back by one batch, or never there, is presumed like the rest
                SELECT FROM unnest(tallies) t JOIN run_tallies r
                ON r.tenant = t.tenant AND r.run_id = t.run_id AND r.name = t.name
                WHERE t.seen = 0 AND t.taken = 0 AND r.taken > 0) THEN
            PERFORM mismatch('tallies');
        END IF;
    END IF;
    SELECT a.at, a.mark, a.is_anything_waiting INTO at, mark, is_anything_waiting FROM apply(
        decided_at, not_after, key_check, stops_seen, unvoided, effects_seen, approvals_seen, new_effects,
        changed_effects, new_approvals, changed_approvals, runs_used, steps_taken, denials_seen, reads_opened,
        reads_closed, of_writer, in_epoch, after_commits, is_writing, first_sequence, bodies, links, key_ids,
        head_link, head_opened_after, head_key_id, head_mac) a;
END $$;
