// Command peers measures other systems that deliver messages from PostgreSQL by the instruments of this project: the
// same rows and payloads, the same server, no-op and JetStream destinations, the same verdict on what was lost,
// repeated or out of order. Each has the settings that its authors recommend for throughput, named where they are set.
//
//	go -C bench/peers run . -run drain
//
// It is a module of its own, so that nobody who imports the outbox has its dependencies.
package main

import (
	"os"

	"github.com/outboxrelay/outbox/internal/bench"
)

func main() { os.Exit(bench.Main(scenarios())) }

func scenarios() []bench.Scenario {
	return []bench.Scenario{
		peerScenario("drain", "to a sink that does nothing", bench.Nowhere(), 1, nil),
		peerScenario("held", "to a sink that does nothing, while a reader has a snapshot open", bench.Nowhere(), 1, bench.HoldReader),
		peerScenario("jetstream", "to a stream on files, every message acknowledged", bench.JetStream(), 4, nil),
	}
}

// peers are all systems that are measured.
func peers() []peer {
	return []peer{river(), watermillDefault(), watermillQueue(), oagudo()}
}
