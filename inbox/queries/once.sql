insert into inbox.mark (consumer, id) values ($1::text, $2::text) on conflict do nothing
