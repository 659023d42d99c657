package natssink

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/outboxrelay/outbox"
)

// acks receives the stream's answers to all messages under way. Each message has a reply subject of its own below one
// inbox: <inbox>.<call>-<index>. A subscription and a map replace the client's own bookkeeping, which costs a timer, a
// channel and a future for each message (BenchmarkPublish).
type acks struct {
	sink  *Sink
	inbox string
	sub   *nats.Subscription
	slots chan struct{} // one for each message under way

	status chan nats.Status
	ended  chan struct{}

	mu     sync.Mutex
	last   uint64
	calls  map[uint64]*call
	closed bool
}

var errClosed = errors.New("the sink is closed")

func newAcks(s *Sink) (*acks, error) {
	a := &acks{
		sink: s, inbox: s.conn.NewInbox() + ".", slots: make(chan struct{}, s.cfg.MaxInFlight),
		ended: make(chan struct{}), calls: map[uint64]*call{},
	}
	var err error
	if a.sub, err = s.conn.Subscribe(a.inbox+"*", a.answered); err != nil {
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	if err := a.sub.SetPendingLimits(-1, -1); err != nil { // MaxInFlight is the limit
		return nil, fmt.Errorf("subscribe to acknowledgements: %w", err)
	}
	a.status = s.conn.StatusChanged(nats.DISCONNECTED, nats.RECONNECTING, nats.CLOSED)
	go a.watch()
	return a, nil
}

// watch fails what is under way when the connection is lost: its acknowledgements may have been lost with it.
func (a *acks) watch() {
	defer close(a.ended)
	for range a.status {
		a.failAll(outbox.Unavailable(a.sink.notConnected()))
	}
}

func (a *acks) close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.sink.conn.RemoveStatusListener(a.status)
	<-a.ended
	_ = a.sub.Unsubscribe() // fails when the connection is closed
	a.failAll(outbox.Unavailable(errClosed))
}

func (a *acks) failAll(err error) {
	a.mu.Lock()
	calls := make([]*call, 0, len(a.calls))
	for _, c := range a.calls {
		calls = append(calls, c)
	}
	a.mu.Unlock()
	for _, c := range calls {
		for i := range c.waits {
			c.resolve(i, err)
		}
	}
}

// begin registers a call.
func (a *acks) begin(c *call) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return outbox.Unavailable(errClosed)
	}
	a.last++
	c.id = a.last
	a.calls[c.id] = c
	return nil
}

func (a *acks) end(c *call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.calls, c.id)
}

// reply is where the answer to a call's message goes.
func (a *acks) reply(c *call, i int) string {
	var buf [64]byte
	b := append(buf[:0], a.inbox...)
	b = strconv.AppendUint(b, c.id, 36)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(i), 36)
	return string(b)
}

// answered takes one answer.
func (a *acks) answered(m *nats.Msg) {
	id, index, _ := strings.Cut(m.Subject[min(len(a.inbox), len(m.Subject)):], "-")
	n, err1 := strconv.ParseUint(id, 36, 64)
	i, err2 := strconv.ParseInt(index, 36, 32)
	a.mu.Lock()
	c := a.calls[n]
	a.mu.Unlock()
	if c == nil || err1 != nil || err2 != nil || i < 0 || int(i) >= len(c.waits) {
		return // too late
	}
	err := a.sink.judge(m)
	if outbox.IsUnavailable(err) {
		err = a.sink.blame(c.ds[i], err)
	}
	c.resolve(int(i), err)
}

// isPlainAck recognises the usual answer without parsing it.
func isPlainAck(data []byte, stream string) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"stream":"`))
	if !ok || len(rest) <= len(stream) || string(rest[:len(stream)]) != stream || stream != "" && rest[len(stream)] != '"' {
		return false
	}
	return !bytes.Contains(rest, []byte(`"error"`)) && !bytes.Contains(rest, []byte(`"duplicate"`))
}
