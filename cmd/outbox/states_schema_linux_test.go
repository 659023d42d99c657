package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

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
