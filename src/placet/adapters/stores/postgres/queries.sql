-- name: apply
-- One batch: every comparison and every change, in one statement, one round trip and one commit.
SELECT at, mark, is_anything_waiting FROM apply_within(
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25,
    $26, $27, $28, $29, $30);

-- name: share
-- The first words of a transaction that decides under its locks.
SELECT enter_beside_others();

-- name: alone
SELECT clock_now() FROM (SELECT pg_advisory_xact_lock(writing_lock())) AS locked;

-- name: patiently
-- Longer than a transaction may stand idle.
SELECT set_config('lock_timeout', '14s', true);

-- name: migrate_patiently
-- For this transaction: a large table takes its time, and so does whoever migrates before us.
SELECT set_config('statement_timeout', $1, true), set_config('lock_timeout', $1, true);

-- name: start_patiently
-- For this session: whoever makes the store takes the time that a migration does.
SELECT set_config('statement_timeout', $1, false), set_config('lock_timeout', $1, false);

-- name: take_starting
-- Until the session ends: one starter at a time looks whether there is a store, and makes it together with its key.
SELECT pg_advisory_lock(hashtextextended($1, 7021802));

-- name: lock_briefly
-- A change of a table that waits for its lock keeps everybody waiting who comes after it.
SELECT set_config('lock_timeout', '10s', true);

-- name: ring
-- A transaction of its own, and never of a batch's: whoever notifies commits behind everybody else who does.
SELECT pg_notify($1, $2);

-- name: ring_lightly
-- For a whole session: a hint that is lost with the server costs nobody anything.
SET synchronous_commit = off; SET application_name = 'placet wake-ups';

-- name: is_thought_small
-- Whether the server has seen the ledger with a thousand rows; -1 is for never.
SELECT reltuples < 1000 FROM pg_class WHERE oid = 'effects'::regclass;

-- name: tell_sizes
-- Statistics, and with them new plans in every session. Nobody is waited for.
ANALYZE (SKIP_LOCKED) effects, runs, approvals;

-- name: clock
SELECT clock_now();

-- name: open_writer
-- A row for a writer that has written nothing, so that a lost first commit can be found out about.
INSERT INTO audit_heads (writer, link, opened_after, key_id, mac) VALUES ($1, $2, '{}', '', '')
ON CONFLICT (writer) DO UPDATE SET epoch = audit_heads.epoch + 1
RETURNING epoch, commits, sequence, link, opened_after;

-- name: raise_epoch
-- Waits for a transaction of this writer that is still alive; one that comes later finds the epoch changed.
UPDATE audit_heads SET epoch = epoch + 1 WHERE writer = $1 RETURNING epoch, commits, sequence, link;

-- name: own_commits
-- What a connection that is new looks at, whatever for: a server that counts fewer than it acknowledged has lost some.
SELECT commits FROM audit_heads WHERE writer = $1;

-- name: forget_writer
-- One that ends without an event was never a chain: commands that only look would fill the table.
DELETE FROM audit_heads WHERE writer = $1 AND sequence = 0;

-- name: effects_at
-- Rows of the ledger by their names, with their versions.
SELECT e.*, e.xmin FROM unnest($1::text[], $2::text[]) AS n (tenant, operation_key)
JOIN effects e ON e.tenant = n.tenant AND e.operation_key = n.operation_key;

-- name: effects_at_locked
SELECT e.*, e.xmin FROM unnest($1::text[], $2::text[]) AS n (tenant, operation_key)
JOIN effects e ON e.tenant = n.tenant AND e.operation_key = n.operation_key
ORDER BY e.tenant, e.operation_key FOR UPDATE OF e;

-- name: approvals_at
SELECT a.*, a.xmin FROM unnest($1::text[], $2::text[]) AS n (tenant, approval_id)
JOIN approvals a ON a.tenant = n.tenant AND a.approval_id = n.approval_id;

-- name: approvals_at_locked
SELECT a.*, a.xmin FROM unnest($1::text[], $2::text[]) AS n (tenant, approval_id)
JOIN approvals a ON a.tenant = n.tenant AND a.approval_id = n.approval_id
ORDER BY a.tenant, a.approval_id FOR UPDATE OF a;

-- name: run
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs
WHERE tenant = $1 AND run_id = $2;

-- name: run_locked
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs
WHERE tenant = $1 AND run_id = $2 FOR UPDATE;

-- name: has_step
SELECT 1 FROM step_fingerprints WHERE tenant = $1 AND run_id = $2 AND call_id = $3 AND fingerprint = $4;

-- name: denials
SELECT denials FROM denials WHERE tenant = $1 AND run_id = $2 AND tool = $3;

-- name: is_voided
SELECT 1 FROM voided_tokens WHERE token = $1;

-- name: add_void
INSERT INTO voided_tokens VALUES ($1, $2);

-- name: has_read
SELECT 1 FROM open_reads WHERE writer = $1 AND sequence = $2 FOR UPDATE;

