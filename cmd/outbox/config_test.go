package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/pgstore"
)

// samples are three values of each setting, for file, environment and flag.
var samples = map[string][3]string{
	"database.url":             {"postgres://a/x", "postgres://b/x", "postgres://c/x"},
	"database.url_file":        {"url-a", "url-b", "url-c"},
	"database.listen_url":      {"postgres://a/x", "postgres://b/x", "postgres://c/x"},
	"database.listen_url_file": {"url-a", "url-b", "url-c"},
	"database.schema":          {"one", "two", "three"},
	"database.migrate":         {"check", "off", "auto"},
	"engine":                   {"wal", "poll", "wal"},
	"notify":                   {"trigger", "off", "publish"},
	"to":                       {"stdout:", "stdout:b", "stdout:c"},
	"to_file":                  {"to-a", "to-b", "to-c"},
	"stream":                   {"ONE", "TWO", "THREE"},
	"subject":                  {"a.{topic}", "b.{topic}", "{key}.{topic}"},
	"create":                   {"true", "false", "true"},
	"subjects":                 {"a", "b", "c.>,d"},
	"pipeline":                 {"true", "false", "true"},
	"credentials_file":         {"url-a", "url-b", "url-c"},
	"exchange":                 {"one", "two", "three"},
	"exchange_passive":         {"true", "false", "true"},
	"routing_key":              {"a.{topic}", "b.{topic}", "{key}.{topic}"},
	"disable_mandatory":        {"true", "false", "true"},
	"broker_ttl":               {"1h", "1d", "2m"},
	"ttl":                      {"1h", "1d", "2m"},
	"tracking_ids":             {"true", "false", "true"},
	"confirm_timeout":          {"1s", "2s", "3s"},
	"max_in_flight":            {"10", "20", "30"},
	"cert_file":                {"url-a", "url-b", "url-c"},
	"key_file":                 {"url-a", "url-b", "url-c"},
	"ca_file":                  {"url-a", "url-b", "url-c"},
	"slots":                    {"5", "6", "7"},
	"batch_size":               {"5", "6", "7"},
	"batch_bytes":              {"5MiB", "6000000", "7KiB"},
	"poll_interval":            {"2s", "3s", "4s"},
	"lease":                    {"2s", "3s", "4s"},
	"drain_timeout":            {"2s", "3s", "1m30s"},
	"handler_timeout":          {"2s", "3s", "1d"},
	"max_attempts":             {"2", "3", "unlimited"},
	"retry.base":               {"2s", "3s", "4s"},
	"retry.max":                {"1h", "2h", "1d12h"},
	"retry.jitter":             {"0.5", "0.25", "off"},
	"order":                    {"none", "block", "park"},
	"disable_relay":            {"true", "false", "true"},
	"lock_keys":                {"true", "false", "true"},
	"settle_sync":              {"off", "on", "off"},
	"keep_delivered":           {"30d", "forever", "off"},
	"archive.granularity":      {"7d", "1m", "366d"},
	"archive.payload":          {"false", "true", "false"},
	"partition_interval":       {"1m", "10m", "1d"},
	"horizon_patience":         {"1s", "10m", "30d"},
	"max_payload":              {"2MiB", "3000", "64MiB"},
	"sample_interval":          {"2s", "1m", "1h"},
	"admin.listen":             {"127.0.0.1:1", ":2", "off"},
	"log.level":                {"debug", "warn", "error"},
	"log.format":               {"json", "text", "json"},
}

// fileWith writes a file that sets one key.
func fileWith(t *testing.T, dir, key, value string) string {
	t.Helper()
	text := fmt.Sprintf("%s: %q\n", key, value)
	if group, name, nested := strings.Cut(key, "."); nested {
		text = fmt.Sprintf("%s: {%s: %q}\n", group, name, value)
	}
	return write(t, filepath.Join(dir, "outbox.yaml"), text)
}

