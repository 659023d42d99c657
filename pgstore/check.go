package pgstore

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
)

var (
	//go:embed queries/check_server.sql
	checkServerSQL string
	//go:embed queries/check_privileges.sql
	checkPrivilegesSQL string
	//go:embed queries/check_sequence.sql
	checkSequenceSQL string
	//go:embed queries/check_notify.sql
	checkNotifySQL string
)

// minServer is PostgreSQL 14.
const minServer = 140000

// Finding is what a check found, good or bad.
type Finding struct {
	Check string // what was looked at, one word
	OK    bool
	Text  string
	// Fix repairs it. What begins with "outbox " is a command to type, what ends in ";" is SQL to paste, each as it stands; the rest
	// says what to do. Empty when OK.
	Fix string
}

// Check looks for what will go wrong with a relay on this database: connection and server, pooler, schema, privileges, whether
// it is a restored copy, sequence, the budget of connections, the archive's partitions, what holds vacuum back,
// notifications, and what the WAL engine needs. It changes nothing. A check that depends on one that failed is left out.
func (s *Store) Check(ctx context.Context) []Finding {
	c := &checker{store: s}
	for _, step := range []func(context.Context) (goOn bool){
		c.server, c.pooler, c.schema, c.privileges, c.home, c.sequence, c.connections, c.archive, c.vacuum, c.notifications, c.wal,
	} {
		if !step(ctx) {
			break
		}
	}
	return c.findings
}

type checker struct {
	store    *Store
	findings []Finding
	pooled   bool
}

func (c *checker) good(check, format string, args ...any) {
	c.findings = append(c.findings, Finding{Check: check, OK: true, Text: fmt.Sprintf(format, args...)})
}

func (c *checker) bad(check, text, fix string) {
	c.findings = append(c.findings, Finding{Check: check, Text: text, Fix: fix})
}

func (c *checker) failed(check string, err error) {
	c.bad(check, "this could not be checked: "+err.Error(), "look whether the database answers, then check again")
}

// server looks at the connection that everything else goes through.
func (c *checker) server(ctx context.Context) bool {
	conn, err := c.connect(ctx)
	if err != nil {
		c.bad("connection", err.Error(), connectionFix(err))
		return false
	}
	defer hangUp(ctx, conn)
	var number int
	var pid uint32
	var version, user string
	var standby bool
	err = conn.QueryRow(ctx, checkServerSQL, pgx.QueryExecModeExec).Scan(&number, &version, &standby, &user, &pid)
	if err != nil {
		c.failed("connection", err)
		return false
	}
	// A pooler makes up the process id that it tells a client.
	c.pooled = pid != conn.PgConn().PID()
	switch {
	case number < minServer:
		c.bad("server", "PostgreSQL "+version, "upgrade PostgreSQL to 14 or later")
	case standby:
		c.bad("server", "the server is a standby and accepts no writes", "set database.url to the primary; with several hosts add target_session_attrs=read-write to it")
		return false
	default:
		c.good("server", "PostgreSQL %s as %s", version, user)
	}
	return true
}

// connectionFix is what to do about a connection that was not made. The check cannot look where it cannot connect: when there
// are too many, this is for those who still can.
func connectionFix(err error) string {
	if state, _ := sqlError(err); state == stateTooManyConnections {
		return "select usename, datname, application_name, count(*) from pg_stat_activity group by 1, 2, 3 order by 4 desc;"
	}
	return adviceOf(err, "set database.url to the database, and look whether it accepts connections from here")
}

func (c *checker) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	return c.store.connect(ctx)
}

// checkPatience bounds each connection attempt and each probe.
const checkPatience = 5 * time.Second

func hangUp(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx)
}

// pooler probes whether prepared statements survive it, when they are used.
func (c *checker) pooler(ctx context.Context) bool {
	if !c.pooled {
		return true
	}
	if c.store.pool.Config().ConnConfig.DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		c.good("pooler", "a pooler is in between, prepared statements are not used")
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, checkPatience)
	defer cancel()
	err := c.probePrepared(ctx)
	state, _ := sqlError(err)
	switch {
	case state == stateNoSuchStatement || state == stateStatementExists:
		c.bad("pooler", "a pooler is in between and loses prepared statements: "+err.Error(),
			"add default_query_exec_mode=exec to database.url, or set max_prepared_statements in PgBouncer 1.21 or later")
		return false
	case err != nil:
		c.failed("pooler", err)
	default:
		c.good("pooler", "a pooler is in between and keeps prepared statements")
	}
	return true
}

// probePrepared prepares a statement through one client connection, and once more through another while the first one
// keeps a server connection in a transaction, which a pooler without support for it sends to the wrong place.
func (c *checker) probePrepared(ctx context.Context) error {
	first, err := c.store.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(ctx, first)
	second, err := c.store.connect(ctx)
	if err != nil {
		return err
	}
	defer hangUp(ctx, second)
	name := "outbox_check_" + outbox.NewID().String()
	if _, err := first.Prepare(ctx, name, "select 1"); err != nil {
		return err
	}
	if _, err := second.Prepare(ctx, name, "select 1"); err != nil {
		return err
	}
	tx, err := second.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }()
	if _, err := tx.Exec(ctx, name); err != nil {
		return err
	}
	_, err = first.Exec(ctx, name)
	return err
}

