-- One governed write as the store sends it for one caller: its own function, called twice with what it is called with.
-- Names in braces are filled in from a write that placet made here before; what a client makes distinct is its own.
-- The server is told the sizes of the tables as they grow, as the store does it.
\set n :n + 1
\set run :n / {calls_per_run}
\if :client_id = 0 AND :n >= 16 AND (:n & (:n - 1)) = 0
ANALYZE (SKIP_LOCKED) effects, runs, approvals;
\endif
SELECT a.at, a.mark, a.is_anything_waiting
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS t, LATERAL apply(
    decided_at => t.now, not_after => NULL, key_check => {key_check}, stops_seen => '{{}}',
    unvoided => ARRAY['t-' || :client_id || '-' || :n],
    effects_seen => NULL, approvals_seen => NULL,
    new_effects => ARRAY[ROW({claimed})::effect_form], changed_effects => NULL,
    new_approvals => NULL, changed_approvals => NULL,
    runs_used => ARRAY[ROW({tenant}, 'run-' || :client_id || '-' || :run, {subject}, {policy_version}, 200, t.now)::run_form],
    steps_taken => ARRAY[ROW({tenant}, 'run-' || :client_id || '-' || :run, 'call-' || :n, {fingerprint})::step_form],
    denials_seen => ARRAY[ROW({tenant}, 'run-' || :client_id || '-' || :run, {tool}, 0, 0)::denial_form],
    reads_opened => NULL, reads_closed => NULL,
    of_writer => 'pgbench-' || :client_id, in_epoch => 1, after_commits => 2 * (:n - 1), is_writing => true,
    first_sequence => 2 * :n - 1, bodies => ARRAY[{started}], links => ARRAY[{link}], key_ids => ARRAY[{key_id}],
    head_link => {link}, head_opened_after => '{{}}', head_key_id => {key_id}, head_mac => {link}) AS a \gset
SELECT a.at, a.mark, a.is_anything_waiting
FROM (SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now) AS t, LATERAL apply(
    decided_at => t.now, not_after => NULL, key_check => {key_check}, stops_seen => NULL, unvoided => NULL,
    effects_seen => NULL, approvals_seen => NULL,
    new_effects => NULL, changed_effects => ARRAY[ROW({settled})::effect_form],
    new_approvals => NULL, changed_approvals => NULL,
    runs_used => NULL, steps_taken => NULL, denials_seen => NULL,
    reads_opened => NULL, reads_closed => NULL,
    of_writer => 'pgbench-' || :client_id, in_epoch => 1, after_commits => 2 * :n - 1, is_writing => true,
    first_sequence => 2 * :n, bodies => ARRAY[{completed}], links => ARRAY[{link}], key_ids => ARRAY[{key_id}],
    head_link => {link}, head_opened_after => '{{}}', head_key_id => {key_id}, head_mac => {link}) AS a;
