package sqlitestore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/outboxrelay/outbox"
)

func TestList(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s, _ := keepingStore(t, db)
	r := newTestRelay(t, s, lease)
	list := func(q outbox.ListQuery) []string {
		t.Helper()
		var got []string
		for pages := 0; ; pages++ {
			page, err := s.List(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range page.Messages {
				got = append(got, fmt.Sprintf("%s %s %s", m.State, m.Message.Topic, m.Message.Payload))
			}
			if q.After = page.Next; q.After == "" {
				return got
			}
			if pages > 50 {
				t.Fatal("the list does not end")
			}
		}
	}
	insert := func(topic, key string, n int) {
		for i := range n {
			publish(t, s, outbox.Message{Topic: topic, Key: key, Payload: fmt.Append(nil, i+1)})
		}
	}
	insert("delivered", "", 5)
	r.settle(t, outbox.Delivered, r.claim(t, 100)...)
	insert("dropped", "", 1)
	r.settle(t, outbox.Dropped, r.claim(t, 100)...)
	insert("dead", "", 2)
	r.settle(t, outbox.Died, r.claim(t, 100)...)
	insert("late", "", 1)
	late := r.claim(t, 100)[0]
	answers, err := s.Settle(t.Context(), []outbox.Outcome{{Claim: late.Claim, Seq: late.Seq, Kind: outbox.Retried, Attempts: 1, Delay: time.Hour, Class: "error"}})
	if err != nil || answers[0] != outbox.SettledNow {
		t.Fatal(answers, err)
	}
	insert("held", "", 1)
	held := r.claim(t, 100)[0]
	insert("ready.one", "k1", 2)

	undelivered := []string{"ready held 1", "ready ready.one 1", "ready ready.one 2", "waiting late 1", "dead dead 1", "dead dead 2"}
	for _, limit := range []int64{0, 1, 2, 3, 5} {
		if got := list(outbox.ListQuery{Filter: outbox.Filter{Limit: limit}, Payload: true}); !slices.Equal(got, undelivered) {
			t.Errorf("%d at a time: %q", limit, got)
		}
	}
	for _, c := range []struct {
		filter outbox.Filter
		want   string
	}{
		{outbox.Filter{States: []outbox.State{outbox.StateDead, outbox.StateDropped}}, "dead dead , dead dead , dropped dropped "},
		{outbox.Filter{States: []outbox.State{outbox.StateDelivered}, Limit: 3}, strings.TrimSuffix(strings.Repeat("delivered delivered , ", 5), ", ")},
		{outbox.Filter{States: []outbox.State{outbox.StateExpired}}, ""},
		{outbox.Filter{Topic: "ready.>"}, "ready ready.one , ready ready.one "},
		{outbox.Filter{Key: "k1"}, "ready ready.one , ready ready.one "},
		{outbox.Filter{Class: "error", Topic: "dead"}, "dead dead , dead dead "},
		{outbox.Filter{Text: "it failed"}, "dead dead , dead dead "},
		{outbox.Filter{Text: "no such text"}, ""},
		{outbox.Filter{OlderThan: time.Hour}, ""},
		{outbox.Filter{NewerThan: time.Hour, States: []outbox.State{outbox.StateReady}}, "ready held , ready ready.one , ready ready.one "},
	} {
		if got := strings.Join(list(outbox.ListQuery{Filter: c.filter}), ", "); got != c.want {
			t.Errorf("%+v: %q, want %q", c.filter, got, c.want)
		}
	}
	for _, q := range []outbox.ListQuery{{After: "x"}, {After: "dead:1:0", Filter: outbox.Filter{States: []outbox.State{outbox.StateReady}}},
		{After: "message:1:0 or"}, {Filter: outbox.Filter{Limit: 1001}}, {Filter: outbox.Filter{All: true}}, {Filter: outbox.Filter{States: []outbox.State{"gone"}}},
		{Filter: outbox.Filter{IDs: []outbox.ID{held.ID}}}, {Filter: outbox.Filter{Topic: "a b"}}} {
		var refused *outbox.FieldError
		if _, err := s.List(t.Context(), q); !errors.As(err, &refused) {
			t.Errorf("%+v: %v, want it refused", q, err)
		}
	}
	view := text(t, db, "select group_concat(line, ', ') from (select state || ' ' || topic || ' ' || payload_text as line from outbox_messages order by 1)")
	if view != "dead dead 1, dead dead 2, delivered delivered 1, delivered delivered 2, delivered delivered 3, "+
		"delivered delivered 4, delivered delivered 5, dropped dropped 1, in_flight held 1, ready ready.one 1, ready ready.one 2, waiting late 1" {
		t.Errorf("the view has %s", view)
	}
}

// TestListEnds: a page ends where it has looked at a hundred thousand messages, and says where to go on.
func TestListEnds(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	insertArchived(t, db, "a", listBound+listWindow, time.Hour)
	insertArchived(t, db, "b", 1, time.Hour)
	q := outbox.ListQuery{Filter: outbox.Filter{Topic: "b", States: []outbox.State{outbox.StateDelivered}}}
	first, err := s.List(t.Context(), q)
	if err != nil || len(first.Messages) != 0 || first.Next != fmt.Sprintf("archive:%d:0", listBound) {
		t.Fatalf("%d messages, next %q, %v", len(first.Messages), first.Next, err)
	}
	q.After = first.Next
	if second, err := s.List(t.Context(), q); err != nil || len(second.Messages) != 1 || second.Next != "" {
		t.Errorf("%d messages, next %q, %v", len(second.Messages), second.Next, err)
	}
}

// TestShow: a message is shown wherever it is, with each time that it has ended.
func TestShow(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s, _ := keepingStore(t, db)
	r := newTestRelay(t, s, lease)
	id := publish(t, s, outbox.Message{Topic: "a", Key: "k", Payload: []byte{0, 255}, Headers: map[string]string{"h": "v"}, TTL: time.Hour})[0].ID
	show := func(want ...string) {
		t.Helper()
		list, err := s.Show(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list {
			got = append(got, fmt.Sprintf("%s %d %v", m.State, m.Generation, m.InFlight))
			if m.Message.ID != id || m.Message.Key != "k" || string(m.Message.Payload) != "\x00\xff" || m.Message.Headers["h"] != "v" || m.PublishedAt.IsZero() ||
				m.Message.ExpiresAt.IsZero() != (m.Generation > 0) || m.EndedAt.IsZero() == m.State.HasEnded() && m.State != outbox.StateDead ||
				m.AvailableAt.IsZero() == (m.State == outbox.StateWaiting) {
				t.Errorf("shown: %+v", m)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
	}
	show("ready 0 false")
	ds := r.claim(t, 1)
	show("ready 0 true")
	r.settle(t, outbox.Delivered, ds...)
	show("delivered 0 false")
	if _, err := s.Replay(t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}, Destination: "d"}); err != nil {
		t.Fatal(err)
	}
	show("waiting 1 false", "delivered 0 false")
	r.settle(t, outbox.Died, r.claim(t, 1)...)
	show("dead 1 false", "delivered 0 false")
	if list, err := s.Show(t.Context(), outbox.NewID()); err != nil || len(list) != 0 {
		t.Errorf("shown of nothing: %v %v", list, err)
	}
}

// TestDamagedRowsAreShown: what somebody has written who does not know the form keeps nothing else from being seen.
func TestDamagedRowsAreShown(t *testing.T) {
	db := openFile(t, migratedFile(t))
	s := newStore(t, db, nil)
	publish(t, s, outbox.Message{Topic: "a"})
	execSQL(t, db, `insert into outbox_message (seq, id, topic, payload, headers, published_at) values (1000, 'none', 'b', x'', '[1]', 0)`)
	page, err := s.List(t.Context(), outbox.ListQuery{Payload: true})
	if err != nil || len(page.Messages) != 2 || page.Messages[1].Message.Topic != "b" || !page.Messages[1].Message.ID.IsZero() {
		t.Errorf("%+v, %v", page, err)
	}
}

// TestDeadLetters: dead messages whose errors are alike are one group.
func TestDeadLetters(t *testing.T) {
	db := openFile(t, migratedFile(t))
	execSQL(t, db, `with recursive g (i) as (select 1 union all select i + 1 from g where i < 12)
		insert into outbox_dead (seq, id, topic, key, payload, headers, published_at, error_class, last_error, holds, died_at)
		select i, printf('00000000-0000-4000-8000-%012d', i), case i % 4 when 0 then 'audit' else 'orders' end, 'k', x'', '{}', 0,
		       case i % 2 when 0 then 'error' else 'timeout' end,
		       case i % 2 when 0 then 'order ' || i || ' of 019545c8-4c35-7000-8000-0000000000' || (i + 10) || ' failed' else 'took ' || i || '.5s' end, i = 3,
		       1767225600000 + i * 60000
		from g`)
	letters, err := newStore(t, db, nil).DeadLetters(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range letters.Groups {
		got = append(got, fmt.Sprintf("%d %d %s %s %q %s %s %s", g.Messages, g.Holding, g.Topic, g.Class, g.Text,
			g.First.UTC().Format("15:04"), g.Last.UTC().Format("15:04"), g.Example.String()[34:]))
	}
	want := []string{`6 1 orders timeout "took N.Ns" 00:01 00:11 11`, `3 0 audit error "order N of UUID failed" 00:04 00:12 12`,
		`3 0 orders error "order N of UUID failed" 00:02 00:10 10`}
	if !slices.Equal(got, want) || letters.Messages != (outbox.Depth{Messages: 12}) {
		t.Errorf("%+v\ngot  %q\nwant %q", letters.Messages, got, want)
	}
}

// TestPartitionsAreUnsupported: that there are none is an error that programs can tell from others.
func TestPartitionsAreUnsupported(t *testing.T) {
	if _, err := newStore(t, openFile(t, migratedFile(t)), nil).Partitions(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
