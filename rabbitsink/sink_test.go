package rabbitsink

import (
	"context"
	"errors"
	"fmt"
	neturl "net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/internal/devservices/rabbitdev"
)

// kindOf names a result.
func kindOf(err error) string {
	switch {
	case err == nil:
		return "delivered"
	case outbox.IsPermanent(err):
		return "permanent"
	case outbox.IsUnavailable(err):
		return "unavailable"
	}
	return "failed"
}

func mustBe(t *testing.T, kind string, err error, parts ...string) {
	t.Helper()
	if got := kindOf(err); got != kind {
		t.Errorf("%s instead of %s: %v", got, kind, err)
	}
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("the error does not say %q: %v", part, err)
		}
	}
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// arrived are the messages of the harness's queue.
func arrived(t *testing.T, h *harness) []amqp.Delivery {
	t.Helper()
	all, err := h.server.Messages(h.queue)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestProperties(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{TrackingIDs: true, RoutingKey: "{topic}.{key}.{header.tenant}"})
	d := message("orders.created", "body")
	d.Key, d.Seq = "k7", 42
	d.SetHeaders(map[string]string{"Content-Type": "text/plain", "Tenant": "t1", "Outbox-Causation": "a, b", "lines": "a\r\nb\x00\xff"})
	d.BrokerTTL = 5 * time.Minute
	again := *d
	again.Attempt, again.Generation = 3, 1
	mustSend(t, h.sink, d)
	mustSend(t, h.sink, &again)
	all := arrived(t, h)
	if len(all) != 2 {
		t.Fatalf("%d messages", len(all))
	}
	for i, m := range all {
		if string(m.Body) != "body" || m.ContentType != "text/plain" || m.Expiration != "300000" || m.DeliveryMode != amqp.Persistent ||
			m.MessageId != d.ID.String() || !m.Timestamp.Equal(d.PublishedAt.Truncate(time.Second)) || m.RoutingKey != "orders.created.k7.t1" {
			t.Errorf("message %d: %+v", i, m)
		}
		for name, want := range map[string]any{
			"Tenant": "t1", "lines": "a\r\nb\x00\xff", "Outbox-Id": d.ID.String(), "Outbox-Seq": "42", "Outbox-Key": "k7",
			"x-outbox-tracking-ids": `["a","b"]`, "Content-Type": nil,
		} {
			if got := m.Headers[name]; got != want {
				t.Errorf("header %s is %q instead of %q", name, got, want)
			}
		}
	}
	if all[0].Headers["Outbox-Generation"] != nil || all[1].Headers["Outbox-Generation"] != "1" {
		t.Error("generations", all[0].Headers, all[1].Headers)
	}
}

func TestExpiration(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		own  time.Duration
		left time.Duration // of the message's life; 0: no end
		want string
	}{
		{0, 0, ""}, {time.Minute, 0, "60000"}, {time.Microsecond, 0, "1"}, {0, time.Second, "1000"}, {time.Minute, time.Second, "1000"},
		{time.Second, time.Minute, "1000"}, {0, -time.Second, "1"}, {1000 * time.Hour * 24, 0, ""}, {0, 1000 * time.Hour * 24, ""},
	} {
		d := &outbox.Delivery{Message: outbox.Message{BrokerTTL: c.own}}
		if c.left != 0 {
			d.Deadline = now.Add(c.left)
		}
		if got := expiration(d, now); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestUnfit: what AMQP cannot carry fails alone and for ever.
func TestUnfit(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{RoutingKey: "{topic}.{key}"})
	for name, spoil := range map[string]func(d *outbox.Delivery){
		"routing key":  func(d *outbox.Delivery) { d.Key = strings.Repeat("k", 255) },
		"content type": func(d *outbox.Delivery) { d.ContentType = strings.Repeat("c", 256) },
		"name":         func(d *outbox.Delivery) { d.Headers = map[string]string{"a b": "x"} },
		"no name":      func(d *outbox.Delivery) { d.Headers = map[string]string{"": "x"} },
		"long name":    func(d *outbox.Delivery) { d.Headers = map[string]string{strings.Repeat("n", 256): "x"} },
		"reserved":     func(d *outbox.Delivery) { d.Headers = map[string]string{"outbox-ID": "x"} },
		"CC":           func(d *outbox.Delivery) { d.Headers = map[string]string{"CC": "x"} },
		"BCC":          func(d *outbox.Delivery) { d.Headers = map[string]string{"BCC": "x"} },
		"frame":        func(d *outbox.Delivery) { d.Headers = map[string]string{"big": strings.Repeat("v", 131_072)} },
	} {
		bad, good := message("a", name), message("a", name)
		spoil(bad)
		results := send(t, h.sink, bad, good)
		mustBe(t, "permanent", results[0])
		mustBe(t, "delivered", results[1])
	}
	fits := message("a", "fits")
	fits.Headers = map[string]string{"big": strings.Repeat("v", 128_000), "cc": "x"}
	fits.ContentType = strings.Repeat("c", 255)
	fits.Key = strings.Repeat("k", 253)
	mustSend(t, h.sink, fits)
}

