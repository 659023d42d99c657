package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/natsdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgbouncerdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

// stuckStates are the states of the runbook, by the headings of their parts.
func stuckStates() map[string]func(*testing.T, *night) {
	return map[string]func(*testing.T, *night){
		"No relay is alive":                        noRelay,
		"A relay is suspended or has died":         relaySuspended,
		"A key waits for a retry":                  keyRetrying,
		"A key is parked":                          keyParked,
		"Dead letters pile up":                     deadLetters,
		"A topic or a destination is paused":       paused,
		"No relay delivers a topic":                topicUnhandled,
		"A destination is down":                    destinationDown,
		"A destination is misconfigured":           destinationMisconfigured,
		"More is published than delivered":         backlogGrows,
		"Relays have different settings":           settingsDiffer,
		"A transaction holds vacuum back":          vacuumHeld,
		"A prepared transaction holds vacuum back": vacuumHeldByPrepared,
		"A message kills its relays":               messageKills,
		"A handler does not return":                handlerStuck,
		"The archive refuses messages":             archiveRefuses,
		"The archive has no partitions ahead":      partitionsMissing,
		"The schema is missing":                    schemaMissing,
		"The schema is too new":                    schemaTooNew,
		"The schema is damaged":                    schemaDamaged,
		"A right is missing":                       rightMissing,
		"Notifications do not arrive":              notificationsOff,
		"A pooler is in between":                   poolerBetween,
		"The sequence is wrong":                    sequenceWrong,
		"Connections run out":                      connectionsRunOut,
		"The database is a restored copy":          restoredCopy,
		"The database is a standby":                standby,
		"No relay can stream":                      cannotStream,
		"A change was stopped":                     changeStopped,
	}
}

// arrives waits for a message of a topic in what a relay delivers.
func arrives(t *testing.T, out *lockedBuffer, topic string, n int) {
	t.Helper()
	eventually(t, "it is delivered: "+topic, func() bool { return strings.Count(out.String(), `"topic":"`+topic+`"`) >= n })
}

