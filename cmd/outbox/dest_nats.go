package main

import (
	"context"
	"errors"
	"math"
	"net/url"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/natssink"
)

// Options of a destination at NATS.
const (
	natsStream      = "stream"
	natsSubject     = "subject"
	natsCreate      = "create"
	natsSubjects    = "subjects"
	natsPipeline    = "pipeline"
	natsCredentials = "credentials_file"
	natsCA          = "ca_file"
)

// natsScheme publishes to NATS JetStream.
func natsScheme() scheme {
	return scheme{
		names:  []string{"nats", "tls"},
		form:   "nats://host:4222",
		system: "nats",
		options: []option{
			{name: natsStream, usage: "JetStream stream that must store the messages"},
			{name: natsSubject, def: "{topic}", usage: "template of the subject, with {topic}, {key} and {header.NAME}"},
			{name: natsCreate, def: "false", usage: "create the stream when it is missing", boolean: true},
			{name: natsSubjects, usage: "subjects of the created stream, with commas between"},
			{name: natsPipeline, def: "false", usage: "send the messages of a key without waiting for each one's acknowledgement; a failure may reorder them", boolean: true},
			{name: natsCredentials, usage: "NATS credentials file, read at each connect"},
			{name: natsCA, usage: caUsage},
		},
		check: checkNATS,
		open:  openNATS,
	}
}

func natsConfig(d *destination, env sinkEnv) *natssink.Config {
	cfg := &natssink.Config{
		Stream: d.options[natsStream], Subject: d.options[natsSubject], Create: d.options[natsCreate] == "true",
		Pipeline: d.options[natsPipeline] == "true",
		Topics:   env.topics, Logger: env.log,
	}
	if list := d.options[natsSubjects]; list != "" {
		cfg.Subjects = strings.Split(list, ",")
	}
	if env.retry != nil && env.attempts < math.MaxInt32 {
		cfg.RetryHorizon = env.retry.Horizon(env.attempts)
	}
	return cfg
}

// checkNATS lets the sink's package check; only the connection is missing then.
func checkNATS(d *destination, text string, topics []string) error {
	_, err := natssink.New(nil, natsConfig(d, sinkEnv{topics: topics}))
	var errs []error
	for _, e := range flatten(err) {
		var refused *outbox.FieldError
		if errors.As(e, &refused) && refused.Field == "conn" {
			continue
		}
		errs = append(errs, e)
	}
	for _, server := range strings.Split(text, ",") {
		u, err := url.Parse(server)
		// An @ or # behind the host: a reserved character in the password is not escaped, and the host, which errors
		// name, is a part of the password.
		if err != nil || u.Host == "" || strings.Contains(u.EscapedPath()+u.RawQuery, "@") || strings.Contains(server, "#") {
			errs = append(errs, errors.New("is no URL such as nats://host:4222, or several with commas between; reserved characters in a password are written as %xx"))
		}
	}
	return errors.Join(errs...)
}

func openNATS(_ context.Context, d *destination, env sinkEnv) (outbox.Sink, error) {
	text, err := d.url.read()
	if err != nil {
		return nil, err
	}
	var options []nats.Option
	if file := d.options[natsCredentials]; file != "" {
		options = append(options, nats.UserCredentials(file))
	}
	if file := d.options[natsCA]; file != "" {
		options = append(options, nats.RootCAs(file))
	}
	if d.url.file != "" {
		var rotating []nats.Option
		text, rotating = rotatingUser(d.url, text)
		options = append(options, rotating...)
	}
	sink, err := natssink.Open(text, natsConfig(d, env), options...)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), text, mask(text)))
	}
	return sink, nil
}

// rotatingUser takes user or token out of the URLs and makes the client ask for them at each connect: the file may have
// new ones by then.
func rotatingUser(s secret, text string) (bare string, options []nats.Option) {
	user := userOf(text)
	if user == nil {
		return text, nil
	}
	var servers []string
	for _, server := range strings.Split(text, ",") {
		if u, err := url.Parse(server); err == nil {
			u.User = nil
			server = u.String()
		}
		servers = append(servers, server)
	}
	current := func() *url.Userinfo {
		if text, err := s.read(); err == nil {
			if now := userOf(text); now != nil {
				user = now
			}
		}
		return user
	}
	option := nats.TokenHandler(func() string { return current().Username() })
	if _, has := user.Password(); has {
		option = nats.UserInfoHandler(func() (string, string) {
			user := current()
			password, _ := user.Password()
			return user.Username(), password
		})
	}
	return strings.Join(servers, ","), []nats.Option{option}
}

// userOf is who the first of the URLs logs in as.
func userOf(text string) *url.Userinfo {
	first, _, _ := strings.Cut(text, ",")
	u, err := url.Parse(strings.TrimSpace(first))
	if err != nil {
		return nil
	}
	return u.User
}
