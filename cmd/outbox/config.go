package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/spell"
	"github.com/outboxrelay/outbox/pgstore"
)

// config is the effective configuration.
type config struct {
	file  string
	given map[string]given // scalars that are not left to their default, by key

	database, listen secret
	store            pgstore.Config
	relay            outbox.Config
	to               destination
	lane             lane // of destinations that do not say otherwise
	logLevel         slog.Level
	logFormat        string
	admin            string // address, or "off"

	destinations []*destination // of the file
	routes       []route
}

// given is a value and where it came from.
type given struct {
	text   string
	origin origin
}

// origin is where a value was given. Higher ranks win.
type origin struct {
	rank rank
	text string
}

type rank uint8

const (
	rankFile rank = iota + 1
	rankEnv
	rankFlag
)

// route sends topics to a destination by its name.
type route struct {
	at     string
	topics []string
	to     string
}

// problems is everything that is wrong with the configuration, for one error.
type problems []string

func (p problems) Error() string {
	if len(p) == 1 {
		return "configuration: " + p[0]
	}
	return fmt.Sprintf("%d problems with the configuration:\n  %s", len(p), strings.Join(p, "\n  "))
}

// defaultDestination is the name of what the setting to names.
const defaultDestination = "default"

// targets are all destinations.
func (c *config) targets() []*destination {
	if c.to.url.isSet() {
		return []*destination{&c.to}
	}
	return c.destinations
}

// allRoutes are the routes, with the one that needs not be written: everything to the only destination.
func (c *config) allRoutes() []route {
	targets := c.targets()
	if len(c.routes) == 0 && len(targets) == 1 {
		return []route{{at: "routes[0]", topics: []string{">"}, to: targets[0].name}}
	}
	return c.routes
}

// relayRoutes gives the routes the sinks of their destinations.
func (c *config) relayRoutes(sinks map[string]outbox.Sink) []outbox.Route {
	var routes []outbox.Route
	for _, r := range c.allRoutes() {
		d := c.target(r.to)
		if d == nil {
			continue
		}
		l := c.laneOf(d)
		routes = append(routes, outbox.Route{Name: r.to, Topics: r.topics, Sink: sinks[r.to], Slots: l.slots,
			BatchSize: l.batchSize, BatchBytes: l.batchBytes, TTL: l.ttl, BrokerTTL: l.brokerTTL})
	}
	return routes
}

// topicsOf are the patterns of the routes to a destination.
func (c *config) topicsOf(d *destination) (patterns []string) {
	for _, r := range c.allRoutes() {
		if r.to == d.name {
			patterns = append(patterns, r.topics...)
		}
	}
	return patterns
}

func (c *config) target(name string) *destination {
	for _, d := range c.targets() {
		if d.name == name {
			return d
		}
	}
	return nil
}

func (c *config) laneOf(d *destination) lane {
	l := c.lane
	return lane{
		slots: cmp.Or(d.lane.slots, l.slots), batchSize: cmp.Or(d.lane.batchSize, l.batchSize), batchBytes: cmp.Or(d.lane.batchBytes, l.batchBytes),
		ttl: max(cmp.Or(d.lane.ttl, l.ttl), 0), brokerTTL: max(cmp.Or(d.lane.brokerTTL, l.brokerTTL), 0),
	}
}

// check returns what is wrong with the configuration as a whole. The bounds are those of the library: it is asked.
// Destinations that could not be read completely are left alone.
func (c *config) check(incomplete bool) (found problems) {
	if !incomplete {
		found = append(found, c.checkDestinations()...)
	}
	found = append(found, c.checkRoutes()...)
	found = append(found, c.checkSQLite()...)
	store, err := pgstore.New(nil, &c.store)
	found = append(found, c.explain(err)...)
	if store == nil {
		if store, err = pgstore.New(nil, nil); err != nil {
			return append(found, err.Error())
		}
	}
	sinks := map[string]outbox.Sink{}
	for _, d := range c.targets() {
		sinks[d.name] = &stdoutSink{} // one that is never called
	}
	_, err = outbox.NewRelay(store, c.relayRoutes(sinks), &c.relay)
	return append(found, c.explain(err)...)
}