func noRelay(t *testing.T, n *night) {
	n.publishes(t, "--topic orders.created")
	command := n.follows(t, "outbox status", "no live relay: nothing is delivered")
	if also := n.follows(t, "outbox check", "no live relay: nothing is delivered"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	_, out := n.delivers(t, command)
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox status", "1 live", "0 ready")
	n.sees(t, "outbox check", "1 live").want(t, exitDone)
}

func relaySuspended(t *testing.T, n *night) {
	relay := n.stalls(t)
	id := n.publishesLarge(t, "orders.created", "order-7")
	n.sees(t, "outbox status", "in flight  1")
	relay.signal(t, syscall.SIGSTOP)
	n.sees(t, "outbox relays", "lapsed")
	n.sees(t, "outbox status", "none live", "no live relay: nothing is delivered")
	command := n.follows(t, "outbox keys", "lost")
	if !strings.Contains(command, id) {
		t.Errorf("keys names %q", command)
	}
	_, out := n.delivers(t, n.follows(t, command, "no relay runs"))
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox keys", "no key is held")
	relay.signal(t, syscall.SIGCONT) // it finds its lease lost, and begins again
	n.sees(t, "outbox status", "2 live")
}

// broken is a handler that fails until its receiver is repaired.
type broken struct {
	repaired  atomic.Bool
	delivered atomic.Int64
	err       error
}

func (b *broken) handle(context.Context, *outbox.Delivery) error {
	if !b.repaired.Load() {
		return b.err
	}
	b.delivered.Add(1)
	return nil
}

func keyRetrying(t *testing.T, n *night) {
	receiver := &broken{err: errors.New("customer 7 is unknown")}
	n.handles(t, outbox.Config{Retry: outbox.RetryPolicy{Base: time.Hour, Max: time.Hour, DisableJitter: true}}, receiver.handle)
	n.publishes(t, "--topic billing.paid --key customer-7")
	behind := n.publishes(t, "--topic billing.paid --key customer-7")
	command := n.follows(t, "outbox status", "1 key, the longest for")
	command = n.follows(t, command, "retrying")
	if also := n.follows(t, "outbox why "+behind, "it waits for its time"); also != command {
		t.Errorf("keys names %q, why %q", command, also)
	}
	receiver.repaired.Store(true)
	n.sees(t, command, "made due: 1 message").want(t, exitDone)
	n.sees(t, "outbox keys", "no key is held")
	eventually(t, "both are delivered", func() bool { return receiver.delivered.Load() == 2 })
}

func keyParked(t *testing.T, n *night) {
	receiver := &broken{err: errors.New("customer 7 is unknown")}
	n.handles(t, outbox.Config{Order: outbox.OrderPark, MaxAttempts: 1}, receiver.handle)
	n.publishes(t, "--topic billing.paid --key customer-7")
	behind := n.publishes(t, "--topic billing.paid --key customer-7")
	command := n.follows(t, "outbox status", "1 key, the longest for")
	command = n.follows(t, command, "parked")
	if also := n.follows(t, "outbox why "+behind, "its key is parked"); also != command {
		t.Errorf("keys names %q, why %q", command, also)
	}
	receiver.repaired.Store(true)
	n.sees(t, command, "redriven: 1 message").want(t, exitDone)
	n.sees(t, "outbox keys", "no key is held")
	eventually(t, "both are delivered", func() bool { return receiver.delivered.Load() == 2 })
}

func deadLetters(t *testing.T, n *night) {
	receiver := &broken{err: outbox.Permanent(errors.New("account 4711 is closed"))}
	n.handles(t, outbox.Config{}, receiver.handle)
	n.pastes(t, "select outbox.publish('billing.paid', '') from generate_series(1, 212);")
	n.sees(t, "outbox status", "dead 212 ")
	command := n.follows(t, "outbox status", "dead 212 ")
	command = n.follows(t, command, "billing.paid")
	receiver.repaired.Store(true)
	n.sees(t, command, "redriven: 212 messages").want(t, exitDone)
	eventually(t, "all are delivered", func() bool { return receiver.delivered.Load() == 212 })
	n.sees(t, "outbox dead", "no message is dead")
}

func paused(t *testing.T, n *night) {
	_, out := n.delivers(t, "outbox run")
	n.types(t, "outbox pause --topic 'billing.>' --reason 'wrong invoices'").want(t, exitDone)
	n.types(t, "outbox pause --destination default --reason maintenance").want(t, exitDone)
	id := n.publishes(t, "--topic billing.paid --key customer-7")
	command := n.follows(t, "outbox status", "topic billing.>")
	if also := n.follows(t, "outbox why "+id, "topic billing.> is paused"); also != command {
		t.Errorf("status names %q, why %q", command, also)
	}
	n.types(t, command).want(t, exitDone)
	why := n.follows(t, "outbox keys", "customer-7")
	n.types(t, n.follows(t, why, "destination default is paused")).want(t, exitDone)
	arrives(t, out, "billing.paid", 1)
	n.seesNo(t, "outbox status", "paused")
}

func topicUnhandled(t *testing.T, n *night) {
	path := filepath.Join(t.TempDir(), "outbox.yaml")
	config := "destinations:\n  events: {url: 'stdout:'}\nroutes:\n  - {topics: [\"orders.>\"], to: events}\n"
	write(t, path, config)
	n.env = append(n.env, "OUTBOX_TO=", "OUTBOX_CONFIG="+path)
	relay, _ := n.delivers(t, "outbox run")
	id := n.publishes(t, "--topic biling.refunded")
	n.types(t, n.follows(t, "outbox status", `topic "biling.refunded"`)).want(t, exitDone)
	n.follows(t, "outbox why "+id, "no live relay delivers topic biling.refunded")
	fix := n.follows(t, "outbox check", `"biling.refunded" has ready messages`)
	_, route, ok := strings.Cut(fix, "restart the relays: ")
	if !ok {
		t.Fatalf("check says %q", fix)
	}
	write(t, path, config+"  "+route+"\n")
	relay.signal(t, syscall.SIGTERM)
	relay.wantExit(t, exitDone)
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "biling.refunded", 1)
	n.seesNo(t, "outbox status", "biling.refunded")
	n.types(t, "outbox check").want(t, exitDone)
}

