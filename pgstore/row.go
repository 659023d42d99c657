package pgstore

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// row reads one row of binary columns from left to right. The types of a fetch are known: to look up how to scan each
// column of each row would cost a sixth of a relay's work.
//
// Formats: https://www.postgresql.org/docs/current/protocol-overview.html#PROTOCOL-FORMAT-CODES, as the types' send
// functions write them.
type row struct {
	columns [][]byte // valid until the next row
	next    int
	err     error // the first
}

// column returns the next column, of the given size unless that is negative; nil is NULL.
func (r *row) column(size int) []byte {
	if r.next == len(r.columns) {
		r.fail(fmt.Errorf("the answer has only %d columns", len(r.columns)))
		return nil
	}
	c := r.columns[r.next]
	r.next++
	if c != nil && size >= 0 && len(c) != size {
		r.fail(fmt.Errorf("column %d has %d bytes instead of %d", r.next, len(c), size))
		return nil
	}
	return c
}

func (r *row) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// present is column for one that is never NULL.
func (r *row) present(size int) []byte {
	c := r.column(size)
	if c == nil {
		r.fail(fmt.Errorf("column %d is NULL or damaged", r.next))
		return make([]byte, max(size, 0))
	}
	return c
}

func (r *row) bigint() int64 { return int64(binary.BigEndian.Uint64(r.present(8))) }

func (r *row) integer() int { return int(int32(binary.BigEndian.Uint32(r.present(4)))) }

// bigintOrNull returns nil for NULL.
func (r *row) bigintOrNull() *int64 {
	c := r.column(8)
	if c == nil {
		return nil
	}
	n := int64(binary.BigEndian.Uint64(c))
	return &n
}

// integerOrNull returns nil for NULL.
func (r *row) integerOrNull() *int {
	c := r.column(4)
	if c == nil {
		return nil
	}
	n := int(int32(binary.BigEndian.Uint32(c)))
	return &n
}

func (r *row) uuid() (id [16]byte) {
	copy(id[:], r.present(len(id)))
	return id
}

// bytes returns a column's own memory.
func (r *row) bytes() []byte { return r.present(-1) }

func (r *row) text() string { return string(r.present(-1)) }

// timestamptz returns a zero time for the infinite ones.
func (r *row) timestamptz() time.Time {
	const infinity, minusInfinity = 1<<63 - 1, -1 << 63
	µs := r.bigint()
	if µs == infinity || µs == minusInfinity {
		return time.Time{}
	}
	const epoch = 946_684_800 // 2000-01-01 in Unix seconds
	return time.Unix(epoch+µs/1e6, µs%1e6*1e3)
}

// end returns the first error, also when there are more columns than were read.
func (r *row) end() error {
	if r.err == nil && r.next != len(r.columns) {
		return fmt.Errorf("the answer has %d columns instead of %d", len(r.columns), r.next)
	}
	return r.err
}

func newRow(rows pgx.Rows) row { return row{columns: rows.RawValues()} }

// timestamptzOrNull returns a zero time for NULL too.
func (r *row) timestamptzOrNull() time.Time {
	if r.next < len(r.columns) && r.columns[r.next] == nil {
		r.next++
		return time.Time{}
	}
	return r.timestamptz()
}
