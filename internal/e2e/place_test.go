package e2e

import (
	"slices"
	"strings"

	"github.com/outboxrelay/outbox/pgstore"
)

// Destinations of the matrix. The handler is one of the test's own, in a process with the library's relay; brokers are
// delivered to by the program itself.
const (
	toHandler   = "handler"
	toJetStream = "JetStream"
	toRabbitMQ  = "RabbitMQ"
)

var destinations = []string{toHandler, toJetStream, toRabbitMQ}

// place is where a fault is played: an engine, a destination, and what becomes of keys whose head fails.
type place struct {
	engine             pgstore.Engine
	destination, order string
}

func (p place) String() string {
	return strings.Join([]string{p.engine.String(), p.destination, p.order}, "/")
}

func (p place) brokered() bool { return p.destination != toHandler }

// places lists where the fault is played.
func (f *fault) places() (all []place) {
	for _, destination := range destinations {
		for _, engine := range []pgstore.Engine{pgstore.EnginePoll, pgstore.EngineWAL} {
			for _, order := range []string{"skip", "block", "park", "none"} {
				p := place{engine, destination, order}
				// Heads that fail are the handler's: brokers reject nothing here.
				if order != "skip" && (!f.orders || p.brokered()) || f.in != nil && !f.in(p) {
					continue
				}
				all = append(all, p)
			}
		}
	}
	return all
}

// row is a fault at a place, which is a row of the matrix.
type row struct {
	*fault
	place
}

func (r row) String() string { return r.name + "/" + r.place.String() }

// matrix lists all rows.
func matrix() (all []row) {
	for i := range faults {
		for _, p := range faults[i].places() {
			all = append(all, row{&faults[i], p})
		}
	}
	return all
}

// brief are the rows that every run of the tests plays: what no other test of this package does, once.
func brief(all []row) []row {
	played := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(all), func(r row) bool {
		if r.briefly != r.place.String() || played[r.name] {
			return true
		}
		played[r.name] = true
		return false
	})
}