// needs are what a setting does not go without.
func needs(key string) []string {
	switch key {
	case rabbitCertificate:
		return []string{"--to=amqps://h", "--key-file=url-a"}
	case rabbitKey:
		return []string{"--to=amqps://h", "--cert-file=url-a"}
	}
	for _, o := range schemeOptions() {
		if o.name == key {
			if key == "create" {
				return []string{"--to", optionScheme(key), "--stream=X", "--subjects=a.>"}
			}
			return []string{"--to", optionScheme(key)}
		}
	}
	return nil
}

// optionScheme is a URL of a scheme that has the option.
func optionScheme(name string) string {
	for _, s := range schemes() {
		for _, o := range s.options {
			if o.name == name {
				return s.form
			}
		}
	}
	return ""
}

// TestEverySettingHasFourSources walks the table: each setting is read from file, environment and flag, each wins over
// the one before, the effective configuration names it, and reading it has an effect.
func TestEverySettingHasFourSources(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(dir, "url-"+name), "postgres://"+name+"/x\n")
		write(t, filepath.Join(dir, "to-"+name), "stdout:\n")
	}
	t.Chdir(dir)
	for _, s := range settings() {
		t.Run(s.key, func(t *testing.T) {
			values, ok := samples[s.key]
			if !ok {
				t.Fatal("no samples for this setting")
			}
			file := fileWith(t, dir, s.key, values[0])
			env := []string{s.env() + "=" + values[1]}
			flag := []string{"--" + s.flag() + "=" + values[2]}
			check := func(source, value string, env []string, args ...string) {
				t.Helper()
				r := call(t, env, append(append([]string{"config", "--json"}, needs(s.key)...), args...)...).want(t, exitDone)
				for _, shown := range decode[shownConfig](t, r).Settings {
					if shown.Key == s.key && (shown.Source != source || filepath.Base(shown.Value) != filepath.Base(value)) {
						t.Errorf("%q from %q, want %q from %q", shown.Value, shown.Source, value, source)
					}
				}
			}
			if s.key != rabbitCertificate && s.key != rabbitKey { // which need each other
				check("default", s.def, nil)
			}
			check("file "+file+":1", values[0], nil, "--config", file)
			check("environment "+s.env(), values[1], env, "--config", file)
			check("flag --"+s.flag(), values[2], env, append(flag, "--config", file)...)
			check("file "+file+":1", values[0], []string{s.env() + "=", "OUTBOX_CONFIG=" + file})
			wantEffect(t, s, values)
		})
	}
}

// wantEffect fails when setting the values changes nothing of what commands work with.
func wantEffect(t *testing.T, s setting, values [3]string) {
	t.Helper()
	for _, value := range values {
		c := newConfig()
		if err := s.set(c, value); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(c, newConfig()) {
			return
		}
	}
	t.Error("none of the values has an effect")
}

// refusal is a configuration that is refused, and what is said about it.
type refusal struct {
	name string
	file string
	env  []string
	args []string
	says []string
}

