select outbox.pause(topic => $1, destination => $2, actor => $3, reason => $4)
