-- The first schema, with the tables and names of the SQLite store. Instants are microseconds since 1970-01-01 UTC, as in
-- SQLite, so that both stores keep one form and nothing is rounded on its way. Keys sort by their bytes (COLLATE "C"),
-- wherever the database stands. A row's xmin, the transaction that wrote it, is its version: whoever changes a row,
-- also by hand or in a handler's own transaction, changes it.

CREATE TABLE placet_meta (
    name  text COLLATE "C" PRIMARY KEY,
    value text NOT NULL
);

CREATE TABLE runs (
    tenant         text COLLATE "C" NOT NULL,
    run_id         text COLLATE "C" NOT NULL,
    subject        text COLLATE "C" NOT NULL,
    policy_version text NOT NULL,
    max_steps      bigint NOT NULL CHECK (max_steps > 0),
    steps          bigint NOT NULL CHECK (steps >= 0),
    opened_at      bigint NOT NULL,
    stepped_at     bigint,
    status         text NOT NULL DEFAULT 'open',
    state_version  bigint NOT NULL DEFAULT 1,
    checkpoint     bytea,
    PRIMARY KEY (tenant, run_id)
) WITH (fillfactor = 70);

CREATE INDEX runs_by_opening ON runs (tenant, opened_at);

CREATE TABLE step_fingerprints (
    tenant      text COLLATE "C" NOT NULL,
    run_id      text COLLATE "C" NOT NULL,
    call_id     text COLLATE "C" NOT NULL,
    fingerprint text COLLATE "C" NOT NULL,
    PRIMARY KEY (tenant, run_id, call_id, fingerprint)
);

-- How often a tool was refused in a run, by policy, by its contract or by a person.
CREATE TABLE denials (
    tenant  text COLLATE "C" NOT NULL,
    run_id  text COLLATE "C" NOT NULL,
    tool    text COLLATE "C" NOT NULL,
    denials bigint NOT NULL CHECK (denials > 0),
    PRIMARY KEY (tenant, run_id, tool)
);

CREATE TABLE effects (
    tenant                text COLLATE "C" NOT NULL,
    operation_key         text COLLATE "C" NOT NULL,
    fingerprint           text NOT NULL,
    tool                  text COLLATE "C" NOT NULL,
    tool_version          text NOT NULL,
    contract_digest       text NOT NULL,
    argument_digest       text NOT NULL,
    run_id                text NOT NULL,
    call_id               text NOT NULL,
    subject               text NOT NULL,
    policy_version        text NOT NULL,
    decision              text NOT NULL,
    approval_id           text,
    state                 text COLLATE "C" NOT NULL CHECK (state IN (
                              'prepared', 'dispatched', 'committed', 'failed', 'unknown',
                              'reconciled_committed', 'reconciled_absent')),
    fence                 bigint NOT NULL CHECK (fence >= 0),
    attempts              bigint NOT NULL CHECK (attempts >= 0),
    attempt               bigint NOT NULL,
    token                 text NOT NULL,
    owner                 text COLLATE "C" NOT NULL,
    lease_until           bigint NOT NULL,
    send_by               bigint NOT NULL,
    arrival_bound_seconds double precision NOT NULL,
    ends_by_itself        bigint NOT NULL CHECK (ends_by_itself IN (0, 1)),
    attempt_ended_at      bigint,
    probes                bigint NOT NULL,
    probe_after           bigint,
    sealed_arguments      bytea NOT NULL,
    sealed_result         bytea,
    result_digest         text,
    external_reference    text,
    reason                text,
    created_at            bigint NOT NULL,
    updated_at            bigint NOT NULL,
    PRIMARY KEY (tenant, operation_key)
) WITH (fillfactor = 85);

CREATE INDEX effects_by_state ON effects (state, updated_at) WHERE state IN ('dispatched', 'unknown');

CREATE INDEX effects_by_owner ON effects (owner) WHERE state = 'dispatched';

CREATE INDEX effects_by_change ON effects (tenant, updated_at);

