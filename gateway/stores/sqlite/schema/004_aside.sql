-- Rows that nobody works on until an operator decides: events that could not be converted, and rows that cannot be read.
ALTER TABLE inbox ADD COLUMN aside TEXT;   -- 'unreadable': an event with its raw form; 'damaged': what is left of a row
CREATE INDEX inbox_aside ON inbox (aside, n) WHERE aside IS NOT NULL;
ALTER TABLE outbox ADD COLUMN aside TEXT;  -- 'damaged'

-- Rows that are not what was written, by table and key. They are left as they are and used by nobody.
CREATE TABLE damaged (
    place    TEXT NOT NULL,
    row      TEXT NOT NULL,
    found_at INTEGER NOT NULL,
    reason   TEXT NOT NULL,
    PRIMARY KEY (place, row)
) WITHOUT ROWID;
