package pgstore

import "github.com/outboxrelay/outbox"

// router hands the messages of committed transactions to the lanes that take their topics. The stream's goroutine uses
// it.
type router struct {
	store  *Store
	seen   uint64 // the store's lanes that routes were made for
	routes map[string][]*lane
	batch  map[*lane][]*streamed
}

// maxRoutes bounds what is remembered of topics.
const maxRoutes = 1000

func newRouter(s *Store) *router {
	return &router{store: s, routes: map[string][]*lane{}, batch: map[*lane][]*streamed{}}
}

func (r *router) deliver(t *transaction) {
	if t.lost > 0 {
		r.store.eachLane(func(l *lane) { l.streamMissed(t.lost) })
		return
	}
	if seen := r.store.lanesMade.Load(); seen != r.seen || len(r.routes) > maxRoutes {
		clear(r.routes)
		r.seen = seen
	}
	for _, m := range t.rows {
		for _, l := range r.lanes(m.topic) {
			r.batch[l] = append(r.batch[l], m)
		}
	}
	for l, ms := range r.batch {
		l.streamBrings(ms)
	}
	clear(r.batch)
}

// lanes are those that take a topic. Whether they may is the claim's to decide.
func (r *router) lanes(topic string) []*lane {
	if lanes, known := r.routes[topic]; known {
		return lanes
	}
	var lanes []*lane
	r.store.eachLane(func(l *lane) {
		if l.takes(topic) {
			lanes = append(lanes, l)
		}
	})
	r.routes[topic] = lanes
	return lanes
}

// learnLanes takes over which topics a relay's lanes take.
func (s *Store) learnLanes(r *relay, lanes []outbox.LaneInfo) {
	for _, info := range lanes {
		r.lane(info.Destination).learnTopics(info.Topics)
	}
	s.lanesMade.Add(1)
}
