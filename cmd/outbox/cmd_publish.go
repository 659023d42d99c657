package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

func (a *app) publishCommand() *cobra.Command {
	var file string
	var batch int
	f := &messageFlags{}
	cmd := &cobra.Command{
		Use:   "publish",
		Short: "Publish one message, or those of a file",
		Long: `Publish one message from flags and print its id, or the messages of a file of JSON lines.

A line has topic and, as needed, key, headers, payload (JSON, taken as it is written) or payload_base64, content_type,
id, dedup_key, delay_seconds or deliver_at, ttl_seconds or expires_at, broker_ttl_seconds, max_attempts. A JSON payload
has the content type application/json unless one is given. What the destination stdout: writes can be published again.

The file is published in transactions of --batch messages, or of fewer that have 64 MiB: when a line is wrong, those of
the batches before it stay published, and the error says how many. The schema is never made by publishing.`,
		Example: `  outbox publish --topic orders.created --key order-7 --payload '{"id":7}' --database-url postgres://localhost/shop

  echo '{"topic":"orders.created","key":"order-7","payload":{"id":7}}' | outbox publish --file -`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "file", "", "JSON lines to publish; - is standard input")
	cmd.Flags().IntVar(&batch, "batch", 1000, "messages of the file in one transaction, 1 to 100000")
	f.add(cmd)
	addSettings(cmd, scopePublish)
	cmd.RunE = action(func(cmd *cobra.Command, _ []string) error {
		if err := checkPublishFlags(cmd, file, batch); err != nil {
			return &failure{exitUsage, err}
		}
		var m outbox.Message
		if file == "" {
			var err error
			if m, err = f.message(); err != nil {
				return &failure{exitUsage, err}
			}
		}
		return a.withPublisher(cmd, func(ctx context.Context, p *publisher) error {
			if file != "" {
				return a.publishFile(ctx, p, file, batch)
			}
			return a.publishOne(ctx, p, m)
		})
	})
	return cmd
}

func checkPublishFlags(cmd *cobra.Command, file string, batch int) error {
	const most = 100_000
	switch {
	case batch < 1 || batch > most:
		return fmt.Errorf("--batch %d: must be 1 to %d", batch, most)
	case file == "" && !cmd.Flags().Changed("topic"):
		return errors.New("give --topic, or --file")
	case file == "":
		return nil
	}
	for _, name := range messageFlagNames {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s and --file exclude each other: the lines say it", name)
		}
	}
	return nil
}

// publisher publishes all messages of a call in one transaction of its own.
type publisher struct {
	publish    func(ctx context.Context, ms ...outbox.Message) ([]outbox.Receipt, error)
	maxPayload int // bytes; 0: the default
}

func (a *app) withPublisher(cmd *cobra.Command, do func(ctx context.Context, p *publisher) error) error {
	c, err := a.load(cmd)
	if err != nil {
		return err
	}
	path, err := c.sqliteFile()
	if err != nil {
		return err
	}
	open := c.openPublisher
	if path != "" {
		open = func(context.Context) (*publisher, func(), error) { return c.openSQLitePublisher(path) }
	}
	p, closeAll, err := open(cmd.Context())
	if err != nil {
		return err
	}
	defer closeAll()
	return do(cmd.Context(), p)
}

// openPublisher connects to PostgreSQL.
func (c *config) openPublisher(ctx context.Context) (_ *publisher, closeAll func(), err error) {
	p, err := pgstore.NewPublisher(&pgstore.PublishConfig{Schema: c.store.Schema, MaxPayload: c.store.MaxPayload, Notify: c.store.Notify,
		LockKeys: c.store.LockKeys})
	if err != nil {
		return nil, nil, err
	}
	connConfig, err := c.connConfig()
	if err != nil {
		return nil, nil, err
	}
	conn, err := pgx.ConnectConfig(ctx, connConfig)
	if err != nil {
		return nil, nil, fmt.Errorf("connect: %w", err)
	}
	publish := func(ctx context.Context, ms ...outbox.Message) (receipts []outbox.Receipt, err error) {
		options := pgx.TxOptions{IsoLevel: pgx.ReadCommitted, AccessMode: pgx.ReadWrite}
		err = pgx.BeginTxFunc(ctx, conn, options, func(tx pgx.Tx) error {
			receipts, err = p.Publish(ctx, tx, ms...)
			return err
		})
		return receipts, err
	}
	return &publisher{publish, c.store.MaxPayload}, func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(ctx)
	}, nil
}

func (a *app) publishOne(ctx context.Context, p *publisher, m outbox.Message) error {
	if _, err := outbox.Prepare(ctx, m, p.maxPayload); err != nil {
		return err // publishing would say the same, of message 1 of 1
	}
	receipts, err := p.publish(ctx, m)
	if err != nil {
		return err
	}
	r := receipts[0]
	if a.json {
		id := ""
		if !r.Duplicate {
			id = r.ID.String()
		}
		return a.printJSON(struct {
			ID        string `json:"id,omitempty"`
			Duplicate bool   `json:"duplicate"`
		}{id, r.Duplicate})
	}
	if r.Duplicate {
		a.tell("nothing published: a message with the dedup key %q is there already", m.DedupKey)
		return nil
	}
	a.printf("%s\n", r.ID)
	return nil
}

