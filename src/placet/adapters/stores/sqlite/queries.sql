-- name: effect
-- One row of the ledger.
SELECT * FROM effects WHERE tenant = ? AND operation_key = ?;

-- name: add_effect
-- A first dispatch. The primary key refuses a second row for one operation.
INSERT INTO effects VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?);

-- name: change_effect
-- Everything of a row that may change; compares the state and fence that were read.
UPDATE effects SET
    call_id = ?, run_id = ?, subject = ?, tool_version = ?, contract_digest = ?, policy_version = ?, decision = ?,
    approval_id = ?, state = ?, fence = ?, attempts = ?, attempt = ?, token = ?, owner = ?, lease_until = ?, send_by = ?,
    arrival_bound_seconds = ?, ends_by_itself = ?, attempt_ended_at = ?, probes = ?, probe_after = ?,
    sealed_arguments = ?, sealed_result = ?, result_digest = ?, external_reference = ?, reason = ?, updated_at = ?
WHERE tenant = ? AND operation_key = ? AND state = ? AND fence = ?;

-- name: effects_of_tenant
-- For lists: newest change first; a state that does not exist is in every list, as broken. An identity that is no plain subject is a JSON list: environment, then its subjects.
SELECT * FROM effects WHERE tenant = ?4 AND (state IN (SELECT value FROM json_each(?1)) OR state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent')) AND (?2 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?2)
    ELSE subject = ?2 END)
ORDER BY updated_at DESC LIMIT ?3;

-- name: effects_of_all
-- For workers: every tenant.
SELECT * FROM effects WHERE (state IN (SELECT value FROM json_each(?1)) OR state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent')) AND (?2 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?2)
    ELSE subject = ?2 END)
ORDER BY updated_at DESC LIMIT ?3;

-- name: effects_of_tenant_after
-- The same a page at a time, after a row of that instant and key.
SELECT * FROM effects WHERE tenant = ?4 AND (updated_at, operation_key) < (?5, ?6)
AND (state IN (SELECT value FROM json_each(?1)) OR state NOT IN (
    'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent')) AND (?2 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?2)
    ELSE subject = ?2 END)
ORDER BY updated_at DESC, operation_key DESC LIMIT ?3;

-- name: effects_in_flight
-- The same lists where only states are wanted that few rows are in; each by an index of its own.
SELECT * FROM (
    SELECT * FROM effects WHERE state = 'dispatched' AND 'dispatched' IN (SELECT value FROM json_each(?1))
    UNION ALL
    SELECT * FROM effects WHERE state = 'unknown' AND 'unknown' IN (SELECT value FROM json_each(?1))
    UNION ALL
    SELECT * FROM effects INDEXED BY effects_of_no_state WHERE state NOT IN (
        'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent')
) WHERE (?4 IS NULL OR tenant = ?4) AND (?2 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?2)
    ELSE subject = ?2 END)
ORDER BY updated_at DESC LIMIT ?3;

-- name: effects_in_flight_after
SELECT * FROM (
    SELECT * FROM effects WHERE state = 'dispatched' AND 'dispatched' IN (SELECT value FROM json_each(?1))
    UNION ALL
    SELECT * FROM effects WHERE state = 'unknown' AND 'unknown' IN (SELECT value FROM json_each(?1))
    UNION ALL
    SELECT * FROM effects INDEXED BY effects_of_no_state WHERE state NOT IN (
        'prepared', 'dispatched', 'committed', 'failed', 'unknown', 'reconciled_committed', 'reconciled_absent')
) WHERE tenant = ?4 AND (updated_at, operation_key) < (?5, ?6) AND (?2 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?2)
    ELSE subject = ?2 END)
ORDER BY updated_at DESC, operation_key DESC LIMIT ?3;

-- name: longest_unknown
-- The queue for people: a tenant's, the longest unknown first.
SELECT * FROM effects INDEXED BY effects_unknown WHERE state = 'unknown' AND tenant = ?1 AND (?2 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?2)
    ELSE subject = ?2 END)
ORDER BY updated_at, operation_key LIMIT ?3 OFFSET ?4;

-- name: unknown_effects
-- For gauges: how many of each tool after so many looks in vain, and since when the oldest.
SELECT tool, probes, count(*), min(updated_at) FROM effects WHERE state = 'unknown' GROUP BY tool, probes;

-- name: end_of_rows
-- Where the next so many rows after one end; NULL if there is none.
SELECT max(number) FROM (SELECT rowid AS number FROM effects WHERE rowid > ? ORDER BY rowid LIMIT ?);

-- name: effects_between
-- All rows of a stretch, whatever their state, to find those that cannot be read.
SELECT * FROM effects WHERE rowid > ?1 AND rowid <= ?2 AND (?3 IS NULL OR tenant = ?3) AND (?4 IS NULL OR CASE
    WHEN substr(subject, 1, 1) = '[' AND json_valid(subject)
    THEN EXISTS (SELECT 1 FROM json_each(subject) WHERE key > 0 AND value = ?4)
    ELSE subject = ?4 END);

