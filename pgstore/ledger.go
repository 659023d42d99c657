package pgstore

import "github.com/jackc/pgx/v5"

// ledger is what a connection knows of the ledger: no live claim has a lower id than low, so claims are looked
// for from there on. That is true for the backend that said so. After a crash of the database it is not, because
// claims commit asynchronously and ids that were drawn by the last ones are drawn again (TestClaimsNumberedAnew);
// and behind a pooler a connection does not end with its backend (TestLedgerOfAnotherBackend).
type ledger struct {
	low     int64
	backend int32
	since   int64 // numbers connections, by when each got this backend
}

// ledgerOf returns the connection's. It is kept with the connection, under the schema's name, since pools may be
// shared.
func (s *Store) ledgerOf(conn *pgx.Conn) *ledger {
	key := "outbox ledger of " + s.cfg.Schema
	l, _ := conn.PgConn().CustomData()[key].(*ledger)
	if l == nil {
		l = &ledger{since: s.connections.Add(1)}
		conn.PgConn().CustomData()[key] = l
	}
	return l
}

func (s *Store) learn(l *ledger, r *result) {
	if r.low == nil {
		return
	}
	if l.backend != 0 && l.backend != *r.backend {
		l.since = s.connections.Add(1)
	}
	l.low, l.backend = *r.low, *r.backend
}