// messageFlags are the flags of a message.
type messageFlags struct {
	topic, key, payload, payloadFile, contentType, id, dedupKey string
	delay, deliverAt, ttl, expiresAt, brokerTTL, maxAttempts    string
	headers                                                     []string
}

var messageFlagNames = [...]string{"topic", "key", "payload", "payload-file", "content-type", "header", "id", "dedup-key",
	"delay", "deliver-at", "ttl", "expires-at", "broker-ttl", "max-attempts"}

func (f *messageFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.topic, "topic", "", "topic: tokens joined by dots")
	flags.StringVar(&f.key, "key", "", "messages of one key are delivered in order")
	flags.StringVar(&f.payload, "payload", "", "payload, as it is")
	flags.StringVar(&f.payloadFile, "payload-file", "", "file that is the payload; - is standard input")
	flags.StringVar(&f.contentType, "content-type", "", "content type of the payload")
	flags.StringArrayVar(&f.headers, "header", nil, "header, as `name=value`; may be repeated")
	flags.StringVar(&f.id, "id", "", "UUID of the message (default: a new one)")
	flags.StringVar(&f.dedupKey, "dedup-key", "", "publish nothing while a message of the topic has this dedup key")
	flags.StringVar(&f.delay, "delay", "", "deliver after this time, such as 10m")
	flags.StringVar(&f.deliverAt, "deliver-at", "", "deliver at this time, in RFC 3339")
	flags.StringVar(&f.ttl, "ttl", "", "do not deliver when this time is over, such as 1d")
	flags.StringVar(&f.expiresAt, "expires-at", "", "do not deliver from this time on, in RFC 3339")
	flags.StringVar(&f.brokerTTL, "broker-ttl", "", "how long a broker keeps the message")
	flags.StringVar(&f.maxAttempts, "max-attempts", "", "attempts before it is dead, or unlimited (default: the relay's rule)")
	cmd.MarkFlagsMutuallyExclusive("payload", "payload-file")
}

func (f *messageFlags) message() (outbox.Message, error) {
	m := outbox.Message{Topic: f.topic, Key: f.key, Payload: []byte(f.payload), ContentType: f.contentType, DedupKey: f.dedupKey}
	var errs []error
	note := func(flag, text string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s %q: %w", flag, text, err))
		}
	}
	note("delay", f.delay, parseInto(&m.Delay, f.delay, outbox.ParseDuration))
	note("ttl", f.ttl, parseInto(&m.TTL, f.ttl, outbox.ParseDuration))
	note("broker-ttl", f.brokerTTL, parseInto(&m.BrokerTTL, f.brokerTTL, outbox.ParseDuration))
	note("deliver-at", f.deliverAt, parseInto(&m.DeliverAt, f.deliverAt, parseTime))
	note("expires-at", f.expiresAt, parseInto(&m.ExpiresAt, f.expiresAt, parseTime))
	note("id", f.id, parseInto(&m.ID, f.id, parseID))
	note("max-attempts", f.maxAttempts, parseInto(&m.MaxAttempts, f.maxAttempts, parseAttempts))
	note("payload-file", f.payloadFile, parseInto(&m.Payload, f.payloadFile, readFileOrStdin))
	for _, entry := range f.headers {
		note("header", entry, addHeader(&m, entry))
	}
	return m, errors.Join(errs...)
}

// parseInto sets what a flag says; an empty one leaves it.
func parseInto[T any](to *T, text string, parse func(string) (T, error)) error {
	if text == "" {
		return nil
	}
	v, err := parse(text)
	if err != nil {
		return err
	}
	*to = v
	return nil
}

func parseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return t, errors.New("must be a time in RFC 3339, such as 2030-01-02T15:04:05Z")
	}
	return t, nil
}

func parseID(text string) (outbox.ID, error) {
	id, err := outbox.ParseID(text)
	if err != nil {
		return id, errors.New("is no UUID")
	}
	return id, nil
}

func parseAttempts(text string) (int, error) {
	if text == "unlimited" {
		return outbox.Unlimited, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, errors.New("must be a whole number, 1 or more, or unlimited")
	}
	return n, nil
}

func addHeader(m *outbox.Message, entry string) error {
	name, value, ok := strings.Cut(entry, "=")
	if _, twice := m.Headers[name]; !ok || twice {
		return errors.New("must be name=value, each name once")
	}
	if m.Headers == nil {
		m.Headers = map[string]string{}
	}
	m.Headers[name] = value
	return nil
}

func readFileOrStdin(path string) ([]byte, error) {
	if path == "-" {
		path = os.Stdin.Name()
	}
	return os.ReadFile(path)
}
