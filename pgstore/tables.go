package pgstore

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/inwords"
)

var (
	//go:embed queries/altered_tables.sql
	alteredTablesSQL string
	//go:embed queries/deadlock_timeout.sql
	deadlockTimeoutSQL string
	//go:embed queries/lock_tables.sql
	lockTablesSQL string
	//go:embed queries/lock_waits.sql
	lockWaitsSQL string
	//go:embed queries/table_holders.sql
	tableHoldersSQL string
)

// ErrTablesInUse: a migration could not have its tables for itself. Nothing was changed.
var ErrTablesInUse = errors.New("the tables of the outbox are in use")

const (
	// tablesPatience is how long a migration tries to get its tables, if its context does not say.
	tablesPatience = time.Minute
	// longestHold is how long others wait, at most, behind a migration that waits for its tables.
	longestHold = 500 * time.Millisecond
	// quietPause is how often it is looked whether somebody is about to look for a deadlock.
	quietPause = 50 * time.Millisecond
)

// tables are what a migration needs for itself while others publish and deliver.
//
// A request for a table that waits holds up whoever asks for it later, publishers among them. And one that waits while it has
// other tables may close a deadlock, which PostgreSQL ends by failing whoever looks for one first: maybe a publisher. So
//
//   - all are asked for at once, at the beginning, for less time than a session waits before it looks for a deadlock. Then all are
//     let go, and asked for again after a pause;
//   - the relays' come first, and message before all else that publishers lock, in the order in which those lock them;
//   - nothing is asked for while a session, which waits for something else already, is about to look.
//
// (TestMigrateUnderLoad, TestMigrateWaitsForDeadlockChecks)
type tables struct {
	tx       pgx.Tx
	schema   string
	names    []string      // in the order in which they are locked
	hold     time.Duration // how long others may wait
	deadlock time.Duration // deadlock_timeout
	until    time.Time     // then it is over

	looked  bool
	holders []tableHolder // as of the last look …
	stayed  []tableHolder // … and those of them that had been there at the one before, if there was one
	vacuums []string      // sessions that were asked to leave by a long wait
}

// tableHolder is who has a lock on a table.
type tableHolder struct {
	outbox.HorizonHolder
	tables  []string
	vacuums bool // it leaves when a session that waits for it looks for a deadlock, unless it prevents a wraparound
}

// errHeld: somebody else had a table for too long.
var errHeld = errors.New("waited too long for a lock")

