-- What has been claimed once holds its key while it waits.
update outbox_waiting set holds = 1 where seq in (select value from json_each(?1)) and not holds
