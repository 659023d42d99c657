-- Every message wherever it is stored, in one form. A condition on place leaves the other tables out of a plan.
create view outbox.stored as
    select 'message'::text as place, m.seq, m.id, m.topic, m.key, 'ready'::text as state, 0 as generation, 0 as attempts,
           m.key is not null as holds, null::text as destination, null::timestamptz as available_at, null::text as error_class,
           null::text as last_error, null::text as actor, m.published_at, m.expires_at, null::timestamptz as ended_at, m.headers, m.payload
    from outbox.message m
    union all
    select 'waiting', w.seq, w.id, w.topic, w.key, 'waiting', w.generation, w.attempts, w.holds, w.destination, w.available_at,
           w.error_class, w.last_error, null, w.published_at, w.expires_at, null, w.headers, w.payload
    from outbox.waiting w
    union all
    select 'dead', d.seq, d.id, d.topic, d.key, 'dead', d.generation, d.attempts, d.holds, d.destination, null, d.error_class,
           d.last_error, null, d.published_at, d.expires_at, d.died_at, d.headers, d.payload
    from outbox.dead d
    union all
    select 'archive', a.seq, a.id, a.topic, a.key, a.outcome, a.generation, a.attempts, false, a.destination, null, null,
           a.detail, a.actor, a.published_at, a.expires_at, a.ended_at, a.headers, a.payload
    from outbox.archive a;
comment on view outbox.stored is 'Internal: every message in one form. People read outbox.messages.';

create function outbox.payload_text(payload bytea) returns text
language plpgsql immutable strict parallel safe set search_path = pg_catalog, pg_temp
as $$
begin
    return convert_from(payload, 'UTF8');
exception when others then
    return null;
end
$$;
comment on function outbox.payload_text(bytea) is 'A payload as text; null if it is none.';

create view outbox.messages as
    select case when s.place in ('message', 'waiting')
                     and s.seq in (select unnest(c.seqs) from outbox.claim c where c.relay is not null)
                then 'in_flight' else s.state end as state,
           s.id, s.topic, s.key, s.attempts, s.available_at, s.last_error, s.published_at,
           outbox.payload_text(s.payload) as payload_text
    from outbox.stored s;
comment on view outbox.messages is 'Messages for people: ready, in_flight, waiting, dead, and, as far as they are kept, delivered, dropped, expired, discarded.';
comment on column outbox.messages.payload_text is 'null if it is no UTF-8 text, or was not kept';
