package pgstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/interval"
)

// entry is a checked and completed message.
type entry struct {
	outbox.Message
	ownID bool // the caller's, to be unique
}

// A statement holds at most this much, which keeps its arguments small beside PostgreSQL's limit of 1 GB, and the
// copy of the payloads small beside the payloads.
const (
	chunkMessages = 1000
	chunkBytes    = 8 << 20
)

// prepare checks all messages; the error names the first that is refused.
func prepare(ctx context.Context, ms []outbox.Message, maxPayload int) ([]entry, error) {
	entries := make([]entry, len(ms))
	for i, m := range ms {
		prepared, err := outbox.Prepare(ctx, m, maxPayload)
		if err == nil {
			err = checkYears(&prepared)
		}
		if err != nil {
			return nil, fmt.Errorf("publish: message %d of %d: %w", i+1, len(ms), err)
		}
		entries[i] = entry{prepared, !m.ID.IsZero()}
	}
	return entries, nil
}

func checkYears(m *outbox.Message) error {
	if err := checkYear("DeliverAt", m.DeliverAt); err != nil {
		return err
	}
	return checkYear("ExpiresAt", m.ExpiresAt)
}

// checkYear keeps times within what RFC 3339 can say and PostgreSQL can keep.
func checkYear(field string, t time.Time) error {
	if year := t.UTC().Year(); year < 1 || year > 9999 {
		return refuse(field, t.UTC().Format("2006-01-02"), "from year 1 to 9999")
	}
	return nil
}

// isPlain reports whether an INSERT is enough.
func (e *entry) isPlain() bool {
	return !e.ownID && e.DedupKey == "" && e.Delay == 0 && e.DeliverAt.IsZero()
}

func allPlain(es []entry) bool {
	for i := range es {
		if !es[i].isPlain() {
			return false
		}
	}
	return true
}

// chunkLen returns how many of the entries, at least one, go into the next statement.
func chunkLen(es []entry) int {
	size := 0
	for i := range es {
		size += len(es[i].Payload)
		if i > 0 && (i == chunkMessages || size > chunkBytes) {
			return i
		}
	}
	return len(es)
}

// oneArgs are the arguments of publish_one.sql.
func oneArgs(es []entry, notify bool) []any {
	e := &es[0]
	return []any{e.ID.String(), e.Topic, orNull(e.Key), joinPayloads(es), headersJSON(e.Headers),
		orNull(maxAttempts(e.MaxAttempts)), orNull(interval.Text(e.BrokerTTL)), orNull(timestamp(e.ExpiresAt)),
		orNull(interval.Text(e.TTL)), notifyWord(notify)}
}

func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// insertArgs are the arguments of publish_insert.sql.
func insertArgs(es []entry, notify bool) []any {
	return append(commonArgs(es), notifyWord(notify))
}

// rowsArgs are the arguments of publish_rows.sql.
func rowsArgs(es []entry, notify bool) []any {
	var own, delays, deliverAts, dedupKeys textArray
	for i := range es {
		e := &es[i]
		own.bool(e.ownID)
		delays.textOrNull(interval.Text(e.Delay))
		deliverAts.textOrNull(timestamp(e.DeliverAt))
		dedupKeys.textOrNull(e.DedupKey)
	}
	return append(commonArgs(es), own.String(), delays.String(), deliverAts.String(), dedupKeys.String(),
		notifyWord(notify))
}

// commonArgs are the arguments that both statements begin with.
func commonArgs(es []entry) []any {
	var ids, topics, keys, firsts, lengths, headers, attempts, brokerTTLs, ttls, expiries textArray
	payloads := joinPayloads(es)
	first := 1
	for i := range es {
		e := &es[i]
		ids.text(e.ID.String())
		topics.text(e.Topic)
		keys.textOrNull(e.Key)
		firsts.number(int64(first))
		lengths.number(int64(len(e.Payload)))
		headers.text(headersJSON(e.Headers))
		attempts.textOrNull(maxAttempts(e.MaxAttempts))
		brokerTTLs.textOrNull(interval.Text(e.BrokerTTL))
		ttls.textOrNull(interval.Text(e.TTL))
		expiries.textOrNull(timestamp(e.ExpiresAt))
		first += len(e.Payload)
	}
	return []any{payloads, ids.String(), topics.String(), keys.String(), firsts.String(), lengths.String(),
		headers.String(), attempts.String(), brokerTTLs.String(), ttls.String(), expiries.String()}
}

// joinPayloads returns all payloads in one slice, which is never nil: that would be sent as NULL.
func joinPayloads(es []entry) []byte {
	if len(es) == 1 && es[0].Payload != nil {
		return es[0].Payload
	}
	size := 0
	for i := range es {
		size += len(es[i].Payload)
	}
	joined := make([]byte, 0, size)
	for i := range es {
		joined = append(joined, es[i].Payload...)
	}
	return joined
}

func headersJSON(headers map[string]string) string {
	if len(headers) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(headers) // strings do not fail
	return string(text)
}

// maxAttempts is how the tables say it: null is the rule's number, 0 is unlimited.
func maxAttempts(n int) string {
	switch n {
	case 0:
		return ""
	case outbox.Unlimited:
		return "0"
	default:
		return strconv.Itoa(n)
	}
}

// timestamp is t for a timestamptz; "" for the zero time.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999999Z")
}

func notifyWord(notify bool) string {
	if notify {
		return "notify"
	}
	return "silent"
}
