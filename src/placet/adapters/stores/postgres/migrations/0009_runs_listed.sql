-- An expand step: processes of before go on, and list no runs.

-- What one run did, whatever its calls were about.
CREATE INDEX effects_by_run ON effects (tenant, run_id);

-- Somebody's own runs among everybody's. Neither column changes, so counting a step touches it no more than before.
CREATE INDEX runs_by_subject ON runs (tenant, subject, opened_at);
