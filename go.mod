module github.com/outboxrelay/outbox

go 1.25.0
