package pgstore

import (
	"errors"
	"fmt"

	"github.com/jackc/pglogrepl"
)

// assembler puts transactions together from what pgoutput sends (protocol version 2). A transaction comes in one piece
// between Begin and Commit once it has committed, or, when it is large, in pieces between Stream Start and Stream Stop
// while it still runs; then its end follows.
//
// What it holds is bounded: a transaction that does not fit is read and thrown away, except for its lowest seq, from
// which on the lanes then claim by windows.
type assembler struct {
	schema    string
	prefix    string // of our logical messages
	relations map[uint32]*layout
	inStream  bool
	current   *transaction
	streams   map[uint32]*transaction
	rows      int
	bytes     int

	committed func(*transaction)
	message   func(content string)
}

// transaction is one that has not ended, as far as the stream has told.
type transaction struct {
	xid  uint32
	rows []*streamed
	lost int64 // the lowest seq of what was thrown away; zero: nothing was
}

func newAssembler(schema, prefix string) *assembler {
	return &assembler{schema: schema, prefix: prefix, relations: map[uint32]*layout{}, streams: map[uint32]*transaction{}}
}

// idle reports whether no transaction is in the middle of being sent.
func (a *assembler) idle() bool { return a.current == nil }

// read takes one message of the stream; its memory may be used again afterwards.
func (a *assembler) read(data []byte) error {
	if len(data) == 0 {
		return errTuple
	}
	switch data[0] {
	case insertKind:
		return a.insert(data)
	case updateKind, deleteKind, truncateKind, originKind, typeKind: // of a publication that has more than it needs
		return nil
	}
	m, err := parse(data, a.inStream)
	if err != nil {
		return fmt.Errorf("read the stream: %w", err)
	}
	switch m := m.(type) {
	case *pglogrepl.RelationMessageV2:
		return a.relation(&m.RelationMessage)
	case *pglogrepl.BeginMessage:
		if a.current != nil {
			return errNested
		}
		a.current = &transaction{xid: m.Xid}
	case *pglogrepl.CommitMessage:
		if a.inStream {
			return errNested
		}
		a.commit(a.current)
		a.current = nil
	case *pglogrepl.StreamStartMessageV2:
		return a.streamStart(m.Xid)
	case *pglogrepl.StreamStopMessageV2:
		if !a.inStream {
			return errNested
		}
		a.inStream, a.current = false, nil
	case *pglogrepl.StreamCommitMessageV2:
		if a.current != nil {
			return errNested
		}
		a.commit(a.streams[m.Xid])
		delete(a.streams, m.Xid)
	case *pglogrepl.StreamAbortMessageV2:
		if a.current != nil {
			return errNested
		}
		a.abort(m.Xid, m.SubXid)
	case *pglogrepl.LogicalDecodingMessageV2:
		if m.Prefix == a.prefix {
			a.message(string(m.Content))
		}
	}
	return nil
}

// Messages that are of no use here; what they say is not read.
const (
	updateKind   = 'U'
	deleteKind   = 'D'
	truncateKind = 'T'
	originKind   = 'O'
	typeKind     = 'Y'
)

// Bounds of what a server can make the assembler remember beside rows. A server has as many transactions at a time as it
// has connections, and one table of the outbox's name, which has another number after it was made anew.
const (
	maxStreams   = 100_000
	maxRelations = 100
)

var (
	errNested   = errors.New("the stream brought a transaction inside another")
	errTooMany  = errors.New("the stream brought more open transactions or tables than a server has")
	errNoParser = errors.New("the stream brought a message that cannot be read")
)

// parse reads a message that comes seldom. The library trusts the lengths that it reads; that one is wrong must not end
// the process.
func parse(data []byte, inStream bool) (m pglogrepl.Message, err error) {
	defer func() {
		if what := recover(); what != nil {
			m, err = nil, fmt.Errorf("%w: kind %q, %d bytes: %v", errNoParser, data[0], len(data), what)
		}
	}()
	return pglogrepl.ParseV2(data, inStream)
}

// streamStart begins a piece of a transaction that has not ended.
func (a *assembler) streamStart(xid uint32) error {
	if a.current != nil || a.inStream {
		return errNested
	}
	t := a.streams[xid]
	if t == nil && len(a.streams) >= maxStreams {
		return errTooMany
	}
	if t == nil {
		t = &transaction{xid: xid}
		a.streams[xid] = t
	}
	a.inStream, a.current = true, t
	return nil
}

// relation learns where a table has its columns. Tables that are none of ours may be in the publication.
func (a *assembler) relation(m *pglogrepl.RelationMessage) error {
	delete(a.relations, m.RelationID)
	if m.Namespace != a.schema || m.RelationName != "message" {
		return nil
	}
	if len(a.relations) >= maxRelations {
		return errTooMany
	}
	l, err := newLayout(m)
	if err == nil {
		a.relations[m.RelationID] = &l
	}
	return err
}

func (a *assembler) insert(data []byte) error {
	relation, sub, tuple, err := insertRelation(data, a.inStream)
	if err != nil {
		return err
	}
	l := a.relations[relation]
	if l == nil {
		return nil
	}
	if a.current == nil {
		return fmt.Errorf("%w: it is outside a transaction", errTuple)
	}
	m, err := newStreamed(tuple, l)
	if err != nil {
		return err
	}
	m.xid, m.sub = a.current.xid, sub
	a.keep(a.current, m)
	return nil
}

func (a *assembler) keep(t *transaction, m *streamed) {
	if t.lost == 0 && a.rows < maxStreamed && a.bytes+m.bytes() <= maxStreamedBytes {
		t.rows = append(t.rows, m)
		a.rows++
		a.bytes += m.bytes()
		return
	}
	first := lowest(t.rows)
	a.release(t)
	for _, seq := range []int64{first, m.seq} {
		if seq > 0 && (t.lost == 0 || seq < t.lost) {
			t.lost = seq
		}
	}
}

// release takes a transaction's rows off the bounds.
func (a *assembler) release(t *transaction) {
	a.rows -= len(t.rows)
	for _, m := range t.rows {
		a.bytes -= m.bytes()
	}
	t.rows = nil
}

func (a *assembler) commit(t *transaction) {
	if t == nil {
		return
	}
	rows := t.rows
	a.release(t)
	t.rows = rows
	if len(t.rows) > 0 || t.lost > 0 {
		a.committed(t)
	}
}

// abort forgets a transaction, or what a subtransaction of it has written.
func (a *assembler) abort(xid, sub uint32) {
	t := a.streams[xid]
	if t == nil {
		return
	}
	rows := t.rows
	a.release(t)
	if sub == xid {
		delete(a.streams, xid)
		return
	}
	for _, m := range rows {
		if m.sub != sub {
			a.keep(t, m)
		}
	}
}
