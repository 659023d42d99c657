package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgbouncerdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgdev"
	"github.com/outboxrelay/outbox/internal/devservices/pgtest"
)

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

// mayDump skips the test, except in CI, without a pg_dump that is as new as the server: an older one refuses it.
func (n *night) mayDump(t *testing.T) {
	t.Helper()
	skipf := t.Skipf
	if devservices.ThisMachine().CI() {
		skipf = t.Fatalf
	}
	text, err := exec.Command("pg_dump", "--version").Output()
	if err != nil {
		skipf("install the client programs of PostgreSQL: %v", err)
	}
	var version, server int
	if _, err := fmt.Sscanf(string(text), "pg_dump (PostgreSQL) %d", &version); err != nil {
		t.Fatalf("pg_dump --version: %q: %v", text, err)
	}
	if err := n.admin.QueryRow(t.Context(), "select current_setting('server_version_num')::int / 10000").Scan(&server); err != nil {
		t.Fatal(err)
	}
	if version < server {
		skipf("pg_dump %d does not read a server of version %d", version, server)
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
