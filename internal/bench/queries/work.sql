update outbox.account set balance = balance + 1 where id = $1
