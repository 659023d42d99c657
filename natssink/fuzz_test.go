package natssink

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/outboxrelay/outbox"
)

// FuzzMessage: what is sent arrives with the same headers, and no value becomes another header.
func FuzzMessage(f *testing.F) {
	f.Add("k", "X-A", "v", "a, b", 0)
	f.Add("order-7 ", "X-A", "v", "", 1)
	f.Add("k", "X-A", " v", "", 0)
	f.Add("k\r\nNats-Msg-Id: 1", "X\r\nA", "v\r\n\r\nbody", "\x00", 0)
	f.Add("", "nats-Msg-id", "1", "", 0)
	f.Add("", "OUTBOX-KEY", "1", "", 0)
	f.Add("", "", "é\u00a0", "\xff", -1)
	f.Fuzz(func(t *testing.T, key, name, value, causation string, generation int) {
		subject, err := parseSubject("{topic}")
		if err != nil {
			t.Fatal(err)
		}
		s := &Sink{conn: &nats.Conn{}, subject: subject}
		d := &outbox.Delivery{Message: outbox.Message{ID: outbox.NewID(), Topic: "a", Key: key,
			Headers: map[string]string{name: value, "Outbox-Causation": causation}}, Generation: generation, PublishedAt: time.Now()}
		m, err := s.message(d)
		if err != nil {
			if !outbox.IsPermanent(err) {
				t.Errorf("not final: %v", err)
			}
			return
		}
		arrived, err := nats.DecodeHeadersMsg(onWire(m))
		if err != nil {
			t.Fatal(err)
		}
		if len(arrived) != len(m.Header) {
			t.Errorf("%q arrived as %q", m.Header, arrived)
		}
		for name, sent := range m.Header {
			if got := arrived[name]; len(got) != 1 || got[0] != sent[0] {
				t.Errorf("%s: %q arrived as %q", name, sent, got)
			}
		}
	})
}

// onWire are the headers as the client writes them: it cuts white space off the ends of values.
func onWire(m *nats.Msg) []byte {
	var b strings.Builder
	b.WriteString("NATS/1.0\r\n")
	for name, values := range m.Header {
		b.WriteString(name + ": " + strings.Trim(strings.NewReplacer("\r", " ", "\n", " ").Replace(values[0]), " \t\r\n") + "\r\n")
	}
	b.WriteString("\r\n")
	return []byte(b.String())
}
