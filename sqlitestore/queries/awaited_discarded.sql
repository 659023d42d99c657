update outbox_operation
set changed = changed + (select count(*) from outbox_awaited a where a.operation = outbox_operation.id and a.seq in (select value from json_each(?1))),
    held = held - (select count(*) from outbox_awaited a where a.operation = outbox_operation.id and a.seq in (select value from json_each(?1)))
where id in (select a.operation from outbox_awaited a where a.seq in (select value from json_each(?1)))
