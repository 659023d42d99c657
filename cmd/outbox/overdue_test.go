package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

// TestOverdueWarning: since when, and what becomes of what the relay holds.
func TestOverdueWarning(t *testing.T) {
	at := time.Date(2026, 3, 1, 3, 12, 7, 0, time.UTC)
	silent := outbox.RelayStatus{Host: "web-1", PID: 812, Live: true, Seen: 20 * time.Second, LeaseLeft: 10 * time.Second, InFlight: 12}
	well := outbox.RelayStatus{Host: "web-2", PID: 7, Live: true, Seen: 9 * time.Second, LeaseLeft: 21 * time.Second}
	idle := silent
	idle.InFlight = 0
	for name, c := range map[string]struct {
		relays []outbox.RelayStatus
		text   string // empty: none
		next   string
	}{
		"well":   {[]outbox.RelayStatus{well}, "", ""},
		"silent": {[]outbox.RelayStatus{well, silent}, "its heartbeat is overdue since 03:11:57Z; unless it comes others get the 12 messages that it holds at 03:12:17Z", "outbox relays"},
		"idle":   {[]outbox.RelayStatus{well, idle}, "its lease ends at 03:12:17Z; it holds no message", "outbox relays"},
		"alone":  {[]outbox.RelayStatus{silent}, "its lease ends at 03:12:17Z, and there is no other relay: nothing is delivered", "outbox run"},
	} {
		st := outbox.Status{At: at, Relays: c.relays}
		got, found := warnings(&st), warningFindings(newConfig(), &st)
		if c.text == "" {
			if len(got)+len(found) != 0 {
				t.Errorf("%s: %+v, %+v", name, got, found)
			}
			continue
		}
		if len(got) != 1 || len(found) != 1 || !strings.HasPrefix(got[0].Text, "relay web-1/pid 812: ") || !strings.HasSuffix(got[0].Text, c.text) ||
			got[0].Next != c.next || found[0].Text != got[0].Text || found[0].Fix != c.next {
			t.Errorf("%s: %+v, %+v", name, got, found)
		}
	}
	st := outbox.Status{At: at, Relays: []outbox.RelayStatus{well, silent}}
	wantIn(t, relaySummary(&st), "2 live, newest heartbeat 9s ago, 1 overdue")
	wantIn(t, newRelay(silent).state(), "overdue for 10s, lapses in 10s")
}

// TestKilledRelayIsOverdue: a relay that was killed is told of before its lease has ended, which is when its messages come back.
func TestKilledRelayIsOverdue(t *testing.T) { inBoth(t, killedRelayIsOverdue) }

func killedRelayIsOverdue(t *testing.T, o *testOutbox) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	p := start(t, write, "run", "--to=stdout:", "--lease=6s", o.flag)
	write.Close()
	eventually(t, "it runs", func() bool { return call(t, nil, "health", "--any", o.flag).code == exitDone })
	// Nobody reads what it writes, so it goes on to hold the message.
	payload := strings.Repeat("x", 200_000)
	call(t, nil, "publish", "--topic=a", "--payload="+payload, o.flag).want(t, exitDone)
	eventually(t, "it holds the message", func() bool {
		return strings.Contains(call(t, nil, "status", o.flag).out, "in flight  1")
	})
	if out := call(t, nil, "status", o.flag).want(t, exitDone).out; strings.Contains(out, "overdue") {
		t.Errorf("it lives: %s", out)
	}
	p.signal(t, os.Kill)
	p.wantExit(t, -1)
	var out string
	eventually(t, "status says that it is overdue, or that it has lapsed", func() bool {
		out = call(t, nil, "status", o.flag).want(t, exitDone).out
		return strings.Contains(out, "overdue") || strings.Contains(out, "none live")
	})
	if !regexp.MustCompile(`warning +relay \S+/pid \d+: its heartbeat is overdue since \d\d:\d\d:\d\dZ; unless it comes its lease ends at .*: nothing is delivered`).MatchString(out) {
		t.Errorf("nothing tells of it before the lease has ended: %s", out)
	}
	wantIn(t, out, "1 overdue")
	eventually(t, "its lease ends", func() bool { return strings.Contains(call(t, nil, "relays", o.flag).out, "lapsed") })
	wantIn(t, call(t, nil, "run", "--once", "--to=stdout:", o.flag).want(t, exitDone).err, "delivered 1")
}