// toNATS sets the operator before a relay that delivers to a stream of a server.
func (n *night) toNATS(t *testing.T, server *natsdev.Server) {
	t.Helper()
	n.env = append(n.env, "OUTBOX_TO="+server.URL(), "OUTBOX_STREAM=ORDERS")
	n.nats = func(t *testing.T, words []string) { natsAdd(t, server.URL(), words) }
}

// natsAdd is nats stream add, as far as the program names it.
func natsAdd(t *testing.T, url string, words []string) {
	t.Helper()
	if len(words) < 4 || words[1] != "stream" || words[2] != "add" {
		t.Fatalf("%q is no nats stream add", words)
	}
	flags := flag.NewFlagSet("nats", flag.ContinueOnError)
	var subjects, storage string
	var ack, defaults bool
	cfg := jetstream.StreamConfig{Name: words[3]}
	flags.StringVar(&subjects, "subjects", "", "")
	flags.StringVar(&storage, "storage", "", "")
	flags.IntVar(&cfg.Replicas, "replicas", 0, "")
	flags.DurationVar(&cfg.Duplicates, "dupe-window", 0, "")
	flags.BoolVar(&ack, "ack", false, "")
	flags.BoolVar(&defaults, "defaults", false, "")
	if err := flags.Parse(words[4:]); err != nil || flags.NArg() > 0 || !ack || !defaults || storage != "file" {
		t.Fatalf("%q: %v", words, err)
	}
	cfg.Subjects = strings.Split(subjects, ",")
	conn, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err == nil {
		_, err = js.CreateStream(t.Context(), cfg)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func destinationDown(t *testing.T, n *night) {
	server := natsServer(t)
	n.toNATS(t, server)
	n.nats(t, []string{"nats", "stream", "add", "ORDERS", "--subjects", "orders.>", "--storage", "file", "--ack", "--defaults"})
	n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "1 live")
	server.Stop()
	id := n.publishes(t, "--topic orders.created")
	n.sees(t, "outbox status", "default    unavailable")
	n.sees(t, n.follows(t, "outbox why "+id, "destination default is unavailable"), "default    unavailable")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	n.sees(t, "outbox status", "default    available", "0 ready")
	eventually(t, "it is delivered", func() bool { return stored(t, server.URL(), "ORDERS") == 1 })
}

func destinationMisconfigured(t *testing.T, n *night) {
	server := natsServer(t)
	n.toNATS(t, server)
	n.env = append(n.env, "OUTBOX_SUBJECTS=orders.>")
	n.delivers(t, "outbox run")
	id := n.publishes(t, "--topic orders.created")
	command := n.follows(t, "outbox status", "destination default is misconfigured")
	if also := n.follows(t, "outbox why "+id, "destination default is misconfigured"); also != command {
		t.Errorf("status names %q, why %q", command, also)
	}
	n.types(t, n.follows(t, command, "stream ORDERS does not exist"))
	n.sees(t, "outbox status", "default    available", "0 ready")
	eventually(t, "it is delivered", func() bool { return stored(t, server.URL(), "ORDERS") == 1 })
	n.types(t, "outbox check").want(t, exitDone)
}

// slowly reads what a relay delivers, 32 KiB at a time.
type slowly struct{}

func (slowly) Write(b []byte) (int, error) {
	time.Sleep(200 * time.Millisecond)
	return len(b), nil
}

func backlogGrows(t *testing.T, n *night) {
	n.pastes(t, `insert into outbox.message (id, topic, payload, published_at)
		select gen_random_uuid(), 'audit.login', convert_to(repeat('x', 2000), 'UTF8'), now() - interval '3 minutes' from generate_series(1, 15000);`)
	n.runs(t, "outbox run", slowly{}, "OUTBOX_SLOTS=100")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	conn := connect(t, n.url)
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			_, _ = conn.Exec(ctx, "select outbox.publish('audit.login', convert_to(repeat('x', 2000), 'UTF8')) from generate_series(1, 100)")
			time.Sleep(100 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { stop(); <-ended })
	command := n.follows(t, "outbox status", "more is published than delivered")
	n.delivers(t, command)
	n.seesNo(t, "outbox status", "more is published than delivered")
}

func settingsDiffer(t *testing.T, n *night) {
	n.delivers(t, "outbox run")
	other, _ := n.delivers(t, "outbox run", "OUTBOX_MAX_ATTEMPTS=3")
	command := n.follows(t, "outbox status", "the relays of default have different rules")
	if also := n.follows(t, "outbox check", "the relays of default have different rules"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.sees(t, command, fmt.Sprint(other.Process.Pid))
	other.signal(t, syscall.SIGTERM)
	other.wantExit(t, exitDone)
	n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "2 live")
	n.seesNo(t, "outbox status", "different rules")
	n.types(t, "outbox check").want(t, exitDone)
}

func vacuumHeld(t *testing.T, n *night) {
	n.env = append(n.env, "OUTBOX_HORIZON_PATIENCE=1s")
	n.delivers(t, "outbox run")
	holder := connect(t, n.url)
	execSQL(t, holder, "set application_name = 'reporting'; begin; select pg_current_xact_id()")
	command := n.follows(t, "outbox status", "vacuum horizon held")
	if also := n.follows(t, "outbox check", "held back for"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.types(t, command)
	n.seesNo(t, "outbox status", "vacuum horizon held")
	n.sees(t, "outbox check", "no transaction has held it back").want(t, exitDone)
}

func vacuumHeldByPrepared(t *testing.T, n *night) {
	n.env = append(n.env, "OUTBOX_HORIZON_PATIENCE=1s")
	n.delivers(t, "outbox run")
	n.pastes(t, "begin; select pg_current_xact_id(); prepare transaction 'transfer-17';")
	t.Cleanup(func() { // else the database cannot be dropped
		if t.Failed() {
			n.last(t, "rollback prepared 'transfer-17'")
		}
	})
	command := n.follows(t, "outbox status", "vacuum horizon held")
	if also := n.follows(t, "outbox check", "held back for"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.types(t, command)
	n.seesNo(t, "outbox status", "vacuum horizon held")
	n.sees(t, "outbox check", "no transaction has held it back").want(t, exitDone)
}

func messageKills(t *testing.T, n *night) {
	n.env = append(n.env, "OUTBOX_RETRY_BASE=1h", "OUTBOX_RETRY_MAX=1h")
	id := n.publishesLarge(t, "orders.created", "order-7")
	for range 3 { // the third has it as a suspect
		relay := n.stalls(t, "OUTBOX_LEASE=2s")
		eventually(t, "the relay has it", func() bool {
			return countRows(t, n.admin, fmt.Sprintf("select count(*) from outbox.claim c join outbox.relay r on r.id = c.relay where r.pid = %d", relay.Process.Pid)) == 1
		})
		relay.signal(t, syscall.SIGKILL)
		relay.wantExit(t, -1)
	}
	n.sees(t, "outbox status", "none live")
	_, out := n.delivers(t, n.follows(t, "outbox why "+id, "no relay runs"))
	// It is not delivered once more: having died with it three times is a failed attempt.
	why := n.sees(t, "outbox why "+id, "failed 1 times", "last error (crash)")
	n.sees(t, "outbox keys", "crash")
	n.types(t, named(t, why, "it waits for its time"))
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox keys", "no key is held")
}

func handlerStuck(t *testing.T, n *night) {
	relay := n.stalls(t, "OUTBOX_HANDLER_TIMEOUT=1s", "OUTBOX_DRAIN_TIMEOUT=1s")
	n.publishesLarge(t, "orders.created", "order-7")
	command := n.follows(t, "outbox status", "ignores its cancelled context")
	if also := n.follows(t, "outbox check", "ignores its cancelled context"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.sees(t, command, fmt.Sprint(relay.Process.Pid))
	wantIn(t, relay.log.String(), "handler ignores its cancelled context", "stdoutSink")
	relay.signal(t, syscall.SIGTERM)
	relay.wantExit(t, exitAbandoned)
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "orders.created", 1)
	n.seesNo(t, "outbox status", "ignores its cancelled context")
}

func archiveRefuses(t *testing.T, n *night) {
	n.env = append(n.env, "OUTBOX_KEEP_DELIVERED=30d")
	_, out := n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "1 live")
	n.pastes(t, "alter table outbox.archive add constraint ours check (topic <> 'orders.created');")
	n.publishes(t, "--topic orders.created")
	arrives(t, out, "orders.created", 1)
	command := n.follows(t, "outbox status", "the archive refused the last messages")
	if also := n.follows(t, "outbox check", "the archive refused the last messages"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.types(t, command).want(t, exitDone)
	n.types(t, "alter table outbox.archive drop constraint ours;")
	n.publishes(t, "--topic orders.created")
	n.seesNo(t, "outbox status", "the archive refused")
	n.types(t, "outbox check").want(t, exitDone)
	if kept := countRows(t, n.admin, "select count(*) from outbox.archive"); kept != 1 {
		t.Errorf("%d of the messages are kept, want the second", kept)
	}
}

func partitionsMissing(t *testing.T, n *night) {
	n.env = append(n.env, "OUTBOX_KEEP_DELIVERED=30d")
	n.delivers(t, "outbox run")
	n.sees(t, "outbox check", "partitions until", "1 live").want(t, exitDone)
	var names []string
	rows, err := n.admin.Query(t.Context(), "select name from outbox.partitions()")
	if err == nil {
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names { // by hand, in error
		n.pastes(t, "drop table outbox."+name+";")
	}
	n.types(t, n.follows(t, "outbox check", "there is no partition for now"))
	n.sees(t, "outbox check", "partitions until").want(t, exitDone)
	n.pastes(t, "drop table outbox.archive_default;")
	n.types(t, n.follows(t, "outbox check", "the default partition is missing"))
	n.types(t, "outbox check").want(t, exitDone)
	n.sees(t, "outbox partitions", "archive_default")
}

func schemaMissing(t *testing.T, n *night) {
	n.at(t, postgres.Database(t))
	r := n.types(t, "outbox status").want(t, exitFailed)
	command := named(t, r, "")
	n.types(t, "outbox publish --topic orders.created").want(t, exitFailed)
	if also := n.follows(t, "outbox check", "the outbox schema is missing"); also != command {
		t.Errorf("status names %q, check %q", command, also)
	}
	n.types(t, command).want(t, exitDone)
	n.types(t, "outbox status").want(t, exitDone)
	n.sees(t, "outbox check", "is up to date and complete")
}

func schemaTooNew(t *testing.T, n *night) {
	n.pastes(t, "insert into outbox.migration (version, name, min_compatible) values (99, 'later', 98);")
	relay := n.runs(t, "outbox run", io.Discard)
	relay.wantExit(t, exitFailed)
	n.follows(t, "outbox check", "upgrade this program")
	n.pastes(t, "delete from outbox.migration where version = 99;") // as if this were the later program
	n.delivers(t, "outbox run")
	n.sees(t, "outbox check", "1 live").want(t, exitDone)
}

func schemaDamaged(t *testing.T, n *night) {
	n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "1 live")
	n.pastes(t, "drop function outbox.set_notify;")
	fix := n.follows(t, "outbox check", "missing: set_notify")
	_, command, _ := strings.Cut(fix, "; ")
	command, _, ok := strings.Cut(command, " shows")
	if !ok {
		t.Fatalf("check says %q", fix)
	}
	script := n.types(t, command).want(t, exitDone).out
	begin := strings.Index(script, `create function "outbox".set_notify(`)
	end := strings.Index(script[begin:], "\n$$;\n")
	n.pastes(t, script[begin:begin+end]+"\n$$;")
	n.types(t, "outbox check").want(t, exitDone)
}

// last runs SQL after the end of the test.
func (n *night) last(t *testing.T, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), n.url)
	if err == nil {
		_, err = conn.Exec(context.Background(), sql)
		_ = conn.Close(context.Background())
	}
	if err != nil {
		t.Error(err)
	}
}

// role makes a role with rights on the outbox, and returns the database's URL for it.
func (n *night) role(t *testing.T, options string) (name, url string) {
	t.Helper()
	name = "worker_" + strings.ReplaceAll(outbox.NewID().String(), "-", "")[20:]
	n.pastes(t, fmt.Sprintf(`create role %[1]s login %[2]s; grant usage on schema outbox to %[1]s; grant all on all tables in schema outbox to %[1]s;
		grant all on all sequences in schema outbox to %[1]s; grant execute on all functions in schema outbox to %[1]s`, name, options))
	t.Cleanup(func() {
		n.last(t, fmt.Sprintf("drop owned by %[1]s; drop role %[1]s", name))
	})
	return name, strings.Replace(n.url, "postgres@", name+"@", 1)
}

func rightMissing(t *testing.T, n *night) {
	role, url := n.role(t, "")
	n.pastes(t, fmt.Sprintf("revoke insert on outbox.dead from %[1]s; revoke select on outbox.control from %[1]s;", role))
	n.env = append(n.env, "OUTBOX_DATABASE_URL="+url, "OUTBOX_DATABASE_MIGRATE=check")
	n.types(t, n.follows(t, "outbox check", "2 are missing"))
	n.delivers(t, "outbox run")
	n.sees(t, "outbox check", "all that a relay needs", "1 live").want(t, exitDone)
}

func notificationsOff(t *testing.T, n *night) {
	n.delivers(t, "outbox run")
	n.sees(t, "outbox check", "arrive within")
	n.pastes(t, "select outbox.set_notify('off');")
	n.types(t, n.follows(t, "outbox check", "the setting here is publish, the database's is off"))
	n.sees(t, "outbox check", "arrive within").want(t, exitDone)
}

func poolerBetween(t *testing.T, n *night) {
	direct, through := pooled(t, pgbouncerdev.Config{})
	n.at(t, direct)
	n.env = append(n.env, "OUTBOX_DATABASE_URL="+through)
	wantIn(t, n.follows(t, "outbox check", "loses prepared statements"), "add default_query_exec_mode=exec to database.url")
	n.env = append(n.env, "OUTBOX_DATABASE_URL="+through+execMode)
	wantIn(t, n.follows(t, "outbox check", "they do not arrive"), "set database.listen_url to a direct connection")
	n.env = append(n.env, "OUTBOX_DATABASE_LISTEN_URL="+direct)
	n.publishes(t, "--topic orders.created")
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox check", "a pooler is in between, prepared statements are not used", "arrive within", "1 live").want(t, exitDone)
}

func sequenceWrong(t *testing.T, n *night) {
	n.publishes(t, "--topic orders.created --key order-7")
	n.pastes(t, "select setval('outbox.seq', 1, false); alter sequence outbox.seq cache 20;")
	n.types(t, n.follows(t, "outbox check", "it has cache 20"))
	n.types(t, n.follows(t, "outbox check", "and there is a message"))
	n.sees(t, "outbox check", "ahead of all messages, cache 1")
	n.publishes(t, "--topic orders.created --key order-7")
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "orders.created", 2)
	n.types(t, "outbox check").want(t, exitDone)
}