// TestUnroutable: a message that no queue gets is not delivered, whatever RabbitMQ confirms, and those beside it are.
func TestUnroutable(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	if err := h.server.Do(func(ch *amqp.Channel) error {
		if err := ch.QueueBind(h.queue, "routed.#", h.exchange, false, nil); err != nil {
			return err
		}
		return ch.QueueUnbind(h.queue, "#", h.exchange, nil)
	}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		var ds []*outbox.Delivery
		for i := range 300 {
			ds = append(ds, message([]string{"routed.a", "lost.a", "routed.b"}[i%3], "x"))
		}
		for i, err := range send(t, h.sink, ds...) {
			if i%3 == 1 {
				mustBe(t, "failed", err, "no queue is bound to exchange "+h.exchange, "lost.a")
			} else {
				mustBe(t, "delivered", err)
			}
		}
	}
	if n := len(arrived(t, h)); n != 600 {
		t.Errorf("%d messages instead of 600", n)
	}
	careless := open(t, h.server.URL(), Config{Exchange: h.exchange, DisableMandatory: true})
	mustSend(t, careless, message("lost.a", "x"))
}

// TestReturnedTwins: of two copies of a message that are on their way at the same time, a return concerns both, as it
// cannot be known which; the one that was routed is sent again, which is no loss.
func TestReturnedTwins(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{RoutingKey: "{header.to}"})
	if err := h.server.Do(func(ch *amqp.Channel) error {
		return errors.Join(ch.QueueBind(h.queue, "good", h.exchange, false, nil), ch.QueueUnbind(h.queue, "#", h.exchange, nil))
	}); err != nil {
		t.Fatal(err)
	}
	bad := message("a", "x")
	bad.Headers = map[string]string{"to": "nowhere"}
	good := *bad
	good.Headers = map[string]string{"to": "good"}
	results := send(t, h.sink, bad, &good)
	mustBe(t, "failed", results[0], "nowhere")
	mustBe(t, "failed", send(t, h.sink, bad)[0], "nowhere")
	mustSend(t, h.sink, &good)
	if results[1] != nil {
		mustBe(t, "failed", results[1])
	}
}

// TestRefused: a full queue that rejects. Interleaved with messages of another queue, each refusal must find its
// message; when nothing is taken, the destination is at fault.
func TestRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	full := h.queue + "-full"
	if err := h.server.Bind(h.exchange, full, "full.#", amqp.Table{"x-max-length": int32(1), "x-overflow": "reject-publish"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.server.Delete("", full) })
	eventually(t, "the queue is full", func() bool { return send(t, h.sink, message("full.a", "x"))[0] != nil })
	mustBe(t, "unavailable", send(t, h.sink, message("full.a", "x"))[0], "basic.nack")
	for range 3 {
		var ds []*outbox.Delivery
		for i := range 200 {
			ds = append(ds, message([]string{"full.a", "free.a"}[i%2], "x"))
		}
		for i, err := range send(t, h.sink, ds...) {
			mustBe(t, []string{"failed", "delivered"}[i%2], err)
		}
	}
}

// TestTooLargeIsLearnt: the message that ends the channel is the one that dies; the next one like it is not sent.
func TestTooLargeIsLearnt(t *testing.T) {
	t.Parallel()
	rabbit.Private(t)
	h := newHarness(t, Config{})
	h.sink.alone = 64 << 20 // not on a channel of its own
	ds := []*outbox.Delivery{message("a", "x"), message("a", "y"), message("a", "z")}
	ds[1].Payload = make([]byte, rabbitdev.MaxMessage+1)
	results := send(t, h.sink, ds...)
	mustBe(t, "permanent", results[1], "message too large")
	for _, i := range []int{0, 2} {
		if results[i] != nil {
			mustBe(t, "unavailable", results[i])
		}
	}
	eventually(t, "a new channel", func() bool { return send(t, h.sink, ds[0])[0] == nil })
	ds[1].Payload = make([]byte, rabbitdev.MaxMessage)
	mustSend(t, h.sink, ds[1])
}