func (c *config) checkDestinations() (found problems) {
	if c.to.url.isSet() && len(c.destinations) > 0 {
		found = append(found, fmt.Sprintf("to%s and destinations exclude each other: name the one destination by to, or several in the file", c.origin("to")))
	}
	for _, d := range c.targets() {
		if err := d.problem(c.topicsOf(d)); err != nil {
			at := "to"
			if d.at != "" {
				at = d.at
			}
			found = append(found, explainDestination(at, err)...)
		}
	}
	if !c.to.url.isSet() && len(c.to.options) > 0 {
		for name := range c.to.options {
			found = append(found, fmt.Sprintf("%s%s belongs to the destination that to names, and there is none", name, c.origin(name)))
		}
	}
	return found
}

// explainDestination names the keys of a destination instead of the fields of its sink.
func explainDestination(at string, err error) (found problems) {
	for _, e := range flatten(err) {
		var refused *outbox.FieldError
		if errors.As(e, &refused) {
			e = fmt.Errorf("%s %q: %s", snake(strings.TrimPrefix(refused.Field, "Config.")), refused.Value, refused.Bound)
		}
		found = append(found, at+": "+e.Error())
	}
	return found
}

func (c *config) checkRoutes() (found problems) {
	if c.to.url.isSet() && len(c.routes) > 0 {
		return problems{"routes need destinations; what to names gets everything"}
	}
	var names []string
	for _, d := range c.targets() {
		names = append(names, d.name)
	}
	used := map[string]bool{}
	for _, r := range c.allRoutes() {
		used[r.to] = true
		if c.target(r.to) == nil {
			found = append(found, fmt.Sprintf("%s: there is no destination %q%s", r.at, r.to, didYouMean(spell.Nearest(r.to, names))))
		}
	}
	for _, d := range c.targets() {
		if !used[d.name] {
			found = append(found, fmt.Sprintf("%s: no route leads to it", d.at))
		}
	}
	return found
}

func didYouMean(name string) string {
	if name == "" {
		return ""
	}
	return "; did you mean " + name + "?"
}

// origin tells in an error where a key's value came from.
func (c *config) origin(key string) string {
	if g, ok := c.given[key]; ok {
		return " (" + g.origin.text + ")"
	}
	return ""
}

// explain turns the library's refusals into problems that name keys instead of Go fields.
func (c *config) explain(err error) (found problems) {
	for _, e := range flatten(err) {
		var refused *outbox.FieldError
		if !errors.As(e, &refused) {
			found = append(found, e.Error())
			continue
		}
		key := c.keyOf(refused.Field)
		found = append(found, fmt.Sprintf("%s %q%s: %s", key, refused.Value, c.origin(key), inSettings(refused.Bound)))
	}
	return found
}

// flatten takes joined errors apart. A wrapped error that is none of those keeps the words around it.
func flatten(err error) (list []error) {
	if err == nil {
		return nil
	}
	switch e := err.(type) {
	case *outbox.FieldError:
		return []error{e}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			list = append(list, flatten(inner)...)
		}
		return list
	case interface{ Unwrap() error }:
		inner := flatten(e.Unwrap())
		var refused *outbox.FieldError
		if len(inner) > 1 || errors.As(err, &refused) {
			return inner
		}
	}
	return []error{err}
}

var (
	camelHump  = regexp.MustCompile(`([a-z])([A-Z])`)
	routeField = regexp.MustCompile(`^Routes\[(\d+)\]\.(Slots|BatchSize|BatchBytes|TTL|BrokerTTL|Name)$`)
)

// keyOf is the key of a field of the library's configuration.
func (c *config) keyOf(field string) string {
	switch field {
	case "Schema", "Migrate", "ListenURL":
		return "database." + snake(field)
	}
	if match := routeField.FindStringSubmatch(field); match != nil {
		var i int
		fmt.Sscan(match[1], &i)
		return c.laneKey(i, snake(match[2]))
	}
	return snake(strings.TrimPrefix(field, "Config."))
}

// laneKey is where the size of a route's destination was given.
func (c *config) laneKey(i int, name string) string {
	routes := c.allRoutes()
	if i >= len(routes) {
		return name
	}
	d := c.target(routes[i].to)
	if d == nil || d.at == "" {
		return name
	}
	own := map[string]bool{
		"slots": d.lane.slots != 0, "batch_size": d.lane.batchSize != 0, "batch_bytes": d.lane.batchBytes != 0,
		"ttl": d.lane.ttl != 0, "broker_ttl": d.lane.brokerTTL != 0,
	}
	switch {
	case name == "name":
		return d.at
	case own[name]:
		return d.at + "." + name
	}
	return name
}

func snake(field string) string {
	return strings.ToLower(camelHump.ReplaceAllString(field, "${1}_${2}"))
}
