-- Times are microseconds since 1970 in UTC. Order is by sequence number, never by clock. AUTOINCREMENT: no number is ever
-- given twice, so a late write can never hit a row that took the place of a deleted one.

CREATE TABLE sessions (
    n                    INTEGER PRIMARY KEY AUTOINCREMENT,
    id                   TEXT NOT NULL UNIQUE,
    key                  TEXT NOT NULL,
    current              INTEGER NOT NULL,
    origin               TEXT NOT NULL,
    owner                TEXT,
    started_at           INTEGER NOT NULL,
    last_interaction_at  INTEGER NOT NULL,
    updated_at           INTEGER NOT NULL,
    title                TEXT,
    preview              TEXT NOT NULL,
    preview_by           TEXT,
    goal                 TEXT,
    agent                TEXT,
    archived             INTEGER NOT NULL,
    important            INTEGER NOT NULL,
    ended_at             INTEGER,
    end_reason           TEXT,
    notice               TEXT,
    messages             INTEGER NOT NULL,
    archived_through     INTEGER NOT NULL,
    consolidated_through INTEGER NOT NULL,
    summary_seq          INTEGER NOT NULL,
    input                INTEGER NOT NULL,
    output               INTEGER NOT NULL,
    cache_read           INTEGER NOT NULL,
    cache_write          INTEGER NOT NULL,
    estimated            INTEGER NOT NULL,  -- whether some of these tokens were counted from the words
    last_prompt_tokens   INTEGER NOT NULL,
    cost                 TEXT,
    model                TEXT,
    checksum             INTEGER NOT NULL
);
-- Whatever the code does, a key never has two current sessions.
CREATE UNIQUE INDEX sessions_current ON sessions (key) WHERE current;
CREATE INDEX sessions_of_key ON sessions (key);
CREATE INDEX sessions_of_owner ON sessions (owner);
CREATE INDEX sessions_by_interaction ON sessions (last_interaction_at);

-- A plain rowid table with an index took more than twice the writes of one clustered by session.
CREATE TABLE entries (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER NOT NULL,
    role       TEXT NOT NULL,
    origin     TEXT NOT NULL,
    at         INTEGER NOT NULL,
    text       TEXT,     -- content that is one text block: the words themselves, never parsed again
    sender     TEXT,
    message_id TEXT,
    tokens     INTEGER,
    latency_ms INTEGER,
    body       TEXT,     -- JSON of what an ordinary entry does not have: other content, tool calls, reasoning, its own id
    checksum   INTEGER NOT NULL
);
CREATE INDEX entries_of_session ON entries (session, seq);

-- Open work holds its text; settled work keeps ids and times only, the words live in the transcript alone.
CREATE TABLE inbox (
    n           INTEGER PRIMARY KEY AUTOINCREMENT,
    key         TEXT NOT NULL,
    message     TEXT NOT NULL,
    state       TEXT NOT NULL,
    attempts    INTEGER NOT NULL,
    reason      TEXT,
    turn        INTEGER,
    received_at INTEGER NOT NULL,
    settled_at  INTEGER,
    checksum    INTEGER NOT NULL
);
CREATE INDEX inbox_open ON inbox (turn) WHERE settled_at IS NULL;

CREATE TABLE accounts (
    name        TEXT PRIMARY KEY,  -- platform/account
    received_at INTEGER,           -- when its last message was stored, give or take some seconds
    behind      INTEGER,           -- since when it may have missed something, until that has been read
    refused     INTEGER NOT NULL,  -- how often in a row its credentials were refused
    refused_at  INTEGER
) WITHOUT ROWID;

