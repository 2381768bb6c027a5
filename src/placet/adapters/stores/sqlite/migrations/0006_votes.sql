-- An expand step: processes of before go on with the questions they know. One that takes several votes they cannot read,
-- and refuse. A test runs their statements on this schema.

-- What each person said towards a quorum, and that it took it back. The signature is over the whole question and all of the
-- row but its place. Votes are added; they go with their question.
CREATE TABLE approval_votes (
    tenant      TEXT NOT NULL,
    approval_id TEXT NOT NULL,
    voter       TEXT NOT NULL,
    kind        TEXT NOT NULL CHECK (kind IN ('approve', 'withdraw')),
    vote        TEXT NOT NULL,
    key_id      TEXT NOT NULL,
    signature   TEXT NOT NULL,
    voted_at    INTEGER NOT NULL,
    PRIMARY KEY (tenant, approval_id, voter, kind)
) STRICT;

CREATE TRIGGER approval_votes_stay BEFORE UPDATE ON approval_votes
BEGIN
    SELECT RAISE(ABORT, 'placet: a vote is not changed');
END;

CREATE TRIGGER approval_votes_go_with_their_question BEFORE DELETE ON approval_votes
WHEN EXISTS (SELECT 1 FROM approvals WHERE tenant = OLD.tenant AND approval_id = OLD.approval_id)
BEGIN
    SELECT RAISE(ABORT, 'placet: a vote is removed with its question only');
END;

-- By which what a person made of a question is found by whoever asks the same again. It proves nothing: the edited
-- question says itself, under its MAC, what it was made of.
CREATE TABLE approval_edits (
    tenant          TEXT NOT NULL,
    edited_id       TEXT NOT NULL,
    subject         TEXT NOT NULL,
    run_id          TEXT NOT NULL,
    tool            TEXT NOT NULL,
    argument_digest TEXT NOT NULL,
    approval_id     TEXT NOT NULL,
    PRIMARY KEY (tenant, edited_id)
) STRICT;

CREATE INDEX approval_edits_by_question ON approval_edits (tenant, subject, run_id, tool, argument_digest);
