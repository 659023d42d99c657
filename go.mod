module github.com/outboxrelay/outbox

go 1.25.0

require (
	github.com/google/uuid v1.6.0
	go.uber.org/goleak v1.3.0
	pgregory.net/rapid v1.3.0
)
