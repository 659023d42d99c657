package main

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices"
	"github.com/outboxrelay/outbox/internal/devservices/pgbouncerdev"
	"github.com/outboxrelay/outbox/pgstore"
)

// execMode is what a URL through a pooler that loses prepared statements needs.
const execMode = "&default_query_exec_mode=exec"

// pooled makes a database with the outbox and returns its URL and the one through a pooler in transaction mode.
func pooled(t *testing.T, cfg pgbouncerdev.Config) (direct, through string) {
	t.Helper()
	direct = migrated(t)
	s, err := pgbouncerdev.Start(t.Context(), direct, cfg)
	if errors.Is(err, devservices.ErrNotInstalled) && !devservices.ThisMachine().CI() || errors.Is(err, pgbouncerdev.ErrTooOld) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	parsed, err := pgx.ParseConfig(direct)
	if err != nil {
		t.Fatal(err)
	}
	return direct, s.URL(parsed.Database)
}

// relaying runs the program until the test ends.
type relaying struct{ out, log *lockedBuffer }

func relayIn(t *testing.T, args ...string) relaying {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r := relaying{&lockedBuffer{}, &lockedBuffer{}}
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, append([]string{"run", "--to=stdout:"}, args...), []string{noAdmin}, r.out, r.log)
	}()
	t.Cleanup(func() {
		cancel()
		if code := <-ended; code != exitDone {
			t.Errorf("exit code %d: %s", code, r.log.String())
		}
		if t.Failed() {
			t.Log(r.log.String())
		}
	})
	return r
}

func (r relaying) awaitTopics(t *testing.T, n int) {
	t.Helper()
	eventually(t, "messages are delivered", func() bool { return strings.Count(r.out.String(), `"topic":`) >= n })
}

// TestPoolerWithoutNotifications: everything works through a pooler in transaction mode, by few connections: running,
// publishing, looking, migrating.
func TestPoolerWithoutNotifications(t *testing.T) {
	t.Parallel()
	_, url := pooled(t, pgbouncerdev.Config{PoolSize: 4})
	db := "--database-url=" + url + execMode
	call(t, nil, "migrate", "up", db).want(t, exitDone)
	r := relayIn(t, db, "--notify=off", "--poll-interval=50ms", "--lease=3s")
	for range 5 {
		call(t, nil, "publish", db, "--topic=a", "--key=k", "--notify=off").want(t, exitDone)
	}
	r.awaitTopics(t, 5)
	call(t, nil, "wait", "--timeout=30s", db).want(t, exitDone)
	wantIn(t, call(t, nil, "check", db, "--notify=off").want(t, exitDone).out, "a pooler is in between, prepared statements are not used", "off: relays poll")
	call(t, nil, "status", db).want(t, exitDone)
	call(t, nil, "health", db).want(t, exitDone)
	if log := r.log.String(); strings.Contains(log, "level=WARN") || strings.Contains(log, "level=ERROR") {
		t.Errorf("not without trouble: %s", log)
	}
}

// TestPoolerWithNotifications: what a pooler swallows is missed, told once, and polling goes on (case 36).
func TestPoolerWithNotifications(t *testing.T) {
	t.Parallel()
	_, url := pooled(t, pgbouncerdev.Config{})
	db := "--database-url=" + url + execMode
	r := relayIn(t, db, "--poll-interval=50ms")
	eventually(t, "the relay tells", func() bool { return strings.Contains(r.log.String(), "polling meanwhile") })
	wantIn(t, r.log.String(), "pooler in transaction mode")
	call(t, nil, "publish", db, "--topic=a").want(t, exitDone)
	r.awaitTopics(t, 1)
	wantIn(t, call(t, nil, "check", db).want(t, exitUnhealthy).out, "FOUND  notifications", "set database.listen_url to a direct connection, or notify to off")
	if n := strings.Count(r.log.String(), "polling meanwhile"); n != 1 {
		t.Errorf("told %d times", n)
	}
}

// TestPoolerWithDirectListener: a connection of its own for notifications makes a relay behind a pooler fast again.
func TestPoolerWithDirectListener(t *testing.T) {
	t.Parallel()
	direct, url := pooled(t, pgbouncerdev.Config{})
	db, listen := "--database-url="+url+execMode, "--database-listen-url="+direct
	r := relayIn(t, db, listen, "--poll-interval=1h", "--log-level=debug")
	eventually(t, "the relay listens", func() bool { return strings.Contains(r.log.String(), "listening for notifications") })
	for i := range 3 {
		begin := time.Now()
		call(t, nil, "publish", db, "--topic=a").want(t, exitDone)
		r.awaitTopics(t, i+1)
		if took := time.Since(begin); took > 10*time.Second {
			t.Errorf("took %v although the poll interval is an hour", took)
		}
	}
	wantIn(t, call(t, nil, "check", db, listen).want(t, exitDone).out, "arrive within")
}

// TestPoolerLosesPreparedStatements: without the mode in the URL check finds it, and a relay's log says what to do.
func TestPoolerLosesPreparedStatements(t *testing.T) {
	t.Parallel()
	_, url := pooled(t, pgbouncerdev.Config{})
	wantIn(t, call(t, nil, "check", "--database-url="+url).want(t, exitUnhealthy).out, "FOUND  pooler", "default_query_exec_mode=exec", "max_prepared_statements")
	r := relayIn(t, "--database-url="+url, "--notify=off", "--poll-interval=50ms")
	eventually(t, "the relay's log says what to do", func() bool { return strings.Contains(r.log.String(), "default_query_exec_mode=exec") })
}

func TestPoolerKeepsPreparedStatements(t *testing.T) {
	t.Parallel()
	_, url := pooled(t, pgbouncerdev.Config{PreparedStatements: 200})
	db := "--database-url=" + url
	wantIn(t, call(t, nil, "check", db, "--notify=off").out, "keeps prepared statements")
	r := relayIn(t, db, "--notify=off", "--poll-interval=50ms")
	call(t, nil, "publish", db, "--topic=a").want(t, exitDone)
	r.awaitTopics(t, 1)
}

// TestPublishThroughPooler: a program with database/sql and a pooler publishes, and a pool is still told from a
// transaction (case 60).
func TestPublishThroughPooler(t *testing.T) {
	t.Parallel()
	_, url := pooled(t, pgbouncerdev.Config{PoolSize: 2})
	db, err := sql.Open("pgx", url+execMode)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	p, err := pgstore.NewPublisher(nil)
	if err != nil {
		t.Fatal(err)
	}
	messages := []outbox.Message{{Topic: "a", Key: "k"}, {Topic: "a", DedupKey: "d"}}
	for range 20 {
		if _, err := p.PublishQuerier(t.Context(), db, messages...); !errors.Is(err, outbox.ErrNoTransaction) {
			t.Fatalf("a pool: %v", err)
		}
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := p.PublishQuerier(t.Context(), tx, messages...)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil || len(receipts) != 2 {
		t.Fatalf("%v, %v", receipts, err)
	}
	out := call(t, nil, "run", "--once", "--to=stdout:", "--notify=off", "--database-url="+url+execMode).want(t, exitDone).out
	if n := len(regexp.MustCompile(`"topic":"a"`).FindAllString(out, -1)); n != 2 {
		t.Errorf("%d of 2 delivered: %s", n, out)
	}
}
