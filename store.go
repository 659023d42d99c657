package outbox

import (
	"context"
	"time"
)

// Store keeps messages and moves them between states: ready, waiting, claimed, dead, gone. It decides what
// may be delivered and by whom; the relay decides when and how. A Store never blocks for work, never retries
// a delivery and never sleeps, except in Wait. All methods may be called concurrently. Package storetest is
// its definition.
//
// The promises, which every method keeps under any interleaving of any number of relays:
//
//   - A message is listed by at most one claim, and a claim belongs to at most one relay.
//   - At most one relay's claims hold messages of one key in one destination, and a claim's messages of a key
//     are a run: no older undelivered message of that key and destination is outside the claim.
//   - A claim holds its messages until they are settled, given back or taken over; only the claims of a relay
//     that Beat has not extended in time are taken over.
//   - A settlement through a claim that no longer belongs to the relay changes nothing.
//   - All times are the database's.
type Store interface {
	// Claim takes messages for one lane, at most q.Limit and q.Bytes. An empty batch is no error.
	// It fails with ErrLeaseLost when the relay is not registered. When Claim fails after the request was
	// sent, its messages may be held all the same: the next two beats that do not name the token give them back.
	Claim(ctx context.Context, q ClaimQuery) (Batch, error)
	// Settle ends or moves claimed messages, all in one transaction, and answers for each outcome in order.
	Settle(ctx context.Context, outcomes []Outcome) ([]Settled, error)
	// Beat registers a relay (info.Beat is 0) or extends its lease, and gives back the claims that are older
	// than the previous beat and whose token is not known. With info.Stopping it gives back all claims whose
	// token is not known, and removes the relay if none is left; otherwise its lease is left to lapse.
	// It fails with ErrLeaseLost when the relay is not registered any more.
	Beat(ctx context.Context, info RelayInfo, known []Token) (Orders, error)
	// Wait returns the number of wake-ups so far as soon as there are more than seen, or at the given time, or
	// with the context's error. A wake-up says that there may be something to claim; it may be for nothing, and
	// a store without notifications only waits for the time. The first call's seen is 0.
	Wait(ctx context.Context, seen uint64, until time.Time) (uint64, error)
	// Maintain does the store's housekeeping, in bounded portions.
	Maintain(ctx context.Context, q MaintainQuery) (MaintainReport, error)
}

// Preparer is a Store that can be made ready for a relay: create or check its schema, as configured.
// Run calls it before the first Beat, again after a failure, and gives up only on ErrSchemaMissing and
// ErrSchemaTooNew.
type Preparer interface {
	Prepare(ctx context.Context) error
}

// Listener is a Store that has to run something of its own, such as a listening connection, for Wait to be
// woken early. Run calls it and waits for it; it returns when the context is done.
type Listener interface {
	Listen(ctx context.Context)
}

// Token names one claim request, from before it is sent. Beat names the tokens whose claims shall be kept.
type Token = ID

// ClaimQuery asks for work for one lane.
type ClaimQuery struct {
	Relay       ID
	Destination string // the lane, as registered by Beat
	Token       Token
	Limit       int      // messages, at least 1
	Bytes       int64    // payload bytes together
	Oversized   bool     // the lane is empty: the first message is taken even if it alone exceeds Bytes
	Closed      TopicSet // topics not to be claimed now; their messages still hold their keys
	// TTL is the life, from publishing, of messages without an end of their own: Delivery.Deadline tells it. Zero: for
	// ever.
	TTL time.Duration
}

// Batch is what a claim brought.
type Batch struct {
	// Claims holds at most one claim of fresh messages, one of messages whose relay died, and one of a suspect.
	Claims []Claim
	// More: there was more than was taken; claim again as soon as there is room.
	More bool
	// Starved: nothing was taken, because what could be is larger than ClaimQuery.Bytes: claim again when the
	// lane holds less.
	Starved bool
	// NextDue is how long it is until the next waiting message is due; zero if none is known.
	NextDue time.Duration
}