func connectionsRunOut(t *testing.T, n *night) {
	role, url := n.role(t, "connection limit 6")
	n.env = append(n.env, "OUTBOX_DATABASE_URL="+url, "OUTBOX_DATABASE_MIGRATE=check")
	n.delivers(t, "outbox run")
	n.sees(t, "outbox status", "1 live")
	command := n.follows(t, "outbox check", "the role "+role+" may have 6")
	n.types(t, command)
	n.delivers(t, "outbox run")
	n.sees(t, "outbox check", "a relay needs 4, ", "live relays: 2").want(t, exitDone)
}

func restoredCopy(t *testing.T, n *night) {
	n.stalls(t) // the copy has its lease and its claim, too
	n.publishesLarge(t, "orders.created", "order-7")
	n.sees(t, "outbox status", "in flight  1")
	n.publishes(t, "--topic orders.created")
	copied := postgres.Database(t)
	script := fmt.Sprintf("pg_dump '%s' | psql -q -X -v ON_ERROR_STOP=1 '%s'", n.url, copied)
	n.mayDump(t)
	if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	n.sees(t, "outbox check", "the outbox was made in this database")
	n.at(t, copied)
	n.types(t, n.follows(t, "outbox check", "this is a restored or copied database"))
	n.sees(t, "outbox check", "the outbox was made in this database")
	_, out := n.delivers(t, "outbox run")
	arrives(t, out, "orders.created", 2)
	n.sees(t, "outbox check", "1 live").want(t, exitDone)
}

