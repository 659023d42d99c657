-- What a claim takes, and what it has learned on the way.
create type outbox.choice as (
    floor        bigint,      -- where the next window starts
    scanned      int,         -- rows of the window
    yielded      int,         -- of which candidates that the key rule let pass
    due_at       timestamptz, -- the last due row looked at; null: there were no more
    due_seq      bigint,
    cut          boolean,     -- candidates were left for want of room
    misfit       boolean,     -- and none was taken, because it is larger than the limit of bytes
    skipped_keys text[],      -- keys with rows now below the floor that were not taken
    blocked_keys text[],      -- of those to be continued: an older one is waiting or dead
    ended_keys   text[],      -- of those to be continued: nothing left below the floor
    foreign_ids  bigint[],    -- lost claims with nothing for this lane
    lost_last    bigint,      -- the last lost claim looked at
    lost         bigint[],    -- lost claims, locked
    lapses       int,         -- of relisted
    seqs         bigint[],    -- fresh messages …
    hashes       int[],       -- … and their keys'
    relisted     bigint[],    -- messages of lost claims
    rehashed     int[],
    alone        bigint[],    -- a suspect
    alone_hashes int[],
    alone_lapses int,
    streamed     bigint[],    -- of what was streamed: taken
    absent       bigint[],    -- not in message, for transactions that …
    snapshot     text         -- … this has seen
);
