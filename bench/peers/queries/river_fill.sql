insert into river_job (args, kind, max_attempts)
select jsonb_build_object('payload', translate(encode(payload, 'base64'), E'\n', '')), 'message', 25
from outbox.message
order by seq
