-- The least that a claim and a settle can be, on tables without placet: spend an approval, write the effect and an event;
-- then its result and another event. Each is one statement and one commit.
\set n :n + 1
\set approval random(1, 100000)
WITH spent AS (
    UPDATE approvals SET uses = uses + 1 WHERE id = :approval AND uses < 1000000 RETURNING args_hash
), written AS (
    INSERT INTO effects (call_id, tenant, run_id, tool, args_hash, state, args)
    SELECT 'call-' || :client_id || '-' || :n, 'bench', 'run-' || :client_id, 'open_ticket', args_hash, 'dispatched',
        '{"title" : "Ticket", "body" : "The printer is on fire again.", "priority" : 2}'::jsonb
    FROM spent RETURNING call_id
)
INSERT INTO events (call_id, kind, payload) SELECT call_id, 'dispatched', '{"policy" : "allow"}'::jsonb FROM written;
WITH written AS (
    UPDATE effects SET state = 'committed', result = '{"ticket_id" : "T-1", "state" : "open"}'::jsonb, updated_at = now()
    WHERE call_id = 'call-' || :client_id || '-' || :n AND state = 'dispatched' RETURNING call_id
)
INSERT INTO events (call_id, kind, payload)
SELECT call_id, 'committed', '{"ticket_id" : "T-1", "state" : "open"}'::jsonb FROM written;