-- Finished operations that are not purged yet: purging one takes its owner, and with it its entry here.
CREATE INDEX effects_finished ON effects (tenant, tool, updated_at)
    WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> '';

CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'placet: %', TG_ARGV[0] USING ERRCODE = 'PL403';
END $$;

-- The table of rules.lifecycle once more, so that no hand can write an illegal step. A test holds the two together.
CREATE TRIGGER effects_are_born_legally BEFORE INSERT ON effects FOR EACH ROW
WHEN (NEW.state NOT IN ('prepared', 'dispatched'))
EXECUTE FUNCTION refuse('an effect begins prepared or dispatched');

CREATE TRIGGER effects_move_legally BEFORE UPDATE ON effects FOR EACH ROW
WHEN ((OLD.state <> NEW.state OR OLD.fence <> NEW.fence) AND NOT (
       (OLD.state IN ('prepared', 'failed', 'reconciled_absent') AND NEW.state = 'dispatched' AND NEW.fence = OLD.fence + 1)
    OR (OLD.state = 'dispatched' AND NEW.state IN ('committed', 'failed', 'unknown', 'reconciled_absent') AND NEW.fence = OLD.fence)
    OR (OLD.state = 'unknown' AND NEW.state IN ('reconciled_committed', 'reconciled_absent') AND NEW.fence = OLD.fence)))
EXECUTE FUNCTION refuse('this state may not follow that one');

-- Only a dispatch that its handler settles in a transaction of its own may be absent without having been unknown.
CREATE TRIGGER effects_are_absent_by_co_commit_only BEFORE UPDATE ON effects FOR EACH ROW
WHEN (OLD.state = 'dispatched' AND NEW.state = 'reconciled_absent' AND substr(OLD.token, 1, 3) <> 'co:')
EXECUTE FUNCTION refuse('only the take-over of a co-commit row leads there');

CREATE TABLE voided_tokens (
    token     text COLLATE "C" PRIMARY KEY,
    voided_at bigint NOT NULL
);

CREATE INDEX voided_tokens_by_age ON voided_tokens (voided_at);

CREATE TABLE approvals (
    approval_id      text COLLATE "C" NOT NULL,
    tenant           text COLLATE "C" NOT NULL,
    subject          text COLLATE "C" NOT NULL,
    run_id           text COLLATE "C" NOT NULL,
    tool             text COLLATE "C" NOT NULL,
    argument_digest  text COLLATE "C" NOT NULL,
    policy_version   text COLLATE "C" NOT NULL,
    operation_key    text COLLATE "C" NOT NULL,
    state            text COLLATE "C" NOT NULL CHECK (state IN (
                         'pending', 'approved', 'denied', 'expired', 'withdrawn', 'spent', 'revoked')),
    question         text NOT NULL,
    question_key_id  text NOT NULL,
    question_mac     text NOT NULL,
    sealed_arguments bytea NOT NULL,
    answer           text,
    signature_key_id text,
    signature        text,
    asked_at         bigint NOT NULL,
    spent_at         bigint,
    PRIMARY KEY (tenant, approval_id)
);

CREATE UNIQUE INDEX one_open_approval_per_question
    ON approvals (tenant, subject, run_id, tool, argument_digest, policy_version, operation_key)
    WHERE state IN ('pending', 'approved');

CREATE INDEX approvals_by_question ON approvals (tenant, subject, run_id, tool, argument_digest, policy_version);

CREATE INDEX approvals_by_state ON approvals (tenant, state, asked_at);

-- What waits for a person, of every tenant, for the worker that expires it and for the gauge.
CREATE INDEX approvals_pending ON approvals (asked_at) WHERE state = 'pending';

