create table outbox.claim (
    id          bigint generated always as identity (cache 1) primary key,
    token       uuid not null,
    relay       uuid,
    beat        bigint not null,
    destination text not null,
    seqs        bigint[] not null,
    keys        int[] not null,
    floor       bigint not null,
    lapses      int not null default 0,
    claimed_at  timestamptz not null default clock_timestamp(),
    constraint claim_pairs check (cardinality(seqs) = cardinality(keys))
) with (
    toast_tuple_target = 8160,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
create index claim_token on outbox.claim (token);
-- Unique for the relay's sake: taking a claim from it is an update of a key, which conflicts with FOR KEY SHARE.
create unique index claim_owner on outbox.claim (id, relay);
-- Trying to compress hashes costs more than the whole insert.
alter table outbox.claim alter column seqs set storage external;
alter table outbox.claim alter column keys set storage external;

comment on table outbox.claim is 'The ledger: which messages are held, by which relay. New rows are inserted only under the claim lock, so ids are in commit order.';
comment on column outbox.claim.token is 'made by the relay, names the claim request';
comment on column outbox.claim.relay is 'null: given back, or what is left of a claim that was taken over';
comment on column outbox.claim.beat is 'the relay''s beat at the time of the claim';
comment on column outbox.claim.keys is 'per seq the hash of its key; null without order';
comment on column outbox.claim.floor is 'where the window of this claim ended; a hint for other relays';
comment on column outbox.claim.lapses is 'how often a relay died while it held these messages: from 2 on there is one, or they are taken over one at a time';
