package sqlitestore

import (
	"cmp"
	"maps"
	"slices"

	"github.com/outboxrelay/outbox"
)

// fleet is what all live relays deliver, and what is paused.
type fleet struct {
	relays []map[string]laneDoc
	pauses []outbox.Pause
}

func (t *tx) fleet() (f fleet, err error) {
	if err := t.lanes(func(_ string, lanes map[string]laneDoc) { f.relays = append(f.relays, lanes) }); err != nil {
		return f, err
	}
	f.pauses, err = t.pauses()
	return f, err
}

// destinations are those that a topic is delivered to.
func (f *fleet) destinations(topic string) []string {
	names := map[string]bool{}
	for _, lanes := range f.relays {
		for name, l := range lanes {
			if l.Topics.Contains(topic) {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// destinationsOf are those that a message of the topic is delivered to which is bound to a destination; empty: it goes by route.
func (f *fleet) destinationsOf(topic, bound string) []string {
	return slices.DeleteFunc(f.destinations(topic), func(d string) bool { return bound != "" && d != bound })
}

// names are all destinations, as JSON; nil: no relay lives.
func (f *fleet) names() any {
	if len(f.relays) == 0 {
		return nil
	}
	names := map[string]bool{}
	for _, lanes := range f.relays {
		for name := range lanes {
			names[name] = true
		}
	}
	return array(slices.Sorted(maps.Keys(names)))
}

// mayHold reports whether some live relay delivers the topic in order, or none lives.
func (f *fleet) mayHold(topic string) bool {
	return len(f.relays) == 0 || f.anyLane(func(l *laneDoc) bool { return l.orders(topic) })
}

// mayHoldAt is mayHold of a message that is bound to a destination; empty: it goes by route.
func (f *fleet) mayHoldAt(topic, bound string) bool {
	return len(f.relays) == 0 || slices.ContainsFunc(f.destinationsOf(topic, bound), func(d string) bool { return f.orders(d, topic) })
}

// sharesOrder reports whether two topics go to one of these destinations in order.
func (f *fleet) sharesOrder(one, other string, destinations []string) bool {
	return len(f.relays) == 0 || slices.ContainsFunc(destinations, func(d string) bool { return f.orders(d, one) && f.orders(d, other) })
}

func (f *fleet) orders(destination, topic string) bool {
	for _, lanes := range f.relays {
		if l, ok := lanes[destination]; ok && l.orders(topic) {
			return true
		}
	}
	return false
}

func (f *fleet) anyLane(is func(l *laneDoc) bool) bool {
	for _, lanes := range f.relays {
		for _, l := range lanes {
			if is(&l) {
				return true
			}
		}
	}
	return false
}

// isPaused reports whether a destination of the topic may not claim it.
func (f *fleet) isPaused(topic string) bool {
	return slices.ContainsFunc(f.destinations(topic), func(d string) bool { return isPaused(f.pauses, topic, d) })
}

// states are the destinations as the live relays see them together.
func (f *fleet) states() (list []outbox.DestinationStatus) {
	for _, lanes := range f.relays {
		for name, l := range lanes {
			destination(&list, name).Add((*outbox.Fault)(l.Fault))
		}
	}
	sortDestinations(list)
	return list
}

// destination finds one by its name, or adds it.
func destination(list *[]outbox.DestinationStatus, name string) *outbox.DestinationStatus {
	i := slices.IndexFunc(*list, func(d outbox.DestinationStatus) bool { return d.Name == name })
	if i < 0 {
		i = len(*list)
		*list = append(*list, outbox.DestinationStatus{Name: name})
	}
	return &(*list)[i]
}

func sortDestinations(list []outbox.DestinationStatus) {
	slices.SortFunc(list, func(a, b outbox.DestinationStatus) int { return cmp.Compare(a.Name, b.Name) })
}
