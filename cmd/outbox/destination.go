package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/spell"
)

// destination is an entry of destinations in the file, or what the setting to names.
type destination struct {
	name    string
	at      string // key in the file; empty for to
	url     secret
	lane    lane
	options map[string]string // the scheme's, by name
}

// lane is what every destination can say of itself.
type lane struct {
	slots, batchSize int
	batchBytes       int64
	ttl, brokerTTL   time.Duration // of messages without their own
}

// scheme makes the sinks for one kind of destination. Each has a file of its own, dest_….go.
type scheme struct {
	names   []string // of URLs
	form    string   // an example URL, without what is secret
	system  string   // what OpenTelemetry calls it; empty: nothing
	options []option
	// check reports what is wrong with a destination that gets these topics, without connecting. It may be nil.
	check func(d *destination, url string, topics []string) error
	// open makes the sink; it need not connect, and must not wait for a connection. What it returns may be
	// an outbox.Preflighter, for the command check, and have Close().
	open func(ctx context.Context, d *destination, env sinkEnv) (outbox.Sink, error)
}

// sinkEnv is what sinks get from the program.
type sinkEnv struct {
	app      *app
	log      *slog.Logger
	topics   []string            // patterns of the routes to the destination
	retry    *outbox.RetryPolicy // with attempts: how long a message may be sent again; nil: not known
	attempts int
}

// option is a setting of a kind of destination.
type option struct {
	name, def, usage string
	boolean          bool
	valid            func(text string) error // nil: any text
}

func (o option) check(text string) error {
	if o.boolean && text != "true" && text != "false" {
		return errors.New("must be true or false")
	}
	if o.valid != nil {
		return o.valid(text)
	}
	return nil
}

// caUsage is of an option that several kinds of destinations have.
const caUsage = "certificates of the authorities that servers are checked by"

// schemes are all kinds of destinations.
func schemes() []scheme {
	return []scheme{
		natsScheme(),
		rabbitScheme(),
		stdoutScheme(),
	}
}

func schemeForms() string {
	var forms []string
	for _, s := range schemes() {
		forms = append(forms, s.form)
	}
	return strings.Join(forms, ", ")
}

// formOf is the form of a scheme's URLs; empty for one that is not known.
func formOf(name string) string {
	for _, s := range schemes() {
		if slices.Contains(s.names, name) {
			return s.form
		}
	}
	return ""
}

func schemeOptions() (all []option) {
	for _, s := range schemes() {
		for _, o := range s.options {
			if !slices.ContainsFunc(all, func(known option) bool { return known.name == o.name }) {
				all = append(all, o)
			}
		}
	}
	return all
}

// resolve reads the URL and finds its scheme.
func (d *destination) resolve() (*scheme, string, error) {
	text, err := d.url.read()
	if err != nil {
		return nil, "", err
	}
	if text == "" {
		return nil, "", errors.New("needs a url or url_file")
	}
	name, _, isURL := strings.Cut(text, ":")
	if strings.ContainsAny(name, "/@ ") {
		return nil, "", fmt.Errorf("is no URL such as %s", schemeForms())
	}
	var names []string
	for _, s := range schemes() {
		if isURL && slices.Contains(s.names, name) {
			return &s, text, nil
		}
		names = append(names, s.names...)
	}
	if !isURL {
		return nil, "", fmt.Errorf("is no URL such as %s%s", schemeForms(), didYouMean(formOf(spell.Nearest(name, names))))
	}
	if nearest := spell.Nearest(name, names); nearest != "" {
		return nil, "", fmt.Errorf("scheme %q is unknown; did you mean %s?", name, nearest)
	}
	if !strings.Contains(text, "://") { // what stands before the colon may be secret
		return nil, "", fmt.Errorf("is no URL such as %s", schemeForms())
	}
	return nil, "", fmt.Errorf("scheme %q is unknown; there is %s", name, strings.Join(names, ", "))
}

// problem is what is wrong with the destination, nil if it can be opened. Bad topics are the routes' problem.
func (d *destination) problem(topics []string) error {
	s, url, err := d.resolve()
	if err != nil {
		return err
	}
	for name := range d.options {
		if !slices.ContainsFunc(s.options, func(o option) bool { return o.name == name }) {
			return fmt.Errorf("%s is no option of %s", name, s.form)
		}
	}
	if s.check != nil {
		topics = slices.DeleteFunc(slices.Clone(topics), func(pattern string) bool { return outbox.CheckPattern(pattern) != nil })
		return s.check(d, url, topics)
	}
	return nil
}

func (d *destination) open(ctx context.Context, env sinkEnv) (outbox.Sink, error) {
	s, _, err := d.resolve()
	if err != nil {
		return nil, fmt.Errorf("destination %s: %w", d.name, err)
	}
	sink, err := s.open(ctx, d, env)
	if err != nil {
		return nil, fmt.Errorf("open destination %s: %w", d.name, err)
	}
	return sink, nil
}
