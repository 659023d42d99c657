package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/outboxrelay/outbox"
	"github.com/outboxrelay/outbox/outboxtest"
)

// TestCausationGrows: a request publishes a message, whose handler publishes the next one: each handler knows the chain,
// the oldest first, and what it publishes carries it and the handled message's id.
func TestCausationGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, mux := outboxtest.NewStore(), outbox.NewMux()
		var seen [][]string
		var ids []string
		mux.Handle(">", func(ctx context.Context, d *outbox.Delivery) error {
			seen, ids = append(seen, d.Causation()), append(ids, d.ID.String())
			if !slices.Equal(outbox.Causation(ctx), append(d.Causation(), d.ID.String())) {
				t.Errorf("the context says %v of a message with %v", outbox.Causation(ctx), d.Causation())
			}
			if len(seen) > 3 {
				return nil
			}
			tx := store.Begin()
			defer tx.Rollback()
			inner, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			if _, err := tx.Publish(inner, outbox.Message{Topic: "next"}); err != nil {
				return err
			}
			return tx.Commit()
		})
		tx := store.Begin()
		if _, err := tx.Publish(outbox.WithCausation(t.Context(), "request-7"), outbox.Message{Topic: "first"}); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		r := start(t, store, outbox.To(mux), outbox.Config{})
		time.Sleep(time.Minute)
		r.mustStop()
		want := []string{"request-7"}
		for i, got := range seen {
			if !slices.Equal(got, want) {
				t.Errorf("message %d has %v, want %v", i, got, want)
			}
			want = append(want, ids[i])
		}
		if len(seen) != 4 {
			t.Errorf("%d messages", len(seen))
		}
	})
}

// TestCausationBounds: a chain that is too long keeps its beginning and its latest ids; what is no id is refused in Go
// and left out of what a row says; the chain counts with the other headers.
func TestCausationBounds(t *testing.T) {
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprint("id-", i))
	}
	m, err := outbox.Prepare(outbox.WithCausation(outbox.WithCausation(t.Context(), ids[:2]...), ids[2:]...), outbox.Message{Topic: "a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	d := &outbox.Delivery{Message: m}
	if got := d.Causation(); len(got) != outbox.MaxCausation || got[0] != "id-0" || got[1] != "id-19" || got[31] != "id-49" {
		t.Errorf("%d: %v", len(got), got)
	}
	for _, bad := range []string{"", "a,b", "a b", "a\n", "\xff", strings.Repeat("x", 129)} {
		_, err := outbox.Prepare(outbox.WithCausation(t.Context(), "good", bad), outbox.Message{Topic: "a"}, 0)
		var refused *outbox.FieldError
		if !errors.As(err, &refused) || refused.Field != "WithCausation" {
			t.Errorf("%q: %v", bad, err)
		}
	}
	d.SetHeaders(map[string]string{"Outbox-Causation": " a, ,b c,d\n," + strings.Repeat("x", 129) + ",e"})
	if got := d.Causation(); !slices.Equal(got, []string{"a", "d", "e"}) {
		t.Errorf("%q", got)
	}
	headers := map[string]string{}
	for i := range outbox.MaxHeaders {
		headers[fmt.Sprint("h", i)] = ""
	}
	full := outbox.Message{Topic: "a", Headers: headers}
	if _, err := outbox.Prepare(t.Context(), full, 0); err != nil {
		t.Error(err)
	}
	var refused *outbox.FieldError
	if _, err := outbox.Prepare(outbox.WithCausation(t.Context(), "x"), full, 0); !errors.As(err, &refused) || refused.Field != "Headers" {
		t.Errorf("65 headers with the chain: %v", err)
	}
	full.ContentType = "text/plain"
	if _, err := outbox.Prepare(t.Context(), full, 0); !errors.As(err, &refused) || refused.Field != "Headers" {
		t.Errorf("65 headers with the content type: %v", err)
	}
	if got := outbox.Causation(t.Context()); got != nil {
		t.Errorf("a chain from nowhere: %v", got)
	}
}