// withTables runs fn, again if need be, while nobody else uses those of the tables and indexes that are there; nil names all.
func withTables(ctx context.Context, tx pgx.Tx, schema string, names []string, fn func(pgx.Tx) error) error {
	t, err := newTables(ctx, tx, schema, names)
	if err != nil {
		return err
	}
	if len(t.names) == 0 {
		return fn(tx)
	}
	began := time.Now()
	for tries := 1; ; tries++ {
		err := t.try(ctx, fn)
		if !errors.Is(err, errHeld) {
			return err
		}
		if err := t.look(ctx); err != nil {
			return err
		}
		asked, askErr := t.interruptVacuum(ctx)
		if askErr != nil {
			return askErr
		}
		pause := time.Duration(0)
		if !asked {
			pause = outbox.RetryPolicy{Base: t.hold, Max: 10 * t.hold, Jitter: 0.5}.Delay(tries, rand.Float64())
		}
		if time.Now().Add(pause + t.hold).After(t.until) {
			return t.giveUp(err, tries, time.Since(began))
		}
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

func newTables(ctx context.Context, tx pgx.Tx, schema string, names []string) (*tables, error) {
	t := &tables{tx: tx, schema: schema, until: time.Now().Add(tablesPatience)}
	rows, err := tx.Query(ctx, render(alteredTablesSQL, schema), pgx.QueryExecModeExec, names)
	if err == nil {
		t.names, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		return nil, fmt.Errorf("find the tables: %w", err)
	}
	slices.SortFunc(t.names, func(a, b string) int { return cmp.Or(lockRank(a)-lockRank(b), strings.Compare(a, b)) })
	var ms int64
	if err := tx.QueryRow(ctx, deadlockTimeoutSQL, pgx.QueryExecModeExec).Scan(&ms); err != nil {
		return nil, fmt.Errorf("read deadlock_timeout: %w", err)
	}
	t.deadlock = time.Duration(ms) * time.Millisecond
	t.hold = max(min(longestHold, t.deadlock/2), time.Millisecond)
	if deadline, has := ctx.Deadline(); has {
		t.until = deadline.Add(-t.hold) // there is time to say why
	}
	return t, nil
}

// lockRank is a table's place in the order of locks. A claim begins with relay, a settlement with claim; publishers that prove their transaction
// with migration, and all of them go on with message, then dedup, then waiting.
func lockRank(table string) int {
	order := [...]string{"relay", "control", "claim", "migration", "message", "dedup", "waiting", "dead", "archive", "operation", "setting"}
	if i := slices.Index(order[:], table); i >= 0 {
		return i
	}
	return len(order)
}

// try runs fn once in a savepoint. If it fails, the locks go with that.
func (t *tables) try(ctx context.Context, fn func(pgx.Tx) error) error {
	if err := t.awaitQuiet(ctx); err != nil {
		return err
	}
	return pgx.BeginFunc(ctx, t.tx, func(tx pgx.Tx) error {
		if err := t.lock(ctx, tx, t.hold, t.names...); err != nil {
			return err
		}
		// What else it locks, by mistake, is waited for no longer: others wait meanwhile.
		if err := setTimeouts(ctx, tx, statementTimeout, milliseconds(t.hold)); err != nil {
			return err
		}
		err := fn(tx)
		if state, _ := sqlError(err); state == stateLockTimeout || state == stateDeadlock {
			err = fmt.Errorf("%w: %w", errHeld, err)
		}
		return err
	})
}

// lock gets the tables within the time for all of them, or fails with errHeld.
func (t *tables) lock(ctx context.Context, tx pgx.Tx, within time.Duration, names ...string) error {
	if err := setTimeouts(ctx, tx, milliseconds(within), milliseconds(within)); err != nil {
		return err
	}
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = "outbox." + name
	}
	sql := strings.Replace(lockTablesSQL, "outbox.message", strings.Join(list, ", "), 1)
	_, err := tx.Exec(ctx, render(sql, t.schema))
	switch state, _ := sqlError(err); state {
	case stateLockTimeout, stateDeadlock, stateCanceled:
		return fmt.Errorf("lock %s: %w: %w", strings.Join(names, ", "), errHeld, err)
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", strings.Join(names, ", "), err)
	}
	return nil
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// awaitQuiet waits until no session is about to look for a deadlock.
func (t *tables) awaitQuiet(ctx context.Context) error {
	for {
		var waiting []int32
		err := t.tx.QueryRow(ctx, lockWaitsSQL, pgx.QueryExecModeExec, t.deadlock.Milliseconds(), t.hold.Milliseconds()).Scan(&waiting)
		if err != nil {
			return fmt.Errorf("look who waits for locks: %w", err)
		}
		if len(waiting) == 0 {
			return nil
		}
		if time.Now().Add(t.hold).After(t.until) {
			return fmt.Errorf("processes %v have waited for locks nearly long enough to look for deadlocks: %w", waiting, errHeld)
		}
		if err := rest(ctx, quietPause); err != nil {
			return err
		}
	}
}

func rest(ctx context.Context, pause time.Duration) error {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// look finds out who has the tables.
func (t *tables) look(ctx context.Context) error {
	rows, err := t.tx.Query(ctx, render(tableHoldersSQL, t.schema), pgx.QueryExecModeExec, t.names)
	if err != nil {
		return fmt.Errorf("look who uses the tables: %w", err)
	}
	before := t.holders
	t.holders, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (h tableHolder, err error) {
		var age int64
		err = row.Scan(&h.Kind, &h.Name, &age, &h.Text, &h.tables, &h.vacuums)
		h.Age = time.Duration(age) * time.Microsecond
		return h, err
	})
	if err != nil {
		return fmt.Errorf("look who uses the tables: %w", err)
	}
	t.stayed = slices.DeleteFunc(slices.Clone(t.holders), func(h tableHolder) bool {
		return t.looked && !slices.ContainsFunc(before, func(b tableHolder) bool { return b.Kind == h.Kind && b.Name == h.Name })
	})
	t.looked = true
	return nil
}

// interruptVacuum asks a vacuum that has a table to leave, by waiting for that table alone until sessions look for deadlocks: that is when
// autovacuum gives way. It reports whether it has asked.
func (t *tables) interruptVacuum(ctx context.Context) (bool, error) {
	i := slices.IndexFunc(t.holders, func(h tableHolder) bool { return h.vacuums && !slices.Contains(t.vacuums, h.Name) })
	if i < 0 || time.Now().Add(t.deadlock+2*t.hold).After(t.until) {
		return false, nil
	}
	t.vacuums = append(t.vacuums, t.holders[i].Name)
	err := pgx.BeginFunc(ctx, t.tx, func(tx pgx.Tx) error {
		return cmp.Or(t.lock(ctx, tx, t.deadlock+t.hold, t.holders[i].tables[0]), errAsked)
	})
	if errors.Is(err, errAsked) || errors.Is(err, errHeld) {
		return true, nil
	}
	return false, err
}

// errAsked rolls the wait for a vacuum back.
var errAsked = errors.New("the table is free")

// giveUp names who has the tables and what to do about it.
func (t *tables) giveUp(err error, tries int, took time.Duration) error {
	const most = 3
	reason := "no transaction is long, but there always was one; try when there is less traffic"
	if len(t.stayed) > 0 {
		var named []string
		for _, h := range t.stayed[:min(most, len(t.stayed))] {
			named = append(named, h.describe())
		}
		reason = strings.Join(named, " ")
	}
	return fmt.Errorf("%w, after %d tries in %s: %s (%w)", ErrTablesInUse, tries, inwords.Age(took), reason, err)
}

// describe ends in SQL to paste.
func (h *tableHolder) describe() string {
	text := h.Kind + " " + h.Name
	if h.Text != "" {
		text += " (" + h.Text + ")"
	}
	text += " has " + strings.Join(h.tables, ", ")
	if h.Age > 0 { // else this role may not know
		text += " for " + inwords.Age(h.Age)
	}
	return text + "; let it end, or: " + h.Release()
}