-- name: renew_leases
-- Heartbeat: leases only, never send_by. A row that a handler's transaction holds is being settled, and is passed over:
-- waiting for it would let the leases of all others run out.
WITH reads AS (UPDATE open_reads SET lease_until = greatest(lease_until, $2) WHERE owner = $1),
mine AS (
    SELECT tenant, operation_key FROM effects WHERE state = 'dispatched' AND owner = $1
    ORDER BY tenant, operation_key FOR UPDATE SKIP LOCKED)
UPDATE effects e SET lease_until = greatest(e.lease_until, $2) FROM mine m
WHERE e.tenant = m.tenant AND e.operation_key = m.operation_key
RETURNING e.tenant, e.operation_key;

-- name: effects_of_tenant
-- For lists: newest change first; a state that does not exist is in every list, as broken. An identity that is no plain subject is a JSON list: environment, then its subjects.
SELECT * FROM effects WHERE tenant = $4 AND (state = ANY ($1::text[]) OR state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent'))
AND ($2::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $2)
    ELSE subject = $2 END)
ORDER BY updated_at DESC LIMIT $3;

-- name: effects_of_tenant_after
-- The same a page at a time, after a row of that instant and key.
SELECT * FROM effects WHERE tenant = $4 AND (updated_at, operation_key) < ($5, $6)
AND (state = ANY ($1::text[]) OR state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent'))
AND ($2::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $2)
    ELSE subject = $2 END)
ORDER BY updated_at DESC, operation_key DESC LIMIT $3;

-- name: effects_of_all
-- For workers: every tenant.
SELECT * FROM effects WHERE (state = ANY ($1::text[]) OR state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent'))
AND ($2::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $2)
    ELSE subject = $2 END)
ORDER BY updated_at DESC LIMIT $3;

-- name: effects_in_flight
-- The same lists where only states are wanted that few rows are in, by the indexes of those; other states there are none.
SELECT * FROM effects WHERE state IN ('dispatched', 'unknown') AND state = ANY ($1::text[])
AND ($4::text IS NULL OR tenant = $4)
AND ($2::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $2)
    ELSE subject = $2 END)
ORDER BY updated_at DESC LIMIT $3;

-- name: effects_in_flight_after
SELECT * FROM effects WHERE state IN ('dispatched', 'unknown') AND state = ANY ($1::text[])
AND tenant = $4 AND (updated_at, operation_key) < ($5, $6)
AND ($2::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $2)
    ELSE subject = $2 END)
ORDER BY updated_at DESC, operation_key DESC LIMIT $3;

-- name: longest_unknown
-- The queue for people: a tenant's, the longest unknown first. The tenant is asked for so that no index of all that it
-- ever did is tempting.
SELECT * FROM effects WHERE state = 'unknown' AND ($1::text IS NULL OR tenant = $1)
AND ($2::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $2)
    ELSE subject = $2 END)
ORDER BY updated_at, operation_key LIMIT $3 OFFSET $4;

-- name: unknown_effects
-- For gauges: how many of each tool after so many looks in vain, and since when the oldest.
SELECT tool, probes, count(*), min(updated_at) FROM effects WHERE state = 'unknown' GROUP BY tool, probes ORDER BY tool, probes;

-- name: rows_after
-- All rows in order of their keys, a stretch at a time, to find those that cannot be read.
SELECT * FROM effects WHERE (tenant, operation_key) > ($1, $2) AND ($4::text IS NULL OR tenant = $4)
AND ($5::text IS NULL OR CASE WHEN left(subject, 1) = '['
    THEN EXISTS (SELECT FROM json_array_elements_text(subject::json) WITH ORDINALITY AS s (value, place) WHERE place > 1 AND value = $5)
    ELSE subject = $5 END)
ORDER BY tenant, operation_key LIMIT $3;

-- name: stranded
-- Dispatched rows whose lease is over, but for those that a transaction is settling right now.
SELECT * FROM effects WHERE state = 'dispatched' AND lease_until <= clock_now()
ORDER BY updated_at LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: due_for_probe
-- Unknown rows nobody has looked at lately.
SELECT * FROM effects WHERE state = 'unknown' AND (probe_after IS NULL OR probe_after <= clock_now()) ORDER BY updated_at LIMIT $1;

-- name: lost_reads
-- Started reads whose owner's lease is over, with their started events.
SELECT r.writer, r.sequence, e.body FROM open_reads r JOIN audit_events e ON e.writer = r.writer AND e.sequence = r.sequence
WHERE r.lease_until <= clock_now() ORDER BY r.lease_until LIMIT $1;

-- name: pending_count
SELECT count(*) FROM approvals WHERE state = 'pending';

-- name: count_dispatched
-- How many of a stopped scope are still on their way.
SELECT count(*) FROM effects WHERE state = 'dispatched' AND (
    $1 = 'all' OR $1 = 'tenant:' || tenant OR $1 = 'tool:' || tool
    OR $1 = 'tool:[' || to_json(tenant) || ',' || to_json(tool) || ']'
    OR $1 = 'run:[' || to_json(tenant) || ',' || to_json(run_id) || ']'
    OR (strpos(tool, '.') > 0 AND ($1 = 'upstream:' || split_part(tool, '.', 1)
        OR $1 = 'upstream:[' || to_json(tenant) || ',' || to_json(split_part(tool, '.', 1)) || ']')));

