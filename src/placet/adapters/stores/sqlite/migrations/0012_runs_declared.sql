-- An expand step: processes of before go on, and begin, pause, cancel and drive no runs.

-- What a run was begun with, as JSON; and how often its status or this was changed, which claims compare.
ALTER TABLE runs ADD COLUMN limits TEXT;
ALTER TABLE runs ADD COLUMN terms INTEGER NOT NULL DEFAULT 0;

-- Who paused or cancelled it last, and why. The reason is AES-GCM, bound to the run.
ALTER TABLE runs ADD COLUMN changed_by TEXT;
ALTER TABLE runs ADD COLUMN sealed_reason BLOB;

-- Whatever a process of before knows of it: a run that is paused or over counts no step, so it claims nothing new.
CREATE TRIGGER runs_that_are_over_take_no_step BEFORE UPDATE OF steps ON runs
WHEN OLD.status <> 'open' AND NEW.steps > OLD.steps
BEGIN
    SELECT RAISE(ABORT, 'placet: this run is paused or over');
END;

CREATE TRIGGER runs_move_legally BEFORE UPDATE OF status ON runs
WHEN OLD.status <> NEW.status AND NOT (
       (OLD.status = 'open' AND NEW.status IN ('paused', 'done', 'failed', 'cancelled'))
    OR (OLD.status = 'paused' AND NEW.status IN ('open', 'cancelled')))
BEGIN
    SELECT RAISE(ABORT, 'placet: this status of a run may not follow that one');
END;

-- What was taken of a run's declared budgets.
CREATE TABLE run_tallies (
    tenant TEXT NOT NULL,
    run_id TEXT NOT NULL,
    name   TEXT NOT NULL,
    taken  INTEGER NOT NULL CHECK (taken >= 0),
    PRIMARY KEY (tenant, run_id, name)
) STRICT, WITHOUT ROWID;

-- Where a run of a workflow rests, who has taken it for a step, and when somebody has to look next. Apart from `runs`,
-- whose rows are written with every step that is counted.
CREATE TABLE run_checkpoints (
    tenant         TEXT NOT NULL,
    run_id         TEXT NOT NULL,
    workflow       TEXT NOT NULL,
    version        TEXT NOT NULL,
    state          TEXT NOT NULL,
    visit          INTEGER NOT NULL,
    sealed         BLOB NOT NULL,
    state_version  INTEGER NOT NULL,
    driver         TEXT,
    lease_until    INTEGER,
    fence          INTEGER NOT NULL,
    due_at         INTEGER,
    code           TEXT,
    waits          TEXT NOT NULL,
    policy_version TEXT NOT NULL,
    stale_writes   INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, run_id)
) STRICT;

CREATE INDEX run_checkpoints_due ON run_checkpoints (due_at) WHERE due_at IS NOT NULL;

CREATE TRIGGER run_checkpoints_move_on BEFORE UPDATE ON run_checkpoints
WHEN NEW.state_version < OLD.state_version OR NEW.fence < OLD.fence
BEGIN
    SELECT RAISE(ABORT, 'placet: a checkpoint does not go back');
END;

-- Whoever answers, withdraws or expires a question, also a process of before: the run that waits is to be looked at.
CREATE TRIGGER approvals_wake_their_run AFTER UPDATE OF state ON approvals
WHEN OLD.state = 'pending' AND NEW.state <> 'pending'
BEGIN
    UPDATE run_checkpoints SET due_at = 0
    WHERE tenant = NEW.tenant AND run_id = NEW.run_id AND due_at IS NOT NULL AND driver IS NULL;
END;
