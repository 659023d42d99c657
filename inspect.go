package outbox

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"
)

// Inspector tells how an outbox is doing, and repairs it. Its queries are bounded: they answer within about a second however many
// messages there are, and take no lock that publishing, claiming or settling would wait for. All methods may be
// called concurrently, without a relay.
type Inspector interface {
	// Depths counts the messages by state.
	Depths(ctx context.Context) (Depths, error)
	// Status is everything that a first look needs. It takes two samples, a second apart.
	Status(ctx context.Context) (Status, error)
	// Relays lists the registered relays, the oldest first, also those whose lease has lapsed and that no claim
	// has removed yet.
	Relays(ctx context.Context) ([]RelayStatus, error)
	Operator
}

// Catalog lists what is in an outbox, message by message. pgstore.Store and sqlitestore.Store are.
type Catalog interface {
	// List lists messages, page by page.
	List(ctx context.Context, q ListQuery) (ListPage, error)
	// Show tells all that is stored of one message: where it is, and once for each time that it has ended and was kept. Empty:
	// nothing.
	Show(ctx context.Context, id ID) ([]MessageInfo, error)
	// DeadLetters groups the dead messages by topic and kind of error.
	DeadLetters(ctx context.Context) (DeadLetters, error)
	// Partitions lists the parts of the archive, the oldest first, the default one last. It fails with errors.ErrUnsupported
	// where an archive has no parts, as in SQLite.
	Partitions(ctx context.Context) ([]Partition, error)
}

// Archivist is an Operator of a store that can keep messages which have ended: it forgets them, delivers them again, and lists what
// operators did. pgstore.Store, sqlitestore.Store and outboxtest.Store are.
type Archivist interface {
	Operator
	// Purge forgets messages that have ended, if the store keeps them, and dead ones: all of them, or those of
	// Filter.States. Dead messages that hold their key are left alone and counted as held, unless Change.Holding.
	Purge(ctx context.Context, c Change) (ChangeReport, error)
	// Replay delivers messages again that have ended and are kept, to Change.Destination only: those that were
	// delivered, or of Filter.States. Generation is one higher, attempts begin anew, and there is no end to their life. Their keys
	// are held in that destination from this moment on. What is under way already is left alone and counted as held, what was kept
	// without payload as NoPayload.
	Replay(ctx context.Context, c Change) (ChangeReport, error)
	// Operations lists what operators did and are doing, at most limit (0: 100): first what has not come to its end, then
	// the rest, the newest first.
	Operations(ctx context.Context, limit int) ([]Operation, error)
}

// Depth is how many messages there are of a kind: counted up to a bound, estimated above it.
type Depth struct {
	Messages int64
	// Estimated: Messages is the database's own running count, which misses what ended in the last second, and
	// what a crash of the database made it forget until the next vacuum.
	Estimated bool
	// AtLeast: there are more, and nobody knows how many.
	AtLeast bool
	// Age is the time since vacuum or analyze last corrected the running count. Zero unless Estimated.
	Age time.Duration
}

// Depths are the messages by state. One that a relay holds is in flight and not counted elsewhere.
type Depths struct {
	Ready     Depth // to be delivered now; redriven, replayed and given-back ones are among them
	InFlight  int64 // held by relays
	Retrying  Depth // failed before, wait for their next attempt
	Scheduled Depth // never failed, not to be delivered yet
	Dead      Depth
}

// Empty reports whether nothing is left to deliver, dead letters apart.
func (d Depths) Empty() bool {
	return d.Ready.Messages+d.InFlight+d.Retrying.Messages+d.Scheduled.Messages == 0
}

// Status is a look at an outbox.
type Status struct {
	Depths
	Database      string
	Schema        string
	SchemaVersion int
	At            time.Time // the database's clock
	// DeadLastHour are the dead letters of the last hour among the first 100,000.
	DeadLastHour int64
	// OldestEligible is how long the message that has waited longest could have been delivered already. Zero:
	// there is none. One that a relay holds does not count.
	OldestEligible time.Duration
	// InPerSecond are messages published, OutPerSecond messages that left the ready ones: delivered, dead or set
	// aside for a retry. Both are of the sampled second.
	InPerSecond, OutPerSecond float64
	Destinations              []DestinationStatus
	Relays                    []RelayStatus
	// Unhandled are topics that have ready messages and that no live relay delivers, the most frequent first, as
	// far as the oldest and newest 10,000 ready messages tell. Their messages stay at the front, so they show.
	Unhandled []TopicDepth
	// Stranded are waiting messages that a replay has bound to a destination where no live relay would take them, by
	// destination. Empty without a live relay.
	Stranded []Stranded
	// HeldKeys are the keys that a message holds which failed or is dead, and HeldLongest the longest time since the
	// first failure or death of one of them.
	HeldKeys    Depth
	HeldLongest time.Duration
	Pauses      []Pause
	// Horizon is what keeps vacuum from removing old row versions of this database for longer than it should, by default five
	// minutes.
	Horizon *HorizonHolder
}