-- name: waiting_marks
-- What waits, and how many votes and words to people there were; nothing else of a question changes while it waits.
SELECT approval_id,
    (SELECT count(*) FROM approval_votes AS v WHERE v.tenant = a.tenant AND v.approval_id = a.approval_id),
    (SELECT length(told) FROM reminders AS r WHERE r.tenant = a.tenant AND r.approval_id = a.approval_id)
FROM approvals AS a WHERE tenant = $1 AND state = 'pending' ORDER BY asked_at DESC, approval_id DESC LIMIT $2;

-- name: overdue_approvals
-- Questions nobody decided in time; what is no JSON any more was altered, and is left to whoever looks at it.
SELECT * FROM approvals
WHERE state = 'pending' AND decide_by_of(question) <= to_char(
    timestamp 'epoch' + clock_now() * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"')
ORDER BY asked_at LIMIT $1;

-- name: due_reminders
-- Questions of which somebody is to be told by now, with what was told so far, the oldest first.
SELECT a.*, r.told FROM approvals a LEFT JOIN reminders r ON r.tenant = a.tenant AND r.approval_id = a.approval_id,
    to_char(timestamp 'epoch' + clock_now() * interval '1 microsecond', 'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"') AS now
WHERE a.state = 'pending' AND decide_by_of(a.question) > now
  AND CASE WHEN r.told IS NULL THEN first_step_of(a.question) <= now ELSE r.next_at <= clock_now() END
ORDER BY a.asked_at LIMIT $1;

-- name: told
SELECT told FROM reminders WHERE tenant = $1 AND approval_id = $2;

-- name: put_told
INSERT INTO reminders VALUES ($1, $2, $3, $4)
ON CONFLICT (tenant, approval_id) DO UPDATE SET told = EXCLUDED.told, next_at = EXCLUDED.next_at;

-- name: drop_reminders
DELETE FROM reminders WHERE tenant = $1 AND approval_id = $2;

-- name: add_edit
INSERT INTO approval_edits VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: edits
-- What was made of questions of one wish, newest first.
SELECT a.* FROM approval_edits e JOIN approvals a ON a.tenant = e.tenant AND a.approval_id = e.edited_id
WHERE e.tenant = $1 AND e.subject = $2 AND e.run_id = $3 AND e.tool = $4 AND e.argument_digest = $5
ORDER BY a.asked_at DESC, a.approval_id DESC;

-- name: votes
SELECT tenant, approval_id, voter, kind, vote, key_id, signature, voted_at FROM approval_votes
WHERE tenant = $1 AND approval_id = $2 ORDER BY voter, kind;

-- name: add_vote
-- One of a kind for each voter, by the primary key.
INSERT INTO approval_votes VALUES ($1, $2, $3, $4, $5, $6, $7, $8);

-- name: same_ask
-- Approvals of one question that still answer it, newest first.
SELECT a.*, a.xmin FROM approvals a
WHERE tenant = $1 AND subject = $2 AND run_id = $3 AND tool = $4 AND argument_digest = $5
  AND ($6::text IS NULL OR policy_version = $6)
  AND ($7::text IS NULL OR operation_key = $7) AND state IN ('pending', 'approved', 'denied')
ORDER BY asked_at DESC, approval_id DESC;

-- name: closed_ask
-- What became of a question that a call under another id has heard of, for that call when it asks again, newest first.
SELECT a.* FROM approvals a
WHERE a.tenant = $1 AND a.subject = $2 AND a.run_id = $3 AND a.tool = $4 AND a.argument_digest = $5
  AND a.state IN ('spent', 'withdrawn')
  AND EXISTS (
    SELECT 1 FROM step_fingerprints s
    WHERE s.tenant = $1 AND s.run_id = $3 AND s.call_id = $6 AND s.fingerprint = $7)
  AND NOT EXISTS (
    SELECT 1 FROM approvals own
    WHERE own.tenant = $1 AND own.subject = $2 AND own.run_id = $3 AND own.tool = $4
      AND own.argument_digest = $5 AND own.operation_key = $8)
ORDER BY a.asked_at DESC, a.approval_id DESC LIMIT 8;

-- name: lock_question
-- The same question is asked by one transaction at a time.
SELECT FROM (SELECT pg_advisory_xact_lock(hashtextextended($1, 7021800)) ) AS locked;

-- name: open_approval
SELECT a.*, a.xmin FROM approvals a
WHERE tenant = $1 AND subject = $2 AND run_id = $3 AND tool = $4 AND argument_digest = $5
  AND ($6::text IS NULL OR policy_version = $6)
  AND ($7::text IS NULL OR operation_key = $7) AND state IN ('pending', 'approved')
ORDER BY asked_at DESC, approval_id DESC LIMIT 1 FOR UPDATE;

-- name: standing_approvals
-- Those that still answer it, for whoever is to act on there being no others.
SELECT a.*, a.xmin FROM approvals a
WHERE tenant = $1 AND subject = $2 AND run_id = $3 AND tool = $4 AND argument_digest = $5
  AND ($6::text IS NULL OR policy_version = $6)
  AND ($7::text IS NULL OR operation_key = $7) AND state IN ('pending', 'approved', 'denied')
ORDER BY asked_at DESC, approval_id DESC FOR UPDATE;

-- name: approvals_of_tenant
-- State by state, by the index that is made for it: one look for all states would read whatever the tenant ever asked.
SELECT a.* FROM unnest($2::text[]) AS wanted (state) CROSS JOIN LATERAL (
    SELECT * FROM approvals WHERE tenant = $1 AND state = wanted.state ORDER BY asked_at DESC LIMIT $3
) AS a ORDER BY a.asked_at DESC LIMIT $3;

-- name: approvals_of_tenant_after
-- The same a page at a time, after a row of that instant and id.
SELECT a.* FROM unnest($2::text[]) AS wanted (state) CROSS JOIN LATERAL (
    SELECT * FROM approvals WHERE tenant = $1 AND state = wanted.state AND (asked_at, approval_id) < ($4, $5)
    ORDER BY asked_at DESC, approval_id DESC LIMIT $3
) AS a ORDER BY a.asked_at DESC, a.approval_id DESC LIMIT $3;

-- name: stops
SELECT scope FROM stops ORDER BY scope;

-- name: add_stop
INSERT INTO stops VALUES ($1, $2);

-- name: drop_stop
WITH note AS (DELETE FROM stop_notes WHERE scope = $1) DELETE FROM stops WHERE scope = $1;

-- name: stop_leave
SELECT leave FROM stop_notes WHERE scope = $1;

-- name: put_stop_note
INSERT INTO stop_notes VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (scope) DO UPDATE SET subject = $2, tenant = $3, leave = $4, sealed_reason = $5;

-- name: stop_records
SELECT scope, stopped_at, n.subject, n.tenant, n.leave, n.sealed_reason
FROM stops LEFT JOIN stop_notes n USING (scope) ORDER BY stopped_at, scope;

-- name: heads
SELECT writer, sequence, link, opened_after, key_id, mac FROM audit_heads WHERE sequence > 0 ORDER BY writer;

-- name: unremembered_heads
-- Chains that have grown since a later chain last named their end.
SELECT writer, sequence, link, opened_after, key_id, mac FROM audit_heads WHERE sequence > remembered ORDER BY writer;

-- name: chained
SELECT writer, sequence, body, link, key_id FROM audit_events ORDER BY writer, sequence;

-- name: chained_of_tenant
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE tenant = $1 ORDER BY writer, sequence;

-- name: count_events
SELECT count(*) FROM audit_events WHERE $1::text IS NULL OR tenant = $1;

-- name: newest_of_tenant
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE tenant = $1
ORDER BY at DESC, writer DESC, sequence DESC LIMIT $2;

-- name: events_of_tenant_after
SELECT writer, sequence, body, link, key_id FROM audit_events
WHERE tenant = $1 AND (at, writer, sequence) < ($3, $4, $5)
ORDER BY at DESC, writer DESC, sequence DESC LIMIT $2;

-- name: newest
SELECT writer, sequence, body, link, key_id FROM audit_events ORDER BY at DESC, writer DESC, sequence DESC LIMIT $1;

-- name: meta
SELECT value FROM placet_meta WHERE name = $1;

-- name: put_meta
INSERT INTO placet_meta VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2;

-- name: first_meta
-- The first one stands.
INSERT INTO placet_meta VALUES ($1, $2) ON CONFLICT (name) DO NOTHING;

-- name: take_chaining
-- One writer chains at a time; whoever comes meanwhile leaves it to that one. A statement of its own, so that the next
-- one sees whatever was chained by the last.
SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema(), 7021801));

