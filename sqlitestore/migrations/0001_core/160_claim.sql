-- The ledger: which messages are held, by which relay. Ids are never used again.
create table outbox_claim (
    id          integer primary key autoincrement,
    token       text not null,                -- made by the relay, names the claim request
    relay       text,                         -- null: given back, or what is left of a claim that was taken over
    beat        integer not null,             -- the relay's beat at the time of the claim
    destination text not null,
    lapses      integer not null default 0,   -- how often a relay died while it held these messages
    claimed_at  integer not null
) strict;
create index outbox_claim_relay on outbox_claim (relay);

-- The messages of each claim. A message is listed at most once.
create table outbox_listed (
    seq   integer primary key,
    claim integer not null,
    key   text                                -- the key that the message holds through the claim; null without order
) strict;
create index outbox_listed_claim on outbox_listed (claim, seq);
create index outbox_listed_key on outbox_listed (key) where key is not null;