var refusedSettings = []refusal{
	{"unknown key", "databases: {url: x}", nil, nil, []string{":1: databases: there is no such key", "did you mean database?"}},
	{"key of a feature that is not there", "webhooks: 30d", nil, nil, []string{"webhooks: there is no such key"}},
	{"key twice", "lease: 2s\nlease: 3s", nil, nil, []string{":2: lease: the key is there already"}},
	{"group as value", "database: x", nil, nil, []string{"database: must be a mapping"}},
	{"value as group", "lease: {a: b}", nil, nil, []string{"lease: must be a single value"}},
	{"no mapping at all", "- a", nil, nil, []string{"the file: must be a mapping"}},
	{"no YAML", "a: [", nil, nil, []string{"line"}},
	{"two documents", "lease: 2s\n---\nlease: 3s", nil, nil, []string{"more than one document"}},
	{"variable that is not set", "database: {url: '${NOT_SET}'}", nil, nil, []string{"the variable NOT_SET is not set"}},
	{"duration without unit", "lease: 30", nil, nil, []string{`lease "30" (file `, "duration with a unit"}},
	{"out of range", "", []string{"OUTBOX_POLL_INTERVAL=2h"}, nil, []string{`poll_interval "2h0m0s" (environment OUTBOX_POLL_INTERVAL): 1ms to 1h0m0s`}},
	{"jitter out of range", "retry: {jitter: 2}", nil, nil, []string{"retry.jitter", "above 0 and at most 1"}},
	{"contradicting retry", "", nil, []string{"--retry-base=10m", "--retry-max=1m"}, []string{"retry.max", "at least retry.base"}},
	{"schema name", "", nil, []string{"--database-schema=Outbox"}, []string{`database.schema "Outbox" (flag --database-schema)`}},
	{"payload", "", nil, []string{"--max-payload=65MiB"}, []string{"max_payload", "67108864"}},
	{"keep", "", nil, []string{"--keep-delivered=30"}, []string{"keep_delivered", "off, forever", "30d"}},
	{"keep too short", "", nil, []string{"--keep-delivered=1s"}, []string{"keep_delivered", "1m0s or more"}},
	{"granularity", "archive: {granularity: 0d}", nil, nil, []string{"archive.granularity", "1d to 366d"}},
	{"granularity in words", "", []string{"OUTBOX_ARCHIVE_GRANULARITY=daily"}, nil, []string{"archive.granularity", "1m to 12m"}},
	{"archive payload", "archive: {payload: maybe}", nil, nil, []string{"archive.payload", "true or false"}},
	{"partition interval", "", nil, []string{"--partition-interval=2d"}, []string{"partition_interval", "24h"}},
	{"horizon patience", "", nil, []string{"--horizon-patience=10ms"}, []string{"horizon_patience", "1s to 720h0m0s"}},
	{"payload unit", "", nil, []string{"--max-payload=1MB"}, []string{"max_payload", "MiB"}},
	{"enum", "notify: loudly", nil, nil, []string{"publish, trigger or off"}},
	{"engine", "engine: listen", nil, nil, []string{"must be poll or wal"}},
	{"unknown variable", "", []string{"OUTBOX_LAESE=3s"}, nil, []string{"OUTBOX_LAESE: there is no such setting; did you mean OUTBOX_LEASE?"}},
	{"rule without topics", "rules: [{order: none}]", nil, nil, []string{"rules[0].topics"}},
	{"rule's order", "rules: [{topics: [a], order: fifo}]", nil, nil, []string{"rules[0].order", "skip, block, park or none"}},
	{"rule's retry", "rules: [{topics: [a], retry: {bas: 1s}}]", nil, nil, []string{"did you mean rules[0].retry.base?"}},
	{"rule's expiry", "rules: [{topics: [a], on_expired: keep}]", nil, nil, []string{"drop or dead"}},
	{"rule's timeout", "rules: [{topics: [a], timeout: 30d}]", nil, nil, []string{"rules[0].timeout", "24h"}},
	{"file missing", "", nil, []string{"--config", "/none.yaml"}, []string{"read configuration"}},
}

