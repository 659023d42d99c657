select o.id, o.verb, o.state, o.filter::text, coalesce(o.actor, ''), coalesce(o.reason, ''), coalesce(o.rate, 0),
       coalesce((o.counts ->> 'matched')::bigint, 0), coalesce((o.counts ->> 'changed')::bigint, 0),
       coalesce((o.counts ->> 'held')::bigint, 0), coalesce((o.counts ->> 'bare')::bigint, 0), o.started_at, o.finished_at
from outbox.operations(max_rows => $1) o
