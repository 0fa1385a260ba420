-- Who is to blame for a crash: a turn that was running during one runs again alone, and only a crash during that counts.
ALTER TABLE turns ADD COLUMN alone INTEGER NOT NULL DEFAULT 0;         -- it runs alone at the moment
ALTER TABLE turns ADD COLUMN alone_crashes INTEGER NOT NULL DEFAULT 0; -- how often the daemon crashed while it did
