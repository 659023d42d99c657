package rabbitsink

import (
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
)

// TestOvertaking: what overtook the oldest message is looked for although something is published all the time.
func TestOvertaking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &channel{
			link: &link{sink: &Sink{}, lost: make(chan struct{})}, broken: func(error) {},
			closes: make(chan *amqp.Error, 1), returns: make(chan amqp.Return, 1), wake: make(chan struct{}, 1),
			closed: make(chan struct{}), settled: make(chan struct{}), byID: map[outbox.ID][]*publish{},
			pending: []*publish{{confirm: &amqp.DeferredConfirmation{}}}, // is never confirmed
		}
		c.returns <- amqp.Return{MessageId: "not ours"} // is read when all are looked at
		go c.track()
		for range 100 {
			time.Sleep(time.Millisecond)
			c.wake <- struct{}{}
		}
		if len(c.returns) != 0 {
			t.Error("nothing but the oldest message was looked at")
		}
		c.mu.Lock()
		c.pending = nil
		c.mu.Unlock()
		c.closes <- amqp.ErrClosed
		<-c.settled
	})
}

// TestAskLostLink: a link that is taken down starts no work, which nobody would await.
func TestAskLostLink(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	mustSend(t, h.sink, message("a", "x"))
	l := h.sink.link
	h.sink.Close()
	l.control = nil // who asks now panics
	for range 50 {
		mustBe(t, "failed", l.ask(t.Context()), errClosed.Error())
	}
	if len(l.asking) != 0 {
		t.Error("the right to ask is not given back")
	}
}

// TestExplainIsSteady: the same trouble has the same words at each try, and what waiting does not help is misconfigured.
func TestExplainIsSteady(t *testing.T) {
	certificate, _ := selfSigned(t)
	parsed, err := x509.ParseCertificate(certificate.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	texts := map[string]bool{}
	for _, late := range []time.Duration{time.Minute, time.Hour} {
		_, err := parsed.Verify(x509.VerifyOptions{Roots: roots, CurrentTime: parsed.NotAfter.Add(late)})
		err = explain(&tls.CertificateVerificationError{Err: err}, &Config{})
		if !outbox.IsMisconfigured(err) {
			t.Errorf("not misconfigured: %v", err)
		}
		texts[err.Error()] = true
	}
	if len(texts) != 1 {
		t.Errorf("an expired certificate has several texts: %v", texts)
	}
	if err := explain(amqp.ErrVhost, &Config{}); outbox.IsMisconfigured(err) { // the server said nothing, as one that stops
		t.Errorf("cut off during the handshake: %v", err)
	}
	if err := explain(&fs.PathError{Op: "open", Path: "ca.pem", Err: fs.ErrNotExist}, &Config{}); !outbox.IsMisconfigured(err) {
		t.Errorf("a file that is missing: %v", err)
	}
}

func TestTrackingIDs(t *testing.T) {
	for chain, want := range map[string]string{
		"": "", ",": "", " , ,": "", "a": `["a"]`, "a,, b ,": `["a","b"]`, `"],<x`: `["\"]","\u003cx"]`, "a b,c": `["c"]`, "a\nb": "",
	} {
		d := message("a", "x")
		d.SetHeaders(map[string]string{headerCausation: chain})
		if got := trackingIDs(d); got != want {
			t.Errorf("%q makes %s instead of %s", chain, got, want)
		}
	}
}
