select outbox.settle_delivered($1, $2, $3)