var refusedDestinations = []refusal{
	{"unknown nested key", "database:\n  scheme: x", nil, nil, []string{":2: database.scheme", "did you mean database.schema?"}},
	{"no list", "routes: {a: b}", nil, nil, []string{"routes: must be a list"}},
	{"slots", "slots: 200000", nil, []string{"--to=stdout:"}, []string{"slots", "1 to 100000"}},
	{"slots of a destination", "destinations: {a: {url: 'stdout:', slots: -1}}", nil, nil, []string{"destinations.a.slots", "1 to 100000"}},
	{"service link of another service", "", []string{"OUTBOX_NATS_PORT_4222_TCP=x"}, nil, []string{"enableServiceLinks"}},
	{"secret twice", "to: 'stdout:'\nto_file: secret", nil, nil, []string{"exclude each other"}},
	{"secret file missing", "", nil, []string{"--to-file=/none"}, []string{"no such file"}},
	{"unknown scheme", "to: 'stdoud:'", nil, nil, []string{"did you mean stdout?"}},
	{"scheme from afar", "to: 'kafka://x'", nil, nil, []string{`scheme "kafka" is unknown; there is `}},
	{"no URL", "to: 'localhost'", nil, nil, []string{"is no URL such as"}},
	{"option of another scheme", "to: 'stdout:'\nstream: X", nil, nil, []string{"to: stream is no option of stdout:"}},
	{"option without destination", "stream: X", nil, nil, []string{"stream (file ", "there is none"}},
	{"option's value", "", nil, []string{"--to=nats://h", "--create=perhaps"}, []string{"create", "true or false"}},
	{"stream's name", "", nil, []string{"--to=nats://h", "--stream=a.b"}, []string{`to: stream "a.b"`}},
	{"stream to create without name", "destinations: {a: {url: 'nats://h', create: true}}", nil, nil, []string{`destinations.a: stream ""`, "needs a name"}},
	{"subject template", "destinations: {a: {url: 'nats://h', subject: '{nonsense}'}}", nil, nil, []string{"destinations.a: subject"}},
	{"no server", "to: 'nats:'", nil, nil, []string{"is no URL such as nats://"}},
	{"password in the host of NATS", "to: 'nats://u:12/geheim@h'", nil, nil, []string{"is no URL such as nats://"}},
	{"password is the host of NATS", "to: 'nats://u:p@geheim/x@h,nats://h'", nil, nil, []string{"is no URL such as nats://"}},
	{"to and destinations", "destinations: {a: {url: 'stdout:'}}", nil, []string{"--to=stdout:"}, []string{"exclude each other"}},
	{"destination without URL", "destinations: {a: {slots: 5}}", nil, nil, []string{"destinations.a: needs a url"}},
	{"destination's name", "destinations: {A: {url: 'stdout:'}}", nil, nil, []string{"destinations.A", "a-z 0-9"}},
	{"destination's key", "destinations: {a: {url: 'stdout:', slot: 5}}", nil, nil, []string{"did you mean destinations.a.slots?"}},
	{"route to nowhere", "destinations: {events: {url: 'stdout:'}}\nroutes: [{topics: ['>'], to: event}]", nil, nil, []string{`routes[0]: there is no destination "event"; did you mean events?`}},
	{"destination without route", "destinations: {a: {url: 'stdout:'}, b: {url: 'stdout:'}}\nroutes: [{topics: ['>'], to: a}]", nil, nil, []string{"destinations.b: no route leads to it"}},
	{"route's pattern", "destinations: {a: {url: 'stdout:'}}\nroutes: [{topics: ['a..b'], to: a}]", nil, nil, []string{"routes[0].topics[0]"}},
	{"all at once", "leas: 3s\nnotify: x", []string{"OUTBOX_X=1", "OUTBOX_LEASE=99h"}, []string{"--order=x", "--to=y"},
		[]string{"6 problems", "leas", "notify", "OUTBOX_X", "lease", "order", "to"}},
}

func TestConfigRefuses(t *testing.T) {
	for _, c := range append(refusedSettings, refusedDestinations...) {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"config"}, c.args...)
			if c.file != "" {
				args = append(args, "--config", configFile(t, c.file))
			}
			r := call(t, c.env, args...).want(t, exitUsage)
			wantIn(t, r.err, c.says...)
			if r.out != "" {
				t.Errorf("stdout: %s", r.out)
			}
		})
	}
}