-- name: waiting
-- Events that wait, and whether the audit holds them already. Those that another writer is chaining are its own.
SELECT number, body, key_id, mac, is_chained(body)
FROM unchained_events WHERE is_refused = 0 ORDER BY number LIMIT $1 FOR UPDATE SKIP LOCKED;

-- name: count_waiting
SELECT count(*) FROM unchained_events WHERE is_refused = 0;

-- name: drop_waiting
DELETE FROM unchained_events WHERE number = ANY ($1::bigint[]);

-- name: refuse_waiting
UPDATE unchained_events SET is_refused = 1 WHERE number = ANY ($1::bigint[]);

-- name: key_uses
-- What depends on which key. A sealed value begins with a version byte, the length of its key's id, and the id.
SELECT 'approvals', key_id, count(*) FROM (
    SELECT tenant, approval_id, convert_to(question_key_id, 'UTF8') AS key_id
    FROM approvals WHERE state IN ('pending', 'approved', 'denied')
    UNION
    SELECT tenant, approval_id, convert_to(signature_key_id, 'UTF8')
    FROM approvals WHERE state IN ('pending', 'approved', 'denied') AND signature_key_id IS NOT NULL
    UNION
    SELECT tenant, approval_id, sealed_under(sealed_arguments)
    FROM approvals WHERE state IN ('pending', 'approved', 'denied')
    UNION
    SELECT tenant, approval_id, convert_to(key_id, 'UTF8')
    FROM approval_votes JOIN approvals USING (tenant, approval_id) WHERE state IN ('pending', 'approved', 'denied')
) AS of_approvals GROUP BY key_id
UNION ALL
SELECT 'arguments', sealed_under(sealed_arguments), count(*)
FROM effects WHERE state IN ('prepared', 'dispatched', 'unknown') GROUP BY 2
UNION ALL
SELECT 'results', sealed_under(sealed_result), count(*) FROM effects WHERE sealed_result IS NOT NULL GROUP BY 2
UNION ALL
SELECT 'checkpoints', sealed_under(sealed), count(*)
FROM run_checkpoints JOIN runs USING (tenant, run_id) WHERE status IN ('open', 'paused') GROUP BY 2
UNION ALL
SELECT 'events', convert_to(key_id, 'UTF8'), count(*) FROM audit_events GROUP BY key_id
UNION ALL
SELECT 'api_keys', convert_to(key_id, 'UTF8'), count(*) FROM credentials
WHERE kind = 'api_key' AND ends_at > clock_now() GROUP BY key_id;