-- name: stranded
-- Dispatched rows whose lease is over.
SELECT * FROM effects WHERE state = 'dispatched' AND lease_until <= ? ORDER BY updated_at LIMIT ?;

-- name: due_for_probe
-- Unknown rows nobody has looked at lately.
SELECT * FROM effects WHERE state = 'unknown' AND (probe_after IS NULL OR probe_after <= ?) ORDER BY updated_at LIMIT ?;

-- name: renew_leases
-- Heartbeat: the lease only, never send_by.
UPDATE effects SET lease_until = max(lease_until, ?) WHERE state = 'dispatched' AND owner = ?;

-- name: renew_reads
UPDATE open_reads SET lease_until = max(lease_until, ?) WHERE owner = ?;

-- name: open_read
INSERT INTO open_reads VALUES (?, ?, ?, ?);

-- name: close_read
DELETE FROM open_reads WHERE writer = ? AND sequence = ?;

-- name: lost_reads
-- Started reads whose owner's lease is over, with their started events.
SELECT writer, sequence, body FROM open_reads JOIN audit_events USING (writer, sequence) WHERE lease_until <= ? LIMIT ?;

-- name: pending_count
SELECT count(*) FROM approvals WHERE state = 'pending';

-- name: count_dispatched
-- How many of a stopped scope are still on their way.
SELECT count(*) FROM effects WHERE state = 'dispatched' AND (
    ?1 = 'all' OR ?1 = 'tenant:' || tenant OR ?1 = 'tool:' || tool OR ?1 = 'tool:' || json_array(tenant, tool)
    OR ?1 = 'run:' || json_array(tenant, run_id)
    OR (instr(tool, '.') > 0 AND (?1 = 'upstream:' || substr(tool, 1, instr(tool, '.') - 1)
        OR ?1 = 'upstream:' || json_array(tenant, substr(tool, 1, instr(tool, '.') - 1)))));

-- name: is_voided
SELECT 1 FROM voided_tokens WHERE token = ?;

-- name: add_void
INSERT INTO voided_tokens VALUES (?, ?);

-- name: run
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs
WHERE tenant = ? AND run_id = ?;

-- name: open_run
INSERT INTO runs (tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at)
VALUES (?1, ?2, ?3, ?4, ?5, 1, ?6, ?6);

-- name: count_step
UPDATE runs SET steps = steps + 1, state_version = state_version + 1, stepped_at = max(coalesce(stepped_at, 0), ?3)
WHERE tenant = ?1 AND run_id = ?2;

-- name: has_step
SELECT 1 FROM step_fingerprints WHERE tenant = ? AND run_id = ? AND call_id = ? AND fingerprint = ?;

-- name: add_step
INSERT INTO step_fingerprints VALUES (?, ?, ?, ?);

-- name: tell_step
-- For processes that know schema 1 only: their step is the call id.
INSERT INTO steps VALUES (?, ?, ?) ON CONFLICT DO NOTHING;

-- name: denials
SELECT denials FROM denials WHERE tenant = ? AND run_id = ? AND tool = ?;

-- name: add_denial
INSERT INTO denials VALUES (?, ?, ?, 1) ON CONFLICT (tenant, run_id, tool) DO UPDATE SET denials = denials + 1;

-- name: approval
SELECT * FROM approvals WHERE tenant = ? AND approval_id = ?;

-- name: add_approval
INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_approval
-- Compares the state that was read.
UPDATE approvals SET state = ?, answer = ?, signature_key_id = ?, signature = ?, spent_at = ?
WHERE tenant = ? AND approval_id = ? AND state = ?;

-- name: add_edit
INSERT INTO approval_edits VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: edits
-- What was made of questions of one wish, newest first.
SELECT approvals.* FROM approval_edits
JOIN approvals ON approvals.tenant = approval_edits.tenant AND approvals.approval_id = edited_id
WHERE approval_edits.tenant = ? AND approval_edits.subject = ? AND approval_edits.run_id = ? AND approval_edits.tool = ?
  AND approval_edits.argument_digest = ?
ORDER BY asked_at DESC, approvals.approval_id DESC;

-- name: votes
SELECT tenant, approval_id, voter, kind, vote, key_id, signature, voted_at FROM approval_votes
WHERE tenant = ? AND approval_id = ? ORDER BY voter, kind;

-- name: add_vote
-- One of a kind for each voter, by the primary key.
INSERT INTO approval_votes VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: same_ask
-- Approvals of one question that still answer it, newest first.
SELECT * FROM approvals
WHERE tenant = ?1 AND subject = ?2 AND run_id = ?3 AND tool = ?4 AND argument_digest = ?5
  AND (?6 IS NULL OR policy_version = ?6)
  AND (?7 IS NULL OR operation_key = ?7) AND state IN ('pending', 'approved', 'denied')
ORDER BY asked_at DESC, approval_id DESC;

