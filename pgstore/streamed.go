package pgstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"

	"github.com/outboxrelay/outbox"
)

// streamed is a row of message as the stream brought it. Most of it is read only when a claim has taken it.
type streamed struct {
	seq     int64
	topic   string
	key     string
	xid     uint32 // of the transaction
	sub     uint32 // the subtransaction that wrote the row, in a transaction that is streamed before it ends
	missed  bool   // a claim did not see the transaction yet
	columns [len(streamedColumns)][]byte
	size    int
}

// bytes is what the message takes in memory, roughly.
func (m *streamed) bytes() int { return m.size }

// streamedColumns are read from the stream by name: their order is the table's, and later schema versions may add some.
var streamedColumns = [...]string{"seq", "id", "topic", "key", "payload", "headers", "dedup_key", "max_attempts", "broker_ttl",
	"expires_at", "published_at"}

// layout is where a relation's rows have the columns, by their place in streamedColumns.
type layout [len(streamedColumns)]int

func newLayout(m *pglogrepl.RelationMessage) (l layout, err error) {
	for i, name := range streamedColumns {
		l[i] = slices.IndexFunc(m.Columns, func(c *pglogrepl.RelationMessageColumn) bool { return c.Name == name })
		if l[i] < 0 {
			return l, fmt.Errorf("the stream has no column %s of %s.%s; its publication must have all columns", name, m.Namespace, m.RelationName)
		}
	}
	return l, nil
}

var errTuple = errors.New("the stream brought a row that cannot be read")

// Insert message: https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html
const (
	insertKind    = 'I'
	tupleNull     = 'n'
	tupleBinary   = 'b'
	rowOverhead   = 200 // bytes of a message in memory besides its columns
	insertHeader  = 1 + 4 + 1 + 2
	streamedXidAt = 1
)

// insertRelation returns what an Insert message is for: the relation and, in a streamed transaction, the subtransaction.
func insertRelation(data []byte, inStream bool) (relation, sub uint32, tuple []byte, err error) {
	if inStream {
		if len(data) < 4+insertHeader {
			return 0, 0, nil, errTuple
		}
		sub, data = binary.BigEndian.Uint32(data[streamedXidAt:]), data[4:]
	}
	if len(data) < insertHeader {
		return 0, 0, nil, errTuple
	}
	return binary.BigEndian.Uint32(data[1:]), sub, data[1+4+1:], nil
}

// newStreamed reads a tuple. It keeps a copy: the tuple's memory is the connection's.
func newStreamed(tuple []byte, l *layout) (*streamed, error) {
	tuple = slices.Clone(tuple)
	n := int(binary.BigEndian.Uint16(tuple))
	rest := tuple[2:]
	if n > len(rest) { // a column has at least its kind
		return nil, errTuple
	}
	columns := make([][]byte, n)
	for i := range columns {
		if len(rest) == 0 {
			return nil, errTuple
		}
		kind := rest[0]
		rest = rest[1:]
		if kind == tupleNull {
			continue
		}
		if kind != tupleBinary || len(rest) < 4 {
			return nil, fmt.Errorf("%w: column %d is of kind %q", errTuple, i+1, kind)
		}
		size := int(int32(binary.BigEndian.Uint32(rest)))
		if size < 0 || size > len(rest)-4 {
			return nil, errTuple
		}
		columns[i], rest = rest[4:4+size:4+size], rest[4+size:]
	}
	m := &streamed{size: rowOverhead + len(tuple)}
	for i, at := range l {
		if at >= n {
			return nil, errTuple
		}
		m.columns[i] = columns[at]
	}
	if len(m.columns[0]) != 8 {
		return nil, errTuple
	}
	if m.seq = int64(binary.BigEndian.Uint64(m.columns[0])); m.seq <= 0 {
		return nil, errTuple
	}
	m.topic, m.key = string(m.columns[2]), string(m.columns[3])
	return m, nil
}

// delivery makes what a fetch of the row would have made, by the database's clock at the claim.
func (m *streamed) delivery(f *fetch, databaseNow time.Time, ttl time.Duration) (*outbox.Delivery, error) {
	r := row{columns: m.columns[:]}
	d := &outbox.Delivery{}
	d.Seq, d.ID = r.bigint(), r.uuid()
	d.Topic = f.intern(r.bytes())
	d.Key = string(r.column(-1))
	d.Payload = r.bytes()
	d.Unreadable = f.setHeaders(d, jsonbText(r.bytes()))
	d.DedupKey = string(r.column(-1))
	d.MaxAttempts = attemptLimit(r.integerOrNull())
	d.BrokerTTL = intervalDuration(r.column(16))
	expires := r.timestamptzOrNull()
	d.PublishedAt = r.timestamptz()
	d.Attempt = 1
	if expires.IsZero() && ttl > 0 {
		expires = d.PublishedAt.Add(ttl)
	}
	if !expires.IsZero() {
		d.Deadline = f.now.Add(max(min(expires.Sub(databaseNow), longestInterval), -longestInterval))
	}
	return d, r.end()
}

// jsonbText is the text in jsonb's binary format, which begins with a version.
func jsonbText(b []byte) []byte {
	if len(b) == 0 {
		return b
	}
	return b[1:]
}

// intervalDuration converts as extract(epoch from interval) does, cut to what a time.Duration can hold.
func intervalDuration(b []byte) time.Duration {
	if len(b) != 16 {
		return 0
	}
	const day = 86_400.0
	µs := int64(binary.BigEndian.Uint64(b))
	days := int32(binary.BigEndian.Uint32(b[8:]))
	months := int32(binary.BigEndian.Uint32(b[12:]))
	seconds := float64(µs)/1e6 + float64(days)*day + float64(months/12)*365.25*day + float64(months%12)*30*day
	most := longestInterval.Seconds()
	return time.Duration(max(min(seconds, most), -most)*1e6) * time.Microsecond
}

// longestInterval is where the fetch cuts durations.
const longestInterval = 9e9 * time.Second

// snapshot is what pg_current_snapshot says: which transactions a statement did not see.
type snapshot struct {
	xmin, xmax uint64
	running    map[uint64]bool
}

// parseSnapshot reads xmin:xmax:xid,xid,…
func parseSnapshot(text string) (s snapshot, err error) {
	parts := strings.Split(text, ":")
	if len(parts) != 3 {
		return s, fmt.Errorf("%q is not a snapshot", text)
	}
	var errs [2]error
	s.xmin, errs[0] = strconv.ParseUint(parts[0], 10, 64)
	s.xmax, errs[1] = strconv.ParseUint(parts[1], 10, 64)
	if err := errors.Join(errs[:]...); err != nil {
		return s, fmt.Errorf("%q is not a snapshot: %w", text, err)
	}
	s.running = map[uint64]bool{}
	for text := range strings.SplitSeq(parts[2], ",") {
		if text == "" {
			continue
		}
		xid, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return s, fmt.Errorf("%q is not a snapshot: %w", text, err)
		}
		s.running[xid] = true
	}
	return s, nil
}

// sees reports whether a transaction that has committed is visible. The stream has the lower half of its number, which
// lies within half of that range around xmax.
func (s snapshot) sees(xid uint32) bool {
	full := s.xmax + uint64(int64(int32(xid-uint32(s.xmax))))
	return full < s.xmin || full < s.xmax && !s.running[full]
}
