-- What relays tell operators. archive: off, bare (without payload) or full is what is kept of messages that are discarded.
create table outbox_setting (
    name  text primary key,
    value text not null
) strict, without rowid;
