package outbox

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Defaults and bounds of a Route.
const (
	defaultSlots      = 50
	defaultBatchSlots = 2000 // of a BatchSink
	defaultBatchSize  = 500
	defaultBatchBytes = 64 << 20
	maxSlots          = 100_000
	maxBatchSize      = 1000 // a claim lists at most so many messages
	maxBatchBytes     = 1 << 40
	maxNameBytes      = 64
)

// laneSpec is what the routes of one destination say together.
type laneSpec struct {
	name       string
	sink       Sink
	batches    BatchSink // the sink, if it is one
	pipelines  bool      // a call may have several messages of a key
	topics     TopicSet
	slots      int
	batchSize  int
	batchBytes int64
	ttl        time.Duration // of messages without their own; 0: for ever
	brokerTTL  time.Duration
}

// laneSpecs joins routes of one name into lanes, and returns all that is wrong with them.
func laneSpecs(routes []Route) ([]*laneSpec, error) {
	var lanes []*laneSpec
	var errs []error
	routes = slices.Clone(routes)
	for i := range routes {
		field := fmt.Sprintf("Routes[%d]", i)
		at := slices.IndexFunc(lanes, func(l *laneSpec) bool { return l.name == routes[i].Name })
		if at < 0 {
			at = len(lanes)
			lanes = append(lanes, &laneSpec{name: routes[i].Name})
			errs = append(errs, checkSink(field+".Sink", routes[i].Sink))
		}
		errs = append(errs, lanes[at].join(field, &routes[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for _, l := range lanes {
		l.complete(routes)
	}
	return lanes, nil
}

// join adds a route to its lane.
func (l *laneSpec) join(field string, r *Route) error {
	return errors.Join(
		checkName(field+".Name", r.Name),
		l.joinSink(field, r.Sink),
		l.joinTopics(field+".Topics", r),
		joinSize(field+".Slots", &l.slots, r.Slots, maxSlots),
		joinSize(field+".BatchSize", &l.batchSize, r.BatchSize, maxBatchSize),
		joinSize(field+".BatchBytes", &l.batchBytes, r.BatchBytes, maxBatchBytes),
		joinLife(field+".TTL", &l.ttl, r.TTL),
		joinLife(field+".BrokerTTL", &l.brokerTTL, r.BrokerTTL),
	)
}

// joinTopics checks a route's topics, or fills in all that its sink takes.
func (l *laneSpec) joinTopics(field string, r *Route) error {
	lister, _ := l.sink.(TopicLister)
	if len(r.Topics) == 0 && lister != nil {
		r.Topics = lister.Topics()
		return nil
	}
	if err := checkPatterns(field, r.Topics); err != nil {
		return err
	}
	return checkTaken(field, r.Topics, lister)
}

func checkName(field, name string) error {
	bad := func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if name == "" || len(name) > maxNameBytes || strings.ContainsFunc(name, bad) {
		return fieldError(field, name, "must be 1 to 64 of the characters a-z 0-9 _ -")
	}
	return nil
}

func checkSink(field string, sink Sink) error {
	if sink == nil {
		return fieldError(field, "nil", "the first route of a destination needs a sink")
	}
	if mux, ok := sink.(*Mux); ok {
		return mux.check()
	}
	return nil
}

// joinSink accepts the lane's first sink, and afterwards the same one or none. Sinks that Go cannot compare,
// such as functions, are given once.
func (l *laneSpec) joinSink(field string, sink Sink) error {
	if l.sink == nil {
		l.sink = sink
		return nil
	}
	if sink == nil || reflect.ValueOf(sink).Comparable() && reflect.ValueOf(l.sink).Comparable() && sink == l.sink {
		return nil
	}
	return fieldError(field+".Sink", fmt.Sprintf("%T", sink), "routes of one name share a sink: leave it nil here, or give the same one")
}

// checkTaken refuses a route to topics that the sink does not take.
func checkTaken(field string, topics []string, lister TopicLister) error {
	if lister == nil {
		return nil
	}
	taken := lister.Topics()
	var errs []error
	for i, topic := range topics {
		if !slices.ContainsFunc(taken, func(pattern string) bool { return covers(pattern, topic) }) {
			errs = append(errs, fieldError(fmt.Sprintf("%s[%d]", field, i), topic, "the sink has no handler for all of it"))
		}
	}
	return errors.Join(errs...)
}

// covers reports whether every topic of the narrow pattern belongs to the wide one.
func covers(wide, narrow string) bool {
	for {
		w, wideRest, wideMore := strings.Cut(wide, ".")
		n, narrowRest, narrowMore := strings.Cut(narrow, ".")
		switch {
		case w == ">":
			return true
		case n == ">" || w != "*" && w != n || wideMore != narrowMore:
			return false
		case !wideMore:
			return true
		}
		wide, narrow = wideRest, narrowRest
	}
}

// joinSize accepts a size once, or the same again; zero leaves it open.
func joinSize[N int | int64](field string, to *N, size, most N) error {
	value := strconv.FormatInt(int64(size), 10)
	switch {
	case size < 0 || size > most:
		return fieldError(field, value, fmt.Sprintf("1 to %d, or zero for the default", most))
	case size != 0 && *to != 0 && size != *to:
		return fieldError(field, value, fmt.Sprintf("an earlier route of this name says %d", *to))
	}
	*to = cmp.Or(*to, size)
	return nil
}

// joinLife accepts a duration once, or the same again; zero leaves it open.
func joinLife(field string, to *time.Duration, life time.Duration) error {
	switch {
	case life < 0 || life > 0 && life < time.Microsecond:
		return fieldError(field, life.String(), "at least 1µs, or zero for ever")
	case life != 0 && *to != 0 && life != *to:
		return fieldError(field, life.String(), fmt.Sprintf("an earlier route of this name says %v", *to))
	}
	*to = cmp.Or(*to, life)
	return nil
}

// complete fills in defaults and the lane's topics among those of all routes.
func (l *laneSpec) complete(routes []Route) {
	slots := defaultSlots
	if l.batches, _ = l.sink.(BatchSink); l.batches != nil {
		slots = defaultBatchSlots
	}
	if p, ok := l.sink.(Pipeliner); ok {
		l.pipelines = p.Pipelines()
	}
	l.slots = cmp.Or(l.slots, slots)
	l.batchSize = cmp.Or(l.batchSize, defaultBatchSize)
	l.batchBytes = cmp.Or(l.batchBytes, defaultBatchBytes)
	for _, r := range routes {
		for _, pattern := range r.Topics {
			l.topics = append(l.topics, TopicPattern{Pattern: pattern, In: r.Name == l.name})
		}
	}
}