-- name: allow_cutting
SELECT set_config('placet.cutting', 'yes', true);

-- name: next_finished_kind
-- From one tenant and tool to the next, without passing over what is between.
SELECT tenant, tool FROM effects
WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
  AND (tenant, tool) > ($1, $2) ORDER BY tenant, tool LIMIT 1;

-- name: finished
SELECT * FROM effects
WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
  AND tenant = $1 AND tool = $2 AND updated_at < $3 ORDER BY updated_at LIMIT $4 OFFSET $5;

-- name: count_finished
SELECT count(*), min(updated_at) FROM effects
WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
  AND tenant = $1 AND tool = $2 AND updated_at < $3;

-- name: next_tenant_of_runs
SELECT tenant FROM runs WHERE tenant > $1 ORDER BY tenant LIMIT 1;

-- name: old_runs
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs
WHERE tenant = $1 AND opened_at < $2 AND coalesce(stepped_at, opened_at) < $2
  AND status <> 'paused' AND NOT EXISTS (
      SELECT FROM run_checkpoints c WHERE c.tenant = runs.tenant AND c.run_id = runs.run_id AND c.due_at IS NOT NULL)
ORDER BY opened_at LIMIT $3;

-- name: count_old_runs
SELECT count(*), min(opened_at) FROM runs
WHERE tenant = $1 AND opened_at < $2 AND coalesce(stepped_at, opened_at) < $2
  AND status <> 'paused' AND NOT EXISTS (
      SELECT FROM run_checkpoints c WHERE c.tenant = runs.tenant AND c.run_id = runs.run_id AND c.due_at IS NOT NULL);

-- name: drop_run
DELETE FROM runs WHERE tenant = $1 AND run_id = $2;

-- name: drop_steps
DELETE FROM step_fingerprints WHERE tenant = $1 AND run_id = $2;

-- name: drop_denials
DELETE FROM denials WHERE tenant = $1 AND run_id = $2;

-- name: next_tenant_of_approvals
SELECT tenant FROM approvals WHERE tenant > $1 ORDER BY tenant LIMIT 1;

-- name: old_approvals
SELECT * FROM approvals WHERE tenant = $1 AND state = $2 AND asked_at < $3 ORDER BY asked_at LIMIT $4;

-- name: count_old_approvals
SELECT count(*), min(asked_at) FROM approvals WHERE tenant = $1 AND state = $2 AND asked_at < $3;

-- name: drop_approval
DELETE FROM approvals WHERE tenant = $1 AND approval_id = $2;

-- name: drop_votes
-- After the question they are about.
DELETE FROM approval_votes WHERE tenant = $1 AND approval_id = $2;

-- name: drop_edit
DELETE FROM approval_edits WHERE tenant = $1 AND edited_id = $2;

-- name: old_tokens
SELECT token FROM voided_tokens WHERE voided_at < $1 ORDER BY voided_at LIMIT $2;

-- name: count_old_tokens
SELECT count(*), min(voided_at) FROM voided_tokens WHERE voided_at < $1;

-- name: drop_void
DELETE FROM voided_tokens WHERE token = $1;

-- name: next_tenant_of_events
SELECT tenant FROM audit_events WHERE tenant > $1 ORDER BY tenant LIMIT 1;

-- name: count_old_events
SELECT count(*), min(at) FROM audit_events WHERE tenant = $1 AND at < $2;

-- name: oldest_events
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE writer = $1 AND sequence < $2 ORDER BY sequence LIMIT $3;

-- name: kept_until
-- What has to stay of a chain: its last event, and reads that recovery may have to complete.
SELECT min(sequence) FROM (
    SELECT sequence FROM audit_heads WHERE writer = $1
    UNION ALL
    (SELECT sequence FROM open_reads WHERE writer = $1 ORDER BY sequence LIMIT 1)) AS kept;

-- name: link_at
SELECT link FROM audit_events WHERE writer = $1 AND sequence = $2;

-- name: chain_start
SELECT first_kept FROM audit_tombstones WHERE writer = $1;

-- name: tombstones
SELECT writer, first_kept, link, removed, cut_by, cut_at, key_id, mac FROM audit_tombstones ORDER BY writer;

