package main

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/rabbitsink"
)

// Options of a destination at RabbitMQ.
const (
	rabbitExchange         = "exchange"
	rabbitPassive          = "exchange_passive"
	rabbitRoutingKey       = "routing_key"
	rabbitDisableMandatory = "disable_mandatory"
	rabbitTrackingIDs      = "tracking_ids"
	rabbitConfirmTimeout   = "confirm_timeout"
	rabbitMaxInFlight      = "max_in_flight"
	rabbitCA               = natsCA
	rabbitCertificate      = "cert_file"
	rabbitKey              = "key_file"
)

// rabbitScheme publishes to an exchange of RabbitMQ.
func rabbitScheme() scheme {
	return scheme{
		names:  []string{"amqp", "amqps"},
		form:   "amqp://host:5672",
		system: "rabbitmq",
		options: []option{
			{name: rabbitExchange, def: "outbox", usage: "RabbitMQ exchange"},
			{name: rabbitPassive, def: "false", usage: "only check that the exchange exists, instead of declaring it as a durable topic exchange", boolean: true},
			{name: rabbitRoutingKey, def: "{topic}", usage: "template of the routing key, with {topic}, {key} and {header.NAME}"},
			{name: rabbitDisableMandatory, def: "false", usage: "count a message as delivered that no queue is bound for", boolean: true},
			{name: rabbitTrackingIDs, def: "false", usage: "add the causation ids as a JSON list, in the header x-outbox-tracking-ids", boolean: true},
			{name: rabbitConfirmTimeout, def: "5s", usage: "how long RabbitMQ may take to confirm", valid: durationText},
			{name: rabbitMaxInFlight, def: "2000", usage: "messages that may wait for RabbitMQ's confirmation", valid: numberText},
			{name: rabbitCA, usage: caUsage},
			{name: rabbitCertificate, usage: "client certificate for TLS to RabbitMQ, read at each connect"},
			{name: rabbitKey, usage: "its private key, read at each connect"},
		},
		check: checkRabbit,
		open:  openRabbit,
	}
}

func durationText(text string) error {
	_, err := outbox.ParseDuration(text)
	return err
}

func numberText(text string) error {
	if _, err := strconv.Atoi(text); err != nil {
		return errors.New("must be a whole number")
	}
	return nil
}

// rabbitConfig takes texts that were checked when they were read; what is not given stays the library's default.
func rabbitConfig(d *destination, env sinkEnv) *rabbitsink.Config {
	duration := func(name string) time.Duration {
		value, _ := outbox.ParseDuration(d.options[name])
		return value
	}
	inFlight, _ := strconv.Atoi(d.options[rabbitMaxInFlight])
	return &rabbitsink.Config{
		Exchange: d.options[rabbitExchange], Passive: d.options[rabbitPassive] == "true", RoutingKey: d.options[rabbitRoutingKey],
		DisableMandatory: d.options[rabbitDisableMandatory] == "true", TrackingIDs: d.options[rabbitTrackingIDs] == "true",
		ConfirmTimeout: duration(rabbitConfirmTimeout), MaxInFlight: inFlight,
		Logger: env.log,
	}
}

func checkRabbit(d *destination, text string, _ []string) error {
	errs := flatten(rabbitConfig(d, sinkEnv{}).Check())
	if err := rabbitsink.CheckURL(text); err != nil {
		errs = append(errs, err)
	}
	if (d.options[rabbitCertificate] == "") != (d.options[rabbitKey] == "") {
		errs = append(errs, errors.New("cert_file and key_file need each other"))
	}
	if !strings.HasPrefix(text, "amqps:") && d.options[rabbitCA]+d.options[rabbitCertificate] != "" {
		errs = append(errs, errors.New("ca_file and cert_file are for TLS, which a URL that begins with amqps: has"))
	}
	return errors.Join(errs...)
}

// openRabbit reads the URL at each connect: its file may have a new password by then.
func openRabbit(_ context.Context, d *destination, env sinkEnv) (outbox.Sink, error) {
	cfg := rabbitConfig(d, env)
	cfg.URLFunc = func(context.Context) (string, error) {
		text, err := d.url.read()
		return d.withFiles(text), err
	}
	return rabbitsink.Open("", cfg)
}

// withFiles adds the names of the files for TLS to the URLs.
func (d *destination) withFiles(text string) string {
	files := url.Values{}
	for name, parameter := range map[string]string{rabbitCA: "cacertfile", rabbitCertificate: "certfile", rabbitKey: "keyfile"} {
		if file := d.options[name]; file != "" {
			files.Set(parameter, file)
		}
	}
	if len(files) == 0 {
		return text
	}
	nodes := strings.Split(text, ",")
	for i, node := range nodes {
		separator := "?"
		if strings.Contains(node, "?") {
			separator = "&"
		}
		nodes[i] = strings.TrimSpace(node) + separator + files.Encode()
	}
	return strings.Join(nodes, ",")
}
