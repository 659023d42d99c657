-- A message of the stream's own. It is transactional, since others are flushed only when something else is; it needs no
-- standby's word.
select set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, $1, $2)::text