-- name: put_tombstone
INSERT INTO audit_tombstones VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (writer) DO UPDATE SET first_kept = $2, link = $3, removed = $4, cut_by = $5, cut_at = $6, key_id = $7, mac = $8;

-- name: cut
DELETE FROM audit_events WHERE writer = $1 AND sequence < $2;

-- name: holds
SELECT scope, held_by, held_at FROM holds ORDER BY held_at, scope;

-- name: add_hold
INSERT INTO holds VALUES ($1, $2, $3);

-- name: drop_hold
DELETE FROM holds WHERE scope = $1;

-- name: credential
-- With the store's clock, so that letting somebody in is one look.
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at, clock_now() FROM credentials
WHERE kind = $1 AND name = $2;

-- name: credential_locked
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = $1 AND name = $2 FOR UPDATE;

-- name: credentials_of_tenant
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = $1 AND tenant = $2 ORDER BY made_at DESC, name LIMIT $3;

-- name: credentials_of_subject
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = $1 AND tenant = $2 AND subject = $3 ORDER BY made_at DESC, name LIMIT $4;

-- name: ended_credentials
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = $1 AND ends_at <= clock_now() ORDER BY ends_at, name LIMIT $2;

-- name: count_ended_credentials
SELECT tenant, count(*), min(ends_at) FROM credentials WHERE kind = $1 AND ends_at < $2 GROUP BY tenant;

-- name: add_credential
INSERT INTO credentials VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- name: change_credential
UPDATE credentials SET tenant = $3, subject = $4, body = $5, key_id = $6, mac = $7, made_at = $8, ends_at = $9,
    used_at = $10
WHERE kind = $1 AND name = $2;

-- name: drop_credential
DELETE FROM credentials WHERE kind = $1 AND name = $2;

-- name: touch_credential
UPDATE credentials SET used_at = $3 WHERE kind = $1 AND name = $2;

-- name: destinations
SELECT name, begun_at, closed_at FROM destinations ORDER BY name;

-- name: destination
SELECT name, begun_at, closed_at FROM destinations WHERE name = $1;

-- name: put_destination
INSERT INTO destinations VALUES ($1, $2, $3) ON CONFLICT (name) DO UPDATE SET begun_at = $2, closed_at = $3;

-- name: lock_outbox
-- The cursors of one destination are moved by one transaction at a time.
SELECT FROM (SELECT pg_advisory_xact_lock(hashtextextended($1, 7021801))) AS locked;

-- name: cursors
SELECT writer, sequence FROM announced WHERE destination = $1;

-- name: put_cursors
INSERT INTO announced SELECT $1, c.writer, c.sequence FROM unnest($2::text[], $3::bigint[]) AS c (writer, sequence)
ON CONFLICT (destination, writer) DO UPDATE SET sequence = excluded.sequence;

-- name: unread_chains
-- One row per chain there ever was, of which nearly all are read to their end. Shorter than its cursor is one of a store
-- that went back.
SELECT h.writer, a.sequence, coalesce(t.first_kept, 1), h.sequence
FROM audit_heads AS h
LEFT JOIN announced AS a ON a.destination = $1 AND a.writer = h.writer
LEFT JOIN audit_tombstones AS t ON t.writer = h.writer
WHERE h.sequence <> coalesce(a.sequence, 0) ORDER BY h.writer LIMIT $2;

-- name: events_of_chain
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE writer = $1 AND sequence > $2
ORDER BY sequence LIMIT $3;

-- name: add_deliveries
INSERT INTO deliveries
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::bigint[], $10::text[], $11::text[])
ON CONFLICT DO NOTHING;

-- name: is_anything_due
SELECT 1 FROM deliveries WHERE destination = $1 AND state = 'pending' AND due_at <= clock_now() LIMIT 1;

-- name: due_deliveries
SELECT * FROM deliveries WHERE destination = $1 AND state = 'pending' AND due_at <= $2
ORDER BY due_at, writer, sequence LIMIT $3 FOR UPDATE SKIP LOCKED;

-- name: dead_deliveries
SELECT * FROM deliveries WHERE destination = $1 AND state = 'dead' AND state <> 'delivered'
ORDER BY made_at, writer, sequence LIMIT $2 FOR UPDATE;

-- name: delivery
SELECT * FROM deliveries WHERE destination = $1 AND writer = $2 AND sequence = $3 FOR UPDATE;

-- name: change_deliveries
UPDATE deliveries AS d SET
    kind = c.kind, state = c.state, attempts = c.attempts, made_at = c.made_at, due_at = c.due_at,
    ended_at = c.ended_at, code = c.code, token = c.token
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[],
            $9::bigint[], $10::text[], $11::text[])
    AS c (destination, writer, sequence, kind, state, attempts, made_at, due_at, ended_at, code, token)
WHERE d.destination = c.destination AND d.writer = c.writer AND d.sequence = c.sequence;

-- name: deliveries
-- For showing.
SELECT * FROM deliveries WHERE state = ANY ($1) AND ($2::text IS NULL OR destination = $2)
ORDER BY made_at DESC, destination, writer, sequence DESC LIMIT $3;