-- name: closed_ask
-- What became of a question that a call under another id has heard of, for that call when it asks again, newest first.
SELECT a.* FROM approvals a
WHERE a.tenant = ?1 AND a.subject = ?2 AND a.run_id = ?3 AND a.tool = ?4 AND a.argument_digest = ?5
  AND a.state IN ('spent', 'withdrawn')
  AND EXISTS (
    SELECT 1 FROM step_fingerprints s
    WHERE s.tenant = ?1 AND s.run_id = ?3 AND s.call_id = ?6 AND s.fingerprint = ?7)
  AND NOT EXISTS (
    SELECT 1 FROM approvals own
    WHERE own.tenant = ?1 AND own.subject = ?2 AND own.run_id = ?3 AND own.tool = ?4
      AND own.argument_digest = ?5 AND own.operation_key = ?8)
ORDER BY a.asked_at DESC, a.approval_id DESC LIMIT 8;

-- name: approvals_of_tenant
-- Of one state, so that the index gives them in order.
SELECT * FROM approvals WHERE tenant = ? AND state = ? ORDER BY asked_at DESC LIMIT ?;

-- name: approvals_of_tenant_after
SELECT * FROM approvals WHERE tenant = ? AND state = ? AND (asked_at, approval_id) < (?, ?)
ORDER BY asked_at DESC, approval_id DESC LIMIT ?;

-- name: waiting_marks
-- What waits, and how many votes and words to people there were; nothing else of a question changes while it waits.
SELECT approval_id,
    (SELECT count(*) FROM approval_votes AS v WHERE v.tenant = a.tenant AND v.approval_id = a.approval_id),
    (SELECT length(told) FROM reminders AS r WHERE r.tenant = a.tenant AND r.approval_id = a.approval_id)
FROM approvals AS a WHERE tenant = ? AND state = 'pending' ORDER BY asked_at DESC, approval_id DESC LIMIT ?;

-- name: overdue_approvals
-- Questions nobody decided in time; what is no JSON any more was altered, and is left to whoever looks at it.
SELECT * FROM approvals
WHERE state = 'pending' AND CASE WHEN json_valid(question) THEN json_extract(question, '$.decide_by') <= ?1 END
ORDER BY asked_at LIMIT ?2;

-- name: due_reminders
-- Questions of which somebody is to be told by now, with what was told so far, the oldest first.
SELECT approvals.*, reminders.told FROM approvals LEFT JOIN reminders USING (tenant, approval_id)
WHERE state = 'pending' AND CASE WHEN json_valid(question) THEN json_extract(question, '$.decide_by') > ?1 END
  AND CASE WHEN told IS NULL THEN json_extract(question, '$.first_step_at') <= ?1 ELSE next_at <= ?2 END
ORDER BY asked_at LIMIT ?3;

-- name: told
SELECT told FROM reminders WHERE tenant = ? AND approval_id = ?;

-- name: put_told
INSERT OR REPLACE INTO reminders VALUES (?, ?, ?, ?);

-- name: drop_reminders
DELETE FROM reminders WHERE tenant = ? AND approval_id = ?;

-- name: stops
SELECT scope FROM stops ORDER BY scope;

-- name: add_stop
INSERT INTO stops VALUES (?, ?);

-- name: drop_stop
DELETE FROM stops WHERE scope = ?;

-- name: stop_leave
SELECT leave FROM stop_notes WHERE scope = ?;

-- name: put_stop_note
INSERT INTO stop_notes VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (scope) DO UPDATE SET subject = ?2, tenant = ?3, leave = ?4, sealed_reason = ?5;

-- name: drop_stop_note
DELETE FROM stop_notes WHERE scope = ?;

-- name: stop_records
SELECT scope, stopped_at, subject, tenant, leave, sealed_reason
FROM stops LEFT JOIN stop_notes USING (scope) ORDER BY stopped_at, scope;

-- name: append_event
INSERT INTO audit_events (writer, sequence, body, link, key_id) VALUES (?, ?, ?, ?, ?);

-- name: put_head
INSERT INTO audit_heads (writer, sequence, link, opened_after, key_id, mac) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (writer) DO UPDATE SET sequence = ?2, link = ?3, key_id = ?5, mac = ?6;

-- name: end_of_chain
-- What is really there, after an answer was lost.
SELECT sequence, link FROM audit_events WHERE writer = ? ORDER BY sequence DESC LIMIT 1;

-- name: heads
SELECT writer, sequence, link, opened_after, key_id, mac FROM audit_heads ORDER BY writer;

-- name: unremembered_heads
-- Chains that have grown since a later chain last named their end.
SELECT writer, sequence, link, opened_after, key_id, mac FROM audit_heads WHERE sequence > remembered ORDER BY writer;

-- name: has_head
SELECT 1 FROM audit_heads WHERE writer = ?;

-- name: remember
UPDATE audit_heads SET remembered = max(remembered, ?) WHERE writer = ?;

-- name: chained
SELECT writer, sequence, body, link, key_id FROM audit_events ORDER BY writer, sequence;

-- name: chained_of_tenant
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE tenant = ? ORDER BY writer, sequence;

-- name: count_events
SELECT count(*) FROM audit_events;

-- name: count_events_of_tenant
SELECT count(*) FROM audit_events WHERE tenant = ?;

-- name: newest_of_tenant
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE tenant = ? ORDER BY at DESC, writer DESC, sequence DESC LIMIT ?;

