-- SQLite has one writer at a time, and so the order of this number is the order of the commits.
create table outbox_sequence (
    one    integer primary key check (one = 1),
    seq    integer not null,   -- the last one drawn, for message and waiting together
    gone   integer not null,   -- counts the messages that have left the ready ones
    wake   integer not null,   -- counts what may make messages claimable, besides publishing
    change integer not null    -- counts what lets lanes look at all messages again: operators, relays that come and go
) strict;
insert into outbox_sequence (one, seq, gone, wake, change) values (1, 0, 0, 0, 0);

-- The outbox's clock: milliseconds since 1970. Nothing else asks for the time.
create view outbox_clock as
select cast(round(unixepoch('now', 'subsec') * 1000) as integer) as now;
