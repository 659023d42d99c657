package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) initCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Print a configuration file to begin with",
		Long:  `Print a configuration file with every setting, commented out where the default is good.`,
		Example: `  outbox init >outbox.yaml
  OUTBOX_DATABASE_URL=postgres://localhost/shop outbox run --config outbox.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = action(func(*cobra.Command, []string) error {
		a.printf("%s", sampleConfig())
		return nil
	})
	return cmd
}

// uncommented are the settings that a file begins with, and their values.
var uncommented = [...][2]string{{"database.url", `"${OUTBOX_DATABASE_URL}"`}}

// perDestination are settings of the destination that to names; in a file the destinations have them.
func perDestination(key string) bool {
	return key == "to" || key == "to_file" ||
		slices.ContainsFunc(schemeOptions(), func(o option) bool { return o.name == key })
}

func sampleConfig() string {
	var b strings.Builder
	b.WriteString("# Configuration of outbox. Flags and variables (OUTBOX_LEASE for lease) win over it. ${NAME} is replaced by the\n" +
		"# environment's value. What is commented out shows the default.\n")
	group := ""
	for _, s := range settings() {
		if perDestination(s.key) {
			continue
		}
		head, name, nested := strings.Cut(s.key, ".")
		indent := "  "
		if !nested {
			head, name, indent = "", s.key, ""
		}
		if head != group && head != "" {
			fmt.Fprintf(&b, "\n%s:\n", head)
		} else if head != group {
			b.WriteString("\n")
		}
		group = head
		fmt.Fprintf(&b, "%s%s\n", indent, sampleLine(s, name))
	}
	b.WriteString(sampleDestinations)
	return b.String()
}

func sampleLine(s setting, name string) string {
	for _, u := range uncommented {
		if u[0] == s.key {
			return fmt.Sprintf("%s: %s  # %s", name, u[1], s.usage)
		}
	}
	def := s.def
	if strings.ContainsAny(def, " ") {
		def = ""
	}
	return strings.TrimRight(fmt.Sprintf("# %s: %s", name, def), " ") + "  # " + s.usage
}

// sampleDestinations ends the file: these need thought, so each is shown with what it may say.
const sampleDestinations = `
# Where messages go. Secrets: url: "${NAME}", or url_file: a file that is read again whenever it is needed.
destinations:
  events:
    url: "stdout:"       # JSON lines to standard output
    # slots: 50          # messages held at a time
    # batch_size: 500    # messages that one claim takes at most
    # batch_bytes: 64MiB # payload bytes held at a time
    # ttl: 7d            # life of messages without their own, from their publishing
#  orders:
#    url: "nats://localhost:4222"
#    stream: ORDERS       # must exist …
#    create: true         # … or is created
#    subjects: "orders.>" # with these subjects
#    subject: "{topic}"   # of a message
#  billing:
#    url: "amqp://localhost:5672/vhost" # amqps:// with TLS
#    exchange: outbox         # is declared as a durable topic exchange …
#    exchange_passive: true   # … or only checked
#    routing_key: "{topic}"   # of a message
#    broker_ttl: 1d           # expiration of messages without their own, from their delivery
#    disable_mandatory: false # true: what no queue is bound for counts as delivered

# The first route with a pattern that covers a topic wins; * stands for one token, > at the end for one or more.
routes:
#  - {topics: ["orders.>"], to: orders}
#  - {topics: ["billing.>"], to: billing}
  - {topics: [">"], to: events}

# What differs for some topics; the first rule that covers a topic decides.
rules:
#  - topics: ["billing.>"]
#    order: park            # skip, block, park, none
#    max_attempts: 20       # or unlimited
#    timeout: 10s
#    retry: {base: 1s, max: 5m, jitter: 1}
#    on_expired: dead       # drop, dead
`
