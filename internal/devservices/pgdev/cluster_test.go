package pgdev

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
)

// TestCluster runs its parts one after the other on one server; some compare the list of all databases.
func TestCluster(t *testing.T) {
	c := start(t, Config{}).Cluster()
	for name, test := range map[string]func(*testing.T, *Cluster){
		"CreateFrom":    testClusterCreateFrom,
		"CreateIsEmpty": testClusterCreateIsEmpty,
		"PrepareFails":  testClusterPrepareFails,
		"Drop":          testClusterDrop,
		"Terminate":     testClusterTerminate,
		"Close":         testClusterClose,
	} {
		t.Run(name, func(t *testing.T) { test(t, c) })
	}
}

func testClusterCreateFrom(t *testing.T, c *Cluster) {
	var prepared atomic.Int32
	migrate := func(ctx context.Context, url string) error {
		prepared.Add(1)
		return (&Cluster{url: url}).exec(ctx, "create table migrated ()")
	}
	names := make([]string, 8)
	var wg sync.WaitGroup
	for i := range names {
		wg.Go(func() {
			name, err := c.CreateFrom(t.Context(), "migrated", migrate)
			if err != nil {
				t.Error(err)
			}
			names[i] = name
		})
	}
	wg.Wait()
	if prepared.Load() != 1 {
		t.Errorf("the template was prepared %d times, want once", prepared.Load())
	}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			t.Errorf("database %s twice", name)
		}
		seen[name] = true
		mustExec(t, connect(t, c.URL(name)), "select from migrated")
	}
}

func testClusterCreateIsEmpty(t *testing.T, c *Cluster) {
	name, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := queryText(t, connect(t, c.URL(name)), "select count(*)::text from pg_class where oid >= 16384")
	if got != "0" {
		t.Errorf("%s relations in a new database", got)
	}
}

func testClusterPrepareFails(t *testing.T, c *Cluster) {
	before := databases(t, c)
	cause := errors.New("no good")
	calls := 0
	for range 2 {
		_, err := c.CreateFrom(t.Context(), "bad", func(context.Context, string) error { calls++; return cause })
		if !errors.Is(err, cause) {
			t.Errorf("CreateFrom = %v, want %v", err, cause)
		}
	}
	if calls != 1 {
		t.Errorf("prepared %d times, want once", calls)
	}
	if after := databases(t, c); after != before {
		t.Errorf("databases %s, were %s", after, before)
	}
}

func testClusterDrop(t *testing.T, c *Cluster) {
	before := databases(t, c)
	name, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn := connect(t, c.URL(name))
	mustExec(t, conn, "create table t ()")
	mustExec(t, conn, "select pg_create_logical_replication_slot('slot', 'test_decoding')")
	mustExec(t, conn, "begin; lock table t; prepare transaction 'it''s prepared'")
	for range 2 { // a database that is gone already is no error
		if err := c.Drop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if after := databases(t, c); after != before {
		t.Errorf("databases %s, were %s", after, before)
	}
}

func testClusterTerminate(t *testing.T, c *Cluster) {
	name, err := c.Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inside, outside := connect(t, c.URL(name)), connect(t, c.URL("postgres"))
	if n, err := c.Terminate(t.Context(), name); n != 1 || err != nil {
		t.Errorf("Terminate(%s) = %d, %v; want 1", name, n, err)
	}
	if inside.Ping(t.Context()) == nil {
		t.Error("the database's connection still works")
	}
	if err := outside.Ping(t.Context()); err != nil {
		t.Errorf("another database's connection: %v", err)
	}
	// Backends of the other parts may be on their way out, and count.
	if n, err := c.Terminate(t.Context(), ""); n < 1 || err != nil {
		t.Errorf("Terminate of all = %d, %v; want at least 1", n, err)
	}
	if outside.Ping(t.Context()) == nil {
		t.Error("a connection still works after all were terminated")
	}
}

func testClusterClose(t *testing.T, c *Cluster) {
	c = &Cluster{url: c.url} // the templates of the other parts stay
	before := databases(t, c)
	name, err := c.CreateFrom(t.Context(), "any", func(context.Context, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Drop(t.Context(), name), c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if after := databases(t, c); after != before {
		t.Errorf("databases %s, were %s", after, before)
	}
}

func TestNewClusterRefuses(t *testing.T) {
	for _, url := range []string{"", "host=localhost user=me", "mysql://localhost", "postgres://%zz"} {
		if _, err := NewCluster(url); err == nil {
			t.Errorf("NewCluster(%q): no error", url)
		}
	}
}

func databases(t *testing.T, c *Cluster) string {
	t.Helper()
	return queryText(t, connect(t, c.url), "select string_agg(datname, ' ' order by datname) from pg_database")
}
