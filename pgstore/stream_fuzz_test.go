package pgstore

import (
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pglogrepl"
)

// Messages of pgoutput, as a server writes them.
// https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html

func u16(n int) []byte { return binary.BigEndian.AppendUint16(nil, uint16(n)) }
func u32(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }
func u64(n int) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

const ourTable = 16_400

func beginMessage(xid int) []byte { return slices.Concat([]byte{'B'}, u64(1), u64(2), u32(xid)) }

func commitMessage() []byte { return slices.Concat([]byte{'C', 0}, u64(1), u64(2), u64(3)) }

func relationMessage(table string, inStream bool) []byte {
	m := []byte{'R'}
	if inStream {
		m = append(m, u32(7)...)
	}
	m = slices.Concat(m, u32(ourTable), []byte("outbox\x00"+table+"\x00d"), u16(len(streamedColumns)))
	for _, name := range streamedColumns {
		m = slices.Concat(m, []byte{0}, []byte(name+"\x00"), u32(25), u32(-1))
	}
	return m
}

// insertMessage inserts a row with the smallest values; sub: in a streamed transaction.
func insertMessage(seq, sub int) []byte {
	m := []byte{'I'}
	if sub > 0 {
		m = append(m, u32(sub)...)
	}
	m = slices.Concat(m, u32(ourTable), []byte{'N'}, u16(len(streamedColumns)))
	for _, column := range [][]byte{u64(seq), make([]byte, 16), []byte("a"), []byte("k"), []byte("payload"), []byte("\x01{}"), nil, nil, nil, nil, u64(0)} {
		if column == nil {
			m = append(m, 'n')
			continue
		}
		m = slices.Concat(m, []byte{'b'}, u32(len(column)), column)
	}
	return m
}

func streamStart(xid int) []byte { return slices.Concat([]byte{'S'}, u32(xid), []byte{1}) }

func streamCommit(xid int) []byte {
	return slices.Concat([]byte{'c'}, u32(xid), []byte{0}, u64(1), u64(2), u64(3))
}

func streamAbort(xid, sub int) []byte { return slices.Concat([]byte{'A'}, u32(xid), u32(sub)) }

func logicalMessage(content string) []byte {
	return slices.Concat([]byte{'M', 0}, u64(1), []byte("outbox_outbox\x00"), u32(len(content)), []byte(content))
}

// soundStreams are what a server sends.
var soundStreams = [][][]byte{
	{relationMessage("message", false), beginMessage(5), insertMessage(1, 0), insertMessage(2, 0), commitMessage(), logicalMessage("beat 1")},
	{streamStart(7), relationMessage("message", true), insertMessage(3, 7), insertMessage(4, 8), []byte{'E'}, beginMessage(9), commitMessage(),
		streamStart(7), insertMessage(5, 7), []byte{'E'}, streamAbort(7, 8), streamCommit(7)},
	{relationMessage("other", false), beginMessage(5), insertMessage(1, 0), {'U', 0}, {'D'}, {'T', 255, 255, 255, 255}, {'O'}, {'Y'}, commitMessage()},
	{streamStart(7), relationMessage("message", true), insertMessage(3, 7), []byte{'E'}, streamAbort(7, 7)},
}

// reading is an assembler and what came out of it.
type reading struct {
	*assembler
	seqs []int64
}

func newReading() *reading {
	r := &reading{assembler: newAssembler("outbox", "outbox_outbox")}
	r.message = func(string) {}
	r.committed = func(t *transaction) {
		f := fetch{now: time.Now()}
		for _, m := range t.rows {
			r.seqs = append(r.seqs, m.seq)
			if d, err := m.delivery(&f, time.Now(), time.Hour); err == nil && d.Seq != m.seq {
				panic("a delivery has another seq than its row")
			}
		}
	}
	return r
}

// held counts what the assembler remembers.
func (r *reading) held() (rows, bytes int) {
	open := map[*transaction]bool{}
	for _, t := range r.streams {
		open[t] = true
	}
	if r.current != nil {
		open[r.current] = true
	}
	for t := range open {
		rows += len(t.rows)
		for _, m := range t.rows {
			bytes += m.bytes()
		}
	}
	return rows, bytes
}

// FuzzStream: whatever a server sends in place of pgoutput's messages is an error or is read; what is remembered is counted
// right and stays within its bounds.
func FuzzStream(f *testing.F) {
	for _, stream := range soundStreams {
		var data []byte
		for _, m := range stream {
			data = slices.Concat(data, u16(len(m)), m)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newReading()
		for len(data) >= 2 {
			n := min(int(binary.BigEndian.Uint16(data)), len(data)-2)
			m := slices.Clone(data[2 : 2+n])
			data = data[2+n:]
			if err := r.read(m); err != nil {
				return // the connection ends with it
			}
			clear(m) // its memory is the connection's
			rows, bytes := r.held()
			if rows != r.rows || bytes != r.bytes || rows > maxStreamed || bytes > maxStreamedBytes {
				t.Fatalf("%d rows of %d bytes are held and %d of %d are counted", rows, bytes, r.rows, r.bytes)
			}
			if len(r.streams) > maxStreams || len(r.relations) > maxRelations {
				t.Fatalf("%d streams, %d relations", len(r.streams), len(r.relations))
			}
		}
	})
}