// mayDump skips the test without a pg_dump that is as new as the server: an older one refuses it.
func (n *night) mayDump(t *testing.T) {
	t.Helper()
	text, err := exec.Command("pg_dump", "--version").Output()
	if err != nil {
		t.Skip(err)
	}
	var version, server int
	if _, err := fmt.Sscanf(string(text), "pg_dump (PostgreSQL) %d", &version); err != nil {
		t.Fatalf("pg_dump --version: %q: %v", text, err)
	}
	if err := n.admin.QueryRow(t.Context(), "select current_setting('server_version_num')::int / 10000").Scan(&server); err != nil {
		t.Fatal(err)
	}
	if version < server {
		t.Skipf("pg_dump %d does not read a server of version %d", version, server)
	}
}

// ownServer sets the operator before a server of this test.
func (n *night) ownServer(t *testing.T, settings map[string]string) *pgdev.Server {
	t.Helper()
	server := pgtest.Server(t, pgdev.Config{Settings: settings})
	n.at(t, server.URL("postgres"))
	n.types(t, "outbox migrate up").want(t, exitDone)
	return server
}

func (n *night) restart(t *testing.T, server *pgdev.Server) {
	t.Helper()
	if err := server.Stop(t.Context(), pgdev.Fast); err != nil {
		t.Fatal(err)
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.admin = connect(t, n.url)
}

func standby(t *testing.T, n *night) {
	server := n.ownServer(t, nil)
	n.publishes(t, "--topic orders.created")
	write(t, filepath.Join(server.Dir(), "data", "standby.signal"), "")
	n.restart(t, server)
	_, out := n.delivers(t, "outbox run")
	n.follows(t, "outbox check", "the server is a standby and accepts no writes")
	n.types(t, "select pg_promote();") // it takes the primary's place
	arrives(t, out, "orders.created", 1)
	n.sees(t, "outbox check", "1 live").want(t, exitDone)
}

func cannotStream(t *testing.T, n *night) {
	server := n.ownServer(t, map[string]string{"wal_level": "replica"})
	n.env = append(n.env, "OUTBOX_ENGINE=wal")
	_, out := n.delivers(t, "outbox run")
	n.publishes(t, "--topic orders.created")
	arrives(t, out, "orders.created", 1) // it polls
	r := n.sees(t, "outbox wal", "no relay streams, all poll", "wal_level is too low").want(t, exitUnhealthy)
	_, command, _ := strings.Cut(strings.TrimSpace(r.err), "see what is missing: ")
	n.types(t, n.follows(t, command, "wal_level is replica"))
	n.restart(t, server)
	n.sees(t, "outbox wal", "streaming", "following since").want(t, exitDone)
	n.types(t, command).want(t, exitDone)
}

// changeStopped: the command is killed, and the one that goes on loses its database.
func changeStopped(t *testing.T, n *night) {
	server := n.ownServer(t, nil)
	makeDead(t, n.admin, "billing.paid", 300)
	redriven := func() int { return countRows(t, n.admin, "select count(*) from outbox.waiting") }
	change := n.runs(t, "outbox redrive --topic billing.paid --rate 50 --yes", io.Discard)
	eventually(t, "it has begun", func() bool { return redriven() > 0 })
	change.signal(t, syscall.SIGKILL)
	change.wantExit(t, -1)
	ops := n.sees(t, "outbox ops", "running").out
	at := strings.Index(ops, "outbox redrive --continue")
	if at < 0 {
		t.Fatalf("ops names nothing: %s", ops)
	}
	command, _, _ := strings.Cut(ops[at:], "\n")
	command = strings.TrimSpace(command)
	before := redriven()
	again := n.runs(t, command, io.Discard)
	eventually(t, "it goes on", func() bool { return redriven() > before })
	if err := server.Stop(t.Context(), pgdev.Immediate); err != nil {
		t.Fatal(err)
	}
	again.wantExit(t, exitFailed)
	fmt.Fprint(&n.transcript, again.log.String())
	if !strings.Contains(again.log.String(), "go on by: "+command) {
		t.Errorf("it does not say how to go on: %s", again.log.String())
	}
	if err := server.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.admin = connect(t, n.url)
	n.pastes(t, "update outbox.operation set rate = null;")
	n.sees(t, command, "redriven: 300 messages").want(t, exitDone)
	n.seesNo(t, "outbox ops", "running")
	if redriven, left := redriven(), countRows(t, n.admin, "select count(*) from outbox.dead"); redriven != 300 || left != 0 {
		t.Errorf("%d of 300 are redriven, each once; %d are dead", redriven, left)
	}
}
