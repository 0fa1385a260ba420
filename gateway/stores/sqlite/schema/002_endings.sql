-- Sessions that can fall due, by what their reset policy goes by. Those that have ended are not in it, so that a look for
-- what is due reads what is due and nothing else.
CREATE INDEX sessions_open
    ON sessions (
        json_extract(origin, '$.platform'), coalesce(json_extract(origin, '$.chat_type'), 'dm'), last_interaction_at
    )
    WHERE current AND end_reason IS NULL;

-- Sessions that are over and whose agent has not heard of it.
CREATE TABLE endings (
    session    INTEGER PRIMARY KEY,
    attempts   INTEGER NOT NULL,  -- counted before the agent is told, so that a crash cannot repeat it for ever
    not_before INTEGER NOT NULL
);