// Claim is a set of messages held by this relay.
type Claim struct {
	Ref ClaimRef
	// Lapses counts how often a relay died while it held these messages. Giving back adds none. At SuspectLapses
	// the messages are suspects: such a claim has one message, and a relay holds at most one such claim. A message
	// that was settled as Retried with ClassCrash, or as Died with it and redriven, is claimed with SuspectLapses; any other
	// outcome ends the suspicion.
	Lapses int
	// Deliveries are in publish order; Attempt is the coming one.
	Deliveries []*Delivery
}

// OutcomeKind is what became of a claimed message.
type OutcomeKind uint8

const (
	// Delivered: accepted by the sink or handler.
	Delivered OutcomeKind = iota + 1
	// Dropped: accepted by the handler, which did nothing, for Outcome.Text.
	Dropped
	// Expired: its life was over before it could be delivered.
	Expired
	// Retried: an attempt failed and Outcome.Delay is the wait for the next one; the message holds its key.
	Retried
	// Died: an attempt failed and there will be no further one.
	Died
	// Unlisted: not tried, because an older message of its key failed; ready again.
	Unlisted
	// GivenBack: not to be decided by this relay; the first candidate of the next claim.
	GivenBack
)

var outcomeNames = [...]string{"", "delivered", "dropped", "expired", "retried", "died", "unlisted", "given_back"}

func (k OutcomeKind) String() string { return outcomeNames[k] }

// Outcome settles one claimed message.
type Outcome struct {
	Claim    ClaimRef
	Seq      int64
	Kind     OutcomeKind
	Attempts int           // for Retried and Died: attempts made, this one included
	Delay    time.Duration // for Retried: from the database's now
	Class    string        // for Retried and Died: the error's class
	Text     string        // the error's text, or why it was dropped; stores cut it and make it valid
	// Holds, for Died: the message keeps its key held, so that younger ones wait until it is redriven or discarded.
	// Without a key it means nothing.
	Holds bool
}

// Settled is a store's answer to one Outcome.
type Settled uint8

const (
	// SettledNow: the outcome took effect.
	SettledNow Settled = iota + 1
	// SettledBefore: the message has ended already, through this claim or after others had taken it over;
	// nothing was changed.
	SettledBefore
	// SettledFenced: the claim is no longer the relay's; nothing was changed.
	SettledFenced
)

var settledNames = [...]string{"", "settled", "settled before", "fenced"}

func (s Settled) String() string { return settledNames[s] }

// RelayInfo is what a relay tells the store with each heartbeat.
type RelayInfo struct {
	ID       ID
	Lease    time.Duration
	Beat     int64 // counts this id's heartbeats from 0, which registers
	Stopping bool
	Host     string
	PID      int
	Version  string
	Engine   string // a store that has several tells its own
	Settings string // a digest of what the relay does with messages that fail; empty: unknown
	Lanes    []LaneInfo
	Counters map[string]int64
	Samples  bool // it wants to be the one that samples; see Sampler
}

// LaneInfo is a lane as other relays and operators see it.
type LaneInfo struct {
	Destination string
	Topics      TopicSet
	Unordered   TopicSet // topics whose keys are only passed on
	// Fault is why the destination takes no messages now; nil: it does. Unlike the rest, each heartbeat tells anew.
	Fault *Fault
}

// Orders is what a store answers to a heartbeat.
type Orders struct {
	// Holders, answered to a registration, are the relays that hold messages.
	Holders []Holder
	// Now is the store's clock; zero if it has none of its own.
	Now time.Time
}

// Holder is a relay that holds messages, as seen by the database.
type Holder struct {
	Relay     ID
	Host      string
	PID       int
	Messages  int
	Seen      time.Duration // since its last heartbeat
	LeaseLeft time.Duration
}

// MaintainQuery asks for one portion of housekeeping.
type MaintainQuery struct {
	Limit int // rows per kind
	// Now is the time that counts for the archive of ended messages. Zero: the store's own.
	Now time.Time
}

// MaintainReport tells what housekeeping did.
type MaintainReport struct {
	DedupExpired int
	// ArchiveExpired are messages removed from the archive because they have been kept long enough.
	ArchiveExpired int64
	More           bool // there is more to do now
}
