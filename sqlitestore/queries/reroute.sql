-- The routes decide again where these messages go. What relays have died with is a suspect still.
update outbox_waiting
set destination = null, available_at = ?2, holds = 1,
    lapses = case when coalesce((select h.lapses from outbox_held h where h.seq = outbox_waiting.seq), 0) >= 2 then 2 else lapses end
where seq in (select value from json_each(?1))
