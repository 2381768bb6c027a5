-- An expand step: processes of before go on, and remind nobody. What their rules' reminders say they cannot read, and refuse.

-- What was told of questions that wait, by the JSON of each step, and when the next one is due. It decides nothing: it
-- keeps somebody from being told twice.
CREATE TABLE reminders (
    tenant      TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    told        TEXT NOT NULL,
    next_at     INTEGER,
    PRIMARY KEY (tenant, approval_id)
) STRICT, WITHOUT ROWID;