func TestStreamOfAServerIsRead(t *testing.T) {
	for i, want := range [][]int64{{1, 2}, {3, 5}, nil, nil} {
		r := newReading()
		for _, m := range soundStreams[i] {
			if err := r.read(m); err != nil {
				t.Fatalf("stream %d: %q: %v", i, m[0], err)
			}
		}
		if !slices.Equal(r.seqs, want) || r.rows != 0 || r.bytes != 0 {
			t.Errorf("stream %d: read %v and want %v; %d rows are left", i, r.seqs, want, r.rows)
		}
	}
}

// TestStreamCutShort: a message that ends too early is an error, or says nothing that is of use.
func TestStreamCutShort(t *testing.T) {
	refused := 0
	for i, stream := range soundStreams {
		for at := range stream {
			for n := range stream[at] {
				r := newReading()
				for _, m := range stream[:at] {
					if err := r.read(m); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.read(stream[at][:n:n]); err != nil {
					refused++
				} else if slices.Contains([]byte("BCRIScAM"), stream[at][0]) && i != 2 {
					t.Errorf("stream %d: %d of %d bytes of %q are read", i, n, len(stream[at]), stream[at][0])
				}
			}
		}
	}
	if refused < 500 {
		t.Errorf("%d were refused", refused)
	}
}

// TestHostileStream: lengths that lie, and transactions and tables without end.
func TestHostileStream(t *testing.T) {
	many := func(n int, message func(i int) []byte) (ms [][]byte) {
		for i := range n {
			ms = append(ms, message(i))
		}
		return ms
	}
	for name, c := range map[string]struct {
		messages [][]byte
		want     error
	}{
		"a row of 65,535 columns in two bytes": {[][]byte{relationMessage("message", false), beginMessage(1),
			slices.Concat([]byte{'I'}, u32(ourTable), []byte{'N'}, u16(65_535), []byte{'n', 'n'})}, errTuple},
		"a column of four gigabytes": {[][]byte{relationMessage("message", false), beginMessage(1),
			slices.Concat([]byte{'I'}, u32(ourTable), []byte{'N'}, u16(1), []byte{'b'}, u32(-1), []byte("x"))}, errTuple},
		"a relation of 65,535 columns": {[][]byte{slices.Concat([]byte{'R'}, u32(1), []byte("outbox\x00message\x00d"), u16(65_535))}, errNoParser},
		"a row outside a transaction":  {[][]byte{relationMessage("message", false), insertMessage(1, 0)}, errTuple},
		"a seq below one":              {[][]byte{relationMessage("message", false), beginMessage(1), insertMessage(-5, 0)}, errTuple},
		"a transaction in another":     {[][]byte{beginMessage(1), beginMessage(2)}, errNested},
		"a stream in a transaction":    {[][]byte{beginMessage(1), streamStart(2)}, errNested},
		"a stream in a stream":         {[][]byte{streamStart(1), streamStart(2)}, errNested},
		"an end in a stream":           {[][]byte{streamStart(1), streamCommit(1)}, errNested},
		"transactions without end": {many(2*maxStreams+4, func(i int) []byte {
			if i%2 == 0 {
				return streamStart(i)
			}
			return []byte{'E'}
		}), errTooMany},
		"tables without end": {many(maxRelations+1, func(i int) []byte {
			m := relationMessage("message", false)
			binary.BigEndian.PutUint32(m[1:], uint32(i))
			return m
		}), errTooMany},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading()
			var err error
			for _, m := range c.messages {
				if err = r.read(m); err != nil {
					break
				}
			}
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// TestStreamWithoutEndIsBounded: a transaction that never ends is thrown away but for its lowest seq.
func TestStreamWithoutEndIsBounded(t *testing.T) {
	r := newReading()
	for _, m := range [][]byte{relationMessage("message", false), beginMessage(1)} {
		if err := r.read(m); err != nil {
			t.Fatal(err)
		}
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 10 * maxStreamed {
		if err := r.read(insertMessage(i+1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if r.current.lost != 1 || r.rows != 0 {
		t.Errorf("the lowest seq is %d, %d rows are held", r.current.lost, r.rows)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > maxStreamedBytes {
		t.Errorf("%d bytes are in use", grown)
	}
	runtime.KeepAlive(r)
}

// TestParserOfTheLibraryPanics: why parse recovers. When this fails the library checks lengths by itself.
func TestParserOfTheLibraryPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the library does not panic any more: parse need not recover")
		}
	}()
	_, _ = pglogrepl.ParseV2([]byte("R\x00\x00\x00\x01outbox\x00message\x00"), false)
}
