package pgdev

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// EnvURL names the variable whose URL replaces a private server in tests.
const EnvURL = "OUTBOX_TEST_POSTGRES_URL"

// Config is how a private server differs from the default one. The zero value is good for tests.
type Config struct {
	// Durable makes every commit survive a crash of the machine, as in production. The default leaves fsync off: a
	// commit then still survives the death of any process, the server's included, because the kernel has the data.
	Durable bool

	// SetClock lets Server.SetClock set the server's clock. It needs libfaketime.
	SetClock bool

	// Settings are added to the server's configuration file, after the defaults.
	Settings map[string]string
}

// conf is the text appended to postgresql.conf.
func (c Config) conf(port int) string {
	var b strings.Builder
	set := func(name, value string) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''"))
	}
	set("listen_addresses", "127.0.0.1")
	set("port", fmt.Sprint(port))
	set("unix_socket_directories", "")
	set("max_connections", "400") // those of tests that have ended take their time under load
	set("max_prepared_transactions", "20")
	set("max_wal_senders", "40") // many tests at a time stream
	set("max_replication_slots", "40")
	set("shared_buffers", "32MB")
	set("wal_level", "logical")
	set("log_min_messages", "warning")
	set("jit", "off")
	if !c.Durable {
		// synchronous_commit and full_page_writes stay on: they matter to a server that is killed.
		set("fsync", "off")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Settings)) {
		set(name, c.Settings[name])
	}
	return b.String()
}
