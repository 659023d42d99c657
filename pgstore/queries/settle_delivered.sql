select ids, refused from outbox.settle_delivered($1, $2, $3, $4)