// TestKubernetesServiceLinks: a service named outbox puts variables into every pod that are no settings (case 61).
func TestKubernetesServiceLinks(t *testing.T) {
	call(t, []string{"OUTBOX_SERVICE_HOST=10.0.0.1", "OUTBOX_SERVICE_PORT=9187", "OUTBOX_PORT=tcp://10.0.0.1:9187",
		"OUTBOX_PORT_9187_TCP_ADDR=10.0.0.1", "OUTBOX_TEST_ANYTHING=1", "OTHER=1"}, "config").want(t, exitDone)
}

func TestNoKeyLooksLikeAServiceLink(t *testing.T) {
	for _, s := range settings() {
		if foreign(s.env()) {
			t.Errorf("%s would be ignored", s.env())
		}
	}
}

// TestZeroIsTheDefault: an empty or zero value says nothing, wherever it is.
func TestZeroIsTheDefault(t *testing.T) {
	file := configFile(t, "lease: 0s\nmax_attempts: 0\nretry: {jitter: 0, base: null}\nslots: 0\nbatch_bytes: 0\nmax_payload: 0\nnotify: ''\nrules:\nroutes: []\n")
	call(t, []string{"OUTBOX_POLL_INTERVAL="}, "config", "--config", file, "--order=").want(t, exitDone)
	for _, key := range []string{"lease", "max_attempts", "retry.jitter", "slots", "batch_bytes", "max_payload"} {
		for _, s := range settings() {
			if s.key != key {
				continue
			}
			c, zero := newConfig(), "0"
			if key == "lease" {
				zero = "0s"
			}
			if err := s.set(c, zero); err != nil || !reflect.DeepEqual(c, newConfig()) {
				t.Errorf("%s %s: %v, %+v", key, zero, err, c)
			}
		}
	}
}

// TestDefaultsAreTheLibrarys: setting what is printed as the default changes nothing.
func TestDefaultsAreTheLibrarys(t *testing.T) {
	lanes := map[string]bool{"slots": true, "batch_size": true, "batch_bytes": true, "ttl": true, "broker_ttl": true} // zero there
	for _, s := range settings() {
		if s.def == "" || lanes[s.key] || perDestination(s.key) {
			continue
		}
		c, untouched := newConfig(), newConfig()
		if err := s.set(c, s.def); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*config{c, untouched} {
			c.relay = c.relay.WithDefaults()
			c.store.Schema = cmp.Or(c.store.Schema, pgstore.DefaultSchema)
			c.store.MaxPayload = cmp.Or(c.store.MaxPayload, outbox.DefaultMaxPayload)
			c.store.Archive.Granularity = cmp.Or(c.store.Archive.Granularity, pgstore.DefaultGranularity)
			c.store.HorizonPatience = cmp.Or(c.store.HorizonPatience, pgstore.DefaultHorizonPatience)
			c.store.PartitionInterval = cmp.Or(c.store.PartitionInterval, pgstore.DefaultPartitionInterval)
		}
		if !reflect.DeepEqual(c, untouched) {
			t.Errorf("%s: %s is not the default", s.key, s.def)
		}
	}
}

func TestConfigGolden(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "outbox.yaml", `
database: {url: "postgres://me:${PASSWORD}@db/shop?sslpassword=hidden1", schema: shop_outbox}
destinations:
  events: {url: "stdout:", slots: 70}
  billing: {url_file: secrets/billing}
routes:
  - {topics: ["billing.>", "refunds.*"], to: billing}
  - {topics: [">"], to: events}
rules:
  - {topics: ["billing.>"], order: none, max_attempts: unlimited, timeout: 10s, on_expired: dead, retry: {base: 2s, jitter: off}}
`)
	if err := os.Mkdir("secrets", 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, "secrets/billing", "stdout:hidden2\n")
	env := []string{"PASSWORD=hidden3", "OUTBOX_LEASE=1m", "OUTBOX_DATABASE_LISTEN_URL=host=db user=me password='hidden4 x' dbname=shop"}
	text := call(t, env, "config", "--config", "outbox.yaml", "--max-attempts", "7").want(t, exitDone)
	json := call(t, env, "config", "--config", "outbox.yaml", "--max-attempts", "7", "--json").want(t, exitDone)
	for _, r := range []result{text, json} {
		if strings.Contains(r.out+r.err, "hidden") {
			t.Errorf("a secret is shown: %s%s", r.out, r.err)
		}
	}
	t.Chdir(wherever)
	golden(t, "config", text.out)
	golden(t, "config_json", json.out)
}

