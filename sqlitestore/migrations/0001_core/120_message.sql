-- Ready messages. Publishers insert, settling deletes, nothing updates.
create table outbox_message (
    seq          integer primary key,
    id           text not null,
    topic        text not null check (octet_length(topic) between 1 and 255 and topic not glob '*[^A-Za-z0-9_.-]*'
                                      and topic not glob '.*' and topic not glob '*.' and topic not glob '*..*'
                                      and octet_length(topic) = length(topic)),   -- else a NUL hides the rest,
    key          text check (octet_length(key) between 1 and 512),   -- null: no order
    payload      blob not null,
    headers      text not null default '{}' check (json_valid(headers)),
    dedup_key    text,
    max_attempts integer check (max_attempts >= 0),                  -- null: the rule's, 0: unlimited
    broker_ttl   integer check (broker_ttl > 0),
    expires_at   integer,
    published_at integer not null
) strict;
create index outbox_message_key on outbox_message (key, seq, topic) where key is not null;
create index outbox_message_topic on outbox_message (topic, seq);
create index outbox_message_id on outbox_message (id);
