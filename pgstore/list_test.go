package pgstore

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
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	relay, _ := keepingRelay(t, url)
	list := func(q outbox.ListQuery) []string {
		t.Helper()
		var got []string
		for pages := 0; ; pages++ {
			page, err := relay.store.List(t.Context(), q)
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
	insert(t, conn, "delivered", 5, 0)
	relay.settle(t, outbox.Delivered, relay.claim(t, 100)...)
	insert(t, conn, "dropped", 1, 0)
	relay.settle(t, outbox.Dropped, relay.claim(t, 100)...)
	insert(t, conn, "dead", 2, 0)
	relay.settle(t, outbox.Died, relay.claim(t, 100)...)
	insert(t, conn, "late", 1, 0)
	relay.settle(t, outbox.Retried, relay.claim(t, 100)...)
	insert(t, conn, "held", 1, 0)
	held := relay.claim(t, 100)[0]
	insert(t, conn, "ready.one", 2, 2)

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
		{outbox.Filter{Key: "k1"}, "ready ready.one "},
		{outbox.Filter{Class: "error", Topic: "dead"}, "dead dead , dead dead "},
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
		if _, err := relay.store.List(t.Context(), q); !errors.As(err, &refused) {
			t.Errorf("%+v: %v, want it refused", q, err)
		}
	}
	view := values[string](t, conn, "select state || ' ' || topic || ' ' || payload_text from outbox.messages order by 1")
	if got := strings.Join(view, ", "); got != "dead dead 1, dead dead 2, delivered delivered 1, delivered delivered 2, delivered delivered 3, "+
		"delivered delivered 4, delivered delivered 5, dropped dropped 1, in_flight held 1, in_flight late 1, ready ready.one 1, ready ready.one 2" {
		t.Errorf("the view has %s", got)
	}
}

// TestShow: a message is shown wherever it is, with each time that it has ended.
func TestShow(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	relay, _ := keepingRelay(t, url)
	id := publish(t, conn, newPublisher(t, nil), outbox.Message{Topic: "a", Key: "k", Payload: []byte{0, 255}, Headers: map[string]string{"h": "v"}})[0].ID
	show := func(want ...string) {
		t.Helper()
		list, err := relay.store.Show(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list {
			got = append(got, fmt.Sprintf("%s %d %v", m.State, m.Generation, m.InFlight))
			if m.Message.ID != id || m.Message.Key != "k" || string(m.Message.Payload) != "\x00\xff" || m.Message.Headers["h"] != "v" {
				t.Errorf("shown: %+v", m)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
	}
	show("ready 0 false")
	ds := relay.claim(t, 1)
	show("ready 0 true")
	relay.settle(t, outbox.Delivered, ds...)
	show("delivered 0 false")
	if _, err := relay.store.Replay(t.Context(), outbox.Change{Filter: outbox.Filter{IDs: []outbox.ID{id}}, Destination: "lane"}); err != nil {
		t.Fatal(err)
	}
	show("waiting 1 false", "delivered 0 false")
	relay.settle(t, outbox.Died, relay.claim(t, 1)...)
	show("dead 1 false", "delivered 0 false")
	if list, err := relay.store.Show(t.Context(), outbox.NewID()); err != nil || len(list) != 0 {
		t.Errorf("shown of nothing: %v %v", list, err)
	}
}

// TestDeadLetters: dead messages whose errors are alike are one group.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	exec(t, conn, `insert into outbox.dead (seq, id, topic, key, payload, headers, published_at, error_class, last_error, holds, died_at)
		select g, ('00000000-0000-4000-8000-' || lpad(g::text, 12, '0'))::uuid, case g % 4 when 0 then 'audit' else 'orders' end, 'k', '', '{}', now(),
		       case g % 2 when 0 then 'error' else 'timeout' end,
		       case g % 2 when 0 then 'order ' || g || ' of ' || gen_random_uuid() || ' failed' else 'took ' || g || '.5s' end, g = 3,
		       '2026-01-01'::timestamptz + g * interval '1 minute'
		from generate_series(1, 12) g`)
	letters, err := newStore(t, url, nil).DeadLetters(t.Context())
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

func TestPartitionList(t *testing.T) {
	t.Parallel()
	url := migratedDatabase(t)
	conn := connect(t, url)
	addPartitions(t, conn, "2026-03-10 06:00:00+00", "1d")
	exec(t, conn, "create table outbox.archive_old partition of outbox.archive for values from (minvalue) to ('2020-01-01')")
	list, err := newStore(t, url, nil).Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range list {
		got = append(got, p.Name)
	}
	if s := strings.Join(got, " "); s != "archive_old archive_20260310_20260311 archive_20260311_20260312 archive_20260312_20260313 archive_default" {
		t.Fatal(s)
	}
	day := time.Date(2026, 3, 10, 0, 0, 0, 0, time.UTC)
	if p := list[1]; !p.From.Equal(day) || !p.To.Equal(day.AddDate(0, 0, 1)) || p.Bytes == 0 || !list[0].From.IsZero() || !list[4].To.IsZero() {
		t.Errorf("%+v", list)
	}
}