// wherever is the package's folder, to come back to after t.Chdir.
var wherever, _ = os.Getwd()

func TestMask(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "",
		"postgres://me:pw@h:1/db?a=b":       "postgres://me:***@h:1/db?a=b",
		"postgres://me@h/db?password=x&a=b": "postgres://me@h/db?password=***",
		"nats://token@h:4222":               "nats://***@h:4222",
		"nats://me:pw@h":                    "nats://me:***@h",
		"host=h password=pw user=u":         "host=h password=*** user=u",
		"host=h password='p w' user=u":      "host=h password=*** user=u",
		"stdout:":                           "stdout:",
		"nats://t@a:1,nats://me:pw@b:2":     "nats://***@a:1,nats://me:***@b:2",
		"postgres://me:p,w%@h":              "***",
		"postgres://me:12/3@h/db":           "***",
		"postgres://me:p%zz@h":              "***",
		"no idea":                           "***",
		`host=h password=a\ b user=u`:       "host=h password=*** user=u",
		"host=h password='a b":              "host=h password=***",
		"nats://h?pass=pw":                  "nats://h?pass=***",
		"nats://t@a:1,b:2,nats://me:pw@c:3": "***",
		"me:p=w@h":                          "***",
		"postgres://h/db?password=a#b":      "***",
	} {
		if got := mask(text); got != want {
			t.Errorf("mask(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestCreateFromRoutes: a stream that is to be created has the subjects of the routes' topics, as running takes them.
func TestCreateFromRoutes(t *testing.T) {
	text := `{destinations: {e: {url: "nats://h", stream: X, create: true}}, routes: [{topics: [%q], to: e}]}`
	call(t, nil, "config", "--config", configFile(t, fmt.Sprintf(text, "orders.>"))).want(t, exitDone)
	wantIn(t, call(t, nil, "config", "--config", configFile(t, fmt.Sprintf(text, ">"))).want(t, exitUsage).err, "cannot have the subject >")
}

// TestConnectTimeout: no connection is waited for without a limit, those of a rotated secret included.
func TestConnectTimeout(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "url"), "postgres://h/db?connect_timeout=3")
	for s, want := range map[secret]time.Duration{
		{text: "postgres://h/db"}: connectPatience, {text: "postgres://h/db?connect_timeout=3"}: 3 * time.Second, {file: file}: 3 * time.Second,
	} {
		c := newConfig()
		c.database = s
		cfg, err := c.poolConfig()
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.ConnConfig.ConnectTimeout; got != want {
			t.Errorf("%+v: %v, want %v", s, got, want)
		}
		if cfg.BeforeConnect == nil {
			continue
		}
		write(t, file, "postgres://h/db")
		if err := cfg.BeforeConnect(t.Context(), cfg.ConnConfig); err != nil || cfg.ConnConfig.ConnectTimeout != connectPatience {
			t.Errorf("%v after rotation: %v", cfg.ConnConfig.ConnectTimeout, err)
		}
	}
}

// TestMissingFiles: a file that is not there is a mistake in the configuration, and the error names it.
func TestMissingFiles(t *testing.T) {
	file := configFile(t, `destinations: {a: {url_file: none/url}}`)
	empty := write(t, filepath.Join(t.TempDir(), "empty"), "\n")
	for _, c := range []struct{ args, want string }{
		{"config --config=" + file, filepath.Join(filepath.Dir(file), "none/url")},
		{"config --to-file=none/to", "none/to"},
		{"config --to-file=" + empty, "is empty"},
		{"status --database-url-file=" + empty, "is empty"},
		{"status --database-url-file=none/url", "none/url"},
		{"run --database-url=postgres://127.0.0.1:1/x --to=nats://127.0.0.1:1 --ca-file=none/ca", "none/ca"},
		{"run --database-url=postgres://127.0.0.1:1/x --to=nats://127.0.0.1:1 --credentials-file=none/creds", "none/creds"},
	} {
		wantIn(t, call(t, nil, strings.Fields(c.args)...).want(t, exitUsage).err, c.want)
	}
}

// TestSecretsStaySecret: whatever goes wrong, a password is not shown.
func TestSecretsStaySecret(t *testing.T) {
	t.Parallel()
	const url = "postgres://me:hush-hush@127.0.0.1:1/db?sslmode=disable&connect_timeout=1"
	for _, args := range [][]string{
		{"status"}, {"relays"}, {"health"}, {"check"}, {"wait", "--timeout=1s"}, {"publish", "--topic=a"}, {"migrate", "up"},
		{"migrate", "list"}, {"migrate", "validate"}, {"config"}, {"run", "--to=stdout:", "--database-migrate=nonsense"},
		{"run", "--to=nats-x://hush-hush@h"}, {"config", "--to=hush-hush:me@h"}, {"status", "--database-listen-url=nats://hush-hush@h"},
		{"status", "--database-url=postgres://me:hush-hush@h:x/db"},
	} {
		r := call(t, []string{"OUTBOX_DATABASE_URL=" + url}, args...)
		if strings.Contains(r.out+r.err, "hush") {
			t.Errorf("%v: %s%s", args, r.out, r.err)
		}
		if r.code == exitDone && args[0] != "config" {
			t.Errorf("%v: done", args)
		}
	}
}

// TestInitIsAConfiguration: what init prints loads as it is, says every key, and shows the defaults: uncommented, they
// load too.
func TestInitIsAConfiguration(t *testing.T) {
	sample := call(t, nil, "init").want(t, exitDone).out
	golden(t, "init", sample)
	env := []string{"OUTBOX_DATABASE_URL=postgres://h/db"}
	call(t, env, "config", "--config", configFile(t, sample)).want(t, exitDone)
	var uncommented strings.Builder
	for line := range strings.Lines(sample) {
		trimmed := strings.TrimLeft(line, " ")
		if key, _, ok := strings.Cut(strings.TrimPrefix(trimmed, "# "), ":"); ok && strings.HasPrefix(trimmed, "# ") && !strings.Contains(key, " ") {
			line = strings.Replace(line, "# ", "", 1)
		}
		if strings.HasPrefix(line, "#  ") {
			line = line[1:]
		}
		uncommented.WriteString(line)
	}
	call(t, env, "config", "--config", configFile(t, uncommented.String())).want(t, exitDone)
	var keys map[string]any
	if err := yaml.Unmarshal([]byte(uncommented.String()), &keys); err != nil {
		t.Fatal(err)
	}
	for _, s := range settings() {
		group, _, _ := strings.Cut(s.key, ".")
		if _, ok := keys[group]; !ok && !perDestination(s.key) {
			t.Errorf("%s is not in the sample", s.key)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add("lease: 2s\nrules: [{topics: [a]}]\n")
	f.Add("destinations: {a: {url: &x 'stdout:'}, b: {url: *x}}\nroutes: [{topics: ['>'], to: a}]")
	f.Add("&a [*a]")
	f.Add("? [a]\n: b")
	f.Fuzz(func(t *testing.T, text string) {
		l := &loader{c: newConfig(), env: map[string]string{}, used: map[string]bool{}, known: settings()}
		l.readFile(configFile(t, text))
		l.apply()
	})
}
