delete from outbox.migration where version = $1::int