func (c *checker) schema(ctx context.Context) bool {
	err := checkSchema(ctx, c.store.pool, c.store.cfg.Schema)
	switch {
	case errors.Is(err, outbox.ErrSchemaTooNew):
		c.bad("schema", err.Error(), "upgrade this program")
		return false
	case errors.Is(err, outbox.ErrSchemaMissing):
		c.bad("schema", err.Error(), "outbox migrate up")
		return false
	case isDenied(err): // the finding has the lines that grant what is missing
		if c.privileges(ctx) {
			c.failed("schema", err)
		}
		return false
	case err != nil:
		c.failed("schema", err)
		return false
	}
	if err := checkObjects(ctx, c.store.pool, c.store.cfg.Schema); err != nil {
		c.bad("schema", err.Error(), "restore what was dropped; outbox migrate print shows how it is made")
		return false
	}
	c.good("schema", "%s is up to date and complete", c.store.cfg.Schema)
	return true
}

func isDenied(err error) bool {
	state, _ := sqlError(err)
	return state == statePrivilege
}

func (c *checker) privileges(ctx context.Context) bool {
	type lack struct{ What, Grant string }
	var lacks []lack
	err := c.store.inspect(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, render(checkPrivilegesSQL, c.store.cfg.Schema), pgx.QueryExecModeExec)
		if err == nil {
			lacks, err = pgx.CollectRows(rows, pgx.RowToStructByPos[lack])
		}
		return err
	})
	switch {
	case err != nil:
		c.failed("privileges", err)
		return false
	case len(lacks) > 0:
		const shown = 5
		var names, grants []string
		for _, l := range lacks {
			names, grants = append(names, l.What), append(grants, l.Grant)
		}
		text := fmt.Sprintf("%d are missing: %s", len(names), strings.Join(names[:min(shown, len(names))], ", "))
		c.bad("privileges", text, strings.Join(grants, " "))
		return false
	}
	c.good("privileges", "all that a relay needs")
	return true
}

func (c *checker) sequence(ctx context.Context) bool {
	var cache, last, highest int64
	err := c.store.inspect(ctx, func(tx pgx.Tx) error {
		return c.store.queryRow(ctx, tx, checkSequenceSQL).Scan(&cache, &last, &highest)
	})
	name := render("outbox.seq", c.store.cfg.Schema)
	switch {
	case err != nil:
		c.failed("sequence", err)
		return true
	case cache != 1:
		c.bad("sequence", fmt.Sprintf("it has cache %d: messages of a key would overtake each other", cache),
			fmt.Sprintf("alter sequence %s cache 1;", name))
	case highest > last:
		c.bad("sequence", fmt.Sprintf("it is at %d and there is a message %d, as after a partial restore: new messages would pass older ones of their key", last, highest),
			fmt.Sprintf("select setval('%s', %d);", name, highest))
	default:
		c.good("sequence", "ahead of all messages, cache 1")
	}
	return true
}

// notifications compares how publishing notifies with what the relay expects, and makes a round trip.
func (c *checker) notifications(ctx context.Context) bool {
	if c.store.cfg.Notify == NotifyOff {
		c.good("notifications", "off: relays poll")
		return true
	}
	var mode string
	var trigger bool
	err := c.store.inspect(ctx, func(tx pgx.Tx) error {
		return c.store.queryRow(ctx, tx, checkNotifySQL).Scan(&mode, &trigger)
	})
	if err != nil {
		c.failed("notifications", err)
		return true
	}
	if c.store.cfg.Notify == NotifyTrigger && !trigger || mode == "off" {
		want := map[NotifyMode]string{NotifyPublish: "publish", NotifyTrigger: "trigger"}[c.store.cfg.Notify]
		c.bad("notifications", fmt.Sprintf("the setting here is %s, the database's is %s", want, mode),
			fmt.Sprintf("select %s('%s');", render("outbox.set_notify", c.store.cfg.Schema), want))
		return true
	}
	c.roundTrip(ctx)
	return true
}

func (c *checker) roundTrip(ctx context.Context) {
	conn, err := c.store.listenConn(ctx)
	if err != nil {
		c.bad("notifications", err.Error(), "set database.listen_url to a direct connection, or notify to off")
		return
	}
	defer hangUp(ctx, conn)
	begin := time.Now()
	switch err := c.store.proveListening(ctx, conn); {
	case errors.Is(err, errSilent) || err != nil && c.pooled:
		c.bad("notifications", "they do not arrive, and a relay polls; a pooler in transaction mode is in between",
			"set database.listen_url to a direct connection, or notify to off")
	case err != nil:
		c.failed("notifications", err)
	default:
		c.good("notifications", "arrive within %s", time.Since(begin).Round(time.Millisecond))
	}
}
