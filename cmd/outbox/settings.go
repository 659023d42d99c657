package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// setting is one scalar of the configuration. Its key in the file, such as retry.base, also gives the flag
// --retry-base and the variable OUTBOX_RETRY_BASE.
type setting struct {
	key     string
	def     string // as it is printed; what it means is the library's
	usage   string
	scope   scope
	secret  bool
	boolean bool
	set     func(c *config, text string) error
}

// scope says which commands have the flag. File and environment may hold every setting for every command.
type scope uint8

const (
	scopeDatabase scope = iota // all that connect
	scopePublish               // those that publish or run
	scopeRelay                 // run and what looks at its configuration
)

func (s *setting) env() string {
	return "OUTBOX_" + strings.ToUpper(strings.ReplaceAll(s.key, ".", "_"))
}
func (s *setting) flag() string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(s.key)
}

// settings are all scalars, in the order of the documentation.
func settings() []setting {
	list := []setting{
		{key: "database.url", secret: true, usage: "PostgreSQL URL or connection string, or sqlite: and the path of a file", set: text(func(c *config) *string { return &c.database.text })},
		{key: "database.url_file", usage: "file that holds it, read again at each connect", set: path(func(c *config) *secret { return &c.database })},
		{key: "database.listen_url", secret: true, usage: "direct connection for notifications and replication, when database.url leads through a pooler", set: text(func(c *config) *string { return &c.listen.text })},
		{key: "database.listen_url_file", usage: "file that holds it, read again at each connect", set: path(func(c *config) *secret { return &c.listen })},
		{key: "database.schema", def: pgstore.DefaultSchema, usage: "schema of the outbox", set: text(func(c *config) *string { return &c.store.Schema })},
		{key: "database.migrate", def: "auto", scope: scopeRelay, usage: "what a starting relay does about the schema: auto, check or off", set: setMigrate},
		{key: "engine", def: "poll", scope: scopeRelay, usage: "how new messages are found: poll, or wal to stream them from the WAL", set: setEngine},
		{key: "notify", def: "publish", scope: scopePublish, usage: "how publishing wakes relays: publish, trigger or off", set: setNotify},
		{key: "lock_keys", def: "false", scope: scopePublish, boolean: true, usage: "whether publishing locks the keys until its commit, so that their order is that of the commits; all publishers of a key must", set: boolean(func(c *config, yes bool) { c.store.LockKeys = yes })},
		{key: "to", secret: true, scope: scopeRelay, usage: "the destination of all messages: " + schemeForms(), set: text(func(c *config) *string { return &c.to.url.text })},
		{key: "to_file", scope: scopeRelay, usage: "file that holds it", set: path(func(c *config) *secret { return &c.to.url })},
	}
	for _, o := range schemeOptions() {
		list = append(list, setting{key: o.name, def: o.def, scope: scopeRelay, boolean: o.boolean, usage: o.usage + ", of the destination that --to names", set: setOption(o)})
	}
	return append(list, relaySettings()...)
}