-- name: events_of_tenant_after
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE tenant = ? AND (at, writer, sequence) < (?, ?, ?)
ORDER BY at DESC, writer DESC, sequence DESC LIMIT ?;

-- name: newest
SELECT writer, sequence, body, link, key_id FROM audit_events ORDER BY at DESC, writer DESC, sequence DESC LIMIT ?;

-- name: meta
SELECT value FROM placet_meta WHERE name = ?;

-- name: put_meta
INSERT INTO placet_meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = ?2;

-- name: key_uses
-- What depends on which key. A sealed value begins with a version byte, the length of its key's id, and the id.
SELECT 'approvals', key_id, count(*) FROM (
    SELECT tenant, approval_id, CAST(question_key_id AS BLOB) AS key_id
    FROM approvals WHERE state IN ('pending', 'approved', 'denied')
    UNION
    SELECT tenant, approval_id, CAST(signature_key_id AS BLOB)
    FROM approvals WHERE state IN ('pending', 'approved', 'denied') AND signature_key_id IS NOT NULL
    UNION
    SELECT tenant, approval_id,
           substr(sealed_arguments, 3, unicode(CAST(substr(sealed_arguments, 2, 1) AS TEXT)))
    FROM approvals WHERE state IN ('pending', 'approved', 'denied')
    UNION
    SELECT tenant, approval_id, CAST(key_id AS BLOB)
    FROM approval_votes JOIN approvals USING (tenant, approval_id) WHERE state IN ('pending', 'approved', 'denied')
) GROUP BY key_id
UNION ALL
SELECT 'arguments', substr(sealed_arguments, 3, unicode(CAST(substr(sealed_arguments, 2, 1) AS TEXT))) AS key_id,
       count(*)
FROM effects WHERE state IN ('prepared', 'dispatched', 'unknown') GROUP BY key_id
UNION ALL
SELECT 'results', substr(sealed_result, 3, unicode(CAST(substr(sealed_result, 2, 1) AS TEXT))) AS key_id, count(*)
FROM effects WHERE sealed_result IS NOT NULL GROUP BY key_id
UNION ALL
SELECT 'checkpoints', substr(sealed, 3, unicode(CAST(substr(sealed, 2, 1) AS TEXT))) AS key_id, count(*)
FROM run_checkpoints JOIN runs USING (tenant, run_id) WHERE status IN ('open', 'paused') GROUP BY key_id
UNION ALL
SELECT 'events', CAST(key_id AS BLOB), count(*) FROM audit_events GROUP BY audit_events.key_id
UNION ALL
SELECT 'api_keys', CAST(key_id AS BLOB), count(*) FROM credentials
WHERE kind = 'api_key' AND ends_at > ? GROUP BY credentials.key_id;

-- name: first_meta
-- The first one stands.
INSERT INTO placet_meta VALUES (?, ?) ON CONFLICT (name) DO NOTHING;

-- name: lock_effect
-- Changes nothing, and takes the write lock: what is read next is the newest, and stays so until the transaction ends.
UPDATE effects SET fence = fence WHERE tenant = ? AND operation_key = ?;

-- name: add_waiting
INSERT INTO unchained_events (body, key_id, mac) VALUES (?, ?, ?);

-- name: has_waiting
-- Asked once per batch; nearly always the index is empty.
SELECT 1 FROM unchained_events WHERE is_refused = 0 LIMIT 1;

-- name: count_waiting
SELECT count(*) FROM unchained_events WHERE is_refused = 0;

-- name: waiting
-- As bytes: what somebody put there may be no text.
SELECT number, CAST(body AS BLOB), CAST(key_id AS BLOB), CAST(mac AS BLOB)
FROM unchained_events WHERE is_refused = 0 ORDER BY number LIMIT ?;

-- name: is_chained
-- By the index of tenant and instant. Whatever waited when the audit was cut was chained first, and nothing younger than
-- a day is cut: an event a day older than a cut is one that was chained and cut away, and is put back.
SELECT 1 FROM audit_events
WHERE tenant = json_extract(?1, '$.tenant') AND at = json_extract(?1, '$.at') AND body = ?1
UNION ALL
SELECT 1 FROM audit_tombstones
WHERE julianday(json_extract(?1, '$.at')) <= julianday(cut_at) - 1;

-- name: drop_waiting
DELETE FROM unchained_events WHERE number = ?;

-- name: refuse_waiting
UPDATE unchained_events SET is_refused = 1 WHERE number = ?;

-- name: next_finished_kind
-- From one tenant and tool to the next, without passing over what is between: (tenant, tool) > (?, ?) in one comparison
-- would walk through all rows of the tool before.
SELECT tenant, tool FROM (
    SELECT * FROM (
        SELECT tenant, tool FROM effects INDEXED BY effects_finished
        WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
          AND tenant = ?1 AND tool > ?2 ORDER BY tool LIMIT 1)
    UNION ALL
    SELECT * FROM (
        SELECT tenant, tool FROM effects INDEXED BY effects_finished
        WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
          AND tenant > ?1 ORDER BY tenant, tool LIMIT 1)
) ORDER BY tenant, tool LIMIT 1;

