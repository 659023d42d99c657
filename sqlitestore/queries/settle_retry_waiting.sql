-- Not before now, also when its life is over: lanes have looked at what was due before.
update outbox_waiting
set attempts = e.value ->> 'attempts', lapses = e.value ->> 'lapses', holds = 1,
    available_at = max(min(?2 + (e.value ->> 'delay'), coalesce(expires_at, ?2 + (e.value ->> 'delay'))), ?2),
    first_failed_at = coalesce(first_failed_at, ?2), failed_at = ?2,
    error_class = e.value ->> 'class', last_error = e.value ->> 'text'
from json_each(?1) e
where outbox_waiting.seq = e.value ->> 'seq'