-- name: outbox_counts
SELECT destination, count(*) FILTER (WHERE state = 'pending'), min(made_at) FILTER (WHERE state = 'pending'),
       count(*) FILTER (WHERE state = 'dead')
FROM deliveries WHERE state <> 'delivered' GROUP BY destination ORDER BY destination;

-- name: old_deliveries
SELECT 1 FROM deliveries WHERE state = $1 AND state <> 'pending' AND ended_at < $2 LIMIT 1;

-- name: drop_deliveries
WITH old AS (
    SELECT destination, writer, sequence FROM deliveries
    WHERE state = $1 AND state <> 'pending' AND ended_at < $2 ORDER BY ended_at LIMIT $3 FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM deliveries AS d USING old
    WHERE d.destination = old.destination AND d.writer = old.writer AND d.sequence = old.sequence RETURNING 1)
SELECT count(*) FROM gone;

-- name: grant
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants WHERE tenant = $1 AND grant_id = $2;

-- name: grant_locked
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants WHERE tenant = $1 AND grant_id = $2 FOR UPDATE;

-- name: standing_grants
-- Those that a call may use: neither revoked nor expired, and with a use left, the soonest to expire first.
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants
WHERE tenant = $1 AND subject = $2 AND tool = $3 AND revoked_at IS NULL AND expires_at > clock_now() AND uses < max_uses
ORDER BY expires_at, grant_id LIMIT $4;

-- name: grants_after
-- A page of a tenant's, after a row of that instant and id.
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants WHERE tenant = $1 AND (given_at, grant_id) < ($2, $3)
ORDER BY given_at DESC, grant_id DESC LIMIT $4;

-- name: standing_grants_after
-- The same of those only that have not ended.
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants
WHERE tenant = $1 AND (given_at, grant_id) < ($2, $3) AND revoked_at IS NULL AND expires_at > clock_now() AND uses < max_uses
ORDER BY given_at DESC, grant_id DESC LIMIT $4;

-- name: add_grant
INSERT INTO grants VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15);

-- name: use_grant
-- Its row was locked and compared in this transaction.
UPDATE grants SET uses = uses + 1, used_at = $1 WHERE tenant = $2 AND grant_id = $3 AND mac = $4 AND uses = $5;

-- name: revoke_grant
UPDATE grants SET body = $1, key_id = $2, mac = $3, revoked_at = $4 WHERE tenant = $5 AND grant_id = $6 AND mac = $7;

-- name: end_grant
-- A row that nobody signed as it is stays so, and answers no more.
UPDATE grants SET revoked_at = $1 WHERE tenant = $2 AND grant_id = $3;

-- name: runs_after
-- A page of a tenant's, after a row of that instant and name.
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs
WHERE tenant = $1 AND $2::text IS NULL AND (opened_at, run_id) < ($3, $4) ORDER BY opened_at DESC, run_id DESC LIMIT $5;

-- name: runs_of_subject_after
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs
WHERE tenant = $1 AND subject = $2 AND (opened_at, run_id) < ($3, $4) ORDER BY opened_at DESC, run_id DESC LIMIT $5;

-- name: runs_in_flight_after
-- From the effects in flight to their runs: of all runs, these are few. The tenant is asked for as `longest_unknown` does.
SELECT r.tenant, r.run_id, r.subject, r.policy_version, r.max_steps, r.steps, r.opened_at, r.stepped_at,
    r.status, r.limits, r.terms
FROM (SELECT DISTINCT run_id FROM effects WHERE state = 'dispatched' AND ($1::text IS NULL OR tenant = $1)) AS e
CROSS JOIN LATERAL (SELECT * FROM runs WHERE tenant = $1 AND run_id = e.run_id OFFSET 0) AS r
WHERE ($2::text IS NULL OR r.subject = $2) AND (r.opened_at, r.run_id) < ($3, $4)
ORDER BY r.opened_at DESC, r.run_id DESC LIMIT $5;

-- name: runs_with_unknown_after
SELECT r.tenant, r.run_id, r.subject, r.policy_version, r.max_steps, r.steps, r.opened_at, r.stepped_at,
    r.status, r.limits, r.terms
FROM (SELECT DISTINCT run_id FROM effects WHERE state = 'unknown' AND ($1::text IS NULL OR tenant = $1)) AS e
CROSS JOIN LATERAL (SELECT * FROM runs WHERE tenant = $1 AND run_id = e.run_id OFFSET 0) AS r
WHERE ($2::text IS NULL OR r.subject = $2) AND (r.opened_at, r.run_id) < ($3, $4)
ORDER BY r.opened_at DESC, r.run_id DESC LIMIT $5;

-- name: runs_that_wait_after
-- From the questions that wait to their runs. A question names its run and whose that is.
SELECT r.tenant, r.run_id, r.subject, r.policy_version, r.max_steps, r.steps, r.opened_at, r.stepped_at,
    r.status, r.limits, r.terms
FROM (SELECT DISTINCT run_id, subject FROM approvals WHERE tenant = $1 AND state = 'pending') AS e
CROSS JOIN LATERAL (SELECT * FROM runs WHERE tenant = $1 AND run_id = e.run_id AND subject = e.subject OFFSET 0) AS r
WHERE ($2::text IS NULL OR r.subject = $2) AND (r.opened_at, r.run_id) < ($3, $4)
ORDER BY r.opened_at DESC, r.run_id DESC LIMIT $5;