func relaySettings() []setting {
	return []setting{
		{key: "slots", def: "by destination", scope: scopeRelay, usage: "messages that the relay holds for a destination at a time", set: number(func(c *config) *int { return &c.lane.slots })},
		{key: "batch_size", def: "500", scope: scopeRelay, usage: "messages that one claim takes at most", set: number(func(c *config) *int { return &c.lane.batchSize })},
		{key: "batch_bytes", def: "64MiB", scope: scopeRelay, usage: "payload bytes that the relay holds for a destination at a time", set: size(func(c *config, n int64) { c.lane.batchBytes = n })},
		{key: "ttl", def: "forever", scope: scopeRelay, usage: "life of messages without their own, from their publishing; one that is over is not sent", set: life(func(c *config) *time.Duration { return &c.lane.ttl })},
		{key: "broker_ttl", def: "forever", scope: scopeRelay, usage: "how long a broker keeps messages without their own, from their delivery: AMQP expiration", set: life(func(c *config) *time.Duration { return &c.lane.brokerTTL })},
		{key: "poll_interval", def: "1.5s", scope: scopeRelay, usage: "longest wait between two looks for messages", set: relay("poll_interval")},
		{key: "lease", def: "30s", scope: scopeRelay, usage: "how long claims outlive the relay's last heartbeat", set: relay("lease")},
		{key: "drain_timeout", def: "20s", scope: scopeRelay, usage: "how long a stopping relay waits for running deliveries", set: relay("drain_timeout")},
		{key: "handler_timeout", def: "1m", scope: scopeRelay, usage: "time limit of one attempt", set: relay("handler_timeout")},
		{key: "max_attempts", def: "10", scope: scopeRelay, usage: "attempts before a message is dead, or unlimited", set: relay("max_attempts")},
		{key: "retry.base", def: "1s", scope: scopeRelay, usage: "wait after the first failed attempt; it doubles", set: relay("retry_base")},
		{key: "retry.max", def: "5m", scope: scopeRelay, usage: "longest wait between attempts", set: relay("retry_max")},
		{key: "retry.jitter", def: "1", scope: scopeRelay, usage: "share of the wait that is random, or off", set: relay("retry_jitter")},
		{key: "order", def: "skip", scope: scopeRelay, usage: "what becomes of a key when its oldest message fails: skip, block, park or none", set: relay("order")},
		{key: "disable_relay", def: "false", scope: scopeRelay, boolean: true, usage: "deliver nothing", set: relay("disable_relay")},
		{key: "settle_sync", def: "on", scope: scopeRelay, usage: "durability of settling: on, or off to commit it asynchronously", set: setSettleSync},
		{key: "keep_delivered", def: "off", scope: scopeRelay, usage: "how long messages are kept in the archive after they have ended: off, 30d, forever", set: setKeep},
		{key: "archive.granularity", def: "1d", scope: scopeRelay, usage: "time that a partition of the archive covers: days, such as 7d, or months, such as 1m", set: text(func(c *config) *string { return &c.store.Archive.Granularity })},
		{key: "archive.payload", def: "true", scope: scopeRelay, boolean: true, usage: "keep payloads too; what is kept without cannot be replayed", set: boolean(func(c *config, yes bool) { c.store.Archive.OmitPayload = !yes })},
		{key: "partition_interval", def: "5m", scope: scopeRelay, usage: "how often a relay looks whether the archive has its partitions ahead", set: duration(func(c *config) *time.Duration { return &c.store.PartitionInterval })},
		{key: "max_payload", def: "1MiB", scope: scopePublish, usage: "largest payload that is published, at most 64MiB", set: size(func(c *config, n int64) { c.store.MaxPayload = int(n) })},
		{key: "sample_interval", def: "15s", scope: scopeRelay, usage: "how often one of the relays looks how much waits, for metrics", set: relay("sample_interval")},
		{key: "horizon_patience", def: "5m", usage: "how long a transaction may keep vacuum from its work before status and check tell of it", set: duration(func(c *config) *time.Duration { return &c.store.HorizonPatience })},
		{key: "admin.listen", def: adminDefault, scope: scopeRelay, usage: "address of probes and metrics, host:port, or off", set: setAdmin},
		{key: "log.level", def: "info", scope: scopeRelay, usage: "debug, info, warn or error", set: setLogLevel},
		{key: "log.format", def: "text", scope: scopeRelay, usage: "text or json", set: choice(func(c *config) *string { return &c.logFormat }, "text", "json")},
	}
}

func text(to func(*config) *string) func(*config, string) error {
	return func(c *config, text string) error {
		*to(c) = text
		return nil
	}
}

func path(to func(*config) *secret) func(*config, string) error {
	return func(c *config, text string) error {
		to(c).file = text
		return nil
	}
}

func choice(to func(*config) *string, words ...string) func(*config, string) error {
	return func(c *config, text string) error {
		for _, w := range words {
			if text == w {
				*to(c) = text
				return nil
			}
		}
		return errors.New("must be " + strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1])
	}
}

