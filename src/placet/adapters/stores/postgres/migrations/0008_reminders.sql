-- An expand step: processes of before go on, and remind nobody. What their rules' reminders say they cannot read, and refuse.

-- What was told of questions that wait, by the JSON of each step, and when the next one is due. It decides nothing: it
-- keeps somebody from being told twice.
CREATE TABLE reminders (
    tenant      text COLLATE "C" NOT NULL,
    approval_id text COLLATE "C" NOT NULL,
    told        text NOT NULL,
    next_at     bigint,
    PRIMARY KEY (tenant, approval_id)
);

ALTER TABLE reminders ENABLE ROW LEVEL SECURITY;
ALTER TABLE reminders FORCE ROW LEVEL SECURITY;
CREATE POLICY writing ON reminders TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY reading ON reminders FOR SELECT USING (tenant = nullif(current_setting('placet.tenant', true), ''));

-- When somebody is told of a question for the first time; NULL where nobody is, and of what is no JSON any more.
CREATE FUNCTION first_step_of(question text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN question::json ->> 'first_step_at';
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;

-- The same of until when a question waits: one altered question, whatever is in it, keeps no other from running out.
CREATE OR REPLACE FUNCTION decide_by_of(question text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN question::json ->> 'decide_by';
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
    RETURN NULL;
END $$;
