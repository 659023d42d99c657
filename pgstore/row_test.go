package pgstore

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
)

// encoded is a row as the server sends it.
func encoded(t *testing.T, values ...any) row {
	t.Helper()
	types := pgtype.NewMap()
	var r row
	for _, v := range values {
		oid := uint32(pgtype.Int8OID)
		switch v.(type) {
		case int32:
			oid = pgtype.Int4OID
		case string:
			oid = pgtype.TextOID
		case [16]byte:
			oid = pgtype.UUIDOID
		case pgtype.Timestamptz:
			oid = pgtype.TimestamptzOID
		}
		column, err := types.Encode(oid, pgtype.BinaryFormatCode, v, []byte{}) // an empty text is not NULL
		if err != nil {
			t.Fatal(err)
		}
		r.columns = append(r.columns, column)
	}
	return r
}

func TestRowReadsWhatPgxWrites(t *testing.T) {
	at := time.Date(1987, 6, 5, 4, 3, 2, 1000, time.UTC)
	id := [16]byte{1, 2, 15: 16}
	r := encoded(t, int64(-7), int32(-8), "é", id, pgtype.Timestamptz{Time: at, Valid: true},
		pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}, pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true},
		nil, nil, int64(9), int32(10), "")
	if n, m, s, u := r.bigint(), r.integer(), r.text(), r.uuid(); n != -7 || m != -8 || s != "é" || u != id {
		t.Errorf("%d %d %q %v", n, m, s, u)
	}
	if got := r.timestamptz(); !got.Equal(at) {
		t.Errorf("%v, want %v", got, at)
	}
	if a, b := r.timestamptz(), r.timestamptz(); !a.IsZero() || !b.IsZero() {
		t.Errorf("infinite: %v, %v", a, b)
	}
	if a, b, c, d := r.bigintOrNull(), r.integerOrNull(), r.bigintOrNull(), r.integerOrNull(); a != nil || b != nil || *c != 9 || *d != 10 {
		t.Errorf("%v %v %v %v", a, b, c, d)
	}
	if s := r.bytes(); s == nil || len(s) != 0 {
		t.Errorf("empty text: %v", s)
	}
	if err := r.end(); err != nil {
		t.Error(err)
	}
}

// TestRowRefuses: an answer of another shape is an error, never a wrong value or a panic.
func TestRowRefuses(t *testing.T) {
	for name, read := range map[string]func(r *row){
		"null where none may be": func(r *row) { r.bigint(); r.bigint() },
		"another size":           func(r *row) { r.integer(); r.bigintOrNull() },
		"too few columns":        func(r *row) { r.bigint(); r.bigintOrNull(); r.uuid() },
		"too many columns":       func(r *row) { r.bigint() },
	} {
		r := encoded(t, int64(1), nil)
		if read(&r); r.end() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