CREATE TABLE seen (
    event TEXT PRIMARY KEY,
    inbox INTEGER NOT NULL,
    at    INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE turns (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER NOT NULL,
    first_seq  INTEGER NOT NULL,  -- the entries of its messages: written at once, so nothing else is between them
    last_seq   INTEGER NOT NULL,
    state      TEXT NOT NULL,
    run        TEXT NOT NULL,     -- the run of the daemon that works on it: another one's turn has died with it
    attempt    INTEGER NOT NULL,
    repeatable INTEGER NOT NULL,  -- whether it may run again if its daemon dies
    preview    TEXT,              -- the message that shows it while it runs
    started_at INTEGER NOT NULL,
    steps      TEXT NOT NULL,     -- what happened to it: one line each, time, tab, word, tab, detail
    checksum   INTEGER NOT NULL   -- of session and both numbers: an answer must never end up in another conversation
);
CREATE INDEX turns_of_session ON turns (session, state);

CREATE TABLE outbox (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    session    INTEGER,           -- none for what is said to strangers
    turn       INTEGER,
    ordinal    INTEGER NOT NULL,
    target     TEXT NOT NULL,
    text       TEXT NOT NULL,
    reply_to   TEXT,
    edits      TEXT,              -- the message that shows a preview of it
    more       TEXT,              -- JSON of what an ordinary part does not have: a file, buttons
    state      TEXT NOT NULL,
    attempts   INTEGER NOT NULL,
    sent_id    TEXT,
    reason     TEXT,
    not_before INTEGER,
    created_at INTEGER NOT NULL,
    settled_at INTEGER,
    steps      TEXT NOT NULL,     -- as in turns
    checksum   INTEGER NOT NULL
);
CREATE INDEX outbox_open ON outbox (session) WHERE settled_at IS NULL;

CREATE TABLE questions (
    part        INTEGER PRIMARY KEY,  -- of the outbox
    session     INTEGER NOT NULL,
    turn        INTEGER,
    does        TEXT NOT NULL,
    body        TEXT NOT NULL,        -- JSON of the part
    state       TEXT NOT NULL,
    option      INTEGER,
    answered_by INTEGER,              -- the inbound message
    expires_at  INTEGER NOT NULL,
    checksum    INTEGER NOT NULL
);
CREATE INDEX questions_open ON questions (turn) WHERE state = 'open';
CREATE INDEX questions_answered ON questions (answered_by) WHERE answered_by IS NOT NULL;
CREATE INDEX questions_by_expiry ON questions (expires_at);

-- Who was let in by a pairing code, by the ids that people keep for life.
CREATE TABLE people (
    platform TEXT NOT NULL,
    account  TEXT NOT NULL,
    id       TEXT NOT NULL,
    at       INTEGER NOT NULL,
    by       TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (platform, account, id)
) WITHOUT ROWID;

CREATE TABLE pairings (
    digest   TEXT PRIMARY KEY,  -- a keyed hash of the code; the code itself is nowhere
    platform TEXT NOT NULL,
    account  TEXT NOT NULL,
    person   TEXT NOT NULL,
    target   TEXT NOT NULL,     -- where the person is told
    asked_at INTEGER NOT NULL,
    until    INTEGER NOT NULL,
    state    TEXT NOT NULL,     -- pending, used, taken back
    checksum INTEGER NOT NULL   -- of who it lets in
) WITHOUT ROWID;

-- Wrong codes, by the way they came in.
CREATE TABLE guesses (
    way          TEXT PRIMARY KEY,
    wrong        INTEGER NOT NULL,
    since        INTEGER NOT NULL,
    locked_until INTEGER
) WITHOUT ROWID;

-- What was used, summed up where it happens: a row for each day on which somebody used an agent in a chat. It outlives
-- the sessions. By day first, because budgets ask for one day and people for the last few.
CREATE TABLE usage (
    day         TEXT NOT NULL,     -- 2026-05-04, where the gateway lives
    platform    TEXT NOT NULL,
    account     TEXT NOT NULL,
    chat        TEXT NOT NULL,
    user        TEXT NOT NULL,
    agent       TEXT NOT NULL,
    turns       INTEGER NOT NULL,
    estimated   INTEGER NOT NULL,  -- turns whose tokens were counted from the words
    unpriced    INTEGER NOT NULL,  -- turns of which nobody knows the whole price
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    usd         REAL NOT NULL,
    PRIMARY KEY (day, platform, account, chat, user, agent)
) WITHOUT ROWID;

-- Written by whoever asks whether the store takes writes.
CREATE TABLE probe (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    at   INTEGER NOT NULL
);