func boolean(to func(c *config, yes bool)) func(*config, string) error {
	return func(c *config, text string) error {
		if text != "true" && text != "false" {
			return errors.New("must be true or false")
		}
		to(c, text == "true")
		return nil
	}
}

func number(to func(*config) *int) func(*config, string) error {
	return func(c *config, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil {
			return errors.New("must be a whole number")
		}
		*to(c) = n
		return nil
	}
}

// forever is what a destination says that has no end although others have.
const forever = -1

// life reads a duration, or forever.
func life(to func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, text string) error {
		if text == "forever" {
			*to(c) = forever
			return nil
		}
		d, err := outbox.ParseDuration(text)
		if err == nil && d <= 0 {
			err = errors.New("must be a duration above zero, or forever")
		}
		if err == nil {
			*to(c) = d
		}
		return err
	}
}

func size(to func(*config, int64)) func(*config, string) error {
	return func(c *config, text string) error {
		n, err := parseSize(text)
		if err == nil {
			to(c, n)
		}
		return err
	}
}

// parseSize reads a number of bytes, with KiB, MiB or GiB.
func parseSize(text string) (int64, error) {
	digits, unit := text, int64(1)
	for suffix, factor := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if rest, ok := strings.CutSuffix(text, suffix); ok {
			digits, unit = strings.TrimSpace(rest), factor
		}
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0, errors.New("must be a number of bytes, or one with KiB, MiB or GiB")
	}
	return n * unit, nil
}

// relay sets what outbox.Config knows by that name.
func relay(name string) func(*config, string) error {
	return func(c *config, text string) error {
		err := c.relay.Set(name, text)
		var refused *outbox.FieldError
		if errors.As(err, &refused) {
			return errors.New(refused.Bound)
		}
		return err
	}
}

func setOption(o option) func(*config, string) error {
	return func(c *config, text string) error {
		c.to.options[o.name] = text
		return o.check(text)
	}
}

func setMigrate(c *config, text string) error {
	mode := ""
	err := choice(func(*config) *string { return &mode }, "auto", "check", "off")(c, text)
	if mode == "auto" {
		mode = string(pgstore.MigrateAuto)
	}
	c.store.Migrate = pgstore.MigrateMode(mode)
	return err
}

func setEngine(c *config, text string) error {
	engine := ""
	err := choice(func(*config) *string { return &engine }, "poll", "wal")(c, text)
	if engine == "poll" {
		engine = string(pgstore.EnginePoll)
	}
	c.store.Engine = pgstore.Engine(engine)
	return err
}

func setNotify(c *config, text string) error {
	modes := map[string]pgstore.NotifyMode{"publish": pgstore.NotifyPublish, "trigger": pgstore.NotifyTrigger, "off": pgstore.NotifyOff}
	mode, ok := modes[text]
	if !ok {
		return errors.New("must be publish, trigger or off")
	}
	c.store.Notify = mode
	return nil
}

// setKeep reads a duration, off or forever.
func setKeep(c *config, text string) (err error) {
	switch text {
	case "off":
		c.store.KeepDelivered = 0
	case "forever":
		c.store.KeepDelivered = outbox.KeepForever
	default:
		if c.store.KeepDelivered, err = outbox.ParseDuration(text); err != nil {
			return errors.New("must be off, forever or a duration with a unit, such as 30d")
		}
	}
	return nil
}

func duration(to func(*config) *time.Duration) func(*config, string) error {
	return func(c *config, text string) (err error) {
		*to(c), err = outbox.ParseDuration(text)
		return err
	}
}

func setSettleSync(c *config, text string) error {
	switch text {
	case "on":
		c.store.SettleSync = pgstore.SettleSyncOn
	case "off":
		c.store.SettleSync = pgstore.SettleSyncOff
	default:
		return errors.New("must be on or off")
	}
	return nil
}

func setLogLevel(c *config, text string) error {
	levels := map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}
	level, ok := levels[text]
	if !ok {
		return fmt.Errorf("must be debug, info, warn or error")
	}
	c.logLevel = level
	return nil
}