-- name: finished
SELECT * FROM effects INDEXED BY effects_finished
WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
  AND tenant = ? AND tool = ? AND updated_at < ? ORDER BY updated_at LIMIT ? OFFSET ?;

-- name: count_finished
SELECT count(*), min(updated_at) FROM effects INDEXED BY effects_finished
WHERE state IN ('committed', 'failed', 'reconciled_committed', 'reconciled_absent') AND owner <> ''
  AND tenant = ? AND tool = ? AND updated_at < ?;

-- name: next_tenant_of_runs
SELECT tenant FROM runs WHERE tenant > ? ORDER BY tenant LIMIT 1;

-- name: old_runs
SELECT tenant, run_id, subject, policy_version, max_steps, steps, opened_at, stepped_at, status, limits, terms FROM runs INDEXED BY runs_by_opening
WHERE tenant = ?1 AND opened_at < ?2 AND coalesce(stepped_at, opened_at) < ?2
  AND status <> 'paused' AND NOT EXISTS (
      SELECT 1 FROM run_checkpoints c WHERE c.tenant = runs.tenant AND c.run_id = runs.run_id AND c.due_at IS NOT NULL)
ORDER BY opened_at LIMIT ?3;

-- name: count_old_runs
SELECT count(*), min(opened_at) FROM runs INDEXED BY runs_by_opening
WHERE tenant = ?1 AND opened_at < ?2 AND coalesce(stepped_at, opened_at) < ?2
  AND status <> 'paused' AND NOT EXISTS (
      SELECT 1 FROM run_checkpoints c WHERE c.tenant = runs.tenant AND c.run_id = runs.run_id AND c.due_at IS NOT NULL);

-- name: drop_run
DELETE FROM runs WHERE tenant = ? AND run_id = ?;

-- name: drop_steps
DELETE FROM step_fingerprints WHERE tenant = ? AND run_id = ?;

-- name: drop_steps_of_before
DELETE FROM steps WHERE tenant = ? AND run_id = ?;

-- name: drop_denials
DELETE FROM denials WHERE tenant = ? AND run_id = ?;

-- name: next_tenant_of_approvals
SELECT tenant FROM approvals WHERE tenant > ? ORDER BY tenant LIMIT 1;

-- name: old_approvals
SELECT * FROM approvals WHERE tenant = ? AND state = ? AND asked_at < ? ORDER BY asked_at LIMIT ?;

-- name: count_old_approvals
SELECT count(*), min(asked_at) FROM approvals WHERE tenant = ? AND state = ? AND asked_at < ?;

-- name: drop_approval
DELETE FROM approvals WHERE tenant = ? AND approval_id = ?;

-- name: drop_votes
-- After the question they are about.
DELETE FROM approval_votes WHERE tenant = ? AND approval_id = ?;

-- name: drop_edit
DELETE FROM approval_edits WHERE tenant = ? AND edited_id = ?;

-- name: old_tokens
SELECT token FROM voided_tokens WHERE voided_at < ? ORDER BY voided_at LIMIT ?;

-- name: count_old_tokens
SELECT count(*), min(voided_at) FROM voided_tokens WHERE voided_at < ?;

-- name: drop_void
DELETE FROM voided_tokens WHERE token = ?;

-- name: next_tenant_of_events
SELECT tenant FROM audit_events WHERE tenant > ? ORDER BY tenant LIMIT 1;

-- name: count_old_events
SELECT count(*), min(at) FROM audit_events WHERE tenant = ? AND at < ?;

-- name: oldest_events
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE writer = ? AND sequence < ? ORDER BY sequence LIMIT ?;

-- name: kept_until
-- What has to stay of a chain: its last event, and reads that recovery may have to complete.
SELECT min(sequence) FROM (
    SELECT sequence FROM audit_heads WHERE writer = ?1
    UNION ALL
    SELECT * FROM (SELECT sequence FROM open_reads WHERE writer = ?1 ORDER BY sequence LIMIT 1));

-- name: link_at
SELECT link FROM audit_events WHERE writer = ? AND sequence = ?;

-- name: chain_start
SELECT first_kept FROM audit_tombstones WHERE writer = ?;

-- name: tombstones
SELECT writer, first_kept, link, removed, cut_by, cut_at, key_id, mac FROM audit_tombstones ORDER BY writer;

-- name: put_tombstone
INSERT INTO audit_tombstones VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (writer) DO UPDATE SET first_kept = ?2, link = ?3, removed = ?4, cut_by = ?5, cut_at = ?6, key_id = ?7, mac = ?8;

-- name: cut
DELETE FROM audit_events WHERE writer = ? AND sequence < ?;

-- name: holds
SELECT scope, held_by, held_at FROM holds ORDER BY held_at, scope;

-- name: add_hold
INSERT INTO holds VALUES (?, ?, ?);

-- name: drop_hold
DELETE FROM holds WHERE scope = ?;

-- name: credential
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = ? AND name = ?;

-- name: credentials_of_tenant
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = ? AND tenant = ? ORDER BY made_at DESC, name LIMIT ?;