-- name: effect_counts_of_runs
SELECT run_id, state, count(*) FROM effects WHERE tenant = $1 AND run_id = ANY ($2::text[]) GROUP BY run_id, state;

-- name: waiting_of_runs
SELECT a.run_id, a.approval_id FROM unnest($2::text[]) AS n (run_id)
JOIN runs r ON r.tenant = $1 AND r.run_id = n.run_id
CROSS JOIN LATERAL (
    SELECT * FROM approvals WHERE tenant = r.tenant AND subject = r.subject AND run_id = r.run_id AND state = 'pending'
    OFFSET 0) AS a
ORDER BY a.asked_at, a.approval_id;

-- name: denials_of_runs
SELECT run_id, tool, denials FROM denials WHERE tenant = $1 AND run_id = ANY ($2::text[]);

-- name: effects_of_run
SELECT * FROM effects WHERE tenant = $1 AND run_id = $2 ORDER BY updated_at DESC, operation_key DESC LIMIT $3;

-- name: approvals_of_run
SELECT a.* FROM runs r JOIN approvals a ON a.tenant = r.tenant AND a.subject = r.subject AND a.run_id = r.run_id
WHERE r.tenant = $1 AND r.run_id = $2 ORDER BY a.asked_at DESC, a.approval_id DESC LIMIT $3;

-- name: open_approvals_of_run
SELECT a.* FROM runs r JOIN approvals a ON a.tenant = r.tenant AND a.subject = r.subject AND a.run_id = r.run_id
WHERE r.tenant = $1 AND r.run_id = $2 AND a.state IN ('pending', 'approved')
ORDER BY a.asked_at DESC, a.approval_id DESC LIMIT $3;

-- name: approvals_of_tool
SELECT a.* FROM runs r JOIN approvals a ON a.tenant = r.tenant AND a.subject = r.subject AND a.run_id = r.run_id
WHERE r.tenant = $1 AND r.run_id = $2 AND a.tool = $3 ORDER BY a.asked_at DESC, a.approval_id DESC LIMIT $4;

-- name: steps_of_run
SELECT DISTINCT call_id FROM step_fingerprints WHERE tenant = $1 AND run_id = $2 ORDER BY call_id LIMIT $3;

-- name: add_run
INSERT INTO runs (tenant, run_id, subject, policy_version, max_steps, steps, opened_at, limits, terms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: change_run
UPDATE runs SET status = $1, limits = $2, max_steps = $3, terms = $4 WHERE tenant = $5 AND run_id = $6 AND terms = $7;

-- name: note_run
UPDATE runs SET changed_by = $1, sealed_reason = $2 WHERE tenant = $3 AND run_id = $4;

-- name: run_note
SELECT changed_by, sealed_reason FROM runs WHERE tenant = $1 AND run_id = $2;

-- name: checkpoint
SELECT * FROM run_checkpoints WHERE tenant = $1 AND run_id = $2;

-- name: checkpoint_locked
SELECT * FROM run_checkpoints WHERE tenant = $1 AND run_id = $2 FOR UPDATE;

-- name: add_checkpoint
INSERT INTO run_checkpoints VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16);

-- name: close_approval
UPDATE approvals SET state = $1 WHERE tenant = $2 AND approval_id = $3;

-- name: change_checkpoint
UPDATE run_checkpoints SET version = $1, state = $2, visit = $3, sealed = $4, state_version = $5, driver = $6,
    lease_until = $7, fence = $8, due_at = $9, code = $10, waits = $11, policy_version = $12, stale_writes = $13
WHERE tenant = $14 AND run_id = $15 AND state_version = $16 AND fence = $17;

-- name: tally
SELECT taken FROM run_tallies WHERE tenant = $1 AND run_id = $2 AND name = $3;

-- name: tallies_of_run
SELECT name, taken FROM run_tallies WHERE tenant = $1 AND run_id = $2;

-- name: due_runs
SELECT tenant, run_id FROM run_checkpoints WHERE due_at IS NOT NULL AND due_at <= clock_now() ORDER BY due_at LIMIT $1;

-- name: next_due_run
SELECT due_at FROM run_checkpoints WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: waiting_runs
SELECT * FROM run_checkpoints WHERE due_at IS NOT NULL AND driver IS NULL AND (tenant, run_id) > ($1, $2)
ORDER BY tenant, run_id LIMIT $3;

-- name: wake_runs
UPDATE run_checkpoints SET due_at = 0
WHERE due_at > 0 AND driver IS NULL AND code IS NOT NULL AND policy_version <> $1
  AND (workflow, version) IN (SELECT named ->> 0, named ->> 1 FROM json_array_elements($2::text::json) AS named) RETURNING 1;

-- name: drop_checkpoint
DELETE FROM run_checkpoints WHERE tenant = $1 AND run_id = $2;

-- name: drop_tallies
DELETE FROM run_tallies WHERE tenant = $1 AND run_id = $2;
