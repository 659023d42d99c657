package rabbitsink

import (
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/template"
)

// FuzzMessage: what is accepted is a table that AMQP carries, with the sink's own headers as the sink sets them.
func FuzzMessage(f *testing.F) {
	f.Add("k", "X-A", "v", "a, b", "text/plain", "{key}", int64(0), int64(0))
	f.Add("k\x00", "CC", "v", "\xff", "", "{header.x}", int64(-1), int64(1))
	f.Add("k", "x-outbox-tracking-ids", "v", "a", "", "{topic}", int64(1), int64(-1))
	f.Add("k", "OUTBOX-KEY", strings.Repeat("v", 300), "a", strings.Repeat("t", 256), "{header.OUTBOX-KEY}", int64(1<<62), int64(1<<62))
	f.Fuzz(func(t *testing.T, key, name, value, causation, contentType, routing string, ttl, left int64) {
		routingKey, err := template.Parse(routing)
		if err != nil {
			return
		}
		s := &Sink{cfg: Config{TrackingIDs: true}, routingKey: routingKey}
		now := time.Now()
		d := &outbox.Delivery{Message: outbox.Message{ID: outbox.NewID(), Topic: "a", Key: key, ContentType: contentType, BrokerTTL: time.Duration(ttl),
			Headers: map[string]string{name: value, headerCausation: causation}}, Deadline: now.Add(time.Duration(left)), PublishedAt: now}
		m, to, err := s.message(d, now)
		if err != nil {
			if !outbox.IsPermanent(err) {
				t.Errorf("not final: %v", err)
			}
			return
		}
		if err := m.Headers.Validate(); err != nil || len(to) > 255 || len(m.ContentType) > 255 || len(m.Expiration) > 255 {
			t.Errorf("%+v to %q: %v", m, to, err)
		}
		for name := range m.Headers {
			if len(name) > 255 {
				t.Errorf("a name of %d bytes", len(name))
			}
		}
		if m.Headers[headerTopic] != "a" || m.Headers[headerID] != d.ID.String() || key != "" && m.Headers[headerKey] != key {
			t.Errorf("%q", m.Headers)
		}
		if strings.HasPrefix(m.Expiration, "-") || m.Expiration == "0" {
			t.Errorf("expiration %q", m.Expiration)
		}
	})
}

// FuzzRedacted: neither user nor password of a URL is in what errors say, whether they are escaped or not.
func FuzzRedacted(f *testing.F) {
	for _, password := range []string{"x", "a@b", "a/b", "a#b", "a:b", "%zz", "a,b", "a?b=c", "\x7f"} {
		f.Add(password)
	}
	f.Fuzz(func(t *testing.T, password string) {
		text := "amqp://me:hushmark" + password + "markhush@127.0.0.1:1/v"
		said := ""
		if err := CheckURL(text); err != nil {
			said = err.Error()
		} else {
			for node := range strings.SplitSeq(text, ",") {
				said += redacted(strings.TrimSpace(node)) + " "
			}
		}
		if strings.Contains(said, "hushmark") || strings.Contains(said, "markhush") {
			t.Errorf("%q: %s", text, said)
		}
	})
}
