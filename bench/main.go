// Command bench measures the outbox on this machine: on a private PostgreSQL server, with fsync on, it runs each
// scenario beside a reference that does the same work by plain SQL, in turns, and prints medians.
//
//	go run ./bench -run drain,publish -json figures.json
//
// A scenario is a file; the instruments are in internal/bench. The figures that were measured, and how to read them,
// are in docs/benchmarks.md. Other systems are measured by the same instruments in bench/peers.
package main

import (
	"os"

	"github.com/outboxrelay/outbox/internal/bench"
)

func main() { os.Exit(bench.Main(scenarios())) }

func scenarios() []bench.Scenario {
	return []bench.Scenario{
		drainScenario(), observedScenario(), payloadScenario(), relaysScenario(), destinationScenario("jetstream", bench.JetStream()),
		destinationScenario("rabbitmq", bench.RabbitMQ()),
		publishScenario(), latencyScenario(), handlersScenario(), heldScenario(), blockedScenario(), backlogScenario(), idleScenario(),
		walScenario(),
	}
}
