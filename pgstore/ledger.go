package pgstore

import "github.com/jackc/pgx/v5"

// What a connection knows of the ledger: no live claim has a lower id, so claims are looked for from there on.
// It ends with the connection, because it is wrong after a crash of the database: claims commit asynchronously,
// and ids that were drawn by the last ones are drawn again (TestClaimsNumberedAnew).

func (s *Store) ledgerLow(conn *pgx.Conn) int64 {
	low, _ := conn.PgConn().CustomData()[s.ledgerKey()].(int64)
	return low
}

func (s *Store) setLedgerLow(conn *pgx.Conn, low *int64) {
	if low != nil {
		conn.PgConn().CustomData()[s.ledgerKey()] = *low
	}
}

// ledgerKey has the schema in it, since pools may be shared.
func (s *Store) ledgerKey() string { return "outbox ledger of " + s.cfg.Schema }