// EmptyIn is how long the ready messages take at the sampled rates. Zero: they do not get fewer, or there are none.
func (s *Status) EmptyIn() time.Duration {
	fewer := s.OutPerSecond - s.InPerSecond
	if fewer <= 0 {
		return 0
	}
	return time.Duration(float64(s.Ready.Messages) / fewer * float64(time.Second))
}

// LiveRelays counts the relays whose lease lasts.
func (s *Status) LiveRelays() (n int) {
	for _, r := range s.Relays {
		if r.Live {
			n++
		}
	}
	return n
}

// DestinationStatus is a destination as the live relays see it together.
type DestinationStatus struct {
	Name     string
	Relays   int // live ones that deliver to it
	InFlight int64
	// Faulty counts the live relays that find it unavailable or misconfigured, as of their last heartbeats, and Fault
	// is what one of them says, a misconfiguration first. Nil: it is available to all.
	Faulty int
	Fault  *Fault
}

// Add counts a live relay that delivers to the destination and sees this fault, nil for none.
func (d *DestinationStatus) Add(f *Fault) {
	d.Relays++
	if f == nil {
		return
	}
	d.Faulty++
	if d.Fault == nil || f.Misconfigured && !d.Fault.Misconfigured {
		d.Fault = f
	}
}

// TopicDepth is how many messages of a topic were seen.
type TopicDepth struct {
	Topic    string
	Messages int64
	AtLeast  bool // the sample ended before the topic's messages did
}

// HorizonHolder is the oldest transaction or prepared transaction that vacuum waits for.
type HorizonHolder struct {
	Kind string // HorizonSession or HorizonPrepared
	Name string // the session's process id, or the prepared transaction's name
	Age  time.Duration
	Text string // application and state
}

// What a HorizonHolder is.
const (
	HorizonSession  = "session"
	HorizonPrepared = "prepared transaction"
)

// Release is the SQL that ends it. A session's transaction is rolled back.
func (h *HorizonHolder) Release() string {
	if h.Kind == HorizonPrepared {
		return "rollback prepared " + sqlText(h.Name) + ";"
	}
	return "select pg_terminate_backend(" + h.Name + ");"
}

// sqlText quotes a text for SQL, whatever standard_conforming_strings says. What a terminal does not show is escaped.
func sqlText(text string) string {
	special := func(r rune) bool { return r == '\\' || unicode.IsControl(r) }
	escaped := strings.ContainsFunc(text, special)
	var b strings.Builder
	if escaped {
		b.WriteByte('E')
	}
	b.WriteByte('\'')
	for _, r := range text {
		switch {
		case unicode.IsControl(r):
			fmt.Fprintf(&b, `\u%04X`, r)
		case r == '\\' || r == '\'':
			b.WriteRune(r)
			b.WriteRune(r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// RelayStatus is a registered relay, by the database's clock.
type RelayStatus struct {
	ID        ID
	Host      string
	PID       int
	Version   string
	Engine    string
	Streaming bool // new messages come to it from the database's log
	// StreamProblem is why it polls although it is to stream, or could not take over from the relay that does, as of its last heartbeat.
	StreamProblem string
	Settings      string // a digest of its rules for messages that fail; empty: unknown
	// ArchiveRefusal is why the archive refused the last messages that this relay's store was to keep, as of the last heartbeat.
	// Empty: it took them, or nothing is kept.
	ArchiveRefusal string
	Live           bool // its lease lasts
	StartedAt      time.Time
	Seen           time.Duration // since its last heartbeat
	LeaseLeft      time.Duration // negative: lapsed
	InFlight       int64
	Lanes          []RelayLane
	// Counters are as of its last heartbeat: what became of messages by the names of Counts, stuck, how many messages are in the
	// hands of handlers that ignore their cancelled context, and latency_microseconds,
	// the time from publishing to acceptance of all delivered messages together.
	Counters map[string]int64
}

// Overdue is for how long a heartbeat of a live relay is overdue; zero: none is. The next one is due a third of the lease after the last,
// and is repeated when it fails; one that is late by another sixth, and by a second at the least, belongs to a relay that was killed, is
// suspended or does not reach the database. When its lease ends, in LeaseLeft, what it holds goes to the others.
func (r *RelayStatus) Overdue() time.Duration {
	const grace = time.Second
	lease := r.Seen + r.LeaseLeft
	late := r.Seen - lease/beatsPerLease
	if !r.Live || late < max(lease/(2*beatsPerLease), grace) {
		return 0
	}
	return late
}

// RelayLane is what a relay does for one destination.
type RelayLane struct {
	Destination string
	Topics      TopicSet
	InFlight    int64
	Fault       *Fault // nil: it takes messages
}