// TestExchangeDeleted: what was on its way is not lost; a sink that declares makes the exchange again, one that only
// checks says what is missing until somebody has made it.
func TestExchangeDeleted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Config{})
	passive := open(t, h.server.URL(), Config{Exchange: h.exchange, Passive: true})
	mustSend(t, h.sink, message("a", "x"))
	mustSend(t, passive, message("a", "x"))
	if err := h.server.Delete(h.exchange); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "unavailable", send(t, passive, message("a", "x"), message("b", "x"))[1], "exchange "+h.exchange+" does not exist")
	if err := passive.Preflight(t.Context()); err == nil || !strings.Contains(err.Error(), "exchange "+h.exchange+" does not exist") {
		t.Error(err)
	}
	mustBe(t, "unavailable", send(t, h.sink, message("a", "x"))[0], "does not exist")
	if err := h.sink.Preflight(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustBe(t, "failed", send(t, h.sink, message("a", "x"))[0], "no queue is bound")
	if err := h.server.Bind(h.exchange, h.queue, "#", nil); err != nil {
		t.Fatal(err)
	}
	mustSend(t, h.sink, message("a", "x"))
	if err := passive.Preflight(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustSend(t, passive, message("a", "x"))
}

// TestMisconfigured: each of these is the destination's state, told in words that say what to do, without a password.
func TestMisconfigured(t *testing.T) {
	t.Parallel()
	server := rabbit.Private(t)
	h := newHarness(t, Config{})
	fanout := h.exchange + "-fanout"
	if err := server.Do(func(ch *amqp.Channel) error {
		return ch.ExchangeDeclare(fanout, "fanout", true, false, false, false, nil)
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Delete(fanout) })
	for _, args := range [][]string{{"add_user", "reader", "hush"}, {"set_permissions", "reader", "", "", ".*"}} {
		if err := server.Ctl(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = server.Ctl(context.Background(), "delete_user", "reader") })
	as := func(user string) string { return "amqp://" + user + "@" + server.Addr() }
	for name, c := range map[string]struct {
		url  string
		cfg  Config
		says []string
	}{
		"type":      {server.URL(), Config{Exchange: fanout}, []string{"exchange " + fanout + " exists with other properties"}},
		"missing":   {server.URL(), Config{Exchange: "missing", Passive: true}, []string{"exchange missing does not exist"}},
		"login":     {as("reader:hushhush"), Config{}, []string{"the login is refused", "; check user and password"}},
		"vhost":     {server.URL() + "nowhere", Config{}, []string{"virtual host does not exist"}},
		"configure": {as("reader:hush"), Config{Exchange: h.exchange}, []string{"access to exchange " + h.exchange + " is refused", "set_permissions"}},
		"plain":     {strings.Replace(server.URL(), "amqp:", "amqps:", 1), Config{}, []string{"the port has no TLS"}},
		"mechanism": {server.URL() + "?auth_mechanism=external", Config{}, []string{"auth_mechanism"}},
		"nobody":    {"amqp://u:hush@127.0.0.1:1", Config{}, []string{"not connected to RabbitMQ at amqp://127.0.0.1:1: connect: connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, c.url, c.cfg)
			mustBe(t, "unavailable", send(t, s, message("a", "x"))[0], c.says...)
			err := s.Preflight(t.Context())
			for _, part := range c.says {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("the preflight does not say %q: %v", part, err)
				}
			}
			if got := outbox.IsMisconfigured(err); got != (name != "nobody") {
				t.Errorf("misconfigured: %v, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "hush") {
				t.Errorf("a password is shown: %v", err)
			}
		})
	}
	t.Run("repair", func(t *testing.T) { testRepair(t, server, as("reader:hush"), h.exchange) })
	t.Run("write", func(t *testing.T) { // may look, but not write: known from the first message on
		s := open(t, as("reader:hush"), Config{Exchange: h.exchange, Passive: true})
		mustBe(t, "unavailable", send(t, s, message("a", "x"))[0], "access to exchange "+h.exchange+" is refused")
	})
	t.Run("fanout", func(t *testing.T) { // of another type, if that is wanted
		s := open(t, server.URL(), Config{Exchange: fanout, Passive: true, DisableMandatory: true})
		mustSend(t, s, message("a", "x"))
	})
}

// testRepair: the commands that refusals name, as a shell takes them apart, let the user in, step by step.
func testRepair(t *testing.T, server *rabbitdev.Server, url, exchange string) {
	const vhost = "it's ours"
	t.Cleanup(func() {
		_ = server.Ctl(context.Background(), "delete_vhost", vhost)
		if err := server.Ctl(context.Background(), "set_permissions", "reader", "", "", ".*"); err != nil {
			t.Error(err)
		}
	})
	s := open(t, url+"/"+neturl.PathEscape(vhost), Config{Exchange: exchange})
	var commands []string
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		err := s.Preflight(t.Context())
		if err == nil {
			break
		}
		var repairable interface{ Repair() string }
		if !errors.As(err, &repairable) || repairable.Repair() == "" { // it is about to connect anew
			if time.Now().After(deadline) {
				t.Fatalf("after %q: %v", commands, err)
			}
			continue
		}
		if command := repairable.Repair(); !slices.Contains(commands, command) {
			commands = append(commands, command)
			out, err := exec.Command("sh", "-c", "printf '%s\\n' "+command).Output()
			if err != nil {
				t.Fatal(err)
			}
			words := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
			if err := server.Ctl(t.Context(), words[1:]...); err != nil {
				t.Fatalf("%s: %v", command, err)
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %q: %v", commands, err)
		}
	}
	if len(commands) != 2 || !strings.Contains(commands[0], "add_vhost") || !strings.Contains(commands[1], "set_permissions") {
		t.Errorf("repaired by %q", commands)
	}
}

// TestPermit: what RabbitMQ says does not become more than words of the command.
func TestPermit(t *testing.T) {
	for reason, want := range map[string]string{
		"ACCESS_REFUSED - access to exchange 'a.b' in vhost '/' refused for user 'reader'": `rabbitmqctl set_permissions -p / reader '^a\.b$' '^a\.b$' '^$'`,
		"NOT_ALLOWED - access to vhost 'x y' refused for user '$(reboot)'":                 `rabbitmqctl set_permissions -p 'x y' '$(reboot)' '^a\.b$' '^a\.b$' '^$'`,
		"NOT_ALLOWED - vhost ;reboot not found":                                            "rabbitmqctl add_vhost ';reboot'",
		"NOT_ALLOWED - something else":                                                     "",
	} {
		if got := permit(reason, &Config{Exchange: "a.b"}); got != want {
			t.Errorf("%s: %s, want %s", reason, got, want)
		}
	}
	if got := permit("access to vhost '/' refused for user 'u'", &Config{Exchange: "a", Passive: true}); got != "rabbitmqctl set_permissions -p / u '^$' '^a$' '^$'" {
		t.Errorf("only to check it: %s", got)
	}
}

func TestConfig(t *testing.T) {
	for name, cfg := range map[string]Config{
		"Config.Exchange":       {Exchange: "a\n"},
		"Config.RoutingKey":     {RoutingKey: "{nothing}"},
		"Config.ConfirmTimeout": {ConfirmTimeout: time.Hour},
		"Config.ConnectTimeout": {ConnectTimeout: -1},
		"Config.Heartbeat":      {Heartbeat: time.Millisecond},
		"Config.MaxInFlight":    {MaxInFlight: -1},
	} {
		_, err := Open("amqp://h", &cfg)
		var refused *outbox.FieldError
		if !errors.As(err, &refused) || refused.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, url := range []string{"", "amqp://", "nats://h", "h:5672", "amqp://u:geheim#1@h", "amqp://u:gehe im@h", "amqp://h,nats://geheim",
		"amqp://u:12/geheim@h", "amqp://u:12?geheim@h", "amqp://u:12#geheim", "amqp://u:p@geheim/x@h/v", "amqp://u:p@geheim?x@h",
		"amqp://u:geheim@h:99999", "amqp://u:geheim@h:0", "amqp://h?heartbeat=geheim", "amqp://h?connection_timeout=geheim"} {
		if _, err := Open(url, nil); err == nil || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if err := CheckURL("amqp://u%40x:p%2F%23@h:5672/a%40b?heartbeat=5, amqps://[::1]/"); err != nil {
		t.Error(err)
	}
	s, err := Open("amqp://h,amqps://i/v", nil)
	if err != nil || s.cfg.Exchange != "outbox" || s.cfg.ConfirmTimeout != 5*time.Second || cap(s.slots) != 2000 {
		t.Errorf("defaults: %+v, %v", s, err)
	}
	s.Close()
	s.Close()
	if err := s.Ping(t.Context()); !errors.Is(err, errClosed) {
		t.Errorf("ping of a closed sink: %v", err)
	}
}

func TestTooLargeText(t *testing.T) {
	for text, want := range map[string][2]int64{
		"PRECONDITION_FAILED - message size 20971520 is larger than configured max size 16777216": {20971520, 16777216},
		"PRECONDITION_FAILED - message size 20 larger than max size 10":                           {20, 10},
	} {
		size, most, ok := tooLarge(&amqp.Error{Code: amqp.PreconditionFailed, Reason: text})
		if !ok || [2]int64{size, most} != want {
			t.Errorf("%s: %d, %d, %v", text, size, most, ok)
		}
	}
	for _, err := range []*amqp.Error{nil, {Code: amqp.NotFound, Reason: "message size 20 larger than max size 10"}, {Code: amqp.PreconditionFailed, Reason: "x"}} {
		if _, _, ok := tooLarge(err); ok {
			t.Error(err)
		}
	}
	if text := fmt.Sprint(explain(&amqp.Error{Code: amqp.FrameError, Reason: "read tcp 127.0.0.1:40000->127.0.0.1:5672: i/o timeout"}, &Config{})); text != "i/o timeout" {
		t.Errorf("a lost connection is told as %q", text)
	}
}