-- name: credentials_of_subject
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = ? AND tenant = ? AND subject = ? ORDER BY made_at DESC, name LIMIT ?;

-- name: ended_credentials
SELECT kind, name, tenant, subject, body, key_id, mac, made_at, ends_at, used_at FROM credentials
WHERE kind = ? AND ends_at <= ? ORDER BY ends_at, name LIMIT ?;

-- name: count_ended_credentials
SELECT tenant, count(*), min(ends_at) FROM credentials WHERE kind = ? AND ends_at < ? GROUP BY tenant;

-- name: add_credential
INSERT INTO credentials VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_credential
UPDATE credentials SET tenant = ?3, subject = ?4, body = ?5, key_id = ?6, mac = ?7, made_at = ?8, ends_at = ?9,
    used_at = ?10
WHERE kind = ?1 AND name = ?2;

-- name: drop_credential
DELETE FROM credentials WHERE kind = ? AND name = ?;

-- name: touch_credential
UPDATE credentials SET used_at = ?3 WHERE kind = ?1 AND name = ?2;

-- name: destinations
SELECT name, begun_at, closed_at FROM destinations ORDER BY name;

-- name: destination
SELECT name, begun_at, closed_at FROM destinations WHERE name = ?;

-- name: put_destination
INSERT INTO destinations VALUES (?1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET begun_at = ?2, closed_at = ?3;

-- name: cursors
SELECT writer, sequence FROM announced WHERE destination = ?;

-- name: put_cursor
INSERT INTO announced VALUES (?1, ?2, ?3) ON CONFLICT (destination, writer) DO UPDATE SET sequence = ?3;

-- name: unread_chains
-- One row per chain there ever was, of which nearly all are read to their end. Shorter than its cursor is one of a store
-- that went back.
SELECT h.writer, a.sequence, coalesce(t.first_kept, 1), h.sequence
FROM audit_heads AS h
LEFT JOIN announced AS a ON a.destination = ?1 AND a.writer = h.writer
LEFT JOIN audit_tombstones AS t ON t.writer = h.writer
WHERE h.sequence <> coalesce(a.sequence, 0) ORDER BY h.writer LIMIT ?2;

-- name: events_of_chain
SELECT writer, sequence, body, link, key_id FROM audit_events WHERE writer = ? AND sequence > ? ORDER BY sequence LIMIT ?;

-- name: add_delivery
INSERT INTO deliveries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING;

-- name: due_deliveries
SELECT * FROM deliveries WHERE destination = ? AND state = 'pending' AND due_at <= ?
ORDER BY due_at, writer, sequence LIMIT ?;

-- name: dead_deliveries
SELECT * FROM deliveries WHERE destination = ? AND state = 'dead' AND state <> 'delivered'
ORDER BY made_at, writer, sequence LIMIT ?;

-- name: delivery
SELECT * FROM deliveries WHERE destination = ? AND writer = ? AND sequence = ?;

-- name: change_delivery
UPDATE deliveries SET kind = ?4, state = ?5, attempts = ?6, made_at = ?7, due_at = ?8, ended_at = ?9, code = ?10,
    token = ?11
WHERE destination = ?1 AND writer = ?2 AND sequence = ?3;

-- name: deliveries
-- For showing. Of each destination the newest are few, and there are few destinations.
SELECT * FROM deliveries WHERE state IN (SELECT value FROM json_each(?1)) AND coalesce(?2, destination) = destination
ORDER BY made_at DESC, destination, writer, sequence DESC LIMIT ?3;

-- name: outbox_counts
SELECT destination, count(*) FILTER (WHERE state = 'pending'), min(made_at) FILTER (WHERE state = 'pending'),
       count(*) FILTER (WHERE state = 'dead')
FROM deliveries WHERE state <> 'delivered' GROUP BY destination ORDER BY destination;

-- name: old_deliveries
SELECT 1 FROM deliveries WHERE state = ?1 AND state <> 'pending' AND ended_at < ?2 LIMIT 1;

-- name: drop_deliveries
DELETE FROM deliveries WHERE (destination, writer, sequence) IN (
    SELECT destination, writer, sequence FROM deliveries
    WHERE state = ?1 AND state <> 'pending' AND ended_at < ?2 ORDER BY ended_at LIMIT ?3);

-- name: grant
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants WHERE tenant = ? AND grant_id = ?;

-- name: standing_grants
-- Those that a call may use: neither revoked nor expired, and with a use left, the soonest to expire first.
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants
WHERE tenant = ? AND subject = ? AND tool = ? AND revoked_at IS NULL AND expires_at > ? AND uses < max_uses
ORDER BY expires_at, grant_id LIMIT ?;

-- name: grants_after
-- A page of a tenant's, after a row of that instant and id.
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants WHERE tenant = ? AND (given_at, grant_id) < (?, ?)
ORDER BY given_at DESC, grant_id DESC LIMIT ?;

-- name: standing_grants_after
-- The same of those only that have not ended.
SELECT tenant, grant_id, subject, run_id, tool, body, sealed_limits, key_id, mac, max_uses, uses, used_at, given_at,
    expires_at, revoked_at FROM grants INDEXED BY grants_not_ended
WHERE tenant = ?1 AND (given_at, grant_id) < (?2, ?3) AND revoked_at IS NULL AND expires_at > ?5 AND uses < max_uses
ORDER BY given_at DESC, grant_id DESC LIMIT ?4;

-- name: add_grant
INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: use_grant
-- The use must be one of those that the row says there are; the claim has compared what was signed.
UPDATE grants SET uses = uses + 1, used_at = ?1 WHERE tenant = ?2 AND grant_id = ?3 AND mac = ?4 AND uses = ?5;

-- name: revoke_grant
UPDATE grants SET body = ?1, key_id = ?2, mac = ?3, revoked_at = ?4 WHERE tenant = ?5 AND grant_id = ?6 AND mac = ?7;

-- name: end_grant
-- A row that nobody signed as it is stays so, and answers no more.
UPDATE grants SET revoked_at = ? WHERE tenant = ? AND grant_id = ?;

-- name: runs_after
-- A page of a tenant's, after a row of that instant and name. Names as bytes: what somebody put there may be no text.
SELECT CAST(tenant AS BLOB), CAST(run_id AS BLOB), CAST(subject AS BLOB), CAST(policy_version AS BLOB), max_steps, steps,
    opened_at, stepped_at, CAST(status AS BLOB), CAST(limits AS BLOB), terms FROM runs INDEXED BY runs_by_opening
WHERE tenant = ?1 AND (opened_at, run_id) < (?3, ?4) AND ?2 IS NULL ORDER BY opened_at DESC, run_id DESC LIMIT ?5;

-- name: runs_of_subject_after
SELECT CAST(tenant AS BLOB), CAST(run_id AS BLOB), CAST(subject AS BLOB), CAST(policy_version AS BLOB), max_steps, steps,
    opened_at, stepped_at, CAST(status AS BLOB), CAST(limits AS BLOB), terms FROM runs INDEXED BY runs_by_subject
WHERE tenant = ?1 AND subject = ?2 AND (opened_at, run_id) < (?3, ?4) ORDER BY opened_at DESC, run_id DESC LIMIT ?5;

-- name: runs_in_flight_after
-- From the effects in flight to their runs: of all runs, these are few.
SELECT CAST(runs.tenant AS BLOB), CAST(runs.run_id AS BLOB), CAST(runs.subject AS BLOB),
    CAST(runs.policy_version AS BLOB), runs.max_steps, runs.steps, runs.opened_at, runs.stepped_at,
    CAST(runs.status AS BLOB), CAST(runs.limits AS BLOB), runs.terms
FROM (SELECT DISTINCT run_id FROM effects INDEXED BY effects_dispatched
      WHERE state = 'dispatched' AND tenant = ?1) AS open_ones
CROSS JOIN runs ON runs.tenant = ?1 AND runs.run_id = open_ones.run_id
WHERE (?2 IS NULL OR runs.subject = ?2) AND (runs.opened_at, runs.run_id) < (?3, ?4)
ORDER BY runs.opened_at DESC, runs.run_id DESC LIMIT ?5;

-- name: runs_with_unknown_after
SELECT CAST(runs.tenant AS BLOB), CAST(runs.run_id AS BLOB), CAST(runs.subject AS BLOB),
    CAST(runs.policy_version AS BLOB), runs.max_steps, runs.steps, runs.opened_at, runs.stepped_at,
    CAST(runs.status AS BLOB), CAST(runs.limits AS BLOB), runs.terms
FROM (SELECT DISTINCT run_id FROM effects INDEXED BY effects_unknown
      WHERE state = 'unknown' AND tenant = ?1) AS open_ones
CROSS JOIN runs ON runs.tenant = ?1 AND runs.run_id = open_ones.run_id
WHERE (?2 IS NULL OR runs.subject = ?2) AND (runs.opened_at, runs.run_id) < (?3, ?4)
ORDER BY runs.opened_at DESC, runs.run_id DESC LIMIT ?5;

-- name: runs_that_wait_after
-- From the questions that wait to their runs. A question names its run and whose that is.
SELECT CAST(runs.tenant AS BLOB), CAST(runs.run_id AS BLOB), CAST(runs.subject AS BLOB),
    CAST(runs.policy_version AS BLOB), runs.max_steps, runs.steps, runs.opened_at, runs.stepped_at,
    CAST(runs.status AS BLOB), CAST(runs.limits AS BLOB), runs.terms
FROM (SELECT DISTINCT run_id, subject FROM approvals INDEXED BY approvals_by_state
      WHERE tenant = ?1 AND state = 'pending') AS asked
CROSS JOIN runs ON runs.tenant = ?1 AND runs.run_id = asked.run_id AND runs.subject = asked.subject
WHERE (?2 IS NULL OR runs.subject = ?2) AND (runs.opened_at, runs.run_id) < (?3, ?4)
ORDER BY runs.opened_at DESC, runs.run_id DESC LIMIT ?5;

-- name: effect_counts_of_runs
SELECT run_id, state, count(*) FROM effects INDEXED BY effects_by_run
WHERE tenant = ?1 AND run_id IN (SELECT value FROM json_each(?2)) GROUP BY run_id, state;

-- name: waiting_of_runs
SELECT approvals.run_id, approvals.approval_id FROM json_each(?2) AS n
CROSS JOIN runs ON runs.tenant = ?1 AND runs.run_id = n.value
CROSS JOIN approvals INDEXED BY one_open_approval_per_question
    ON approvals.tenant = runs.tenant AND approvals.subject = runs.subject AND approvals.run_id = runs.run_id
WHERE approvals.state IN ('pending', 'approved') AND approvals.state = 'pending'
ORDER BY approvals.asked_at, approvals.approval_id;

-- name: denials_of_runs
SELECT run_id, tool, denials FROM denials WHERE tenant = ?1 AND run_id IN (SELECT value FROM json_each(?2));

-- name: effects_of_run
SELECT * FROM effects INDEXED BY effects_by_run WHERE tenant = ? AND run_id = ?
ORDER BY updated_at DESC, operation_key DESC LIMIT ?;

-- name: approvals_of_run
SELECT approvals.* FROM runs CROSS JOIN approvals INDEXED BY approvals_by_question
    ON approvals.tenant = runs.tenant AND approvals.subject = runs.subject AND approvals.run_id = runs.run_id
WHERE runs.tenant = ? AND runs.run_id = ? ORDER BY approvals.asked_at DESC, approvals.approval_id DESC LIMIT ?;

-- name: open_approvals_of_run
SELECT approvals.* FROM runs CROSS JOIN approvals INDEXED BY approvals_by_question
    ON approvals.tenant = runs.tenant AND approvals.subject = runs.subject AND approvals.run_id = runs.run_id
WHERE runs.tenant = ? AND runs.run_id = ? AND approvals.state IN ('pending', 'approved')
ORDER BY approvals.asked_at DESC, approvals.approval_id DESC LIMIT ?;

-- name: approvals_of_tool
SELECT approvals.* FROM runs CROSS JOIN approvals INDEXED BY approvals_by_question
    ON approvals.tenant = runs.tenant AND approvals.subject = runs.subject AND approvals.run_id = runs.run_id
WHERE runs.tenant = ? AND runs.run_id = ? AND approvals.tool = ?
ORDER BY approvals.asked_at DESC, approvals.approval_id DESC LIMIT ?;

-- name: steps_of_run
SELECT DISTINCT call_id FROM step_fingerprints WHERE tenant = ? AND run_id = ? ORDER BY call_id LIMIT ?;

-- name: add_run
INSERT INTO runs (tenant, run_id, subject, policy_version, max_steps, steps, opened_at, limits, terms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_run
UPDATE runs SET status = ?, limits = ?, max_steps = ?, terms = ? WHERE tenant = ? AND run_id = ? AND terms = ?;

-- name: note_run
UPDATE runs SET changed_by = ?, sealed_reason = ? WHERE tenant = ? AND run_id = ?;

-- name: run_note
SELECT changed_by, sealed_reason FROM runs WHERE tenant = ? AND run_id = ?;

-- name: checkpoint
SELECT * FROM run_checkpoints WHERE tenant = ? AND run_id = ?;

-- name: add_checkpoint
INSERT INTO run_checkpoints VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: change_checkpoint
UPDATE run_checkpoints SET version = ?, state = ?, visit = ?, sealed = ?, state_version = ?, driver = ?, lease_until = ?,
    fence = ?, due_at = ?, code = ?, waits = ?, policy_version = ?, stale_writes = ?
WHERE tenant = ? AND run_id = ? AND state_version = ? AND fence = ?;

-- name: tally
SELECT taken FROM run_tallies WHERE tenant = ? AND run_id = ? AND name = ?;

-- name: add_tally
INSERT INTO run_tallies VALUES (?1, ?2, ?3, max(?4, 0))
ON CONFLICT (tenant, run_id, name) DO UPDATE SET taken = max(taken + ?4, 0);

-- name: tallies_of_run
SELECT name, taken FROM run_tallies WHERE tenant = ? AND run_id = ?;

-- name: due_runs
SELECT tenant, run_id FROM run_checkpoints INDEXED BY run_checkpoints_due
WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at LIMIT ?;

-- name: next_due_run
SELECT due_at FROM run_checkpoints INDEXED BY run_checkpoints_due WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1;

-- name: waiting_runs
SELECT * FROM run_checkpoints WHERE due_at IS NOT NULL AND driver IS NULL AND (tenant, run_id) > (?, ?)
ORDER BY tenant, run_id LIMIT ?;

-- name: wake_runs
UPDATE run_checkpoints SET due_at = 0
WHERE due_at > 0 AND driver IS NULL AND code IS NOT NULL AND policy_version <> ?
  AND (workflow, version) IN (SELECT value ->> 0, value ->> 1 FROM json_each(?));

-- name: drop_checkpoint
DELETE FROM run_checkpoints WHERE tenant = ? AND run_id = ?;

-- name: drop_tallies
DELETE FROM run_tallies WHERE tenant = ? AND run_id = ?;
