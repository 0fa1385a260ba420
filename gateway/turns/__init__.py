"""One turn at a time: lanes, agent runs, questions, billing, compaction."""