CREATE TRIGGER approvals_move_legally BEFORE UPDATE ON approvals FOR EACH ROW
WHEN (OLD.state <> NEW.state AND NOT (
       (OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired', 'withdrawn'))
    OR (OLD.state = 'approved' AND NEW.state IN ('spent', 'expired', 'revoked'))))
EXECUTE FUNCTION refuse('this approval state may not follow that one');

CREATE TABLE stops (
    scope      text COLLATE "C" PRIMARY KEY,
    stopped_at bigint NOT NULL
);

-- Who stopped, with what leave, and why. The reason is AES-GCM, bound to its scope.
CREATE TABLE stop_notes (
    scope         text COLLATE "C" PRIMARY KEY,
    subject       text NOT NULL,
    tenant        text NOT NULL,
    leave         text NOT NULL CHECK (leave IN ('tenant', 'deployment')),
    sealed_reason bytea
);

-- `seal` is the version of the commit seal that covers the event; NULL until seals exist.
CREATE TABLE audit_events (
    writer   text COLLATE "C" NOT NULL,
    sequence bigint NOT NULL CHECK (sequence > 0),
    body     text NOT NULL,
    link     text NOT NULL,
    key_id   text NOT NULL,
    seal     bigint,
    tenant   text COLLATE "C" NOT NULL GENERATED ALWAYS AS (body::json ->> 'tenant') STORED,
    at       text COLLATE "C" NOT NULL GENERATED ALWAYS AS (body::json ->> 'at') STORED,
    PRIMARY KEY (writer, sequence)
);

CREATE INDEX audit_events_by_tenant ON audit_events (tenant, at);

-- Events are added. They go only where a chain is cut, which says so in its transaction, and leaves a tombstone.
CREATE TRIGGER audit_events_stay BEFORE UPDATE ON audit_events FOR EACH ROW
WHEN ((OLD.writer, OLD.sequence, OLD.body, OLD.link, OLD.key_id)
      IS DISTINCT FROM (NEW.writer, NEW.sequence, NEW.body, NEW.link, NEW.key_id))
EXECUTE FUNCTION refuse('an audit event is not changed');

CREATE TRIGGER audit_events_go_with_a_tombstone BEFORE DELETE ON audit_events FOR EACH ROW
WHEN (current_setting('placet.cutting', true) IS DISTINCT FROM 'yes')
EXECUTE FUNCTION refuse('an audit event is removed only where its chain is cut');

CREATE TRIGGER audit_events_are_not_emptied BEFORE TRUNCATE ON audit_events FOR EACH STATEMENT
EXECUTE FUNCTION refuse('the audit is not emptied');

-- Completed events that handlers' own transactions wrote with the settle, until a writer chains them. The MAC is over
-- the body. Rows that no placet made are kept, refused, as evidence.
CREATE TABLE unchained_events (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    body       text NOT NULL,
    key_id     text NOT NULL,
    mac        text NOT NULL,
    is_refused bigint NOT NULL DEFAULT 0 CHECK (is_refused IN (0, 1))
);

CREATE INDEX unchained_events_waiting ON unchained_events (number) WHERE is_refused = 0;

-- Reads that were started and not completed yet: what recovery has to close if their owner is lost.
CREATE TABLE open_reads (
    writer      text COLLATE "C" NOT NULL,
    sequence    bigint NOT NULL,
    owner       text COLLATE "C" NOT NULL,
    lease_until bigint NOT NULL,
    PRIMARY KEY (writer, sequence)
);

CREATE INDEX open_reads_by_owner ON open_reads (owner);

CREATE INDEX open_reads_by_lease ON open_reads (lease_until);

-- A writer's row is made when its store is opened, with sequence 0, and is no head before its first event. `commits`
-- counts its transactions, so that after a lost answer it can tell what became of the last one; `epoch` is raised when it
-- asks, after which a transaction that was still on its way finds that it comes too late.
CREATE TABLE audit_heads (
    writer       text COLLATE "C" PRIMARY KEY,
    remembered   bigint NOT NULL DEFAULT 0,
    sequence     bigint NOT NULL DEFAULT 0,
    link         text NOT NULL,
    opened_after text NOT NULL,
    key_id       text NOT NULL,
    mac          text NOT NULL,
    seal         bigint,
    epoch        bigint NOT NULL DEFAULT 1,
    commits      bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- What is kept although it is old: everything, or what is one tenant's.
CREATE TABLE holds (
    scope   text COLLATE "C" PRIMARY KEY,
    held_by text NOT NULL,
    held_at bigint NOT NULL
);

-- Where chains begin whose oldest events were removed. The MAC is over all of it.
CREATE TABLE audit_tombstones (
    writer     text COLLATE "C" PRIMARY KEY,
    first_kept bigint NOT NULL CHECK (first_kept > 1),
    link       text NOT NULL,
    removed    bigint NOT NULL,
    cut_by     text NOT NULL,
    cut_at     text NOT NULL,
    key_id     text NOT NULL,
    mac        text NOT NULL
);

-- The store's clock, for all hosts.
CREATE FUNCTION clock_now() RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
$$;

-- What every writing transaction shares, and a stop, a void or a rotation of the key takes alone.
CREATE FUNCTION writing_lock() RETURNS bigint LANGUAGE sql IMMUTABLE AS $$ SELECT 8100956909264437249 $$;

-- Under which key a value was sealed: a version byte, the length of the key's id, and the id.
CREATE FUNCTION sealed_under(sealed bytea) RETURNS bytea LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN length(sealed) > 1 THEN substring(sealed FROM 3 FOR get_byte(sealed, 1)) END
$$;

-- Until when a question waits; NULL for one that was altered until it is no JSON any more.
CREATE FUNCTION decide_by_of(question text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN question::json ->> 'decide_by';
EXCEPTION WHEN invalid_text_representation THEN
    RETURN NULL;
END $$;

-- ---------------------------------------------------------------- who sees what

-- The owner of the tables writes for every tenant, several in one commit. Everybody else sees the rows of the tenant that
-- its transaction names in `placet.tenant`, and none without; `let_read` gives a role that much.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['runs', 'step_fingerprints', 'denials', 'effects', 'approvals', 'audit_events'] LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY', name);
        EXECUTE format('ALTER TABLE %I FORCE ROW LEVEL SECURITY', name);
        EXECUTE format('CREATE POLICY writing ON %I TO CURRENT_USER USING (true) WITH CHECK (true)', name);
        EXECUTE format(
            'CREATE POLICY reading ON %I FOR SELECT USING (tenant = nullif(current_setting(''placet.tenant'', true), ''''))',
            name);
    END LOOP;
END $$;

CREATE FUNCTION let_read(reader name) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
    EXECUTE format('GRANT SELECT ON runs, step_fingerprints, denials, effects, approvals, audit_events TO %I', reader);
    EXECUTE format('GRANT EXECUTE ON FUNCTION effects_of(text, bigint), approvals_of(text, bigint), events_of(text, bigint) TO %I', reader);
END $$;

-- One round trip for whoever reads for a tenant: the name holds for this transaction only.
CREATE FUNCTION effects_of(of_tenant text, most bigint) RETURNS SETOF effects LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('placet.tenant', of_tenant, true);
    RETURN QUERY SELECT * FROM effects WHERE tenant = of_tenant ORDER BY updated_at DESC LIMIT most;
END $$;

CREATE FUNCTION approvals_of(of_tenant text, most bigint) RETURNS SETOF approvals LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('placet.tenant', of_tenant, true);
    RETURN QUERY SELECT * FROM approvals WHERE tenant = of_tenant ORDER BY asked_at DESC LIMIT most;
END $$;

CREATE FUNCTION events_of(of_tenant text, most bigint) RETURNS SETOF audit_events LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('placet.tenant', of_tenant, true);
    RETURN QUERY SELECT * FROM audit_events WHERE tenant = of_tenant ORDER BY at DESC LIMIT most;
END $$;

-- ---------------------------------------------------------------- a batch

-- A row as a verb wrote it. `seen` is the xmin of the row that the verb read.
CREATE TYPE effect_form AS (
    tenant text, operation_key text, fingerprint text, tool text, tool_version text, contract_digest text,
    argument_digest text, run_id text, call_id text, subject text, policy_version text, decision text, approval_id text,
    state text, fence bigint, attempts bigint, attempt bigint, token text, owner text, lease_until bigint, send_by bigint,
    arrival_bound_seconds double precision, ends_by_itself bigint, attempt_ended_at bigint, probes bigint,
    probe_after bigint, sealed_arguments bytea, sealed_result bytea, result_digest text, external_reference text,
    reason text, created_at bigint, updated_at bigint, seen xid);

CREATE TYPE approval_form AS (
    approval_id text, tenant text, subject text, run_id text, tool text, argument_digest text, policy_version text,
    operation_key text, state text, question text, question_key_id text, question_mac text, sealed_arguments bytea,
    answer text, signature_key_id text, signature text, asked_at bigint, spent_at bigint, seen xid);

CREATE TYPE seen_form AS (tenant text, name text, seen xid);

CREATE TYPE run_form AS (
    tenant text, run_id text, subject text, policy_version text, max_steps bigint, opened_at bigint);

CREATE TYPE step_form AS (tenant text, run_id text, call_id text, fingerprint text);

CREATE TYPE denial_form AS (tenant text, run_id text, tool text, seen bigint, denials bigint);

CREATE TYPE read_form AS (writer text, sequence bigint, owner text, lease_until bigint);

CREATE FUNCTION mismatch(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'placet: decide again: %', what USING ERRCODE = 'PL409';
END $$;

-- The first words of whatever writes beside others: waits for a stop, and from then on for no row long. The writer of a
-- host has one connection, and a handler's open transaction may hold a row for as long as it likes.
CREATE FUNCTION enter_beside_others() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(writing_lock());
    PERFORM set_config('lock_timeout', '2s', true);
    RETURN clock_now();
END $$;

-- Compare everything that the verbs read, then write everything that they wrote, or nothing. Every statement in here sees
-- what was committed before it began, so the comparisons come after the lock that a stop takes alone. It changes nothing
-- of what the verbs decided and decides nothing itself.
CREATE FUNCTION apply(
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
    at := enter_beside_others();
    IF abs(at - decided_at) > 250000 THEN PERFORM mismatch('clock'); END IF;
    IF at >= not_after THEN PERFORM mismatch('expiry'); END IF;
    IF stops_seen IS NOT NULL AND stops_seen <> ARRAY(SELECT scope FROM stops ORDER BY scope) THEN
        PERFORM mismatch('stops');
    END IF;
    IF key_check IS NOT NULL AND NOT EXISTS (
        SELECT FROM placet_meta m WHERE m.name = 'key_check' AND m.value = key_check) THEN
        PERFORM mismatch('key_check');
    END IF;
    IF unvoided IS NOT NULL AND EXISTS (SELECT FROM voided_tokens v WHERE v.token = ANY (unvoided)) THEN
        PERFORM mismatch('voided');
    END IF;
    IF effects_seen IS NOT NULL AND EXISTS (
        SELECT FROM unnest(effects_seen) s LEFT JOIN effects e ON e.tenant = s.tenant AND e.operation_key = s.name
        WHERE e.xmin IS DISTINCT FROM s.seen) THEN
        PERFORM mismatch('effects');
    END IF;
    IF approvals_seen IS NOT NULL AND EXISTS (
        SELECT FROM unnest(approvals_seen) s LEFT JOIN approvals a ON a.tenant = s.tenant AND a.approval_id = s.name
        WHERE a.xmin IS DISTINCT FROM s.seen) THEN
        PERFORM mismatch('approvals');
    END IF;
    IF runs_used IS NOT NULL AND EXISTS (
        SELECT FROM unnest(runs_used) u JOIN runs r ON r.tenant = u.tenant AND r.run_id = u.run_id
        WHERE r.subject <> u.subject) THEN
        PERFORM mismatch('runs');
    END IF;
    IF denials_seen IS NOT NULL THEN
        IF EXISTS (
            SELECT FROM unnest(denials_seen) s
            LEFT JOIN denials d ON d.tenant = s.tenant AND d.run_id = s.run_id AND d.tool = s.tool
            WHERE coalesce(d.denials, 0) <> s.seen) THEN
            PERFORM mismatch('denials');
        END IF;
        INSERT INTO denials SELECT s.tenant, s.run_id, s.tool, s.denials FROM unnest(denials_seen) s
        WHERE s.seen = 0 AND s.denials > 0;
        SELECT count(*) INTO wanted FROM unnest(denials_seen) s WHERE s.seen > 0 AND s.denials > s.seen;
        IF wanted > 0 THEN
            UPDATE denials d SET denials = s.denials FROM unnest(denials_seen) s
            WHERE s.seen > 0 AND s.denials > s.seen
              AND d.tenant = s.tenant AND d.run_id = s.run_id AND d.tool = s.tool AND d.denials = s.seen;
            GET DIAGNOSTICS done = ROW_COUNT;
            IF done <> wanted THEN PERFORM mismatch('denials'); END IF;
        END IF;
    END IF;

    IF new_effects IS NOT NULL THEN
        INSERT INTO effects SELECT
            n.tenant, n.operation_key, n.fingerprint, n.tool, n.tool_version, n.contract_digest, n.argument_digest,
            n.run_id, n.call_id, n.subject, n.policy_version, n.decision, n.approval_id, n.state, n.fence, n.attempts,
            n.attempt, n.token, n.owner, n.lease_until, n.send_by, n.arrival_bound_seconds, n.ends_by_itself,
            n.attempt_ended_at, n.probes, n.probe_after, n.sealed_arguments, n.sealed_result, n.result_digest,
            n.external_reference, n.reason, n.created_at, n.updated_at
        FROM unnest(new_effects) n;
    END IF;
    IF changed_effects IS NOT NULL THEN
        UPDATE effects e SET
            call_id = c.call_id, run_id = c.run_id, subject = c.subject, tool_version = c.tool_version,
            contract_digest = c.contract_digest, policy_version = c.policy_version, decision = c.decision,
            approval_id = c.approval_id, state = c.state, fence = c.fence, attempts = c.attempts, attempt = c.attempt,
            token = c.token, owner = c.owner, lease_until = c.lease_until, send_by = c.send_by,
            arrival_bound_seconds = c.arrival_bound_seconds, ends_by_itself = c.ends_by_itself,
            attempt_ended_at = c.attempt_ended_at, probes = c.probes, probe_after = c.probe_after,
            sealed_arguments = c.sealed_arguments, sealed_result = c.sealed_result, result_digest = c.result_digest,
            external_reference = c.external_reference, reason = c.reason, updated_at = c.updated_at
        FROM unnest(changed_effects) c
        WHERE e.tenant = c.tenant AND e.operation_key = c.operation_key AND e.xmin = c.seen;
        GET DIAGNOSTICS done = ROW_COUNT;
        IF done <> cardinality(changed_effects) THEN PERFORM mismatch('effects'); END IF;
    END IF;

    IF new_approvals IS NOT NULL THEN
        INSERT INTO approvals SELECT
            n.approval_id, n.tenant, n.subject, n.run_id, n.tool, n.argument_digest, n.policy_version, n.operation_key,
            n.state, n.question, n.question_key_id, n.question_mac, n.sealed_arguments, n.answer, n.signature_key_id,
            n.signature, n.asked_at, n.spent_at
        FROM unnest(new_approvals) n;
    END IF;
    IF changed_approvals IS NOT NULL THEN
        UPDATE approvals a SET
            state = c.state, answer = c.answer, signature_key_id = c.signature_key_id, signature = c.signature,
            spent_at = c.spent_at
        FROM unnest(changed_approvals) c
        WHERE a.tenant = c.tenant AND a.approval_id = c.approval_id AND a.xmin = c.seen;
        GET DIAGNOSTICS done = ROW_COUNT;
        IF done <> cardinality(changed_approvals) THEN PERFORM mismatch('approvals'); END IF;
    END IF;

    -- A run is counted up where it is: many hosts may share one. What the verbs presumed of it, that it is its
    -- subject's and has room, is compared by the same statement that counts.
    IF steps_taken IS NOT NULL THEN
        WITH fresh AS (
            INSERT INTO step_fingerprints SELECT s.tenant, s.run_id, s.call_id, s.fingerprint FROM unnest(steps_taken) s
            ON CONFLICT DO NOTHING RETURNING tenant, run_id
        ), counted AS (
            SELECT tenant, run_id, count(*) AS steps FROM fresh GROUP BY tenant, run_id
        ), written AS (
            INSERT INTO runs AS r (tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at)
            SELECT u.tenant, u.run_id, u.subject, u.policy_version, u.max_steps, c.steps, u.opened_at, u.opened_at
            FROM counted c JOIN unnest(runs_used) u ON u.tenant = c.tenant AND u.run_id = c.run_id
            ORDER BY u.tenant, u.run_id
            ON CONFLICT (tenant, run_id) DO UPDATE SET
                steps = r.steps + excluded.steps, state_version = r.state_version + 1,
                stepped_at = greatest(r.stepped_at, excluded.stepped_at)
            WHERE r.subject = excluded.subject AND r.steps + excluded.steps <= r.max_steps
            RETURNING 1
        )
        SELECT (SELECT count(*) FROM counted), (SELECT count(*) FROM written) INTO wanted, done;
        IF done <> wanted THEN PERFORM mismatch('runs'); END IF;
        -- Once more: a step that another host took meanwhile was waited for, and its run may be another subject's.
        IF EXISTS (
            SELECT FROM unnest(runs_used) u JOIN runs r ON r.tenant = u.tenant AND r.run_id = u.run_id
            WHERE r.subject <> u.subject) THEN
            PERFORM mismatch('runs');
        END IF;
    END IF;

    IF reads_opened IS NOT NULL THEN
        INSERT INTO open_reads SELECT o.writer, o.sequence, o.owner, o.lease_until FROM unnest(reads_opened) o;
    END IF;
    IF reads_closed IS NOT NULL THEN
        DELETE FROM open_reads r USING unnest(reads_closed) c WHERE r.writer = c.writer AND r.sequence = c.sequence;
        GET DIAGNOSTICS done = ROW_COUNT;
        IF done <> cardinality(reads_closed) THEN PERFORM mismatch('reads'); END IF;
    END IF;

    IF bodies IS NOT NULL THEN
        INSERT INTO audit_events (writer, sequence, body, link, key_id)
        SELECT of_writer, first_sequence - 1 + e.ordinality, e.body, e.link, e.key_id
        FROM unnest(bodies, links, key_ids) WITH ORDINALITY AS e (body, link, key_id, ordinality);
        IF first_sequence = 1 AND head_opened_after <> '{}' THEN
            UPDATE audit_heads h SET remembered = greatest(h.remembered, (o.value ->> 0)::bigint)
            FROM json_each(head_opened_after::json) o WHERE h.writer = o.key;
        END IF;
        UPDATE audit_heads h SET
            commits = commits + 1, sequence = first_sequence - 1 + cardinality(bodies), link = head_link,
            opened_after = head_opened_after, key_id = head_key_id, mac = head_mac
        WHERE h.writer = of_writer AND h.epoch = in_epoch AND h.commits = after_commits;
    ELSIF is_writing THEN
        UPDATE audit_heads h SET commits = commits + 1
        WHERE h.writer = of_writer AND h.epoch = in_epoch AND h.commits = after_commits;
    END IF;
    IF is_writing AND NOT FOUND THEN
        RAISE EXCEPTION 'placet: this writer asked what became of it' USING ERRCODE = 'PL410';
    END IF;
    mark := pg_current_xact_id_if_assigned()::xid;
    is_anything_waiting := EXISTS (SELECT FROM unchained_events u WHERE u.is_refused = 0);
END $$;
